"""The snapshot: what it says of a finished run, of one that runs, of one that failed; and its JSON form."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.operators_kit import Recipe, cases
from tests.property.test_parallel import COMMON, Case
from tests.sizes import sized

import thalweg as tw
from thalweg.checkpoint.hosts.snapshot_file import NAME, read_snapshot
from thalweg.engine.meter import again
from thalweg.errors import BuildError, CheckpointError
from thalweg.plan.plan import make_plan
from thalweg.scheduling import FreeList
from thalweg.simulate import Constant, Graph, Operator, Simulation, Source
from thalweg.snapshot import (
    BatchParts,
    KeyTraffic,
    PolicyRound,
    SinkProgress,
    Snapshot,
    SourceProgress,
    StateSize,
    StreamEdge,
    bottleneck,
)
from thalweg.snapshot.shown import cost_text, duration_text, plain_table, size_text, text_of
from thalweg.stats import Change, FaultyRow, Latency, OperatorProgress


class Row(NamedTuple):
    ts: tw.Timestamp
    key: str
    value: int


class Total(NamedTuple):
    key: str
    total: int


@tw.state
class Sum:
    total: int = 0


def not_two(row: Row) -> Row:
    if row.value == 2:
        raise ValueError("it is two")
    return row


def positive(row: Row) -> bool:
    return row.value > 0


def plus_one(row: Row) -> Row:
    return Row(row.ts, row.key, row.value + 1)


def add(state: Sum, row: Row) -> Total:
    state.total += row.value
    return Total(row.key, state.total)


def by_hand(row: Total) -> Total:
    return eval("row")  # type: ignore[no-any-return]


def fails(row: Total) -> Total:
    raise ValueError("not this one")


def a_flow(last: Any = by_hand) -> tw.Flow:
    flow = tw.Flow("a")
    rows = flow.source("rows", Row, order_by="ts", lateness=0)
    rows = rows.filter(positive, name="positive").map(plus_one, name="plus_one")
    rows.key_by("key").process(add, state=Sum, name="add").map(last, name="last").sink("out")
    return flow


ROWS = [Row(n if n % 7 else 0, str(n % 5), n % 3 - 1) for n in range(200)]

#: Each way that a flow runs in this process.
HOSTS: dict[str, dict[str, Any]] = {
    "serial": {"threading": "manual"},
    "threads": {"threads": 2},
    "by default": {},
    "slots": {"slots": 2},
    "durable": {"every": "1 minute"},
}


def of_counts(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """The counts of a snapshot in the form of those of a result."""
    found = {
        one.name: {
            "in": one.rows_in,
            "out": one.rows_out,
            "late": one.late,
            "rejected": one.rejected,
        }
        for one in (*snapshot.operators, *snapshot.sources)
    }
    return found | {f"sink:{one.name}": {"in": one.rows} for one in snapshot.sinks}


def check(result: Any, flow: tw.Flow) -> None:
    """What a snapshot of a finished run says is what was counted, and its graph is the flow's."""
    snapshot, plan = result.progress, make_plan(flow)
    for name, counts in of_counts(snapshot).items():
        assert {what: result.counts[name].get(what, 0) for what in counts} == counts, name
    assert {*of_counts(snapshot)} == {node.label for node in plan.nodes}
    assert len(snapshot.edges) == sum(map(len, plan.readers.values())) + sum(
        map(len, plan.feedback.values())
    )
    assert snapshot.status == "ended"
    assert Snapshot.from_json(snapshot.to_json()).as_dict() == snapshot.as_dict()


@settings(max_examples=sized(40, 6), **COMMON)
@given(st.one_of(cases(), cases(timed=False)), st.sampled_from(sorted(HOSTS)))
def test_numbers_of_a_finished_run(case: Case, host: str) -> None:
    """Of random flows in every host each number of the last snapshot equals the run's counts."""
    recipe: Recipe = case[0]
    flow, how = recipe.build(), dict(HOSTS[host])
    with tempfile.TemporaryDirectory() as folder:
        if host == "durable":
            how["checkpoint"] = f"{folder}/ck"
        try:
            result = tw.run(flow, case[1], **how)
        except (tw.OperatorError, BuildError):
            return  # a function of the kit that does not take these rows, or a flow that this host refuses
    check(result, flow)


def test_every_host_says_the_same(tmp_path: Path) -> None:
    """Who runs an operator and why, fused chains, late rows, and the cost do not depend on the host."""
    for host, given_ in HOSTS.items():
        how = {**given_, **({"checkpoint": tmp_path / "ck"} if host == "durable" else {})}
        result = tw.run(a_flow(), {"rows": ROWS}, **how)
        check(result, a_flow())
        snapshot = result.progress
        by_name = {one.name: one for one in snapshot.operators}
        assert by_name["last"].runs == "Python" and "eval" in by_name["last"].reason
        assert by_name["add"].runs == "machine code" and not by_name["add"].reason
        assert by_name["plus_one"].fused_with == "positive"
        assert by_name["last"].cost_ns and by_name["last"].busy_ns, host
        assert by_name["last"].busy and by_name["last"].rows_per_s, host
        assert snapshot.rows_in == len(ROWS) and snapshot.sources[0].late == len(ROWS) // 7
        assert text_of(snapshot).count("\n") < 20
    assert snapshot.host == "durable" and [one.rows for one in snapshot.batches] == [len(ROWS)]


