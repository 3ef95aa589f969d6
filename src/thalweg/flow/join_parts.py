"""What the verbs over several streams have in common: how rows are combined, keys, event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thalweg.checks import refuse, require_text
from thalweg.errors import BuildError
from thalweg.flow.field_types import FieldType, Kind
from thalweg.flow.operators.arguments import Duration, span
from thalweg.flow.operators.functions import Function, check_parameters, returns_of
from thalweg.flow.operators.joins import Combiner
from thalweg.flow.operators.nodes import OfPair
from thalweg.flow.operators.windows import make_functions, spare_name
from thalweg.flow.records import Field, Schema
from thalweg.flow.user_rows import Adapter

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream


def require_stream(label: str, **given: Any) -> Any:
    """The argument, which is a stream.

    Raises:
        BuildError: it is none.
    """
    # Here, since streams are made of the verbs that ask.
    from thalweg.flow.streams import Stream

    for name, one in given.items():
        if not isinstance(one, Stream):
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
) -> tuple[Combiner, Schema, Function | None]:
    """How rows are combined, the record that it gives (``record`` without a function), and the user's function."""
    records = tuple(one.schema for one in streams)
    if function is None:
        if into is not None:
            raise BuildError(
                f"operator {name!r}: into is the record of a function, and combine is none"
            )
        return Combiner(records, None, places), record, None
    made = Function.of(function, name, argument="combine")
    check_parameters(made, name, [f"row{i}" for i in range(len(records))])
    returns = returns_of(made, name, into, may_be_nothing=False)
    if returns.many:
        raise BuildError(
            f"operator {name!r}: {made.where} gives several records; a join gives one record for each pair, or None"
        )
    assert returns.schema is not None
    adapter = Adapter(tuple(one.whole for one in records), returns.schema.whole)
    return Combiner(records, adapter(function)), returns.schema, made


def of_pair(name: str, combine: Combiner) -> OfPair | None:
    """The user's function as one of a row with the fields of both; None without a function."""
    if combine.function is None:
        return None
    sides = [
        [Field(f"{side}{i}", field.type) for i, field in enumerate(record.fields)]
        for side, record in zip("ab", combine.records, strict=True)
    ]
    record = Schema.make_record("Pair", [field for side in sides for field in side])
    left, right = (", ".join(f"row.{field.name}" for field in side) for side in sides)
    text = f"def combined(row):\n    return CALL(LEFT({left}), RIGHT({right}))\n"
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


def flat(
    left: Schema, right: Schema, key: Sequence[str]
) -> tuple[tuple[tuple[int, ...], ...], Schema]:
    """The fields of both sides that a join without a function puts out, and their record."""
    fields = list(left.fields)
    places = [place for place, field in enumerate(right.fields) if field.name not in key]
    for place in places:
        field, taken = right.fields[place], [one.name for one in fields]
        name = spare_name(f"{field.name}_right", taken) if field.name in taken else field.name
        fields.append(Field(name, field.type))
    kept = (tuple(range(len(left.fields))), tuple(places))
    return kept, Schema.make_record("Joined", fields)


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
