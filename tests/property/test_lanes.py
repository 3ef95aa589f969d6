"""Lanes: what is late, and the order of all, is the same for every interleaving of the lanes and every cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.flow.operators.lanes import lane_order


class Entry(NamedTuple):
    """A row of a log: ``n`` is its place in its lane."""

    t: int
    lane: str | None
    n: int


NAMES = (None, "", "a", "é", "z")
#: By lane the times of its rows.
LOGS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.integers(0, 25), max_size=12), max_size=4
)
_COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow],
}


def make_flow(lateness: int, lanes: Any, **options: Any) -> tw.Flow:
    flow = tw.Flow("log", compile="never")
    log = flow.source(
        "log", Entry, order_by="t", lateness=lateness, lane="lane", lanes=lanes, **options
    )
    log.sink("sorted")
    log.late.sink("late")
    log.key_by("n").sessions(4, rows=tw.agg.count()).sink("sessions")
    log.late.key_by("n").process(add, state=Sum).sink("sums")
    return flow


@tw.state
class Sum:
    """A running sum, which shows the order of its rows."""

    total: int = 0


def add(mine: Sum, row: Entry) -> Entry:
    mine.total = mine.total * 3 + row.t
    return row._replace(t=mine.total)


def interleaved(log: dict[Any, list[int]], chooser: random.Random) -> list[Entry]:
    """The rows in any order that keeps each lane's."""
    turns = [lane for lane, times in log.items() for _ in times]
    chooser.shuffle(turns)
    at = dict.fromkeys(log, 0)
    rows = []
    for lane in turns:
        rows.append(Entry(log[lane][at[lane]], lane, at[lane]))
        at[lane] += 1
    return rows


def by_definition(log: dict[Any, list[int]], lateness: int) -> tuple[list[Entry], list[Entry]]:
    """Rows on time and late ones, each in their order, straight from docs/order.md."""
    on_time, late = [], []
    for lane, times in log.items():
        for n, t in enumerate(times):
            top = max(times[:n], default=t)
            if t < top - lateness:
                late.append((top, lane_order(lane), n, Entry(t, lane, n)))
            else:
                on_time.append((t, lane_order(lane), n, Entry(t, lane, n)))
    return [one[-1] for one in sorted(on_time)], [one[-1] for one in sorted(late)]


def outputs(result: Any) -> dict[str, list[Any]]:
    return {name: result.rows(name) for name in ("sorted", "late", "sessions", "sums")}


@settings(max_examples=sized(60), **_COMMON)
@given(LOGS, st.integers(0, 6), st.sampled_from((None, NAMES)), st.integers(0, 999))
def test_any_interleaving_and_cuts(
    log: dict[Any, list[int]], lateness: int, lanes: Any, seed: int
) -> None:
    """Declared lanes (some of them silent) and those of the input: the rows are those of the definition."""
    chooser = random.Random(seed)
    flow, wanted = make_flow(lateness, lanes), by_definition(log, lateness)
    found = []
    for _ in range(3):
        rows = interleaved(log, chooser)
        found.append(
            outputs(testing.assert_same(flow, {"log": rows}, seeds=[chooser.randint(0, 99)]))
        )
        assert (found[-1]["sorted"], found[-1]["late"]) == wanted
    assert found[0] == found[1] == found[2]


@settings(max_examples=sized(40), **_COMMON)
@given(LOGS, st.integers(0, 6), st.integers(0, 999))
def test_open_ended(log: dict[Any, list[int]], lateness: int, seed: int) -> None:
    """While the input goes on, what is out is the beginning of what the whole input gives, for all cuts alike."""
    chooser = random.Random(seed)
    flow = make_flow(lateness, tuple(log) or NAMES)
    rows = interleaved(log, chooser)
    now = testing.assert_same(flow, {"log": rows}, seeds=range(3), end=False)
    for name, wanted in zip(("sorted", "late"), by_definition(log, lateness), strict=True):
        assert now.rows(name) == wanted[: len(now.rows(name))]
    if log and all(log.values()):
        watermark = min(max(times) for times in log.values()) - lateness
        ready = [row for row in by_definition(log, lateness)[0] if row.t < watermark]
        assert now.rows("sorted") == ready


