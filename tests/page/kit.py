"""Snapshots that say everything, servers that show them, and requests to these."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from thalweg.page import Action, Page, Shown, serve_page
from thalweg.snapshot import (
    BatchParts,
    KeyTraffic,
    PolicyRound,
    SinkProgress,
    Snapshot,
    SourceProgress,
    StateSize,
    StreamEdge,
)
from thalweg.stats import Change, FaultyRow, Latency, OperatorProgress

#: 2026-11-30 08:00 UTC.
NOON_S = 1_796_025_600.0
#: What a browser would run if a text became markup.
SCRIPT = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
#: A function of a flow sets the first, and waits for the second: events cannot be captured, a module's can be named.
BEGAN, GOES_ON = threading.Event(), threading.Event()


class Showing:
    """What a server shows; a test changes it while it runs."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.snapshots = list(snapshots)
        self.seen: Mapping[str, Any] | None = None
        self.asked: list[tuple[str, Any, str]] = []

    def __call__(self) -> list[Shown]:
        return [Shown(one, self.seen) for one in self.snapshots]

    def actions(self) -> Iterator[Action]:
        def rescale(slots: int, who: str) -> str:
            self.asked.append(("rescale", slots, who))
            self.snapshots[0] = dataclasses.replace(self.snapshots[0], slots=slots)
            return f"{slots} slots from the next batch on"

        def stop(_: None, who: str) -> str:
            raise ValueError(SCRIPT)

        yield Action(
            name="rescale", flow="trips", label="Slots", least=1, most=8, now="2", does=rescale,
            explains="From the next batch on keys and their state are in so many slots.",
        )  # fmt: skip
        yield Action(
            name="policy", label="Policy", choices=("none", "Chain"), now="none",
            explains="Who runs next.", does=lambda name, who: f"policy {name}",
        )  # fmt: skip
        yield Action(
            name="stop", flow="trips", label="Stop", explains="It ends.", does=stop, is_final=True
        )


@contextlib.contextmanager
def serving(showing: Showing, *, control: bool = False, address: Any = True) -> Iterator[Page]:
    """A page that shows it."""
    page = serve_page(address, showing, actions=showing.actions if control else None)
    try:
        yield page
    finally:
        page.close()


def request(
    page: Page, method: str, path: str, *, token: bool = True, body: Any = None, **heads: str
) -> tuple[int, dict[str, str], str]:
    """Status, heads and text of an answer; ``Host`` is the server's unless another is given."""
    host, _, port = page.address.rpartition(":")
    link = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=30)
    given = {name.replace("_", "-"): value for name, value in heads.items()}
    if token:
        given.setdefault("Authorization", f"Bearer {page.token}")
    text = None if body is None else body if isinstance(body, str) else json.dumps(body)
    try:
        link.request(method, path, text, given)
        answer = link.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        link.close()


def operator(name: str, **more: Any) -> OperatorProgress:
    given: dict[str, Any] = {
        "kind": "stateless", "rows_in": 1_000, "rows_out": 900, "rows_per_s": 500.0, "busy": 0.1,
        "back_pressured": 0.0, "cost_ns": 90.0, "runs": "machine code", "workers": 1,
        "queue_rows": 0, "selectivity": 0.9,
    }  # fmt: skip
    return OperatorProgress(name=name, **{**given, **more})


def change(
    seconds: float,
    what: str,
    operator: str,
    before: int,
    after: int,
    reason: str,
    refused: str = "",
) -> Change:
    return Change(
        seconds=seconds, what=what, operator=operator, before=before, after=after, reason=reason,
        refused=refused,
    )  # fmt: skip


def edges(*pairs: str) -> tuple[StreamEdge, ...]:
    """Edges such as ``"a > b"`` and ``"a.late > sink:c"``."""
    made = []
    for pair in pairs:
        giver, reader = pair.split(" > ")
        name, _, port = giver.partition(".")
        made.append(StreamEdge(giver=name, port=port or "out", reader=reader))
    return tuple(made)


