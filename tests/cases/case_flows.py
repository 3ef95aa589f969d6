"""The written cases as flows, each with the check of its result; the hosts that run them stand elsewhere.

A host is a function ``(flow, source, files, options) -> Outcome``: it runs a flow whose only source reads these
files in this order. So one definition of a case is checked on every engine.
"""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import thalweg as tw

CASES = Path(__file__).parent


class Outcome(NamedTuple):
    """Rows by sink and counts by operator."""

    sinks: Mapping[str, list[Any]]
    counts: Mapping[str, Mapping[str, int]]


Host = Callable[[tw.Flow, str, Sequence[Path], Mapping[str, Any]], Outcome]
JSON = {"format": "json"}
CSV = {"format": "csv"}


def expected(case: str) -> Any:
    """What the case wants."""
    return json.loads((CASES / case / "expected.json").read_text())


def path(case: str, name: str) -> Path:
    """An input file of a case."""
    return CASES / case / "input" / name


@tw.state
class Sum:
    n: int = 0


def last_by_key(rows: Iterable[Any]) -> dict[str, int]:
    """The last running sum of each key, keys as the cases write them."""
    return {name(row.key): row.n for row in rows}


def name(key: Any) -> str:
    """A key as text: null, NaN, 0.0, inf, or the text itself."""
    if isinstance(key, float):
        # The row keeps its -0.0; the key does not.
        return "NaN" if math.isnan(key) else str(key + 0.0)
    return "null" if key is None else str(key)


# -- 01 out of order --------------------------------------------------------------------------------------


class Event(NamedTuple):
    key: str
    ts: int
    seq: int


def out_of_order(host: Host) -> None:
    """01: each key in (ts, seq) order; what is late by the serial rule goes to the late output, counted."""
    want = expected("01_out_of_order")
    flow = tw.Flow("out_of_order")
    events = flow.source("events", Event, order_by="ts", lateness=10)
    events.late.sink("late")
    events.sink("in_order")
    got = host(flow, "events", [path("01_out_of_order", "events.jsonl")], JSON)
    rows = got.sinks["in_order"]
    assert [row.ts for row in rows] == sorted(row.ts for row in rows)
    by_key = {k: [[r.ts, r.seq] for r in rows if r.key == k] for k in want["per_key"]}
    assert by_key == want["per_key"]
    late = [(row["key"], row["ts"], row["seq"]) for row in want["late"]]
    assert [tuple(row) for row in got.sinks["late"]] == late
    assert got.counts["events"]["late"] == len(late)
    assert got.counts["events"]["in"] == len(rows) + len(late)


# -- 03 null keys -----------------------------------------------------------------------------------------


class MaybeUser(NamedTuple):
    user: str | None
    n: int


class User(NamedTuple):
    user: str
    n: int


class UserSum(NamedTuple):
    key: str | None
    n: int


def add_user(total: Sum, row: MaybeUser) -> UserSum:
    total.n += row.n
    return UserSum(row.user, total.n)


def null_keys(host: Host) -> None:
    """03: with an Optional key, null and missing are one key of their own, apart from "" and "null"."""
    want = expected("03_null_keys")
    flow = tw.Flow("null_keys")
    events = flow.source("events", MaybeUser)
    events.key_by("user").process(add_user, state=Sum).sink("sums")
    got = host(flow, "events", [path("03_null_keys", "events.jsonl")], JSON)
    rows = got.sinks["sums"]
    sums = {row.key: row.n for row in rows}
    assert sums.pop(None) == want["no_key"]["sum"]
    assert sum(row.key is None for row in rows) == want["no_key"]["rows"]
    assert sums == want["groups"]


