"""What a run tells: a failure once, and at the end the rows that are in no output."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import thalweg as tw


class Row(NamedTuple):
    ts: int
    key: str


@tw.state
class Seen:
    n: int = 0


def helper(row: Row) -> int:
    return 1 // row.ts


def divide(row: Row) -> Row:
    return Row(helper(row), row.key)


def flow_of(*, divides: bool = False, **source: Any) -> tw.Flow:
    flow = tw.Flow("rows")
    rows = flow.source("rows", Row, order_by="ts", **source)
    (rows.map(divide) if divides else rows).sink("out")
    return flow


def told(flow: tw.Flow, given: Any) -> str:
    """What Python prints of the failure."""
    with pytest.raises(tw.ThalwegError) as failed:
        tw.run(flow, {"rows": given}, threading="manual")
    return "".join(traceback.format_exception(failed.value))


def test_bad_rows_are_told_once(tmp_path: Path) -> None:
    """Of a list, an iterator and a file: one traceback, which does not go through the engine, and the row."""
    (tmp_path / "a.csv").write_text("ts,key\n1,a\nx,b\n")
    rows = [Row(1, "a"), ("x", 3)]
    for given in (rows, iter(rows), tw.files(tmp_path / "a.csv")):
        text = told(flow_of(), given)
        assert text.count("Traceback") == 1
        assert text.count("expected int") == 1
        assert len(text.splitlines()) <= 10, text


@pytest.mark.parametrize("compile", [True, False])
def test_a_function_that_raises_is_told_with_its_own_frames(compile: bool) -> None:
    """Two tracebacks: where the user's code raised, helpers included, and what it means; none of ours between."""
    flow = tw.Flow("rows")
    flow.source("rows", Row).map(divide, compile=compile).sink("out")
    text = told(flow, [Row(0, "a")])
    assert text.count("Traceback") == 2
    assert "in helper" in text and "in divide" in text
    assert "thalweg/engine/" not in text and "thalweg/compiler/" not in text
    assert "row:      Row(ts=0, key='a')" in text


def test_causes_stay() -> None:
    """What the user's code raised is the cause, for who catches the error."""
    with pytest.raises(tw.OperatorError) as failed:
        tw.run(flow_of(divides=True), {"rows": [Row(0, "a")]}, threading="manual")
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def warnings(caplog: pytest.LogCaptureFixture, flow: tw.Flow, rows: list[Any]) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="thalweg"):
        tw.run(flow, {"rows": rows}, threading="manual")
    told = [record.getMessage() for record in caplog.records]
    return [text for text in told if "not in the output" in text]


LATE = [Row(0, "a"), Row(5, "a"), Row(3, "b"), Row(4, "a"), Row(6, "b")]


def test_late_rows_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """How many of how many, of which source, and by which names they can be had."""
    assert warnings(caplog, flow_of(), LATE) == [
        "source 'rows': 2 of 5 rows were late and are not in the output; its stream .late has them, and a greater"
        " lateness= waits for them"
    ]
    assert warnings(caplog, flow_of(lateness=2), LATE) == []


def test_late_rows_that_somebody_reads_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    flow = tw.Flow("rows")
    rows = flow.source("rows", Row, order_by="ts")
    rows.sink("out")
    rows.late.sink("late")
    assert warnings(caplog, flow, LATE) == []


def test_late_rows_of_a_key_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """Where each key has its own time, by the source, once."""
    flow = tw.Flow("rows")
    rows = flow.source("rows", Row, order_by="ts", order="key")
    rows.key_by("key").process(lambda state, row: row, state=Seen, name="same", into=Row).sink(
        "out"
    )
    [text] = warnings(caplog, flow, LATE)
    assert text.startswith("source 'rows': 1 of 5 rows were late")


def test_late_rows_of_keys_that_somebody_reads_are_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each key judges what is late, and the source's stream has them all."""
    flow = tw.Flow("by-key")
    source = flow.source("rows", Row, order_by="ts", order="key")
    source.key_by("key").sessions(5, n=tw.agg.count()).sink("out")
    source.late.sink("late")
    result = tw.run(flow, {"rows": [Row(5, "a"), Row(1, "a")]})
    assert result.rows("late") == [Row(1, "a")]
    assert not caplog.records


def test_rejected_rows_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """Those of a source and those of an operator; not where they are read."""
    flow = flow_of(divides=True, errors="reject")
    assert warnings(caplog, flow, [Row(1, "a"), ("x", 1)]) == [
        "source 'rows': 1 of 2 rows were rejected and are not in the output; its stream .rejected has them, with"
        " reasons"
    ]
    flow = tw.Flow("rows", errors="reject")
    rows = flow.source("rows", Row).map(divide)
    rows.sink("out")
    assert len(warnings(caplog, flow, [Row(0, "a")])) == 1
    rows.rejected.sink("rejected")
    assert warnings(caplog, flow, [Row(0, "a")]) == []


def test_names_that_are_nearly_right() -> None:
    """The near name is suggested: of inputs, sinks and options."""
    with pytest.raises(tw.BuildError, match=r"has no source 'row'; did you mean 'rows'\?"):
        tw.run(flow_of(), {"row": []})
    with pytest.raises(tw.BuildError, match=r"no sink 'outt'; it has out; did you mean 'out'\?"):
        tw.run(flow_of(), {"rows": []}, {"outt": print})
    with pytest.raises(tw.BuildError, match=r"did you mean 'delimiter'\?"):
        tw.files("a.csv", delimeter=";")
    with pytest.raises(
        tw.BuildError, match=r"no option 'compresion'; did you mean 'compression'\?"
    ):
        tw.spark.csv("out", compresion="gzip")
    with pytest.raises(tw.BuildError, match="'partitionBy'; a sink has a folder for each batch"):
        tw.spark.parquet("out", partitionBy="user")
    with pytest.raises(
        tw.CheckpointError, match=r"no routing table onlin; did you mean 'online'\?"
    ):
        tw.run(flow_of(), {"rows": []}, slots=2, routing="onlin")