def full(text: str = SCRIPT, reason: str = SCRIPT) -> Snapshot:
    """A snapshot in which every field says something; ``text`` is where texts of the data are, ``reason`` of users."""
    return Snapshot(
        flow="trips", host="spark", status="running", at_s=NOON_S, rows_in=1_234_567, seconds=95.0,
        rows_per_s=12_995.4, latency={"fares": Latency(10, 0.2, 0.1, 0.9, 1.5)},
        operators=(
            operator(
                "clean", rows_in=1_234_000, rows_out=1_200_000, rejected=12, back_pressured=0.6, busy=0.2,
                rows_per_s=11_990.0,
            ),
            operator(
                "zones/lookup", rows_in=1_200_000, rows_out=1_190_000, back_pressured=0.4,
                runs="built in", rows_per_s=11_700.0,
            ),
            operator(
                "zones/join", rows_in=1_190_000, rows_out=801_000, kind="keyed", rows_per_s=11_690.0,
                fused_with="zones/lookup", busy=None, back_pressured=None,
            ),
            operator(
                "fare", rows_in=800_000, rows_out=800_000, busy=1.03, cost_ns=8_190.0, runs="Python", queue_rows=24_198,
                reason="its function calls eval", kind="keyed", rows_per_s=8_400.0,
            ),
        ),
        edges=edges(
            "taxis > clean", "clean > zones/lookup", "zones/lookup > zones/join", "zones/join > fare",
            "fare > sink:fares", "clean.rejected > sink:bad", "weather > zones/join", "taxis.late > sink:late",
        ),
        sources=(
            SourceProgress(
                name="taxis", rows_in=1_234_567, rows_out=1_234_000, late=141, rows_per_s=12_000.0, waiting_rows=900,
                watermark=1_796_025_500_000_000, holds=True, held_by=text, lag_rows=8_000, position={text: 7},
            ),
            SourceProgress(
                name="weather", rows_in=40, rows_out=40, rows_per_s=0.5, is_idle=True, pauses=3, watermark=2**53 + 1,
            ),
        ),
        sinks=(
            SinkProgress(name="fares", rows=800_000, latency=Latency(10, 0.2, 0.1, 0.9, 1.5)),
            SinkProgress(name="bad", rows=12), SinkProgress(name="late", rows=141),
        ),
        idle=("taxis",), threads=2, slots=4,
        state=(StateSize(operator="fare", rows=12_345, bytes=4_567_890),),
        changes=(
            change(12.0, "threads", "", 1, 2, "throughput 91k to 128k rows/s"),
            change(30.0, "replicas", "fare", 1, 2, "it has the longest queue"),
            change(60.5, "slots", "", 2, 4, reason),
            change(80.0, "table", "", 0, 1, "keys that come together", "too dear"),
        ),
        stuck=("fare",),
        policy=PolicyRound(
            policy="HighestRate", rounds=812, assigned=(("fare", "zones/join"), ("clean", "zones/lookup")),
            reason="fare puts out most for its cost", cost_s=0.12,
        ),
        keys=KeyTraffic(
            epoch=3, stay=0.72, stay_hashed=0.5, imbalance={"fare": 1.6}, slot_rows={"fare": (400, 300, 200, 100)},
            known_stay=0.7, table_stay=0.83, table_gain=1_200.0, table_cost=300.0,
            decision="a new table pays: 1,200 over 300",
            keys_pinned=120, keys_moved=14, bytes_moved=20_480, local_bytes=5_000_000, remote_bytes=1_000_000,
        ),
        batches=tuple(
            BatchParts(
                batch=40 + n, rows=12_000 + 100 * n, seconds=1.0 + 0.05 * (n % 7), wait_s=0.05, plan_s=0.12,
                run_s=0.55 + 0.05 * (n % 7), write_s=0.2, commit_s=0.13, slots=4, threads=2,
            )
            for n in range(20)
        ),
        bad_rows=tuple(
            FaultyRow(
                operator="clean" if n % 3 else "taxis", what="rejected" if n % 3 else "late",
                at_s=NOON_S - 10 + n, row=f"Trip({n}, {text!r})",
                reason="ValueError: no fare" if n % 3 else "at is less than the greatest that came before",
            )
            for n in range(10)
        ),
        links={"jobs in Spark": "http://127.0.0.1:4040/jobs/", "wrong": "javascript:window.broken = 1"},
    )  # fmt: skip


def wide(branches: int, deep: int, *, composites: bool) -> Snapshot:
    """A flow of so many branches, each of so many operators, each branch a composite or not."""
    operators, found = [], []
    for b in range(branches):
        names = [f"branch{b}{'/' if composites else '_'}step{n}" for n in range(deep)]
        operators += [operator(name, rows_in=b * 10 + n) for n, name in enumerate(names)]
        found += [
            f"rows > {names[0]}",
            *(f"{x} > {y}" for x, y in itertools.pairwise(names)),
        ]
        found.append(f"{names[-1]} > sink:out")
    return Snapshot(
        flow="wide", rows_in=5, seconds=1.0, rows_per_s=5.0, operators=tuple(operators),
        edges=edges(*found), sources=(SourceProgress(name="rows", rows_in=5, rows_out=5, rows_per_s=5.0),),
        sinks=(SinkProgress(name="out", rows=5),), at_s=NOON_S,
    )  # fmt: skip
