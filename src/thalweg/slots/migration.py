"""Taking keys' state out of a slot's engine, and putting it into another's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Bools
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.serial import Engine
from thalweg.hashing import Int64s, UInt64s, bucket_of

#: The slots of an operator's keys, by hash.
SlotsOf: TypeAlias = Callable[[str, UInt64s], Int64s]
#: By operator, rows of state.
States: TypeAlias = dict[str, list[pa.RecordBatch]]


def take_leaving(engine: Engine, here: int, slots_of: SlotsOf) -> dict[int, States]:
    """Takes the keys out of an engine that are to be in other slots; gives their state by slot."""
    leaving: dict[int, States] = {}
    for name, unit in keyed_units(engine):

        def stays(hashes: UInt64s, name: str = name) -> Bools:
            stay: Bools = slots_of(name, hashes) == here
            return stay

        for table in unit.tables.values():
            rows = table.take_out(stays)
            slots = slots_of(name, unit.spec.hashes_of(rows))
            for slot in np.unique(slots).tolist():
                part = _rows(rows, slots == slot)
                leaving.setdefault(slot, {}).setdefault(name, []).append(part)
    return leaving


def put(engine: Engine, states: Mapping[str, list[pa.RecordBatch]]) -> None:
    """Puts keys into an engine that it has not."""
    units = dict(keyed_units(engine))
    for name, batches in states.items():
        unit = units[name]
        for rows in batches:
            buckets = bucket_of(unit.spec.hashes_of(rows), unit.node.key.buckets)
            for bucket in np.unique(buckets).tolist():
                table = unit.table(bucket)
                # Nothing is saved here; a table takes over rows when nothing in it waits to be.
                table.mark_saved()
                table.apply([_rows(rows, buckets == bucket)])


def keyed_units(engine: Engine) -> Iterator[tuple[str, KeyedUnit]]:
    """The engine's operators whose state is by key."""
    for name, unit in engine.keyed.items():
        if isinstance(unit, KeyedUnit) and unit.node.key.fields:
            yield name, unit


def _rows(rows: pa.RecordBatch, wanted: Any) -> pa.RecordBatch:
    return rows.take(pa.array(np.flatnonzero(wanted)))