def test_a_flow_that_runs_and_one_that_failed() -> None:
    """In the middle of a run the numbers are those so far, with watermark and state; of a failure it says why."""
    come, go_on = threading.Event(), threading.Event()

    def rows() -> Iterator[Row]:
        yield from (Row(n, str(n % 5), 1) for n in range(100))
        come.set()
        go_on.wait(30)

    with tw.start(threads=2) as running:
        run = running.add(a_flow(), {"rows": tw.from_iterable(rows())})
        assert come.wait(30)
        snapshot = again_until(run, lambda found: found.sinks[0].rows == 100)
        assert snapshot.status == "running" and snapshot.sources[0].watermark == 99
        assert snapshot.operators[2].rows_in == 100
        snapshot = again_until(run, lambda found: found.state[0].rows)  # measured seldom
        assert [(one.operator, one.rows) for one in snapshot.state] == [("add", 5)]
        assert snapshot.state[0].bytes and run.name in str(running)
        go_on.set()
        assert run.result().counts["add"]["in"] == 100 == run.progress().operators[2].rows_in
        assert run.progress().status == "ended"
        failed = running.add(a_flow(fails), {"rows": ROWS})
        assert failed.wait(30)
        assert failed.progress().status == "failed"
        assert "not this one" in failed.progress().error
        assert {*running.progress()} == {"a"}


def again_until(run: Any, holds: Any) -> Snapshot:
    """Snapshots until one is as it must become."""
    done = threading.Event()
    for _ in range(2_000):
        found: Snapshot = run.progress()
        if holds(found):
            return found
        done.wait(0.01)
    raise AssertionError(str(run))


