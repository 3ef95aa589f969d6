"""Lanes: sequences that a source itself orders, such as the partitions of a log (docs/order.md).

A source declares them with ``lane=`` and ``lanes=``. Here is what a declaration may say, how lanes are ordered, and
which rows have none of them.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Field

#: What a source says of its lanes: their values in order; that they count from their first row, in the order of
#: arrival; or None: they are those of the whole input.
Lanes: TypeAlias = tuple[Any, ...] | Literal["arrival"] | None
#: As users give them.
GivenLanes: TypeAlias = Sequence[Any] | Literal["arrival"] | None

#: What can name a lane: values that the commit record holds as they are.
_KINDS: Final = (Kind.INT, Kind.STR, Kind.CATEGORY, Kind.TIMESTAMP, Kind.BOOL)
#: Lanes that an error lists before it says how many more there are.
_SHOWN: Final = 8


def declared(source: str, field: Field, lanes: GivenLanes) -> Lanes:
    """What was given as ``lanes=``, checked, in the order of lanes.

    Raises:
        BuildError: the field cannot name lanes, or the lanes are no sequence of its values, each once.
    """
    where = f"source {source!r}: "
    if field.type.kind not in _KINDS:
        raise BuildError(
            f"{where}lane={field.name!r} is {field.type}; a lane is an int, a str or a Category"
        )
    if lanes is None or (isinstance(lanes, str) and lanes == "arrival"):
        return "arrival" if lanes else None
    if isinstance(lanes, (str, bytes)) or not isinstance(lanes, Sequence | frozenset | set | range):
        raise BuildError(
            f"{where}lanes= takes a sequence of the values of {field.name}, or 'arrival', not {lanes!r}"
        )
    found = [_value(where, field, one) for one in lanes]
    if not found:
        raise BuildError(f"{where}lanes= is empty; name each value that {field.name} has")
    twice = [one for one, count in collections.Counter(found).items() if count > 1]
    if twice:
        raise BuildError(f"{where}lanes= has {twice[0]!r} twice")
    return tuple(sorted(found, key=lane_order))


def _value(where: str, field: Field, value: Any) -> Any:
    if value is None and field.type.optional:
        return None
    try:
        return field.type.coerce(value)
    except TypeError as error:
        raise BuildError(f"{where}lanes= has {value!r}: {field.name} {error}") from None


def lane_order(lane: Any) -> tuple[Any, ...]:
    """Orders lanes: null first, then numbers, text by its bytes."""
    if lane is None:
        return (0,)
    return (2, lane.encode("utf-8", "surrogatepass")) if isinstance(lane, str) else (1, lane)


def not_declared(field: str, lane: Any, lanes: Sequence[Any]) -> str:
    """Why a row has no place in a source with declared lanes."""
    shown = ", ".join(repr(one) for one in lanes[:_SHOWN])
    more = f" and {len(lanes) - _SHOWN} more" if len(lanes) > _SHOWN else ""
    return f"{field} is {lane!r}, but lanes= declares {shown}{more}"


def meaning(lane: str | None, lanes: Lanes) -> str:
    """A declaration as text, for checkpoints and people."""
    if lane is None:
        return ""
    if lanes is None:
        return "of the whole input"
    return lanes if lanes == "arrival" else ", ".join(repr(one) for one in lanes)


def unknown_until_the_end(source: str, lane: str, why: str) -> BuildError:
    """The error of an input that does not end, whose lanes are those of the whole input."""
    return BuildError(
        f"source {source!r}: lane={lane!r} without lanes= means the lanes of the whole input, which are unknown before"
        f" its end, and {why}; give lanes=[...] with every value that {lane} has (a lane that is silent then holds"
        " back the watermark), or lanes='arrival' for an input with a total order of arrival, where a lane counts"
        " from its first row"
    )
