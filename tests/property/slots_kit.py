"""A flow in several slots that exchange messages in any order, reconfigured at random while rows pass."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg import testing
from thalweg.columns.chunks import Chunk
from thalweg.connectors import as_source, never
from thalweg.engine.build import Prepared, prepare
from thalweg.engine.contract import Leaving
from thalweg.flow.flow import Flow
from thalweg.locality import Assignment, Online, Report, RoutingTable, Statistics, keyed_operators
from thalweg.locality.links import foreseen_links
from thalweg.plan.plan import Plan, make_plan
from thalweg.slots import Placer, SlottedEngine, Stepped, Threads
from thalweg.slots.new_keys import NewKeysOfSteps
from thalweg.testing.session import not_compiled

#: The most slots.
SLOTS = 4


def interpreted(flow: Flow) -> Plan:
    """The plan with nothing compiled."""
    plan = make_plan(flow)
    return dataclasses.replace(plan, nodes=tuple(map(not_compiled, plan.nodes)))


def random_table(
    chooser: random.Random, counted: Statistics | None, table: RoutingTable
) -> RoutingTable:
    """Another number of slots, and any places for some of the keys that came and all buckets."""
    epoch = table.epoch + 1
    most = min(SLOTS, max((len(one.buckets) for one in table.operators.values()), default=SLOTS))
    if chooser.random() < 0.6:
        table = table.rescaled(chooser.randint(1, most))
    if chooser.random() < 0.3:
        return dataclasses.replace(table, epoch=epoch)
    loads_of = {} if counted is None else counted.loads
    keys = {
        (name, one.key): chooser.randrange(table.slots)
        for name, loads in loads_of.items()
        for one in loads.keys
        if chooser.random() < 0.5
    }
    buckets = {
        name: tuple(
            owner if chooser.random() < 0.7 else chooser.randrange(table.slots)
            for owner in routes.buckets
        )
        for name, routes in table.operators.items()
    }
    return table.assigned(
        Assignment(table.slots, keys, buckets, Report(1.0, {}, 1.03)), epoch=epoch
    )


class AnyTable:
    """In front of some steps another table, whatever their rows are."""

    def __init__(self, chooser: random.Random) -> None:
        self._chooser = chooser

    def look(self, leaving: Leaving) -> bool:
        return self._chooser.random() < 0.3

    def table(self, table: RoutingTable) -> RoutingTable | None:
        if self._chooser.random() < 0.2:
            return None
        return random_table(self._chooser, None, table)


def placer(prepared: Prepared, chooser: random.Random) -> Placer:
    """That of new keys, with room for a few or for all, where the flow has any that can be placed."""
    links, _ = foreseen_links(prepared.plan)
    if not links or chooser.random() < 0.3:
        return AnyTable(chooser)
    return NewKeysOfSteps(prepared, pins=chooser.choice([3, 1_000]))


@dataclasses.dataclass
class Ran:
    """What a run gave, how many reconfigurations took hold, and what was counted behind the last."""

    result: testing.CheckedResult
    epochs: int
    counted: Statistics | None


def run(
    plan: Plan,
    inputs: Mapping[str, Sequence[Any]],
    chooser: random.Random,
    *,
    threads: bool = False,
    chunk_rows: int = 3,
    cut: Callable[[random.Random, int], list[int]] = testing.random_cuts,
    often: float = 0.5,
    places: bool = False,
) -> Ran:
    """Runs a flow to its end, reconfigured between steps as often as can be.

    Args:
        places: whether new keys are placed in the steps that bring them, too.
    """

    def transport(handle: Any, is_host: Any) -> Any:
        if threads:
            return Threads(handle, is_host)
        return Stepped(
            handle,
            is_host,
            lambda channels: chooser.randrange(len(channels)),
            lambda: chooser.randrange(60),
        )

    operators = keyed_operators(plan)
    most = min(SLOTS, max((count for _, count in operators.values()), default=SLOTS))
    prepared = prepare(plan)
    engine = SlottedEngine(
        prepared, slots=chooser.randint(1, most), chunk_rows=chunk_rows, recent=Online().recent_counts(),
        placer=placer(prepared, chooser) if places else None, transport=transport,
    )  # fmt: skip
    found: dict[str, list[Chunk]] = {sink.name: [] for sink in plan.sinks}

    def collect(leaving: Any) -> None:
        for edge, chunks in leaving.items():
            found[plan.node(edge.node).name] += chunks

    def decide(counted: Statistics | None, table: RoutingTable) -> RoutingTable:
        return random_table(chooser, counted, table)

    try:
        parts = {name: [0, *cut(chooser, len(rows)), len(rows)] for name, rows in inputs.items()}
        for turn in range(max(map(len, parts.values())) - 1):
            for source in plan.sources:
                ends = parts[source.name]
                if turn + 1 >= len(ends):
                    continue
                rows = inputs[source.name][ends[turn] : ends[turn + 1]]
                for chunk, bad in as_source(source.name, rows).rows(source, chunk_rows, never()):
                    if chooser.random() < often:
                        engine.reconfigure(decide)
                    collect(engine.feed(source.name, chunk, bad))
                    for leaving in engine.advance():
                        collect(leaving)
        for leaving in engine.finish():
            collect(leaving)
        counted = last_counts(engine)
    finally:
        engine.stop()
    sinks = {
        name: [row for chunk in chunks for row in chunk.rows()] for name, chunks in found.items()
    }
    counts = {
        name: {what: n for what, n in mine.items() if n} for name, mine in engine.counts.items()
    }
    return Ran(
        testing.CheckedResult(sinks, states(engine), {k: v for k, v in counts.items() if v}),
        engine.table.epoch,
        counted,
    )


def last_counts(engine: SlottedEngine) -> Statistics | None:
    """What the slots have counted; None where a reconfiguration waits for a step that does not come."""
    told: list[Statistics | None] = []

    def decide(counted: Statistics | None, table: RoutingTable) -> None:
        told.append(counted)

    for _ in range(100):
        engine.reconfigure(decide)
        list(engine.settle())
    return told[0] if told else None


def states(engine: SlottedEngine) -> dict[str, dict[Any, Any]]:
    """The state of each key; a key that is in two slots, or not where the table says, is a mistake."""
    found: dict[str, dict[Any, Any]] = {}
    for place, stage in engine.places.items():
        for name, unit in stage.engine.keyed.items():
            mine = found.setdefault(name, {})
            batches = [table.snapshot() for table in unit.tables.values()]
            for key, state in testing.states_of(unit.node, batches).items():
                assert key not in mine, f"{key!r} of {name} is in two slots"
                mine[key] = state
                routes = engine.table.operators.get(name)
                if routes is not None:
                    assert engine.table.slot_of(name, key) == place.slot
    return found
