"""Moves the state of keys from a slot's engine to another's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Bools
from thalweg.engine.contract import Engine
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.hashing import Int64s, UInt64s, bucket_of
from thalweg.slots.routes import SlotRoutes

#: By operator, rows of state.
States: TypeAlias = dict[str, list[pa.RecordBatch]]


def take_leaving(engine: Engine, here: int, routes: SlotRoutes) -> dict[int, States]:
    """Takes the keys out of an engine that are to be in other slots; gives their state by slot."""
    leaving: dict[int, States] = {}
    for name, unit in engine.by_key.items():
        for slot, rows in take_out(unit, routes[name].slots, lambda bucket: here).items():
            leaving.setdefault(slot, {}).setdefault(name, []).extend(rows)
    return leaving


def take_out(
    unit: KeyedUnit, place_of: Callable[[UInt64s], Int64s], here: Callable[[int], int]
) -> dict[int, list[pa.RecordBatch]]:
    """Takes the keys out of a unit's tables that are to be elsewhere; gives their state by where.

    Args:
        unit: an operator by key.
        place_of: where keys are to be, by hash.
        here: where a table is, by its number.
    """
    found: dict[int, list[pa.RecordBatch]] = {}
    for number, table in unit.tables.items():
        rows = table.take_out(functools.partial(_are_at, here(number), place_of))
        if rows.num_rows:
            places = place_of(unit.spec.hashes_of(rows))
            for place in np.unique(places).tolist():
                found.setdefault(place, []).append(_rows(rows, places == place))
    return found


def _are_at(place: int, place_of: Callable[[UInt64s], Int64s], hashes: UInt64s) -> Bools:
    found: Bools = place_of(hashes) == place
    return found


def put(engine: Engine, states: Mapping[str, list[pa.RecordBatch]]) -> None:
    """Puts keys into an engine that it has not."""
    for name, batches in states.items():
        unit = engine.by_key[name]
        for rows in batches:
            buckets = bucket_of(unit.spec.hashes_of(rows), unit.node.key.buckets)
            for bucket in np.unique(buckets).tolist():
                table = unit.table(bucket)
                # Nothing is saved here; a table takes over rows when nothing in it waits to be.
                table.mark_saved()
                table.apply([_rows(rows, buckets == bucket)])


def _rows(rows: pa.RecordBatch, wanted: Any) -> pa.RecordBatch:
    return rows.take(pa.array(np.flatnonzero(wanted)))