@pytest.mark.parametrize("given", ["list", "table", "files", "slots", "threads"])
@pytest.mark.parametrize("lanes", [None, NAMES, "arrival"])
def test_hosts(given: str, lanes: Any, tmp_path: Any) -> None:
    """tw.run over inputs in memory and in files, in slots and threads, gives what the reference gives."""
    chooser = random.Random(7)
    log = {lane: [chooser.randint(0, 60) for _ in range(30)] for lane in NAMES[1:]}
    rows, flow = interleaved(log, chooser), make_flow(20, lanes)
    expected = outputs(testing.reference(flow, {"log": rows}))
    inputs: Any = rows
    if given == "table":
        import pyarrow as pa

        inputs = pa.Table.from_pylist([row._asdict() for row in rows])
    if given == "files":
        inputs = tw.files(write_json(tmp_path / "log.jsonl", rows))
    how: dict[str, Any] = {"slots": {"slots": 2}, "threads": {"threads": 2}}.get(given, {})
    result = tw.run(flow, {"log": inputs}, chunk_rows=7, **how)
    assert outputs(result) == expected
    assert result.counts["log"]["late"] == len(expected["late"]) > 0


def write_json(path: Any, rows: Sequence[Entry]) -> Any:
    import json

    path.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))
    return path


def test_rows_do_not_wait_for_the_end_where_lanes_are_known() -> None:
    """Of declared lanes, and of a list in memory, rows leave as soon as the watermark has passed them."""
    session = testing.Session(make_flow(0, ("a", "z")))
    session.push("log", Entry(5, "a", 0), Entry(3, "z", 0), Entry(4, "z", 1))
    session.advance()
    assert session.rows("sorted") == [Entry(3, "z", 0)]
    session.tick(5)
    assert session.rows("sorted") == [Entry(3, "z", 0), Entry(4, "z", 1)]
    # A row of the watermark's own time waits: another lane may still bring one that stands before it.
    session.end()
    assert session.rows("sorted")[-1] == Entry(5, "a", 0)


def test_rows_of_other_lanes() -> None:
    """A row of a lane that is not declared does not fit: it stops the run or is rejected, with its place."""
    rows = [Entry(1, "a", 0), Entry(1, "b", 0)]
    reason = "lane is 'b', but lanes= declares 'a', 'z'"
    with pytest.raises(tw.DataError, match=f"row 1.*{reason}"):
        tw.run(make_flow(0, ["z", "a"]), {"log": rows})
    flow = make_flow(0, ["z", "a"], errors="reject")
    result = testing.assert_same(flow, {"log": rows})
    assert result.counts["log"]["rejected"] == 1
    assert result.rows("sorted") == rows[:1]


@pytest.mark.parametrize(
    ("lanes", "text"),
    [
        ("a", "a sequence of the values of lane, or 'arrival', not 'a'"),
        (3, "a sequence of the values of lane"),
        ([], "lanes= is empty"),
        (["a", "a"], "lanes= has 'a' twice"),
        ([1], "lanes= has 1: lane expected"),
    ],
)
def test_bad_declarations(lanes: Any, text: str) -> None:
    """What no lanes can be is refused when the flow is built."""
    with pytest.raises(tw.BuildError, match=text):
        make_flow(0, lanes)


def test_lanes_need_a_field_and_event_time() -> None:
    """``lanes=`` without ``lane=``, and ``lane=`` without ``order_by=``, would mean nothing."""
    with pytest.raises(tw.BuildError, match="lanes= needs lane="):
        tw.Flow("f").source("in", Entry, order_by="t", lanes=["a"])
    with pytest.raises(tw.BuildError, match="lane='lane' needs order_by="):
        tw.Flow("f").source("in", Entry, lane="lane")


def test_inputs_that_may_never_end() -> None:
    """Lanes of the whole input are refused for them, and both choices are named."""
    with pytest.raises(
        tw.BuildError, match=r"(?s)may never end; give lanes=\[\.\.\.\].*lanes='arrival'"
    ):
        tw.run(make_flow(0, None), {"log": iter([Entry(1, "a", 0)])})
    result = tw.run(make_flow(0, "arrival"), {"log": iter([Entry(1, "a", 0)])})
    assert result.rows("sorted") == [Entry(1, "a", 0)]
