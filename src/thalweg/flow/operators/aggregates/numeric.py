"""Counts, sums, means and variances."""

from __future__ import annotations

import dataclasses
from typing import Final

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.aggregates.parts import AskedAggregate, Part, counter, flag, is_shaped
from thalweg.flow.records import Field

_NUMBERS: Final = (Kind.INT, Kind.FLOAT, Kind.BOOL)
_FLOAT: Final = FieldType(Kind.FLOAT)


def count(asked: AskedAggregate) -> Part:
    field = counter(f"{asked.name}_")
    held = f"state.{field.name}"
    return Part(
        (field,), field.type, (f"{held} += 1",), held,
        merge=(f"{held} += other.{field.name}",), retract=(f"{held} -= 1",),
    )  # fmt: skip


def need_number(asked: AskedAggregate, *, plain: bool) -> FieldType:
    """The type of the field, which must be a number; ``plain``: one that Python computes with as it is inside."""
    kind, verb = asked.kind, asked.aggregate.verb
    if is_shaped(kind, "date", "json") or (plain and is_shaped(kind)):
        if verb == "mean" and not is_shaped(kind, "json"):
            raise asked.refuse(
                f"mean gives a float, {asked.aggregate.field} is {kind}; take sum and count, and divide"
            )
        raise asked.refuse(f"{verb} cannot compute with {asked.aggregate.field}, which is {kind}")
    if kind.kind not in _NUMBERS:
        raise asked.refuse(
            f"{verb} needs a number, {asked.row.name}.{asked.aggregate.field} is {kind}"
        )
    return kind


def sum(asked: AskedAggregate) -> Part:
    kind, name = need_number(asked, plain=False), asked.name
    total = FieldType(Kind.FLOAT if kind.kind is Kind.FLOAT else Kind.INT)
    field = Field(f"{name}_", total, 0.0 if total.kind is Kind.FLOAT else 0)
    total = dataclasses.replace(total, shape=kind.shape)
    held, take = f"state.{name}_", f"state.{name}_ += {asked.given}"
    merge = f"{held} += other.{name}_"
    if not asked.may_lack:
        is_exact = total.kind is Kind.INT
        retract = (f"{held} -= {asked.given}",) if is_exact else ()
        return Part((field,), total, (take,), held, merge=(merge,), retract=retract)
    return Part(
        (field, flag(f"{name}_seen")),
        dataclasses.replace(total, optional=True),
        (take, f"state.{name}_seen = True"),
        f"{held} if state.{name}_seen else None",
        merge=(merge, f"state.{name}_seen = state.{name}_seen or other.{name}_seen"),
    )


def mean(asked: AskedAggregate) -> Part:
    need_number(asked, plain=True)
    total, seen = f"{asked.name}_sum", f"{asked.name}_n"
    value = f"state.{total} / state.{seen}"
    return Part(
        (Field(total, _FLOAT, 0.0), counter(seen)),
        FieldType(Kind.FLOAT, asked.may_lack),
        (f"state.{total} += {asked.given}", f"state.{seen} += 1"),
        f"{value} if state.{seen} else None" if asked.may_lack else value,
        merge=(f"state.{total} += other.{total}", f"state.{seen} += other.{seen}"),
    )


def variance(asked: AskedAggregate) -> Part:
    """Welford's update, and the merge of Chan, Golub and LeVeque: no sum of squares, which cancels."""
    need_number(asked, plain=True)
    name, of_all = asked.name, asked.aggregate.population
    n, mid, off = f"state.{name}_n", f"state.{name}_mid", f"state.{name}_off"
    more, step = f"other.{name}_n", f"step_of_{name}"
    spread = f"{off} / {n}" if of_all else f"{off} / ({n} - 1)"
    spread = f"math.sqrt({spread})" if asked.aggregate.verb == "stddev" else spread
    may_lack = asked.may_lack or not of_all
    least = 0 if of_all else 1
    return Part(
        (counter(f"{name}_n"), Field(f"{name}_mid", _FLOAT, 0.0), Field(f"{name}_off", _FLOAT, 0.0)),
        FieldType(Kind.FLOAT, may_lack),
        (
            f"{n} += 1",
            f"{step} = {asked.given} - {mid}",
            f"{mid} += {step} / {n}",
            f"{off} += {step} * ({asked.given} - {mid})",
        ),
        f"{spread} if {n} > {least} else None" if may_lack else spread,
        merge=(
            f"if {more} > 0:",
            f"    {step} = other.{name}_mid - {mid}",
            f"    {off} += other.{name}_off + {step} * {step} * ({n} / ({n} + {more})) * {more}",
            f"    {mid} += {step} * ({more} / ({n} + {more}))",
            f"    {n} += {more}",
        ),
    )  # fmt: skip
