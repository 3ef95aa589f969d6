"""How the rows of a source are read where they do not stand as its record says: names of columns, forms of times.

A record's schema carries it (``Schema.reading``), so that files, tables, messages and rows of every host follow it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, get_args

from thalweg.checks import meant, refuse
from thalweg.errors import BuildError
from thalweg.time_texts import EpochUnit, Unfit, by_formats, in_64_bits, iso, micros
from thalweg.times import timestamp

_DIGITS = re.compile(r"\s*([+-]?\d{1,19})\s*", re.ASCII)
#: What parts the words of a column's name.
_APART = re.compile(r"[\W_]+")
#: How alike two names are that are taken for the same with a slip, 0 to 1.
_ALIKE: Final = 0.8


@dataclasses.dataclass(frozen=True, slots=True)
class ReadRules:
    """The names and the times of a source's rows; made by :func:`reading_of`."""

    #: the column by the record's field, where it has another name
    names: tuple[tuple[str, str], ...] = ()
    #: what whole numbers in Timestamp fields count; None: microseconds
    epoch_unit: EpochUnit | None = None
    #: of strptime, for times in text; none: ISO 8601
    timestamp_formats: tuple[str, ...] = ()

    def columns(self, fields: Sequence[str]) -> tuple[str, ...]:
        """The columns of the fields of these names."""
        named = dict(self.names)
        return tuple(named.get(one, one) for one in fields)

    @property
    def inner(self) -> ReadRules:
        """That of records inside the rows, whose fields are not renamed."""
        return dataclasses.replace(self, names=()) if self.names else self

    def time(self, value: Any) -> Any:
        """A Timestamp of what a row given as a Python object has; what can be none stays as it is.

        Raises:
            Unfit: it is a time that does not fit, or a text that is none.
        """
        if type(value) is int:
            return micros(value, self.epoch_unit, "reject") if self.epoch_unit else value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dt.datetime):
            return _instant(value)
        if isinstance(value, dt.date):
            return timestamp(value.isoformat())
        if isinstance(value, float):
            raise Unfit(
                "a Timestamp counts whole microseconds; of seconds write round(x * 1_000_000)"
            )
        return value

    def _text(self, text: str) -> int:
        if self.epoch_unit is not None:
            digits = _DIGITS.fullmatch(text)
            if digits is None:
                raise Unfit("not an integer")
            return micros(in_64_bits(int(digits[1])), self.epoch_unit, "reject")
        if self.timestamp_formats:
            return by_formats(self.timestamp_formats, "reject")(text)
        return iso(text, "reject")


#: As the record says.
PLAIN: Final = ReadRules()


def _instant(moment: dt.datetime) -> int:
    if moment.utcoffset() is None:
        raise Unfit(
            "it has no zone: write .replace(tzinfo=datetime.UTC) if it is UTC, .astimezone() if it is local time"
        )
    if getattr(moment, "nanosecond", 0):  # pandas has them
        raise Unfit("finer than a microsecond; cut it first")
    return timestamp(moment)


def reading_of(
    where: str,
    fields: Sequence[str],
    times: bool,
    names: Mapping[str, str] | None,
    epoch_unit: Any,
    timestamp_formats: Any,
) -> ReadRules:
    """The reading that the arguments of a source ask for, checked.

    Args:
        where: begins messages.
        fields: of the record.
        times: whether one of them is a Timestamp, or holds some.
        names: as given, and so are the others.

    Raises:
        BuildError: one is not what is expected, or they do not go together.
    """
    if epoch_unit is not None and epoch_unit not in get_args(EpochUnit):
        raise refuse(where, "epoch_unit", "'s', 'ms', 'us', 'ns' or None", epoch_unit)
    texts = isinstance(timestamp_formats, Sequence) and not isinstance(timestamp_formats, str)
    if not texts or not all(isinstance(one, str) for one in timestamp_formats):
        raise refuse(
            where, "timestamp_formats", "a sequence of patterns of strptime", timestamp_formats
        )
    if epoch_unit and timestamp_formats:
        raise BuildError(f"{where}: give epoch_unit or timestamp_formats, not both")
    if (epoch_unit or timestamp_formats) and not times:
        raise BuildError(
            f"{where}: epoch_unit and timestamp_formats are for fields of type tw.Timestamp; the record has none"
        )
    return ReadRules(_names(where, fields, names), epoch_unit, tuple(timestamp_formats))


def _names(
    where: str, fields: Sequence[str], names: Mapping[str, str] | None
) -> tuple[tuple[str, str], ...]:
    if names is None:
        return ()
    if not isinstance(names, Mapping):
        raise refuse(where, "names", "a dict of the record's fields to the columns", names)
    for field, column in names.items():
        if field not in fields:
            turned = f"; write {{{column!r}: {field!r}}}" if column in fields else ""
            raise BuildError(
                f"{where}: names: the record has no field {field!r}; it has {', '.join(fields)}"
                f"{turned or meant(str(field), list(fields))}"
            )
        if not isinstance(column, str) or not column:
            raise refuse(where, f"names[{field!r}]", "the name of a column", column)
    columns = [names.get(one, one) for one in fields]
    twice = next((one for one in columns if columns.count(one) > 1), None)
    if twice is not None:
        both = [one for one in fields if names.get(one, one) == twice]
        raise BuildError(f"{where}: names: {' and '.join(both)} would both be column {twice!r}")
    return tuple((field, column) for field, column in names.items() if field != column)


def renamed(name: str, others: Iterable[Any]) -> str:
    """The end of a message on a missing column: the ``names=`` that takes one that seems to be meant; or nothing."""
    column = _near(name, [one for one in others if isinstance(one, str)])
    return "" if column is None else f"; names={{{name!r}: {column!r}}} on the source takes that"


def _near(name: str, others: Sequence[str]) -> str | None:
    """The column whose name has the same words, else one that has them among others, else one spelled alike."""
    words = _words(name)
    tests: tuple[Callable[[str], bool], ...] = (
        lambda one: "".join(_words(one)) == "".join(words),
        lambda one: bool(words) and set(words) <= set(_words(one)),
        lambda one: difflib.SequenceMatcher(None, name.lower(), one.lower()).ratio() >= _ALIKE,
    )
    for test in tests:
        found = [one for one in others if test(one)]
        if found:
            return found[0]
    return None


def _words(name: str) -> list[str]:
    return [one for one in _APART.split(name.lower()) if one]
