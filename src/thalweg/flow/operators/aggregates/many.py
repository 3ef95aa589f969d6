"""Aggregates whose state is many values: lists of values, and counts of distinct ones."""

from __future__ import annotations

import dataclasses
from typing import Final

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.aggregates.ordered import reads_of
from thalweg.flow.operators.aggregates.parts import (
    AskedAggregate,
    Part,
    counter,
    is_shaped,
    whole_row,
)
from thalweg.flow.records import Field, Schema

_KEYS: Final = {
    Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.STR, Kind.BYTES, Kind.TIMESTAMP, Kind.CATEGORY,
}  # fmt: skip


def collect(asked: AskedAggregate) -> Part:
    """The last so many values, or rows, as a list."""
    name, field, most = asked.name, asked.aggregate.field, asked.aggregate.k
    item = FieldType(Kind.RECORD, record=asked.row)
    if field is not None:
        item = dataclasses.replace(asked.kind, optional=False)
    held = FieldType(Kind.LIST, item=item)
    values, number = f"state.{name}_", f"state.{name}_n"
    given = whole_row(asked.row) if field is None else asked.given
    return Part(
        (Field(f"{name}_", held, []), counter(f"{name}_n")),
        held,
        (
            f"{values}.append({given})",
            f"if len({values}) > {most}:",
            f"    del {values}[0]",
            f"{number} += 1",
        ),
        f"list({values})",
        present=asked.present,
        # The oldest row is in the list only where none was left out.
        retract=(f"{number} -= 1", f"if {number} < len({values}):", f"    del {values}[0]"),
        reads=reads_of(asked),
    )


def count_distinct(asked: AskedAggregate) -> Part:
    """How many values differ: one NaN, and 0.0 for -0.0, as in keys. A dict says how often each is there."""
    kind, name = asked.kind, asked.name
    if kind.kind not in _KEYS or is_shaped(kind, "json"):
        raise asked.refuse(
            f"count_distinct cannot compare {asked.aggregate.field}, which is {kind}"
        )
    plain = dataclasses.replace(kind, optional=False, shape=None)
    entry = Schema.make_record("Entry", [Field("key", plain), Field("value", FieldType(Kind.INT))])
    seen = FieldType(Kind.LIST, item=FieldType(Kind.RECORD, record=entry), form="dict")
    held, given, times = f"state.{name}_", asked.given, f"times_of_{name}"
    is_float = kind.kind is Kind.FLOAT
    value = f"{given} + 0.0" if is_float else given
    put = [f"{held}[{value}] = {held}.get({value}, 0) + 1"]
    take_out = [
        f"{times} = {held}[{value}] - 1",
        f"if {times} > 0:",
        f"    {held}[{value}] = {times}",
        "else:",
        f"    del {held}[{value}]",
    ]
    nans = f"state.{name}_nan"
    if is_float:
        put = _unless_nan(given, f"{nans} += 1", put)
        take_out = _unless_nan(given, f"{nans} -= 1", take_out)
    text = f"len({held})"
    return Part(
        (Field(f"{name}_", seen, []), *([counter(f"{name}_nan")] if is_float else [])),
        FieldType(Kind.INT),
        tuple(put),
        f"{text} + (1 if {nans} > 0 else 0)" if is_float else text,
        present=asked.present,
        retract=tuple(take_out),
        reads=reads_of(asked),
    )


def _unless_nan(given: str, of_nan: str, lines: list[str]) -> list[str]:
    return [f"if {given} != {given}:", f"    {of_nan}", "else:", *(f"    {one}" for one in lines)]
