"""Values that fit a field, exactly, and such that do not, in every form in which a reader is given them."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import thalweg as tw


class Inner(NamedTuple):
    a: int
    b: str | None


class Int(NamedTuple):
    x: int


class MaybeInt(NamedTuple):
    x: int | None


class Float(NamedTuple):
    x: float


class Bool(NamedTuple):
    x: bool


class Str(NamedTuple):
    x: str


class MaybeStr(NamedTuple):
    x: str | None


class Bytes(NamedTuple):
    x: bytes


class Category(NamedTuple):
    x: tw.Category


class Time(NamedTuple):
    x: tw.Timestamp


class Times(NamedTuple):
    x: list[tw.Timestamp]


class Inside(NamedTuple):
    x: Time


class Ints(NamedTuple):
    x: list[int]


class Floats(NamedTuple):
    x: list[float]


class Record(NamedTuple):
    x: Inner


class Refused(NamedTuple):
    """The reason says this, as a pattern."""

    said: str


NOTHING: Any = object()


class Case(NamedTuple):
    """A value in the forms in which it can come, and what it must be as the record's field."""

    record: type
    expected: Any
    #: as a Python object
    value: Any = NOTHING
    #: as a cell of CSV
    cell: str | None = None
    #: as a JSON text
    json: str | None = None
    #: as Arrow arrays of one value
    arrow: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    #: of the flow's source
    reading: dict[str, Any] = {}


def arrays(value: Any, *types: pa.DataType) -> tuple[Any, ...]:
    return tuple(pa.array([value], kind) for kind in types)


def ns(value: int) -> pa.Array:
    return pa.array([value], pa.int64()).view(pa.timestamp("ns", tz="UTC"))


NOON = 1_769_860_800_000_000  # 2026-01-31T12:00:00Z
WIDE = (pa.int64(), pa.uint64())
FINER = Refused("finer than a microsecond")
NO_FLOAT = Refused("a float cannot hold|cannot be read|too large for a float")
NO_NUMBER = Refused("expected (int|float|Timestamp)|is bool, but")
TRUTH = {"value": True, "cell": "true", "json": "true", "arrow": arrays(True, pa.bool_())}