def test_a_durable_run_keeps_it_beside_the_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a run, and after one that failed, the file says what it came to; a second run counts on.

    Late rows that nobody reads are said once, at the end.
    """
    place = tmp_path / "ck"
    with pytest.raises(CheckpointError, match=NAME):
        read_snapshot(str(place))
    tw.run(a_flow(), {"rows": ROWS}, checkpoint=place, end="keep")
    told = [one.getMessage() for one in caplog.records if "late" in one.getMessage()]
    assert len(told) == 1 and told[0].startswith("source 'rows': 28 of 200 rows were late")
    found = read_snapshot(str(place))
    assert found.snapshot.status == "ended" and found.is_alive and found.age_s >= 0
    assert found.snapshot.operator("add").rows_in > 0
    more = [*ROWS, *(row._replace(ts=row.ts + 500) for row in ROWS)]
    with pytest.raises(tw.OperatorError):
        tw.run(a_flow(fails), {"rows": more}, checkpoint=place)
    assert read_snapshot(str(place)).snapshot.status == "failed"
    result = tw.run(a_flow(), {"rows": more}, checkpoint=place)
    check(result, a_flow())
    assert result.progress.rows_in == len(ROWS) and result.progress.sources[0].rows_in == 400
    written = json.loads((place / NAME).read_text())
    (place / NAME).write_text(json.dumps({**written, "process": {**written["process"], "pid": 1}}))
    assert read_snapshot(str(place)).is_alive is False  # another process of that number
    (place / NAME).write_text('{"process": {}}')
    with pytest.raises(CheckpointError, match=NAME):
        read_snapshot(str(place))


def test_the_simulator_says_it_too() -> None:
    """The same record in virtual time: counts, queues and how busy operators are."""
    slow = Operator(name="slow", reads=("in",), cost_ns=1_000_000)
    graph = Graph((Source("in", Constant(1_500)),), (slow,))
    simulation = Simulation(graph, policy=FreeList())
    simulation.run(1.0)
    snapshot, run = simulation.snapshot(), simulation.result()
    (operator,) = snapshot.operators
    assert (operator.rows_in, operator.queue_rows) == (1_000, run.operators[0].waiting)
    assert operator.busy == pytest.approx(1.0) and bottleneck(snapshot) == "slow"
    assert snapshot.sinks[0].rows == run.rows_out and snapshot.host == "simulator"
    assert Snapshot.from_json(snapshot.to_json()).operator("slow") == operator


def test_the_last_bad_rows(tmp_path: Path) -> None:
    """In every host the last ten late and rejected rows are there with reasons, and who found them; no more."""
    flow = tw.Flow("a")
    rows = flow.source("rows", Row, order_by="ts", lateness=0).map(
        not_two, name="two", errors="reject"
    )
    rows.key_by("key").process(add, state=Sum, name="add").sink("out")
    good = [Row(n, "k", 1) for n in range(100)]
    given_ = [*good, Row(3, "<script>", 1), Row(4, "b" * 1_000, 1)]
    for host, given_how in HOSTS.items():
        how = {**given_how, **({"checkpoint": tmp_path / "bad"} if host == "durable" else {})}
        found = tw.run(flow, {"rows": given_}, **how).progress.bad_rows
        assert [(one.operator, one.what) for one in found] == [("rows", "late")] * 2, host
        assert found[0].row == repr(given_[-2]) and len(found[1].row) == 200, host
        assert found[0].reason == "ts is less than the greatest that came before"
    rejected = [Row(200 + n, str(n), 2) for n in range(30)]
    for host in ("serial", "threads", "slots"):
        found = tw.run(flow, {"rows": [*given_, *rejected]}, **HOSTS[host]).progress.bad_rows
        assert [one.row for one in found] == [repr(row) for row in rejected[-10:]], host
        assert {one.reason for one in found} == {"ValueError: it is two"}


def operator(name: str, busy: float | None = 0.1, pressed: float | None = 0.0) -> OperatorProgress:
    return OperatorProgress(
        name=name, kind="stateless", rows_in=1, rows_out=1, busy=busy, back_pressured=pressed
    )


def test_the_bottleneck_is_behind_those_that_wait() -> None:
    """Of those that read a back-pressured operator and are not back-pressured, the busiest; else who fills a thread."""
    chain = [StreamEdge(giver=a, port="out", reader=b) for a, b in ("ab", "bc", "cd")]

    def of(*operators: OperatorProgress) -> str | None:
        made = Snapshot(
            rows_in=1, seconds=1.0, rows_per_s=1.0, operators=operators, edges=tuple(chain)
        )
        return bottleneck(made)

    pressed = [operator("a", 0.9, 0.8), operator("b", 0.3, 0.6)]
    assert of(*pressed, operator("c", 0.2), operator("d", 0.8)) == "c"
    fused = dataclasses.replace(operator("c", None, None), fused_with="b")
    assert of(operator("a"), operator("b", 0.3, 0.6), fused, operator("d", 0.4)) == "d"
    assert of(operator("a", 0.7), operator("b", 0.3)) == "a"
    assert of(operator("a", 0.2), operator("b", 0.3)) is None
    assert of(operator("a", None, None)) is None and of() is None


def test_json_there_and_back() -> None:
    """Every field survives; fields of a later release are left out; another version is refused."""
    latency = Latency(1, 0.1, 0.1, 0.2, 0.3)
    full = Snapshot(
        flow="a", host="spark", status="running", at_s=1.5, rows_in=3, seconds=2.0, rows_per_s=1.5,
        latency={"out": latency}, operators=(operator("a"),),
        edges=(StreamEdge(giver="a", port="late", reader="sink:out", feedback=True),),
        sources=(SourceProgress(name="r", rows_in=3, rows_out=2, position={"0": 7}, held_by="x"),),
        sinks=(SinkProgress(name="out", rows=2, latency=latency),), idle=("r",),
        state=(StateSize(operator="a", rows=1, bytes=8),), stuck=("a",),
        changes=(Change(seconds=1.0, what="slots", operator="", before=1, after=2, reason="b"),),
        policy=PolicyRound(policy="P", rounds=1, assigned=(("a",), ())),
        keys=KeyTraffic(epoch=1, imbalance={"a": 1.5}, slot_rows={"a": (1, 2)}, table_gain=2.0),
        batches=(BatchParts(batch=0, rows=3, seconds=1.0),), links={"Spark": "http://a:4040"},
        bad_rows=(FaultyRow(operator="r", what="late", reason="why", row="R(1)", at_s=1.0),),
    )  # fmt: skip
    text = full.to_json()
    assert Snapshot.from_json(text) == full
    assert all(value not in (None, [], {}) for value in json.loads(text).values() if value != "")
    later = json.loads(text) | {"invented": 1}
    later["operators"][0]["invented"] = 1
    assert Snapshot.from_json(json.dumps(later)) == full
    for wrong in ('{"version": 2}', "[]", "{"):
        with pytest.raises(BuildError):
            Snapshot.from_json(wrong)


def test_how_it_is_printed() -> None:
    """Numbers with units; columns of zeros are left out; at most so many lines."""
    assert (cost_text(85), cost_text(1_200), cost_text(3.4e6)) == ("85 ns", "1.2 µs", "3.4 ms")
    assert (duration_text(7.24), duration_text(3_903)) == ("7.2 s", "1:05:03")
    assert (size_text(512), size_text(1_500_000)) == ("512 B", "1.5 MB")
    snapshot = Snapshot(
        rows_in=1,
        seconds=1.0,
        rows_per_s=1.0,
        operators=tuple(operator(f"o{n}", 0.9) for n in range(30)),
    )
    lines = plain_table(snapshot)
    assert "late" not in lines[0] and "busy" in lines[0] and lines[1].startswith("▶ o0")
    assert text_of(snapshot).count("\n") == 19 and "more lines" in text_of(snapshot)


def test_what_changes_is_read_again() -> None:
    """A collection that another thread changes meanwhile is read once more, not for ever."""
    tries = []

    def read() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("dictionary changed size during iteration")
        return 7

    def never() -> int:
        raise RuntimeError("never")

    assert again(read) == 7
    with pytest.raises(RuntimeError):
        again(never)