def no_keys(host: Host) -> None:
    """03: without Optional, rows without a key are rejected with reason and count; the rest is the same."""
    want = expected("03_null_keys")
    flow = tw.Flow("no_keys", errors="reject")
    events = flow.source("events", User)
    events.rejected.sink("rejected")
    events.sink("rows")
    got = host(flow, "events", [path("03_null_keys", "events.jsonl")], JSON)
    sums: dict[str, int] = {}
    for row in got.sinks["rows"]:
        sums[row.user] = sums.get(row.user, 0) + row.n
    assert sums == want["groups"]
    reasons = [row.reason for row in got.sinks["rejected"]]
    assert reasons == ["user is null", "user is missing", "user is null"]
    assert got.counts["events"]["rejected"] == want["no_key"]["rows"]


# -- 05 NaN keys ------------------------------------------------------------------------------------------


class Number(NamedTuple):
    k: float | None
    n: int


class NumberSum(NamedTuple):
    key: float | None
    n: int


class Bits(NamedTuple):
    row: int
    double_bits_hex: str


def add_number(total: Sum, row: Number) -> NumberSum:
    total.n += row.n
    return NumberSum(row.k, total.n)


def unpack(row: Bits) -> Number:
    return Number(struct.unpack(">d", bytes.fromhex(row.double_bits_hex))[0], 1)


def nan_keys(host: Host) -> None:
    """05: all NaN are one key, -0.0 is 0.0, null is apart; by value and for each bit pattern."""
    want = expected("05_nan_keys")
    flow = tw.Flow("nan_keys")
    numbers = flow.source("numbers", Number)
    numbers.key_by("k").process(add_number, state=Sum).sink("sums")
    got = host(flow, "numbers", [path("05_nan_keys", "events.jsonl")], JSON)
    sums = last_by_key(got.sinks["sums"])
    assert sums == want["events_groups"]
    flow = tw.Flow("nan_bits")
    bits = flow.source("bits", Bits).map(unpack)
    bits.key_by("k").process(add_number, state=Sum).sink("sums")
    got = host(flow, "bits", [path("05_nan_keys", "bits.csv")], CSV)
    sums = last_by_key(got.sinks["sums"])
    assert sums == want["bits_groups"]


# -- 06 negative times ------------------------------------------------------------------------------------


class Second(NamedTuple):
    id: int
    epoch_s: int


class Instant(NamedTuple):
    id: int
    epoch_s: tw.Timestamp


