"""Plays: what sources bring, when some of them fall silent, and what follows from that, again and again."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.property import slots_kit
from tests.property.operators_kit import LANES, Recipe, SourceStep

from thalweg import testing
from thalweg.connectors import as_source, never
from thalweg.engine.build import prepare
from thalweg.engine.contract import CHUNK_ROWS, Leaving
from thalweg.engine.serial import SerialEngine
from thalweg.flow.operators.idle import IdleDecision
from thalweg.plan.plan import Plan
from thalweg.slots import SlottedEngine, Stepped
from thalweg.testing.session import states_of, without_zeros
from thalweg.times import BEFORE_ALL
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.options import Options

Inputs = dict[str, list[Any]]
#: Rows of a source from one number to another, or a decision.
Entry = tuple[str, int, int] | IdleDecision


def with_idle(recipe: Recipe, chooser: random.Random) -> Recipe:
    """The recipe with ``idle=`` at most of the sources that may have it."""
    sources = tuple(
        dataclasses.replace(
            one,
            idle=one.lateness is not None and one.lanes != "whole" and chooser.random() < 0.8,
        )
        for one in recipe.sources
    )
    return dataclasses.replace(recipe, sources=sources)


class Player:
    """An engine that takes rows and decisions, and remembers what it took."""

    def __init__(self, plan: Plan, engine: Any, inputs: Inputs) -> None:
        self.engine, self._plan, self._inputs = engine, plan, inputs
        self.script: list[Entry] = []
        self._found: dict[str, list[Any]] = {sink.name: [] for sink in plan.sinks}

    def take(self, entry: Entry, chunk_rows: int) -> None:
        """The next rows, or a decision; as hosts do, with all that follows from it."""
        if isinstance(entry, IdleDecision):
            self.script.append(entry)
            self.engine.decide(entry)
        else:
            self._feed(*entry, chunk_rows)
        self._collect(self.engine.advance())

    def _feed(self, name: str, start: int, stop: int, chunk_rows: int) -> None:
        node = next(one for one in self._plan.sources if one.name == name)
        rows = self._inputs[name][start:stop]
        for chunk, bad in as_source(name, rows).rows(node, chunk_rows, never()):
            moved = [(why, f"row {start + int(place[4:])}", text) for why, place, text in bad]
            self._collect([self.engine.feed(name, chunk, moved)])
            self._collect(self.engine.advance())
        # What follows from the rows being of idle lanes holds from before them.
        self.script += self.engine.woken
        self.engine.woken.clear()
        self.script.append((name, start, stop))

    def _collect(self, leaving: Iterator[Leaving] | list[Leaving]) -> None:
        for one in leaving:
            for edge, chunks in one.items():
                self._found[self._plan.node(edge.node).name] += chunks

    def result(self, *, end: bool) -> testing.CheckedResult:
        """All that came out, counts, and the state that is left."""
        try:
            self._collect(self.engine.advance())
            if end:
                self._collect(self.engine.finish())
            self._collect(self.engine.settle())
            sinks = {
                name: [row for chunk in chunks for row in chunk.schema.shown(chunk.rows())]
                for name, chunks in self._found.items()
            }
            return testing.CheckedResult(sinks, self._states(), without_zeros(self.engine.counts))
        finally:
            self.engine.stop()

    def _states(self) -> dict[str, dict[Any, Any]]:
        if isinstance(self.engine, SlottedEngine):
            return slots_kit.states(self.engine)
        return {
            name: states_of(unit.node, [table.snapshot() for table in unit.tables.values()])
            for name, unit in self.engine.keyed.items()
        }


def serial(plan: Plan, chooser: random.Random) -> Any:
    return SerialEngine(prepare(plan), chunk_rows=chooser.choice([1, 3, 20, CHUNK_ROWS]))


def threads(plan: Plan, chooser: random.Random) -> Any:
    options = Options(threads=chooser.randint(1, 3))
    return ParallelEngine(prepare(plan), chunk_rows=chooser.choice([1, 3, 20]), options=options)


def slots(plan: Plan, chooser: random.Random) -> Any:
    def transport(handle: Any, is_host: Any) -> Any:
        pick = chooser.randrange
        return Stepped(handle, is_host, lambda channels: pick(len(channels)), lambda: pick(60))

    most = min([3, *(node.key.buckets for node in plan.keyed)])
    count = chooser.randint(1, most)
    rows = chooser.choice([1, 3, 20])
    return SlottedEngine(prepare(plan), slots=count, chunk_rows=rows, transport=transport)


def improvised(plan: Plan, recipe: Recipe, inputs: Inputs, chooser: random.Random) -> Player:
    """Feeds the sources in turns of any length; between them some fall silent, with any time that a clock may give."""
    player = Player(plan, serial(plan, chooser), inputs)
    left = {name: 0 for name, rows in inputs.items() if rows}
    while left:
        name = chooser.choice(sorted(left))
        start = left[name]
        left[name] = stop = min(start + chooser.randint(1, 6), len(inputs[name]))
        if stop == len(inputs[name]):
            del left[name]
        rows = chooser.choice([1, 2, 5, CHUNK_ROWS])
        player.take((name, start, stop), rows)
        while chooser.random() < 0.4:
            _fall_silent(player, recipe, chooser)
    _fall_silent(player, recipe, chooser)
    return player


def _fall_silent(player: Player, recipe: Recipe, chooser: random.Random) -> None:
    """Some sources or lanes are idle from here on; of those that are already, time goes on."""
    for number, source in enumerate(recipe.sources):
        if source.idle and chooser.random() < 0.7:
            gate = player.engine.gates[f"in{number}"]
            for lane in _lanes_of(gate, source, chooser):
                top = max(gate.lanes.get(lane, BEFORE_ALL), gate.idle.get(lane, BEFORE_ALL))
                time = top if top == BEFORE_ALL else top + chooser.choice((0, 1, 4, 15))
                decision = IdleDecision(f"in{number}", lane, "idle", time, gate.arrived)
                player.take(decision, 1)


def _lanes_of(gate: Any, source: SourceStep, chooser: random.Random) -> list[Any]:
    if not source.lanes:
        return [None]
    known = list(gate.lanes) or [None] if source.lanes == "arrival" else LANES[source.lanes]
    return [lane for lane in known if chooser.random() < 0.8]


def repeated(
    plan: Plan,
    script: list[Entry],
    inputs: Inputs,
    make: Callable[[Plan, random.Random], Any],
    chooser: random.Random,
) -> Player:
    """The same rows and decisions in another engine, in other chunks: nothing is left to decide."""
    player = Player(plan, make(plan, chooser), inputs)
    for entry in script:
        player.take(entry, chooser.choice([1, 2, 5, CHUNK_ROWS]))
    assert player.script == script
    return player