CASES = {
    "the greatest int": Case(
        Int, 2**63 - 1, 2**63 - 1, str(2**63 - 1), str(2**63 - 1), arrays(2**63 - 1, *WIDE)
    ),
    "the least int": Case(
        Int, -(2**63), -(2**63), str(-(2**63)), str(-(2**63)), arrays(-(2**63), pa.int64())
    ),
    "an int too large": Case(
        Int,
        Refused("does not fit 64 bits"),
        2**63,
        str(2**63),
        str(2**63),
        arrays(2**63, pa.uint64()),
    ),
    "an int far too large": Case(
        Int, Refused("does not fit 64 bits"), 10**400, "1" + "0" * 400, "1" + "0" * 400
    ),
    "a bool for an int": Case(Int, NO_NUMBER, **TRUTH),
    "a bool for a float": Case(Float, NO_NUMBER, **TRUTH),
    "a bool for a time": Case(Time, NO_NUMBER, **TRUTH),
    "a bool of numpy for an int": Case(Int, NO_NUMBER, np.True_),
    "a bool of numpy for a float": Case(Float, NO_NUMBER, np.True_),
    "a bool in a list of ints": Case(
        Ints,
        Refused("expected|is list<.*bool>, but"),
        [1, True],
        None,
        "[1, true]",
        (pa.array([[True]]),),
    ),
    "a bool in a record": Case(
        Record,
        Refused("expected|is bool|its field a"),
        (True, None),
        None,
        '{"a": true}',
        (pa.array([{"a": True, "b": None}], pa.struct([("a", pa.bool_()), ("b", pa.string())])),),
    ),
    "a float for an int": Case(
        Int, Refused("expected int|is double, but"), 1.0, "1.0", None, arrays(1.0, pa.float64())
    ),
    "a whole number with a point in JSON": Case(Int, 1000, json="1.0e3"),
    "a fraction for an int": Case(Int, Refused("expected int"), 1.5, "1.5", "1.5"),
    "numpy's int": Case(Int, 7, np.int16(7)),
    "text for an int": Case(
        Int, Refused("expected int|is string, but"), "7", None, '"7"', arrays("7", pa.string())
    ),
    "the last int that all below are floats": Case(
        Float, 2.0**53, 2**53, str(2**53), str(2**53), arrays(2**53, *WIDE)
    ),
    "an int that no float is": Case(
        Float, NO_FLOAT, 2**53 + 1, str(2**53 + 1), str(2**53 + 1), arrays(2**53 + 1, *WIDE)
    ),
    "its negative": Case(
        Float,
        NO_FLOAT,
        -(2**53) - 1,
        str(-(2**53) - 1),
        str(-(2**53) - 1),
        arrays(-(2**53) - 1, pa.int64()),
    ),
    "a greater int that is a float": Case(
        Float, 2.0**62, 2**62, str(2**62), str(2**62), arrays(2**62, *WIDE)
    ),
    "the greatest int is no float": Case(
        Float, NO_FLOAT, 2**63 - 1, str(2**63 - 1), str(2**63 - 1), arrays(2**63 - 1, *WIDE)
    ),
    "2**63 is a float": Case(
        Float, 2.0**63, 2**63, str(2**63), str(2**63), arrays(2**63, pa.uint64())
    ),
    "an int in a list of floats": Case(
        Floats,
        Refused("a float cannot hold"),
        [2**53 + 1],
        None,
        f"[{2**53 + 1}]",
        (pa.array([[2**53 + 1]]),),
    ),
    "digits behind a point are rounded": Case(
        Float, 2.0**53, cell="9007199254740993.0", json="9007199254740993.0"
    ),
    "a number beyond the floats": Case(Float, NO_FLOAT, 10**400, "1e999", "1e999"),
    "a number beyond the floats, without exponent": Case(
        Float, NO_FLOAT, -(10**400), "-1" + "0" * 400, "-1" + "0" * 400
    ),
    "one in a list": Case(Floats, NO_FLOAT, [10**400], None, "[0.5, 1e999]"),
    "infinity": Case(
        Float, math.inf, math.inf, "inf", "Infinity", arrays(math.inf, pa.float64(), pa.float32())
    ),
    "minus infinity": Case(
        Float, -math.inf, -math.inf, "-Infinity", "-Infinity", arrays(-math.inf, pa.float64())
    ),
    "a half": Case(
        Float,
        0.5,
        0.5,
        "0.5",
        "0.5",
        arrays(np.float16(0.5), pa.float16(), pa.float32(), pa.float64()),
    ),
    "numpy's float": Case(Float, 0.5, np.float32(0.5)),
    "a decimal": Case(
        Float,
        Refused(r"Decimal.*write float|is decimal128\(2, 1\), but"),
        Decimal("0.5"),
        None,
        None,
        arrays(Decimal("0.5"), pa.decimal128(2, 1)),
    ),
    "a third": Case(Float, NO_FLOAT, Fraction(1, 3)),
    "true": Case(Bool, True, **TRUTH),
    "one for true": Case(
        Bool, Refused("expected bool|is int64, but"), 1, None, "1", arrays(1, pa.int64())
    ),
    "one in CSV, which true_values has": Case(Bool, True, cell="1"),
    "a text": Case(
        Str, "é", "é", "é", '"é"', arrays("é", pa.string(), pa.large_string(), pa.string_view())
    ),
    "a number for text": Case(
        Str, Refused("expected str|is int64, but"), 5, None, "5", arrays(5, pa.int64())
    ),
    "bytes for text": Case(
        Str, Refused("expected str|is binary, but"), b"a", None, None, arrays(b"a", pa.binary())
    ),
    "half a surrogate pair": Case(Str, Refused("surrogate"), "\ud800", None, r'"\ud800"'),
    "bytes": Case(
        Bytes,
        b"ab",
        b"ab",
        "ab",
        '"ab"',
        arrays(b"ab", pa.binary(), pa.large_binary(), pa.binary(2)),
    ),
    "no text": Case(MaybeStr, None, None, "", "null", arrays(None, pa.string(), pa.null())),
    "NA": Case(MaybeStr, None, cell="NA", options={"null_values": ["", "NA"]}),
    "NA is a text else": Case(MaybeStr, "NA", "NA", "NA", '"NA"', arrays("NA", pa.string())),
    "no int": Case(MaybeInt, None, None, "", "null", arrays(None, pa.int64(), pa.null())),
    "a null that must not be": Case(
        Int, Refused("null|got None|''"), None, "", "null", arrays(None, pa.int64(), pa.null())
    ),
    "a category": Case(
        Category,
        "a",
        "a",
        "a",
        '"a"',
        arrays("a", pa.string(), pa.dictionary(pa.int8(), pa.string())),
    ),
    "a time": Case(
        Time,
        NOON,
        NOON,
        "2026-01-31T12:00:00Z",
        '"2026-01-31 12:00"',
        (
            ns(NOON * 1000),
            pa.array([NOON // 10**6]).view(pa.timestamp("s")),
            *arrays(NOON, pa.int64()),
        ),
    ),
    "a time with an offset": Case(
        Time, NOON, cell="2026-01-31T13:30:00+01:30", json='"2026-01-31T13+0100"'
    ),
    "a day": Case(
        Time,
        NOON - 43_200_000_000,
        NOON - 43_200_000_000,
        "2026-01-31",
        '"2026-01-31"',
        arrays(dt.date(2026, 1, 31), pa.date32(), pa.date64()),
    ),
    "nanoseconds that are none": Case(
        Time,
        NOON + 1,
        None or NOON + 1,
        "2026-01-31T12:00:00.000001000Z",
        '"2026-01-31T12:00:00.0000010"',
        (ns(NOON * 1000 + 1000),),
    ),
    "nanoseconds": Case(
        Time,
        FINER,
        cell="2026-01-31T12:00:00.123456789Z",
        json='"2026-01-31T12:00:00.1234567"',
        arrow=(ns(NOON * 1000 + 1),),
    ),
    "nanoseconds cut": Case(
        Time,
        NOON + 123_456,
        cell="2026-01-31T12:00:00.123456789Z",
        json='"2026-01-31T12:00:00.1234567"',
        arrow=(ns((NOON + 123_456) * 1000 + 789),),
        options={"nanoseconds": "truncate"},
    ),
    "nanoseconds before 1970 cut": Case(
        Time,
        -1,
        cell="1969-12-31T23:59:59.999999001Z",
        json='"1969-12-31T23:59:59.9999995"',
        arrow=(ns(-1),),
        options={"nanoseconds": "truncate"},
    ),
    "an epoch of nanoseconds": Case(
        Time,
        NOON,
        cell=str(NOON * 1000),
        json=str(NOON * 1000),
        arrow=arrays(NOON * 1000, pa.int64()),
        options={"epoch_unit": "ns"},
    ),
    "one that is finer": Case(
        Time,
        FINER,
        cell=str(NOON * 1000 + 1),
        json=str(NOON * 1000 + 1),
        arrow=arrays(NOON * 1000 + 1, pa.int64()),
        options={"epoch_unit": "ns"},
    ),
    "one that is finer, cut": Case(
        Time,
        -1,
        cell="-1",
        json="-1",
        arrow=arrays(-1, pa.int64()),
        options={"epoch_unit": "ns", "nanoseconds": "truncate"},
    ),
    "an epoch of seconds": Case(
        Time,
        NOON,
        cell=str(NOON // 10**6),
        json=str(NOON // 10**6),
        arrow=arrays(NOON // 10**6, *WIDE),
        options={"epoch_unit": "s"},
    ),
    "an epoch beyond 64 bits": Case(
        Time,
        Refused("64 bits"),
        2**63,
        cell=str(2**62),
        json=str(2**62),
        arrow=arrays(2**62, pa.int64()),
        options={"epoch_unit": "s"},
    ),
    "seconds without epoch_unit": Case(
        Time, Refused("set epoch_unit='s'"), cell="1769860800", json="1769860800"
    ),
    "seconds with a fraction": Case(
        Time, Refused("set epoch_unit='s'"), cell="1769860800.5", json="1769860800.5"
    ),
    "milliseconds without epoch_unit": Case(
        Time, Refused("set epoch_unit='ms'"), cell="1769860800000", json="1769860800000"
    ),
    "a small number": Case(
        Time, Refused("epoch_unit='s', 'ms', 'us' or 'ns'"), cell="-5", json="-5"
    ),
    "a date of digits": Case(
        Time, Refused("timestamp_formats="), cell="20260131", json='"20260131"'
    ),
    "a list of formats": Case(
        Time,
        NOON,
        cell="31.01.2026 12:00",
        json='"31.01.2026 12:00"',
        options={"timestamp_formats": ["%d.%m.%Y %H:%M"]},
    ),
    "a format with nanoseconds": Case(
        Time,
        FINER,
        cell="12:00:00.123456789",
        json='"12:00:00.1234567"',
        options={"timestamp_formats": ["%H:%M:%S.%f"]},
    ),
    "a datetime without a zone": Case(
        Time, Refused(r"it has no zone.*replace\(tzinfo=datetime.UTC\)"), dt.datetime(2026, 1, 31)
    ),
    "a datetime": Case(
        Time,
        NOON,
        dt.datetime(2026, 1, 31, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    ),
    "a date": Case(Time, NOON - 43_200_000_000, dt.date(2026, 1, 31)),
    "a text of a time": Case(Time, NOON, "2026-01-31T12:00:00Z"),
    "a text of a time without a zone": Case(Time, NOON, "2026-01-31 12:00"),
    "a text that is no time": Case(
        Time,
        Refused("not an ISO 8601 time; timestamp_formats= reads others"),
        "noon",
        "noon",
        '"noon"',
    ),
    "a time of another form": Case(
        Time,
        Refused(r"timestamp_formats=\['%m/%d/%Y %I:%M %p'\] reads times like this"),
        "01/31/2026 12:00 PM",
        "01/31/2026 12:00 PM",
        '"01/31/2026 12:00 PM"',
    ),
    "digits of seconds": Case(Time, Refused("set epoch_unit='s'"), "1769860800"),
    "seconds of a clock": Case(Time, Refused(r"round\(x \* 1_000_000\)"), 1769860800.5),
    "a text in a list of times": Case(Times, [NOON, 5], ["2026-01-31T12:00:00Z", 5]),
    "a time in a record": Case(Inside, Time(NOON), {"x": "2026-01-31T12:00:00Z"}),
    "seconds by the source": Case(
        Time,
        NOON,
        NOON // 10**6,
        str(NOON // 10**6),
        str(NOON // 10**6),
        arrays(NOON // 10**6, *WIDE),
        reading={"epoch_unit": "s"},
    ),
    "seconds in text by the source": Case(
        Time, NOON, str(NOON // 10**6), reading={"epoch_unit": "s"}
    ),
    "a list of seconds by the source": Case(
        Times,
        [NOON, 0],
        [NOON // 10**6, 0],
        json=f"[{NOON // 10**6}, 0]",
        arrow=arrays([NOON // 10**6, 0], pa.list_(pa.int64())),
        reading={"epoch_unit": "s"},
    ),
    "a record of seconds by the source": Case(
        Inside,
        Time(NOON),
        (NOON // 10**6,),
        json=f'{{"x": {NOON // 10**6}}}',
        arrow=(pa.array([{"x": NOON // 10**6}]),),
        reading={"epoch_unit": "s"},
    ),
    "the option of an input first": Case(
        Time,
        NOON,
        cell=str(NOON // 10**3),
        json=str(NOON // 10**3),
        options={"epoch_unit": "ms"},
        reading={"epoch_unit": "s"},
    ),
    "nanoseconds by the source": Case(
        Time,
        FINER,
        NOON * 1000 + 1,
        str(NOON * 1000 + 1),
        str(NOON * 1000 + 1),
        arrays(NOON * 1000 + 1, pa.int64()),
        reading={"epoch_unit": "ns"},
    ),
    "a format by the source": Case(
        Time,
        NOON,
        "31.01.2026 12:00",
        "31.01.2026 12:00",
        '"31.01.2026 12:00"',
        reading={"timestamp_formats": ["%d.%m.%Y", "%d.%m.%Y %H:%M"]},
    ),
    "an hour 24": Case(
        Time, Refused("time of day"), cell="2026-01-31T24:00", json='"2026-01-31T24:00"'
    ),
    "a list": Case(
        Ints,
        [1, 2],
        [1, 2],
        None,
        "[1, 2]",
        arrays(
            [1, 2],
            pa.list_(pa.int8()),
            pa.large_list(pa.int64()),
            pa.list_(pa.int64(), 2),
            pa.list_view(pa.int64()),
        ),
    ),
    "a null in a list": Case(
        Ints,
        Refused("None|null"),
        [1, None],
        None,
        "[1, null]",
        arrays([1, None], pa.list_(pa.int64())),
    ),
    "a record": Case(
        Record,
        (1, None),
        {"a": 1, "b": None},
        None,
        '{"a": 1, "c": 0}',
        (pa.array([{"b": None, "a": 1}], pa.struct([("b", pa.string()), ("a", pa.int64())])),),
    ),
}
