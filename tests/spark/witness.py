"""Reads what a run of the witness flow left on disk, and compares it with the reference runner."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kill_driver as driver
import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.checkpoint.inspect import describe, read_state
from thalweg.columns.chunks import Chunk
from thalweg.plan.plan import make_plan
from thalweg.testing.reference import run_reference
from thalweg.testing.reference_keys import sort_key
from thalweg.testing.reference_parts import Outputs


def output(folder: Path, sink: str) -> list[Any]:
    """All rows of a sink, batch after batch, files by name within a batch."""
    record = next(s.record for s in make_plan(driver.make_flow()).sinks if s.name == sink)
    batches = [one for one in folder.glob("batch=*") if one.is_dir()]
    rows: list[Any] = []
    for batch in sorted(batches, key=lambda one: int(one.name.removeprefix("batch="))):
        for file in sorted(batch.glob("*.parquet")):
            rows += Chunk.from_arrow(record, pq.ParquetFile(file).read()).rows()
    return rows


def states(checkpoint: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The state of each keyed operator as rows (keys, fields), by key."""
    return {name: _plain(read_state(str(checkpoint), name)) for name in driver.STATEFUL}


def _plain(table: pa.Table) -> list[tuple[Any, ...]]:
    # By place: keys and fields may share names; times as the integers that they are.
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


def expected_states(outputs: Outputs) -> dict[str, list[tuple[Any, ...]]]:
    """The same of a reference run."""
    nodes = {node.name: node for node in make_plan(driver.make_flow()).keyed}
    found = {}
    for name in driver.STATEFUL:
        node, held = nodes[name], outputs.states[name]
        rows = []
        for key in sorted(held, key=sort_key):
            keys = key if isinstance(key, tuple) else (key,)
            rows.append((*keys, *node.state.values(held[key])))
        found[name] = rows
    return found


def compare(output_folder: Path, checkpoint: Path, rows: Iterable[Any], *, end: bool) -> None:
    """Whole output sequences, state and counts equal those of one serial run."""
    wanted = run_reference(driver.make_flow(), {"clicks": list(rows)}, end=end)
    for sink in driver.SINKS:
        found = output(output_folder / sink, sink)
        assert found == wanted.sinks[sink], f"{sink}: {_difference(found, wanted.sinks[sink])}"
    found_states, wanted_states = states(checkpoint), expected_states(wanted)
    for name in driver.STATEFUL:
        assert found_states[name] == wanted_states[name], name
    compare_counts(checkpoint, wanted)
    assert describe(str(checkpoint)).finished == end


def compare_counts(checkpoint: Path, wanted: Outputs) -> None:
    """The commit record counts each row once, also over repeated batches."""
    counters = {one.name: one.counters for one in describe(str(checkpoint)).operators}
    for name in ("clicks", *driver.STATEFUL):
        for what, number in wanted.counts.get(name, {}).items():
            assert counters[name].get(what, 0) == number, (name, what)


def _difference(found: list[Any], wanted: list[Any]) -> str:
    pairs = zip(found, wanted, strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(found), len(wanted)))
    return (
        f"{len(found)} rows for {len(wanted)}; from row {place} on"
        f" {found[place : place + 3]} for {wanted[place : place + 3]}"
    )
