"""What the verbs over several streams have in common: how rows are combined, keys, event time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from thalweg.checks import refuse, require_text
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.operators.arguments import Duration, span
from thalweg.flow.operators.functions import Function, returns_of
from thalweg.flow.operators.generated import make_functions, spare_name
from thalweg.flow.operators.joining.join_nodes import How, JoinSide, OfPair
from thalweg.flow.operators.joining.joins import Combiner
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.records import Field, Schema
from thalweg.flow.stateless import StatelessVerbs

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream


def require_stream(label: str, **given: Any) -> Any:
    """The argument, which is a stream.

    Raises:
        BuildError: it is none.
    """
    for name, one in given.items():
        if not isinstance(one, StatelessVerbs):  # which streams have, and nothing else
            raise refuse(label, name, "a stream", one)
    return next(iter(given.values()))


def event_time(label: str, *streams: Stream[Any]) -> FieldType:
    for one in streams:
        if one.time is None:
            raise BuildError(
                f"{label} works by event time, but a stream has none; give its source order_by"
            )
    time = streams[0].time
    assert time is not None
    return time


def check_order(name: str, left: Stream[Any], right: Stream[Any]) -> None:
    """Checks that rows of both have an order in common.

    Raises:
        BuildError: they have none.
    """
    label = f"operator {name!r}"
    if left.flow is not right.flow:
        raise BuildError(f"{label} reads 'other' from another flow: {right.flow!r}")
    for one in (left, right):
        if one.own is not None:
            raise one.own.refuse(name, "a join needs a total order of its rows")
    if left.time != right.time:
        raise BuildError(
            f"{label}: the left has {left.time} as event time and the right has {right.time}, so their rows have no"
            " common order; give both sources an order_by of the same type"
        )


def not_negative(time: FieldType, value: Duration, where: str) -> int:
    length = span(time, value, where)
    if length < 0:
        raise BuildError(f"{where} must not be negative, got {value!r}")
    return length


def combining_rows(
    name: str,
    streams: Sequence[Stream[Any]],
    function: Any,
    into: Any,
    record: Schema,
    places: tuple[tuple[int, ...], ...] | None = None,
    instead: tuple[tuple[int, int], ...] = (),
) -> tuple[Combiner, Schema, Function | None]:
    """How rows are combined, the record that it gives (``record`` without a function), and the user's function."""
    records = tuple(one.schema for one in streams)
    if function is None:
        if into is not None:
            raise BuildError(
                f"operator {name!r}: into is the record of a function, and combine is none"
            )
        return Combiner(records, None, places, instead), record, None
    made = Function.of(function, name, argument="combine")
    check_takes(made, name, {f"row{i}": record for i, record in enumerate(records)})
    returns = returns_of(made, name, into, may_be_nothing=False)
    if returns.many:
        raise BuildError(
            f"operator {name!r}: {made.where} gives several records; a join gives one record for each pair, or None"
        )
    assert returns.schema is not None
    adapter = Adapter(tuple(one.whole for one in records), returns.schema.whole)
    return Combiner(records, adapter(function)), returns.schema, made


def of_pair(name: str, combine: Combiner, *, may_lack: bool = False) -> OfPair | None:
    """The user's function as one of a row with the fields of both; None without a function.

    Where the right may lack, a field between those of both says if it is there.
    """
    if combine.function is None:
        return None
    lefts, rights = (
        [Field(f"{side}{i}", field.type) for i, field in enumerate(record.fields)]
        for side, record in zip("ab", combine.records, strict=True)
    )
    has = [Field("has", FieldType(Kind.BOOL))] if may_lack else []
    rights = [_nullable(field, optional=may_lack) for field in rights]
    record = Schema.make_record("Pair", [*lefts, *has, *rights])
    left, right = (", ".join(f"row.{field.name}" for field in side) for side in (lefts, rights))
    other = f"RIGHT({right})" + (" if row.has else None" if may_lack else "")
    text = f"def combined(row):\n    return CALL(LEFT({left}), {other})\n"
    scope = {
        "LEFT": combine.records[0].cls,
        "RIGHT": combine.records[1].cls,
        "CALL": combine.function,
    }
    made = make_functions(name, text, scope)["combined"]
    return OfPair(record, Function.of(made, name))


def nested(streams: Mapping[str, Stream[Any]]) -> Schema:
    fields = [
        Field(name, FieldType(Kind.RECORD, record=one.schema)) for name, one in streams.items()
    ]
    return Schema.make_record("Rows", fields)


