"""The types of fields, and how a value becomes one that a field of the type holds."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from thalweg.flow.fields.reading import PLAIN, ReadRules
from thalweg.flow.fields.shapes import ValueShape
from thalweg.time_texts import Unfit

if TYPE_CHECKING:
    from thalweg.flow.records import Schema


class Kind(enum.Enum):
    """The types a field can have."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    BYTES = "bytes"
    TIMESTAMP = "Timestamp"
    CATEGORY = "Category"
    TIMER = "Timer"
    LIST = "list"
    RECORD = "record"

    # Members are one each, so their place in memory will do: an enum's own hash is a call of Python, and kinds are
    # looked up for each column of each chunk.
    __hash__ = object.__hash__


_FIXED: Final = {Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TIMESTAMP, Kind.CATEGORY, Kind.TIMER}
_ARROW: Final = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.STR: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.CATEGORY: pa.string(),
    Kind.TIMER: pa.int64(),
}
PYTHON: Final = {
    Kind.INT: int,
    Kind.FLOAT: float,
    Kind.BOOL: bool,
    Kind.STR: str,
    Kind.BYTES: bytes,
    Kind.TIMESTAMP: int,
    Kind.CATEGORY: str,
    Kind.TIMER: int,
}


INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1


def encodes(text: str) -> bool:
    """Whether UTF-8 can encode a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encodable(text: str) -> str:
    """The text itself.

    Raises:
        TypeError: it holds half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TypeError(f"{text!r:.60} cannot be encoded as UTF-8: {error.reason}") from None
    return text


#: The kinds that a bool of an input does not fit.
_NUMBERS: Final = {Kind.INT, Kind.FLOAT, Kind.TIMESTAMP, Kind.TIMER}


def _shown(value: int) -> str:
    # Python refuses to write out thousands of digits.
    return str(value) if value.bit_length() <= 200 else f"an int of {value.bit_length()} bits"


def _exact_float(kind: FieldType, value: Any) -> float | None:
    """A number as the float that it is equal to; null where the type is Optional.

    Raises:
        TypeError: there is no such float, or it is not a number that has one by itself (a decimal has not).
    """
    if type(value) is float or (value is None and kind.optional):
        return value
    if isinstance(value, numbers.Real):
        try:
            made = float(value)
        except OverflowError:
            made = math.inf
        if made == value or value != value:
            return made
        shown = _shown(value) if isinstance(value, int) else f"{type(value).__name__} {value!r:.60}"
        raise TypeError(f"expected {kind}, got {shown}, a number that a float cannot hold")
    shown = "None" if value is None else f"{type(value).__name__} {value!r:.60}"
    hint = "; write float(...) to round it" if hasattr(value, "__float__") else ""
    raise TypeError(f"expected {kind}, got {shown}{hint}")


