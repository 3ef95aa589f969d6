"""What is taken for a sink of a query on Spark, before anything starts."""

from __future__ import annotations

import logging
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.connectors.written.spark_options import writer_options
from thalweg.plan.plan import make_plan
from thalweg.spark.arguments import check, warn
from thalweg.spark.writing.sinks import FrameSink, sinks_of


class Row(NamedTuple):
    number: int


def test_each_sink_has_a_target_of_its_own(tmp_path: Path) -> None:
    kept = tw.spark.memory()
    with pytest.raises(
        tw.BuildError, match=r"sinks 'one' and 'two' would overwrite each other in one memory"
    ):
        sinks_of({"one": kept, "two": kept})
    folder = tmp_path / "out"
    same = {"one": tw.spark.json(str(folder)), "two": tw.spark.parquet(f"file://{folder}/")}
    with pytest.raises(tw.BuildError, match=r"'one' and 'two' would overwrite each other in .*out"):
        sinks_of(same)


def test_targets_that_may_be_shared(tmp_path: Path) -> None:
    """A function is told apart by nobody; other folders and memories are others."""

    def put(frame: Any, batch: int) -> None: ...

    made = sinks_of(
        {
            "one": put, "two": put, "three": tw.spark.memory(), "four": tw.spark.memory(),
            "five": tw.spark.csv(str(tmp_path / "a")), "six": tw.spark.csv(str(tmp_path / "b")),
        }
    )  # fmt: skip
    assert list(made) == ["one", "two", "three", "four", "five", "six"]
    assert isinstance(made["one"], FrameSink) and made["one"].function is put


def test_more_slots_than_make_sense(caplog: pytest.LogCaptureFixture) -> None:
    """Dozens of slots for each task that runs at a time cost time and are warned of; a few are not."""
    flow = tw.Flow("plain")
    flow.source("rows", Row).sink("out")
    files = {"rows": tw.spark.files("in", format="json")}
    conf = types.SimpleNamespace(get=lambda name, default: default)
    context = types.SimpleNamespace(defaultParallelism=2)
    session: Any = types.SimpleNamespace(conf=conf, sparkContext=context)
    for slots, told in ((8, 0), (64, 0), (200, 1)):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="thalweg"):
            warn(session, slots, files, make_plan(flow))
        assert len(caplog.records) == told
    assert caplog.records[0].getMessage().startswith("slots=200: only 2 run at a time here")


def test_options_of_writers() -> None:
    """Upper and lower case are one; names with a dot are passed on; all that Thalweg itself sets is known."""
    made = tw.spark.csv("out", NULLVALUE="x", **{"a.b.c": 1})
    assert made.options["nullValue"] == "x"
    assert made.options["a.b.c"] == 1
    for format, sink in {"csv": tw.spark.csv("out"), "json": tw.spark.json("out")}.items():
        assert writer_options(format, sink.options) == sink.options  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["memory", "console", "parquet"])
def test_a_sink_whose_call_was_forgotten(name: str) -> None:
    with pytest.raises(tw.BuildError, match=rf"tw.spark.{name} is to be called: {name}\(…\)"):
        sinks_of({"out": getattr(tw.spark, name)})


def test_sinks_are_given_by_name() -> None:
    flow = tw.Flow("plain")
    flow.source("rows", Row).sink("out")
    plan, files = make_plan(flow), tw.spark.files("in", format="json")
    with pytest.raises(tw.BuildError, match="sinks: expected what is written by sink name, a dict"):
        check(plan, {"rows": files}, [tw.spark.memory()], "keep")  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [0, -1, True, 1.5])
def test_files_a_batch(most: Any) -> None:
    with pytest.raises(tw.BuildError, match="max_files_per_trigger is a whole number, at least 1"):
        tw.spark.files("in", format="text", max_files_per_trigger=most)