def negative_times(host: Host) -> None:
    """06: windows before 1970, in year 1 and year 9999 begin at the floor, in seconds and as Timestamps."""
    want = expected("06_negative_ts")
    forever = 400_000_000_000
    for record, unit, options in ((Second, 1, CSV), (Instant, 10**6, {**CSV, "epoch_unit": "s"})):
        for start, windows in ((0, want["window10"]), (5, want["window10_start5"])):
            flow = tw.Flow("negative_times")
            rows = flow.source("rows", record, order_by="epoch_s", lateness=forever * unit)
            made = rows.key_by("id").window(10 * unit, start=start * unit, n=tw.agg.count())
            made.sink("windows")
            got = host(flow, "rows", [path("06_negative_ts", "events.csv")], options)
            found = sorted(got.sinks["windows"], key=lambda row: row.id)
            assert [[r.start // unit, r.end // unit] for r in found] == windows
            assert [row.n for row in found] == [1] * len(windows)
            assert got.counts["rows"]["late"] == 0


# -- 09 corrupt JSON --------------------------------------------------------------------------------------


class Line(NamedTuple):
    id: int
    user: str
    v: int


def corrupt_json(host: Host) -> None:
    """09: good rows go on, each bad line is rejected with file, number and reason; the counts add up.

    Of a field that is written twice the last holds (id 7), and 1e3 is an int.
    """
    want = expected("09_corrupt_json")
    flow = tw.Flow("corrupt_json")
    lines = flow.source("lines", Line, errors="reject")
    lines.sink("good")
    lines.rejected.sink("bad")
    file = path("09_corrupt_json", "events.jsonl")
    got = host(flow, "lines", [file], JSON)
    good, bad = got.sinks["good"], got.sinks["bad"]
    assert {row.id for row in good} == {*want["good_ids"], 7}
    assert [row.v for row in good if row.id in (9, 10)] == [1000, 9007199254740993]
    assert [row.position for row in bad] == [f"events.jsonl line {n}" for n in want["bad_lines"]]
    assert all(row.reason and row.operator == "lines" for row in bad)
    counts = got.counts["lines"]
    assert (counts["in"], counts["rejected"]) == (len(good) + len(bad), len(bad))
    assert counts["in"] + len(want["blank_lines"]) == len(file.read_bytes().splitlines())


# -- 10 schema drift --------------------------------------------------------------------------------------


class Sale(NamedTuple):
    id: int
    user: str
    amount: int


def schema_drift(host: Host) -> None:
    """10: columns by name, new ones left out; a missing column and retyped values are told, never null."""
    want = expected("10_schema_drift")
    parts = [path("10_schema_drift", f"part-{n}.csv") for n in range(1, 6)]

    def flow(errors: Any) -> tw.Flow:
        made = tw.Flow("schema_drift")
        sales = made.source("sales", Sale, errors=errors)
        sales.sink("sales")
        sales.rejected.sink("rejected")
        return made

    got = host(flow("fail"), "sales", parts[:3], CSV)
    assert {str(r.id): [r.user, r.amount] for r in got.sinks["sales"]} == want["rows"]
    for errors in ("fail", "reject"):
        with pytest.raises(tw.DataError, match=r"part-4\.csv.*user missing \(found customer\)"):
            host(flow(errors), "sales", parts[:4], CSV)
    with pytest.raises(tw.DataError, match=r"(?s)part-5\.csv line 2.*amount.*int.*60\.5"):
        host(flow("fail"), "sales", [*parts[:3], parts[4]], CSV)
    got = host(flow("reject"), "sales", [*parts[:3], parts[4]], CSV)
    assert len(got.sinks["sales"]) == len(want["rows"])
    assert [row.position for row in got.sinks["rejected"]] == [
        f"part-5.csv line {n}" for n in (2, 3)
    ]
    assert all("not an integer" in row.reason for row in got.sinks["rejected"])


# -- 16 syslog --------------------------------------------------------------------------------------------


def syslog(host: Host) -> None:
    """16: both forms of sshd, repeated messages, years without numbers, one alert of five in 20 seconds."""
    example = pytest.importorskip("thalweg.examples.login_failures")
    want = expected("16_syslog_ssh")
    flow = example.make_flow(want["assumed_first_year"])
    got = host(flow, "lines", [path("16_syslog_ssh", "messages.log")], {"format": "text"})
    failures, by_host = got.sinks["failures"], {}
    for row in failures:
        by_host[row.host] = by_host.get(row.host, 0) + row.failures
    assert by_host == want["failed_by_host"]
    assert sorted({*range(1, 11)} - {row.number for row in failures}) == want["ignored_lines"]
    assert not got.sinks["rejected"]
    alerts = [
        {
            "host": r.host,
            "count": r.failures,
            "first": tw.times.text(r.first),
            "last": tw.times.text(r.last),
        }
        for r in got.sinks["alerts"]
    ]
    for alert in alerts:
        alert |= {"first": alert["first"].rstrip("Z"), "last": alert["last"].rstrip("Z")}
    assert alerts == want["alert_5_in_20s"]
    assert tw.times.text(failures[-1].ts).startswith("2024-02-29")


# -- 18 session ties --------------------------------------------------------------------------------------


class Click(NamedTuple):
    user: str
    ts: int
    page: str
    seq: int


class Visit(NamedTuple):
    user: str
    start: int
    end: int
    pages: list[str]


def visit(user: str, start: int, end: int, rows: list[Click]) -> Visit:
    return Visit(user, start, end, [row.page for row in rows])


def session_ties(host: Host) -> None:
    """18: a row exactly the gap later still joins; equal rows count twice; ties stand in arrival order."""
    want = expected("18_session_ties")
    got = host(_visits(want["gap"]), "clicks", [path("18_session_ties", "clicks.jsonl")], JSON)
    visits = sorted([*row] for row in got.sinks["visits"])
    assert visits == want["new_session_when_gap_over"]


def session_shuffles(host: Host, folder: Path, shuffles: int) -> None:
    """18: any order of arrival that keeps the order of ties gives the same visits in the same order."""
    want = expected("18_session_ties")
    lines = path("18_session_ties", "clicks.jsonl").read_text().splitlines(keepends=True)
    serial = host(_visits(want["gap"]), "clicks", [path("18_session_ties", "clicks.jsonl")], JSON)
    for seed in range(shuffles):
        shuffled = folder / f"clicks{seed}.jsonl"
        shuffled.write_text("".join(_shuffled(lines, seed)))
        got = host(_visits(want["gap"]), "clicks", [shuffled], JSON)
        assert got.sinks["visits"] == serial.sinks["visits"], f"seed {seed}"


def _visits(gap: int) -> tw.Flow:
    flow = tw.Flow("session_ties")
    clicks = flow.source("clicks", Click, order_by="ts", lateness=10_000)
    clicks.key_by("user").sessions(gap, visit).sink("visits")
    return flow


def _shuffled(lines: Sequence[str], seed: int) -> list[str]:
    """The lines in another order; those of one user and time keep theirs."""
    rng = random.Random(seed)
    rows = [json.loads(line) for line in lines]
    ties: dict[tuple[str, int], list[int]] = {}
    for place, row in enumerate(rows):
        ties.setdefault((row["user"], row["ts"]), []).append(place)
    order = list(range(len(lines)))
    rng.shuffle(order)
    return [lines[ties[rows[place]["user"], rows[place]["ts"]].pop(0)] for place in order]


# -- 19 partitioned log -----------------------------------------------------------------------------------


class Entry(NamedTuple):
    partition: int
    offset: int
    at: int
    v: str


def log_flow(lanes: Any = (0, 1, 2), **options: Any) -> tw.Flow:
    """The log sorted by time, with its late rows."""
    flow = tw.Flow("log")
    log = flow.source(
        "log", Entry, order_by="at", lateness=3, lane="partition", lanes=lanes, **options
    )
    log.sink("sorted")
    log.late.sink("late")
    return flow


def log_files() -> list[Path]:
    """Its files in order."""
    return [path("19_partitioned_log", f"{n}.jsonl") for n in range(8)]


def check_log(sorted_rows: Sequence[Any], late: Sequence[Any]) -> None:
    """19: late by a row's own partition alone, the others by (at, partition, offset)."""
    assert list(sorted_rows) == _entries("expected")
    assert sorted(late) == sorted(_entries("expected_late"))
    tops = _tops()
    assert list(late) == sorted(late, key=lambda row: (tops[row.v], row.partition, row.offset))


def _entries(name: str) -> list[Entry]:
    lines = (CASES / "19_partitioned_log" / f"{name}.jsonl").read_text().splitlines()
    return [Entry(**json.loads(line)) for line in lines]


def _tops() -> dict[str, int]:
    """By row the greatest time of its partition up to it."""
    tops: dict[int, int] = {}
    found = {}
    for file in log_files():
        for line in file.read_text().splitlines():
            row = Entry(**json.loads(line))
            found[row.v] = tops[row.partition] = max(tops.get(row.partition, 0), row.at)
    return found


def partitioned_log(host: Host) -> None:
    """19: no row is late by another partition's rows, however they lie in the files."""
    got = host(log_flow(), "log", log_files(), JSON)
    check_log(got.sinks["sorted"], got.sinks["late"])
    assert got.counts["log"]["late"] == 8


#: All cases that need nothing but a host.
ALL: dict[str, Callable[[Host], None]] = {
    "01_out_of_order": out_of_order,
    "03_null_keys": null_keys,
    "03_no_keys": no_keys,
    "05_nan_keys": nan_keys,
    "06_negative_ts": negative_times,
    "09_corrupt_json": corrupt_json,
    "10_schema_drift": schema_drift,
    "16_syslog_ssh": syslog,
    "18_session_ties": session_ties,
    "19_partitioned_log": partitioned_log,
}