@dataclasses.dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field: its kind, whether it may be null, and what a list or record holds.

    ``form`` says what a user's function sees of a state's list or record, where that is not a list or a NamedTuple:
    "deque" (of at most ``maxlen``), "dict" or "tuple"; see :mod:`thalweg.flow.state_types`.
    """

    kind: Kind
    optional: bool = False
    item: FieldType | None = None
    record: Schema | None = None
    form: str = ""
    maxlen: int | None = None
    #: what users' functions see in place of the value, see :mod:`thalweg.flow.fields.shapes`
    shape: ValueShape | None = None

    @property
    def fixed_width(self) -> bool:
        """Whether compiled functions can compute with it (a 64-bit word, a float or a bool)."""
        return self.kind in _FIXED

    @property
    def has_times(self) -> bool:
        """Whether its values are Timestamps, or hold some."""
        inside = self.record.has_times if self.record is not None else False
        inside = inside or (self.item is not None and self.item.has_times)
        return self.kind is Kind.TIMESTAMP or inside

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type at the edges, in state files and between slots."""
        if self.kind is Kind.LIST:
            assert self.item is not None
            return pa.list_(pa.field("item", self.item.arrow, nullable=self.item.optional))
        if self.kind is Kind.RECORD:
            assert self.record is not None
            return pa.struct(list(self.record.arrow))
        return self.shape.arrow if self.shape is not None else _ARROW[self.kind]

    def __str__(self) -> str:
        name = self.kind.value if self.shape is None else str(self.shape)
        if self.form in ("dict", "tuple"):
            inner = self.record or (self.item.record if self.item else None)
            assert inner is not None
            name = f"{self.form}[{', '.join(str(field.type) for field in inner.fields)}]"
        elif self.kind is Kind.LIST:
            name = f"{self.form or 'list'}[{self.item}]"
        elif self.kind is Kind.RECORD and self.record is not None:
            name = self.record.name
        return f"{name} | None" if self.optional else name

    def coerce(self, value: Any) -> Any:
        """The value as this type holds it; numbers widen (bool to int to float), nothing narrows.

        Raises:
            TypeError: the value is of another type or None where the type is not Optional, or Arrow cannot hold
                it: an int beyond 64 bits, a text that UTF-8 cannot encode.
        """
        if value is None:
            if self.optional:
                return None
            raise TypeError(f"expected {self}, got None")
        kind = self.kind
        if self.form:
            value = self._formless(value)
        if kind in (Kind.INT, Kind.TIMESTAMP, Kind.TIMER):
            if type(value) is not int and hasattr(value, "__index__"):
                value = value.__index__()
            if type(value) is int:
                if INT_MIN <= value <= INT_MAX:
                    return value
                raise TypeError(f"expected {self}, got {_shown(value)}, which does not fit 64 bits")
        elif kind is Kind.FLOAT:
            if type(value) is float:
                return value
            if isinstance(value, (int, float)) or hasattr(value, "__float__"):
                try:
                    return float(value)
                except OverflowError as error:
                    raise TypeError(f"expected {self}: {error}") from None
        elif kind is Kind.BOOL:
            if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
                return bool(value)
        elif kind in (Kind.STR, Kind.CATEGORY):
            if isinstance(value, str):
                return value if type(value) is str and value.isascii() else _encodable(str(value))
        elif kind is Kind.BYTES:
            if isinstance(value, (bytes, bytearray, memoryview)):
                return bytes(value)
        elif kind is Kind.LIST:
            if isinstance(value, (list, tuple)) and self.item is not None:
                if self.item.holds(value):
                    return list(value)
                if self.form == "dict" and self._holds_entries(value):
                    assert self.item.record is not None
                    return [*map(self.item.record.make, value)]
                return [self.item.coerce(one) for one in value]
        elif self.record is not None:
            if isinstance(value, Mapping):
                value = tuple(value.get(name) for name in self.record.names)
            return self.record.coerce(value)
        instant = kind is Kind.TIMESTAMP and isinstance(value, datetime.datetime)
        hint = "; write tw.timestamp(...) of it" if instant else ""
        raise TypeError(f"expected {self}, got {type(value).__name__} {value!r:.60}{hint}")

    def _formless(self, value: Any) -> Any:
        """A deque or dict as the list of its items."""
        if self.form == "deque" and isinstance(value, collections.deque):
            if value.maxlen == self.maxlen:
                return list(value)
            raise TypeError(
                f"expected {self} of maxlen {self.maxlen}, as its default has, got one of maxlen {value.maxlen}"
            )
        if self.form == "dict" and isinstance(value, dict):
            return list(value.items())
        if self.form == "tuple" and type(value) is not dict:
            return value
        raise TypeError(f"expected {self}, got {type(value).__name__} {value!r:.60}")

    def _holds_entries(self, items: Sequence[Any]) -> bool:
        """Whether keys and values of a dict are of their types as they are."""
        assert self.item is not None and self.item.record is not None
        kinds = [field.type for field in self.item.record.fields]
        return all(kind.holds([one[i] for one in items]) for i, kind in enumerate(kinds))

    def take(self, value: Any, reading: ReadRules = PLAIN) -> Any:
        """The value of an input as this type holds it: exactly, or not at all.

        In contrast to :meth:`coerce`, which is for what functions return, a bool is no number here, and a number must
        be one that a float can hold. A Timestamp is also taken from what ``reading`` says.

        Raises:
            TypeError: as :meth:`coerce`; or the value is not one of this type.
        """
        kind = self.kind
        if self.shape is not None and value is not None:
            return self._take_shape(self.shape, value, reading)
        if kind in _NUMBERS:
            if type(value) is bool or type(value).__name__ == "bool_":
                raise TypeError(f"expected {self}, got bool {value!r}")
            if kind is Kind.TIMESTAMP:
                value = self._time(value, reading)
            return _exact_float(self, value) if kind is Kind.FLOAT else self.coerce(value)
        if kind is Kind.LIST and isinstance(value, (list, tuple)) and self.item is not None:
            if self.item.holds(value) and not reading.epoch_unit:
                return list(value)
            return [self.item.take(one, reading) for one in value]
        if self.record is not None and value is not None:
            return self.record.take(value, reading.inner)
        return self.coerce(value)

    def _take_shape(self, shape: ValueShape, value: Any, reading: ReadRules) -> Any:
        """What is inside of a value that users see, or of a text of it."""
        word = value
        if (shape.name == "datetime" and type(value) is not int) or (
            shape.name == "datetime" and reading.epoch_unit
        ):
            word = self._time(value, reading)
        elif isinstance(value, str) and shape.name != "json":
            try:
                return shape.read(value)
            except Unfit as error:
                raise TypeError(f"expected {self}, got str {value!r:.60} ({error})") from None
        if shape.name != "datetime" or type(word) is not int or word is value:
            return shape.inward(value)
        least, most = shape.limits
        if least <= word <= most:
            return word
        raise TypeError(f"expected {self}, got {value!r:.60} (outside the years 1 to 9999 in UTC)")

    def _time(self, value: Any, reading: ReadRules) -> Any:
        try:
            return reading.time(value)
        except Unfit as error:
            came = f"{type(value).__name__} {value!r:.60}"
            raise TypeError(f"expected {self}, got {came} ({error})") from None

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether all values surely are what :meth:`coerce` makes of them, and nobody can change them in place.

        This looks at columns, not at values one by one: the lists in a key's state are checked at each of its rows.
        """
        types = set(map(type, values))
        if self.optional and type(None) in types:
            types.discard(type(None))
            values = [one for one in values if one is not None]
        if self.record is not None:
            fields = self.record.fields
            return (
                types <= {self.record.cls}
                and set(map(len, values)) <= {len(fields)}
                and all(
                    field.type.holds(column)
                    for field, column in zip(fields, zip(*values, strict=True), strict=False)
                )
            )
        if self.kind is Kind.LIST or not types <= {PYTHON[self.kind]}:
            return False
        if int in types:
            return bool(min(values) >= INT_MIN and max(values) <= INT_MAX)
        return str not in types or all(map(str.isascii, values)) or all(map(encodes, values))
