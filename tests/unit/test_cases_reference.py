"""The written cases on the serial reference runner and on the engine in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.connectors.readers import Parsed, ReadOptions, describe_bad, read_file
from thalweg.embedded import collect
from thalweg.engine.build import prepare
from thalweg.engine.serial import SerialEngine
from thalweg.flow.operators.nodes import Source
from thalweg.flow.operators.rejected import Rejected
from thalweg.plan.plan import Plan, make_plan
from thalweg.testing.reference import run_reference

sys.path.append(str(Path(__file__).parents[1] / "cases"))
import case_flows as cases

Bad = list[tuple[str, str, str]]


def _parsed(
    source: Source, files: Sequence[Path], options: Mapping[str, Any]
) -> Iterator[tuple[Chunk, Bad]]:
    """The files' rows in order, two at a time; bad ones as rejected rows, or as the error that they are."""
    for file in files:
        read = ReadOptions(**options)
        for part in read_file(pafs.LocalFileSystem(), str(file), source.record, read, batch_rows=2):
            if part.bad and source.errors == "fail":
                raise tw.DataError(describe_bad(str(file), part.bad[0]))
            yield Chunk.from_arrow(source.record, part.table), _bad(file, part)


def _bad(file: Path, part: Parsed) -> Bad:
    return [(one.reason, f"{file.name} {one.unit} {one.position}", one.text) for one in part.bad]


def reference(
    flow: tw.Flow, source: str, files: Sequence[Path], options: Mapping[str, Any]
) -> cases.Outcome:
    """The serial reference runner; rows that do not fit go around it, as it is told only rows."""
    plan = make_plan(flow)
    (node,) = plan.sources
    rows, bad = [], []
    for chunk, rejected in _parsed(node, files, options):
        rows += chunk.rows()
        bad += [Rejected(node.name, *one) for one in rejected]
    out = run_reference(flow, {source: rows})
    counts = {name: {**_zeros(), **numbers} for name, numbers in out.counts.items()}
    mine = counts.setdefault(source, _zeros())
    mine["in"] += len(bad)
    mine["rejected"] += len(bad)
    for sink in plan.sinks:
        if (sink.input.node, sink.input.port) == (node.index, "rejected"):
            out.sinks[sink.name] += bad
    return cases.Outcome(out.sinks, counts)


def _zeros() -> dict[str, int]:
    return dict.fromkeys(("in", "out", "late", "rejected"), 0)


def engine(
    flow: tw.Flow, source: str, files: Sequence[Path], options: Mapping[str, Any]
) -> cases.Outcome:
    """The engine in this process, two rows a step."""
    plan: Plan = make_plan(flow)
    made = SerialEngine(prepare(plan), chunk_rows=2)
    out: dict[str, list[Chunk]] = {sink.name: [] for sink in plan.sinks}
    for chunk, bad in _parsed(plan.sources[0], files, options):
        collect(plan, made.feed(source, chunk, bad), out)
        for leaving in made.advance():
            collect(plan, leaving, out)
    for leaving in made.finish():
        collect(plan, leaving, out)
    sinks = {
        name: [row for chunk in chunks for row in chunk.rows()] for name, chunks in out.items()
    }
    return cases.Outcome(sinks, made.counts)


HOSTS = {"reference": reference, "engine": engine}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("case", cases.ALL)
def test_case(case: str, host: str) -> None:
    """The case's right behaviour, see its README and the function's docstring."""
    cases.ALL[case](HOSTS[host])


@pytest.mark.parametrize("host", HOSTS)
def test_session_shuffles(tmp_path: Path, host: str) -> None:
    """Case 18 in 40 orders of arrival."""
    cases.session_shuffles(HOSTS[host], tmp_path, 40)
