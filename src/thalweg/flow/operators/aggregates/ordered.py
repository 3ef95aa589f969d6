"""Aggregates that pick a row or a value: the least, the greatest, the first, the last, the best ``k``.

NaN is greater than every number; of equal rows the first one wins.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.aggregates.parts import (
    AskedAggregate,
    Part,
    flag,
    guarded,
    holder,
    is_shaped,
    whole_row,
)
from thalweg.flow.records import Field


def need_order(asked: AskedAggregate, field: str) -> FieldType:
    """The type of a field whose values are compared."""
    kind = asked.row.field(field).type
    if kind.kind in (Kind.LIST, Kind.RECORD):
        raise asked.refuse(
            f"{asked.aggregate.verb} cannot compare {asked.row.name}.{field}, which is {kind}"
        )
    if is_shaped(kind, "json"):
        raise asked.refuse(f"{asked.aggregate.verb} cannot compute with {field}, which is {kind}")
    return kind


def _better(kind: FieldType, given: str, held: str, *, least: bool) -> str:
    """The test that a value comes before the one that is held."""
    better, greater = (f"{given} < {held}", held) if least else (f"{given} > {held}", given)
    return f"{better} or {greater} != {greater}" if kind.kind is Kind.FLOAT else better


def extreme(asked: AskedAggregate) -> Part:
    """The least or the greatest value; 0.0 for -0.0, so that it does not depend on the order of the rows."""
    kind, name = need_order(asked, str(asked.aggregate.field)), asked.name
    least = asked.aggregate.verb == "min"
    plain = dataclasses.replace(kind, optional=False)
    held, seen = f"state.{name}_", f"state.{name}_seen"
    text = f"{held} + 0.0" if kind.kind is Kind.FLOAT else held

    def take(given: str, also: str = "") -> tuple[str, ...]:
        test = f"not {seen} or {_better(kind, given, held, least=least)}"
        return (
            f"if {f'{also} and ({test})' if also else test}:",
            f"    {held} = {given}",
            f"    {seen} = True",
        )

    return Part(
        (holder(f"{name}_", plain), flag(f"{name}_seen")),
        dataclasses.replace(kind, optional=asked.may_lack),
        take(asked.given),
        f"{text} if {seen} else None" if asked.may_lack else text,
        merge=take(f"other.{name}_", f"other.{name}_seen"),
    )


def _picked(asked: AskedAggregate) -> Picked:
    """What is kept of a row: a field, or all of it, field by field."""
    name, row, field = asked.name, asked.row, asked.aggregate.field
    if field is not None:
        kind = asked.kind
        return Picked(kind, (f"{name}_",), (holder(f"{name}_", kind),), (field,))
    names = tuple(f"{name}_row_{one}" for one in row.names)
    held = [holder(at, one.type) for at, one in zip(names, row.fields, strict=True)]
    return Picked(FieldType(Kind.RECORD, record=row), names, tuple(held), row.names)


class Picked(NamedTuple):
    """Fields of a row, and those of the state that hold them."""

    kind: FieldType
    names: tuple[str, ...]
    held: tuple[Field, ...]
    reads: tuple[str, ...]

    def take(self, source: str) -> list[str]:
        """Lines that take over the fields of a row, or of another state."""
        fields = self.reads if source == "row" else self.names
        return [
            f"state.{held} = {source}.{field}"
            for held, field in zip(self.names, fields, strict=True)
        ]

    def result(self, name: str, seen: str) -> dict[str, Any]:
        """What the result is; ``seen`` is the test that there is one, empty where there always is."""
        kind = dataclasses.replace(self.kind, optional=self.kind.optional or bool(seen))
        if self.names == (f"{name}_",):
            value = f"state.{name}_"
            guarded = seen and not self.kind.optional
            return {"result": kind, "value": f"{value} if {seen} else None" if guarded else value}
        flat = [Field(one.name, one.type) for one in self.held]
        values = [f"state.{one}" for one in self.names]
        if seen:
            flat.append(Field(f"{name}_row", FieldType(Kind.BOOL)))
            values.append(seen)
        return {"result": kind, "value": "", "flat": tuple(flat), "values": tuple(values)}


def edge(asked: AskedAggregate) -> Part:
    """The first or the last value, or row."""
    picked, first = _picked(asked), asked.aggregate.verb == "first"
    seen = f"state.{asked.name}_seen"

    def take(source: str, also: str = "") -> tuple[str, ...]:
        tests = [*([also] if also else []), *([f"not {seen}"] if first else [])]
        return tuple(guarded(" and ".join(tests), [*picked.take(source), f"{seen} = True"]))

    return Part(
        (*picked.held, flag(f"{asked.name}_seen")),
        update=take("row"),
        merge=take("other", f"other.{asked.name}_seen"),
        reads=picked.reads,
        **picked.result(asked.name, seen if asked.may_lack else ""),
    )


def by_extreme(asked: AskedAggregate) -> Part:
    """A field of the row, or the row, whose value in another field is the least or the greatest."""
    picked, by_name, name = _picked(asked), str(asked.aggregate.by), asked.name
    by, least = need_order(asked, by_name), asked.aggregate.verb == "min_by"
    best, seen = f"state.{name}_by", f"state.{name}_seen"

    def take(source: str, given: str, also: str = "") -> tuple[str, ...]:
        test = f"not {seen} or {_strictly(by, given, best, least=least)}"
        lines = [*picked.take(source), f"{best} = {given}", f"{seen} = True"]
        return tuple(guarded(f"{also} and ({test})" if also else test, lines))

    may_lack = by.optional or asked.aggregate.where is not None
    return Part(
        (
            *picked.held,
            holder(f"{name}_by", dataclasses.replace(by, optional=False)),
            flag(f"{name}_seen"),
        ),
        update=take("row", f"row.{by_name}"),
        present=f"row.{by_name} is not None" if by.optional else "",
        merge=take("other", f"other.{name}_by", f"other.{name}_seen"),
        reads=tuple(dict.fromkeys((*picked.reads, by_name))),
        **picked.result(name, seen if may_lack else ""),
    )


def _strictly(kind: FieldType, given: str, held: str, *, least: bool) -> str:
    """As :func:`_better`, but of two NaN none comes before the other."""
    test = _better(kind, given, held, least=least)
    if kind.kind is not Kind.FLOAT:
        return test
    plain, greater, other = (
        (f"{given} < {held}", held, given) if least else (f"{given} > {held}", given, held)
    )
    return f"{plain} or ({greater} != {greater} and {other} == {other})"


def top_k(asked: AskedAggregate) -> Part:
    """The best ``k`` rows, best first; with ties all that are as good as the last of them."""
    name, field, k = asked.name, str(asked.aggregate.field), asked.aggregate.k
    kind = need_order(asked, field)
    held = FieldType(Kind.LIST, item=FieldType(Kind.RECORD, record=asked.row))
    rows, place = f"state.{name}_", f"place_of_{name}"
    worst = f"{rows}[len({rows}) - 1].{field}"
    above = _strictly(kind, asked.given, f"{rows}[{place} - 1].{field}", least=False)
    take = (
        f"{place} = len({rows})",
        f"while {place} > 0 and ({above}):",
        f"    {place} -= 1",
        f"{rows}.insert({place}, {whole_row(asked.row)})",
        *(_with_ties(rows, field, k, kind) if asked.aggregate.ties else (f"del {rows}[{k}:]",)),
    )
    below = f"{asked.given} < {worst}" if asked.aggregate.ties else f"{asked.given} <= {worst}"
    update = (f"if len({rows}) < {k} or not {below}:", *(f"    {line}" for line in take))
    return Part((Field(f"{name}_", held, []),), held, update, rows, reads=asked.row.names)


def _with_ties(rows: str, field: str, k: int, kind: FieldType) -> tuple[str, ...]:
    """Lines that drop the rows behind the k-th that are worse than it."""
    kth, last = f"{rows}[{k - 1}].{field}", f"{rows}[len({rows}) - 1].{field}"
    differ = f"{last} != {kth}"
    if kind.kind is Kind.FLOAT:
        differ += f" and ({last} == {last} or {kth} == {kth})"
    return (f"while len({rows}) > {k} and {differ}:", f"    {rows}.pop()")


def reads_of(asked: AskedAggregate) -> tuple[str, ...]:
    """The fields that an aggregate reads: the named one, or all."""
    return asked.row.names if asked.aggregate.field is None else (asked.aggregate.field,)
