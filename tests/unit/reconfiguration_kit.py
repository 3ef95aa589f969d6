"""A query in miniature: two keyed operators over fake storage, whose driver can be killed between any two steps.

The state of a key is the list of the rows that it took, so a row that is lost, doubled or out of order shows.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.locality import RoutingTable, decode_table, encode_table
from thalweg.locality.key_hash import KeyTypes
from thalweg.locality.reconfiguration import (
    BatchCommitted,
    BatchPlanned,
    Manager,
    PruneTables,
    ReadTable,
    ResetStatistics,
    RunBatch,
    TableRead,
    WriteTable,
)
from thalweg.locality.statistics import OperatorKey

TEXT: KeyTypes = (FieldType(Kind.STR),)
OPERATORS = {"a": (TEXT, 6), "b": (TEXT, 5)}

#: A row: its number, and its key at both operators.
Row: TypeAlias = tuple[int, str, str]
#: By operator and unit, the rows that each key took.
Units: TypeAlias = dict[tuple[str, int], dict[str, list[int]]]


@dataclasses.dataclass
class Record:
    """What a batch left: the epoch that holds behind it, and the state."""

    batch: int
    following: int
    units: Units


@dataclasses.dataclass
class Storage:
    """What a kill leaves: tables, commit records, and the batches that Spark has logged."""

    tables: dict[int, bytes] = dataclasses.field(default_factory=dict)
    records: dict[int, Record] = dataclasses.field(default_factory=dict)
    logged: int = -1

    def previous(self, batch: int) -> Record | None:
        """The record that a batch starts from."""
        older = [one for one in self.records if one < batch]
        return self.records[max(older)] if older else None

    def newest(self) -> int:
        """The newest epoch that has a file, -1 for none."""
        return max(self.tables, default=0)


@dataclasses.dataclass(frozen=True)
class Task:
    """What a slot wrote in a batch: the units it owns, and keys that leave by the unit that they enter."""

    owned: Units
    leaving: Units


def run_batch(
    storage: Storage,
    manager: Manager,
    batch: int,
    slots: int,
    rows: Sequence[Row],
    new_keys: Mapping[OperatorKey, int] | None = None,
) -> Iterator[str]:
    """Runs a batch a step at a time; where it stops, only the storage is left of it."""
    base = storage.previous(batch)
    follows = None if base is None else base.following
    actions = manager.handle(BatchPlanned(batch, slots, follows, new_keys or {}))
    while actions:
        action = actions.pop(0)
        if isinstance(action, ReadTable):
            table = decode_table(storage.tables[action.epoch])
            actions = manager.handle(TableRead(table))
        elif isinstance(action, WriteTable):
            assert action.table.epoch not in storage.tables, "a table is never overwritten"
            storage.tables[action.table.epoch] = encode_table(action.table)
            yield f"wrote table {action.table.epoch}"
        elif isinstance(action, RunBatch):
            tasks = []
            for slot in range(action.table.slots):
                tasks.append(run_task(action, slot, base, rows))
                yield f"slot {slot} wrote"
            storage.records[batch] = commit(batch, action.following, base, tasks)
            yield "wrote the record"
            actions = manager.handle(BatchCommitted(batch))
        elif isinstance(action, PruneTables):
            for epoch in storage.tables.keys() - action.keep:
                del storage.tables[epoch]
                yield f"deleted table {epoch}"
        else:
            assert isinstance(action, ResetStatistics)
    storage.logged = batch
    yield "logged"


def run_task(action: RunBatch, slot: int, base: Record | None, rows: Sequence[Row]) -> Task:
    """What a slot does: reads its units, takes its rows, hands over what leaves."""
    table, owned, leaving = action.table, Units(), Units()
    for name in OPERATORS:
        for unit in table.owned(name, slot):
            known = {} if base is None else base.units.get((name, unit), {})
            owned[name, unit] = copy.deepcopy(known)
    for number, *keys in rows:
        for name, key in zip(OPERATORS, keys, strict=True):
            if table.slot_of(name, key) == slot:
                owned[name, table.unit_of(name, key)].setdefault(key, []).append(number)
    for move in action.moves.keys:
        if move.sender == slot and move.key in owned[move.operator, move.left]:
            state = owned[move.operator, move.left].pop(move.key)
            leaving.setdefault((move.operator, move.entered), {})[move.key] = state
    return Task(owned, leaving)


def commit(batch: int, following: int, base: Record | None, tasks: Sequence[Task]) -> Record:
    """The record of a batch; two slots that write one unit, or hand over one key, are a mistake."""
    units = Units() if base is None else copy.deepcopy(base.units)
    written: set[tuple[str, int]] = set()
    for task in tasks:
        assert not written & task.owned.keys(), "a unit has one writer"
        written |= task.owned.keys()
        units |= copy.deepcopy(task.owned)
    for task in tasks:
        for unit, keys in task.leaving.items():
            into = units.setdefault(unit, {})
            assert not into.keys() & keys.keys(), "a key is in one unit"
            into |= keys
    return Record(batch, following, units)


def check(storage: Storage, batches: Sequence[Sequence[Row]]) -> None:
    """What must hold whenever one looks: the records that may be needed are whole and are the serial run's."""
    for batch, record in storage.records.items():
        if batch < storage.logged:
            continue
        table = decode_table(storage.tables[record.following])
        found: dict[tuple[str, str], list[int]] = {}
        for (name, unit), keys in record.units.items():
            for key, taken in keys.items():
                assert (name, key) not in found, f"{key} of {name} is in two units"
                assert table.unit_of(name, key) == unit, f"{key} of {name} is in the wrong unit"
                found[name, key] = taken
        assert found == serial(batches[: batch + 1])


def serial(batches: Sequence[Sequence[Row]]) -> dict[tuple[str, str], list[int]]:
    """The state of a run without slots."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, *keys in (row for batch in batches for row in batch):
        for name, key in zip(OPERATORS, keys, strict=True):
            found.setdefault((name, key), []).append(number)
    return found


def new_table(slots: int) -> RoutingTable:
    """Hash routing, with few pin groups, so that keys share them."""
    return RoutingTable.hashed(OPERATORS, slots, groups=6)
