"""Random states, random migrations: a durable run before and after gives what plain Python gives, key by key."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.embedded.durable import reading


class Row(NamedTuple):
    key: str | None
    n: int


class Out(NamedTuple):
    key: str | None
    text: str


#: By type: what a field begins with, what a row makes of it, and what another type has of it.
FIELDS: dict[str, tuple[Any, Any, Callable[[Any, Row], Any]]] = {
    "int": (int, 0, lambda value, row: value + row.n),
    "float": (float, -0.0, lambda value, row: value * 0.5 + row.n),
    "str": (str, "", lambda value, row: (value + f"{row.n % 7}é")[-9:]),
    "bool": (bool, False, lambda value, row: not value),
    "maybe": (int | None, None, lambda value, row: None if row.n % 3 else row.n),
    "list": (list[int], [], lambda value, row: [*value, row.n][-3:]),
    "dict": (dict[str, int], {}, lambda value, row: {**value, str(row.n % 2): row.n}),
}


class Shape(NamedTuple):
    """The fields of a state: name and kind."""

    fields: tuple[tuple[str, str], ...]

    def made(self, migrate: Any = None) -> Any:
        names = dict(self.fields)
        body: dict[str, Any] = {"__annotations__": {n: FIELDS[k][0] for n, k in names.items()}}
        cls = type("State", (), {**body, **{n: FIELDS[k][1] for n, k in names.items()}})
        return tw.state(cls) if migrate is None else tw.state(migrate=migrate)(cls)

    def step(self, state: dict[str, Any], row: Row) -> str:
        for name, kind in self.fields:
            state[name] = FIELDS[kind][2](state[name], row)
        return shown(state)

    @property
    def fresh(self) -> dict[str, Any]:
        return {name: FIELDS[kind][1] for name, kind in self.fields}


def shown(state: dict[str, Any]) -> str:
    return repr(sorted(state.items()))


def random_shape(chooser: random.Random, names: str) -> Shape:
    chosen = chooser.sample(names, chooser.randint(1, len(names)))
    return Shape(tuple((name, chooser.choice(list(FIELDS))) for name in chosen))


def random_migration(chooser: random.Random, old: Shape, new: Shape) -> Callable[[Any], Any]:
    """Of each new field what some old one says, brought into its type."""
    sources = {name: chooser.choice(old.fields)[0] for name, _ in new.fields}
    drops = chooser.random() < 0.2

    def migrated(state: dict[str, Any]) -> dict[str, Any] | None:
        found = {name: _brought(kind, state[sources[name]]) for name, kind in new.fields}
        return None if drops and len(repr(state)) % 3 == 0 else found

    return migrated


def _brought(kind: str, value: Any) -> Any:
    number = len(repr(value))
    return {
        "int": number, "float": number / 4, "str": repr(value)[:5], "bool": number % 2 == 0,
        "maybe": None if number % 2 else number, "list": [number, -1], "dict": {repr(value): number},
    }[kind]  # fmt: skip


def flow_of(shape: Shape, cls: Any, by: bool) -> tw.Flow:
    def step(state: Any, row: Row) -> Out:
        values = {name: getattr(state, name) for name, _ in shape.fields}
        text = shape.step(values, row)
        for name, value in values.items():
            setattr(state, name, value)
        return Out(row.key, text)

    flow = tw.Flow("evolving", compile="never")
    rows: Any = flow.source("rows", Row)
    keyed = rows.key_by("key") if by else rows
    keyed.process(step, state=cls, name="state").sink("out")
    return flow


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
)
def test_random_migrations(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three shapes one after the other, over several batches each: all outputs are those of a loop in Python."""
    chooser = random.Random(seed)
    for number in range(2):
        by = chooser.random() < 0.8
        keys = [None, "", "a", "é", *(str(i) for i in range(chooser.choice((0, 4, 60))))]
        rows = [Row(chooser.choice(keys), chooser.randint(-99, 99)) for _ in range(150)]
        shapes = [random_shape(chooser, "abcd") for _ in range(3)]
        states: dict[Any, dict[str, Any]] = {}
        done = 0
        for place, shape in enumerate(shapes):
            migrate = random_migration(chooser, shapes[place - 1], shape) if place else None
            cls = shape.made(migrate and _for_users(migrate, here := []))
            if migrate is not None:
                here.append(cls)
            if migrate is not None and shape.fields != shapes[place - 1].fields:
                kept = {key: migrate(state) for key, state in states.items()}
                states = {key: state for key, state in kept.items() if state is not None}
            upto = done + chooser.randint(20, 50)
            monkeypatch.setattr(reading, "ROUND_ROWS", chooser.choice((7, 16, 100)))
            result = tw.run(
                flow_of(shape, cls, by), {"rows": rows[:upto]}, checkpoint=tmp_path / str(number),
                end="keep", every=0, threads=chooser.choice((1, 2)),
            )  # fmt: skip
            expected = []
            for row in rows[done:upto]:
                state = states.setdefault(row.key if by else None, shape.fresh)
                expected.append(Out(row.key, shape.step(state, row)))
            assert result.rows("out") == expected, (seed, number, place)
            done = upto


def _for_users(migrate: Callable[[Any], Any], classes: list[Any]) -> Callable[[Any], Any]:
    """As the user writes it: a state, or one that is dropped."""

    def made(old: Any) -> Any:
        found = migrate(dict(old))
        if found is not None:
            return found
        state = classes[0]()
        tw.drop(state)
        return state

    return made
