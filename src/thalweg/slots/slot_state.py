"""The state of a slot's engine between commits: brought to what a record names, and saved as segments behind it.

Every host that keeps a checkpoint does both by these functions, at the points between batches where nothing is on its
way in the engine. A table that is held with the tag that the record names is not read again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from thalweg.checkpoint.manifest import migrate_batch
from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import CommitRecord
from thalweg.checkpoint.segments import Segment
from thalweg.checkpoint.state_tables.table_form import arrow_schema
from thalweg.checkpoint.store import Migrate, SegmentPlace, load_buckets, save_operator
from thalweg.columns.keys import KeySpec
from thalweg.engine.build import Prepared
from thalweg.engine.contract import CHUNK_ROWS, Engine
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.serial import SerialEngine
from thalweg.engine.watermarks.gate_state import GateState, gate_facts, set_gate_facts
from thalweg.engine.watermarks.ingress import Gate
from thalweg.flow.operators.nodes import Coroutine, Keyed, Source
from thalweg.scheduling.rounds import Policy
from thalweg.slots.routes import SlotRoutes
from thalweg.slots.runner import tell_slot
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.options import Options
from thalweg.workers.step_size import STEP_ROWS

#: Tables of buckets that another slot owns now are kept up to this size an operator: slots wander between the
#: worker processes of one machine, and come back.
_ASIDE_BYTES: Final = 256 << 20

#: Gives the state of keys of an operator that are elsewhere from the next batch on, by their unit there.
Moves = Callable[[str, KeyedUnit], Mapping[int, pa.RecordBatch]]


def nothing_moves(name: str, unit: KeyedUnit) -> Mapping[int, pa.RecordBatch]:
    """All keys stay in their units."""
    return {}


@dataclasses.dataclass(slots=True)
class HeldEngine:
    """An engine with the tags of its tables; tables of buckets that another slot owns now are set aside."""

    engine: Engine
    tags: dict[tuple[str, int], str] = dataclasses.field(default_factory=dict)
    aside: dict[str, dict[int, Any]] = dataclasses.field(default_factory=dict)
    #: by gate, the batch and attempt whose rows it holds
    equals: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)


class Before(NamedTuple):
    """What a batch starts from.

    Attributes:
        fs, root: where the state is.
        record: of the batch before; None for empty state.
        defaults: by operator, the values of state fields that older files lack.
        routes: where keys and state units are in the batch.
    """

    fs: FileSystem
    root: str
    record: CommitRecord | None
    defaults: Mapping[str, Mapping[str, Any]]
    routes: SlotRoutes


class Saved(NamedTuple):
    """What a slot has saved of a batch.

    Attributes:
        segments: its files.
        gates: by source and order_by that it owns, their scalars and how many rows wait.
        keys: by operator, how many keys it has.
    """

    segments: list[Segment]
    gates: dict[str, Any]
    keys: dict[str, int]


def make_engine(
    prepared: Prepared,
    stage: int | None,
    *,
    chunk_rows: int | None,
    threads: int,
    policy: Policy | None = None,
) -> Engine:
    """An engine of a slot; threads that it has start with its first step.

    ``chunk_rows`` None: with threads as many rows a step as operators do in a moment.

    Under a policy also one thread is a worker that is sent to operators, and steps are small, so that there is
    something to choose. Where the whole flow runs in one slot, its regions have the threads that they ask for.
    """
    has_regions = stage is None and prepared.plan.regions
    if threads == 1 and policy is None and not has_regions:
        return SerialEngine(prepared, stage=stage, chunk_rows=chunk_rows or CHUNK_ROWS)
    options, rows = Options(threads=threads, policy=policy), None if policy else chunk_rows
    made = ParallelEngine(prepared, stage=stage, chunk_rows=rows, options=options)
    if chunk_rows is not None and stage is None and made.is_native:
        # For larger ones the allocator gives memory back and takes it anew, page by page, at each step.
        made.chunk_rows = min(chunk_rows, STEP_ROWS)
    return made


def owned_gates(routes: SlotRoutes, engine: Engine, slot: int) -> dict[str, Gate]:
    """The gates whose waiting rows this slot holds: all of the sources, and each order_by in one slot."""
    return {
        name: gate
        for name, gate in engine.gates.items()
        if isinstance(gate.node, Source) or routes.slot_of(gate.node) == slot
    }


def resume(held: HeldEngine, before: Before | None, slot: int, routes: SlotRoutes) -> None:
    """Makes the engine ready for a batch, with the state that the slot owns; counts start from nothing.

    Args:
        held: the engine, with nothing on its way.
        before: the state on disk; None where there is none, and the engine has it all.
        slot: which one it is.
        routes: where keys are in the batch.
    """
    if before is not None:
        _load(held, before, slot)
    held.engine.resume()
    tell_slot(held.engine, routes, slot)


def _load(held: HeldEngine, before: Before, slot: int) -> None:
    for name, unit in held.engine.keyed.items():
        route = before.routes[name]
        owned = route.owned(slot)
        if name in held.engine.by_key:
            held.engine.by_key[name].set_units(route.units, owned)
        mine = set(owned)
        aside = held.aside.setdefault(name, {})
        for bucket in [b for b in unit.tables if b not in mine]:
            aside[bucket] = unit.tables.pop(bucket)
        for bucket in [b for b in aside if b in mine]:
            unit.tables[bucket] = aside.pop(bucket)
        if sum(table.nbytes for table in aside.values()) > _ASIDE_BYTES:
            aside.clear()
        chained = before.record.chains.get(name, {}) if before.record else {}
        # A tag speaks for a table that is held; one made now is empty, whatever was here before.
        have = {b: held.tags[name, b] for b in unit.tables if (name, b) in held.tags}
        tables = {b: unit.table(b) for b in mine if b in chained or b in unit.tables}
        migrate = _migration(before, unit.node)
        loaded = load_buckets(
            before.fs, before.root, before.record, name, tables, have, migrate=migrate
        )
        held.tags.update({(name, b): one.tag for b, one in loaded.items()})
    _load_gates(held, before, slot)


def _migration(before: Before, node: Keyed | Coroutine) -> Migrate:
    """Brings rows of a node's older state files into today's form."""
    schema = arrow_schema(KeySpec(node.key.fields), node.state)
    defaults = dict(before.defaults.get(node.name, {}))
    return functools.partial(migrate_batch, schema=schema, defaults=defaults)


def _load_gates(held: HeldEngine, before: Before, slot: int) -> None:
    record = before.record
    facts = record.extra.get("gates", {}) if record else {}
    mine = owned_gates(before.routes, held.engine, slot)
    for name, gate in held.engine.gates.items():
        if name not in mine:
            # Another slot has its rows; what is left here from before a rescale must not come out.
            set_gate_facts(gate, None)
            GateState(gate).load([])
            held.equals.pop(name, None)
            continue
        set_gate_facts(gate, facts.get(name))
        if record is None or held.equals.get(name) != (record.batch, record.attempt):
            load_buckets(before.fs, before.root, record, name, {0: GateState(gate)}, {})


def save(
    held: HeldEngine,
    before: Before,
    slot: int,
    place: SegmentPlace,
    attempt: str,
    moves: Moves = nothing_moves,
) -> Saved:
    """Writes what a batch changed in the state of a slot; nothing of the batch is on its way any more.

    Args:
        held: the engine.
        before: what the batch started from.
        slot: which one it is.
        place: of the files.
        attempt: names the try of the batch, in its record.
        moves: takes out what belongs elsewhere from the next batch on.
    """
    engine = held.engine
    said = Saved([], {}, {})
    about = {"flow": engine.plan.flow}
    for name, unit in engine.keyed.items():
        migrate = _migration(before, unit.node)
        keys = [field.name for field in unit.node.key.fields]
        moved = moves(name, engine.by_key[name]) if name in engine.by_key else {}
        segment = save_operator(
            before.fs, before.root, place, name, unit.tables, before.record,
            keys=keys, metadata=about, moved=moved, migrate=migrate,
        )  # fmt: skip
        _mark_saved(held, name, unit.tables, segment)
        said.segments.append(segment)
        gone = sum(rows.num_rows for rows in moved.values())
        said.keys[name] = sum(map(len, unit.tables.values())) + gone
    for name, gate in owned_gates(before.routes, engine, slot).items():
        state = GateState(gate)
        segment = save_operator(
            before.fs, before.root, place, name, {0: state}, before.record, keys=[], metadata=about
        )
        state.mark_saved()
        held.equals[name] = (place.batch, attempt)
        said.segments.append(segment)
        said.gates[name] = {**gate_facts(gate), "waiting": len(state)}
    return said


def _mark_saved(held: HeldEngine, name: str, tables: Mapping[int, Any], segment: Segment) -> None:
    for table in tables.values():
        table.mark_saved()
    for bucket, tag in segment.tags().items():
        held.tags[name, bucket] = tag


def clocks_of(routes: SlotRoutes, engine: Engine, slot: int) -> dict[str, int]:
    """The clock of each domain of the gates that this slot owns, by the domain's number as text."""
    plan = engine.plan
    found: dict[str, int] = {}
    for gate in owned_gates(routes, engine, slot).values():
        domain = plan.domains[gate.node.index - 1]
        if domain:
            found[str(domain)] = min(found.get(str(domain), gate.watermark), gate.watermark)
    return found