def reach_of(
    label: str,
    time: FieldType,
    within: Duration | None,
    before: Duration | None,
    after: Duration | None,
) -> tuple[int, int]:
    """How much later than a row of the left, and of the right, one of the other side may be.

    Raises:
        BuildError: it is said twice, or not at all.
    """
    if (within is None) == (before is None and after is None):
        raise BuildError(
            f"{label}: give within=, or before= and after=: how much earlier and later than the left's row the right's"
            f" may be; got within={within!r}, before={before!r}, after={after!r}"
        )
    if within is not None:
        return (not_negative(time, within, f"{label}: within"),) * 2
    lengths = [
        0 if one is None else not_negative(time, one, f"{label}: {name}")
        for name, one in (("after", after), ("before", before))
    ]
    return lengths[0], lengths[1]


class Flat(NamedTuple):
    """What a join without a function puts out: fields of both sides, and their record (see ``Combiner``)."""

    places: tuple[tuple[int, ...], ...]
    instead: tuple[tuple[int, int], ...]
    record: Schema


def flat(left: Schema, right: Schema, pairs: Sequence[tuple[str, str]], how: How) -> Flat:
    """The left's fields, then the right's without its key; of a side whose rows may be missing they may be null.

    The key's fields hold the key of the side that is there.
    """
    others = dict(pairs)
    may_lack = {"left": how in ("right", "outer"), "right": how in ("left", "outer")}
    fields = []
    for field in left.fields:
        optional = field.type.optional or (
            right.field(others[field.name]).type.optional if field.name in others else True
        )
        fields.append(_nullable(field, optional=may_lack["left"] and optional))
    places = [i for i, field in enumerate(right.fields) if field.name not in others.values()]
    for place in places:
        field, taken = right.fields[place], [one.name for one in fields]
        name = spare_name(f"{field.name}_right", taken) if field.name in taken else field.name
        fields.append(_nullable(Field(name, field.type), optional=may_lack["right"]))
    instead = tuple((left.index(mine), right.index(theirs)) for mine, theirs in pairs)
    kept = (tuple(range(len(left.fields))), tuple(places))
    return Flat(kept, instead, Schema.make_record("Joined", fields))


def _nullable(field: Field, *, optional: bool) -> Field:
    if not optional or field.type.optional:
        return field
    return Field(field.name, dataclasses.replace(field.type, optional=True))


def key_pairs(label: str, on: str | Sequence[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    if isinstance(on, Mapping):
        pairs = list(on.items())
    elif isinstance(on, str | Sequence):
        pairs = [(name, name) for name in ([on] if isinstance(on, str) else on)]
    else:
        raise refuse(
            label,
            "on",
            "a field, a list of fields, or a dict of the left's fields to the right's",
            on,
        )
    for pair in pairs:
        for name in pair:
            require_text(label, on=name)
    return pairs


def check_key(label: str, left: Field, right: Field) -> None:
    if left.type.kind in (Kind.LIST, Kind.RECORD) or left.type.kind is not right.type.kind:
        raise BuildError(
            f"{label}: on: {left.name} is {left.type} and {right.name} is {right.type};"
            " a key is a plain value, of one type on both sides"
        )


class TaggedRows(NamedTuple):
    """How the rows of both sides of a join become rows of one record (``operators.built_in.Tag``)."""

    record: Schema
    key: tuple[Field, ...]
    sides: tuple[JoinSide, JoinSide]


def tagged_rows(
    label: str,
    left: Schema,
    right: Schema,
    time: FieldType,
    pairs: Sequence[tuple[str, str]],
    reach: tuple[int, int],
    how: How,
) -> TaggedRows:
    """The record of both sides: the side, the event time, the key, and the fields of either side, which may be null.

    Raises:
        BuildError: a key's fields are not of one plain type on both sides.
    """
    for mine, theirs in pairs:
        check_key(label, left.field(mine), right.field(theirs))
    fields: list[Field] = []

    def add(name: str, kind: FieldType, *, optional: bool) -> Field:
        spare = spare_name(name, [one.name for one in fields])
        fields.append(Field(spare, dataclasses.replace(kind, optional=optional)))
        return fields[-1]

    # The key's fields keep their names: who looks at the state sees them.
    names = [mine for mine, _ in pairs]
    add(spare_name("is_right", names), FieldType(Kind.BOOL), optional=False)
    add(spare_name("event_time", names), time, optional=False)
    key = [
        add(mine, kind, optional=kind.optional or right.field(theirs).type.optional)
        for mine, theirs in pairs
        for kind in [left.field(mine).type]
    ]
    sides = []
    for record, places in ((left, 0), (right, 1)):
        held = [*record.fields, Field(spare_name("event_time", record.names), time)]
        keeps = how in (("left", "outer"), ("right", "outer"))[places]
        if keeps:
            met = spare_name("matched", [field.name for field in held])
            held.append(Field(met, FieldType(Kind.BOOL)))
        keys = tuple(record.index(pair[places]) for pair in pairs)
        sides.append(
            JoinSide(Schema.make_record("Held", held), len(fields), keys, reach[places], keeps)
        )
        for field in record.fields:
            add(field.name, field.type, optional=True)
    return TaggedRows(Schema.make_record("Tagged", fields), tuple(key), (sides[0], sides[1]))
