"""The functions that the compiler knows by identity rather than by their source, and their names."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import heapq
import math
from collections.abc import Mapping
from typing import Any, Final

from thalweg import times
from thalweg.flow.state_class import drop

#: Functions of ``math`` of one float that are C's.
ONE_FLOAT: Final = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "exp", "exp2", "expm1", "log", "log10",
    "log1p", "log2", "sin", "sinh", "tan", "tanh",
)  # fmt: skip

#: Functions of ``times`` that may take a zone.
TIME_PARTS: Final = ("local", "year", "month", "day", "hour", "minute", "second", "weekday", "date")

#: Functions that the compiler knows by identity rather than by their source.
KNOWN: Final[Mapping[Any, str]] = {
    abs: "abs",
    min: "min",
    max: "max",
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    len: "len",
    ord: "ord",
    chr: "chr",
    times.text: "times.text",
    **{getattr(times, name): f"times.{name}" for name in TIME_PARTS},
    range: "range",
    drop: "drop",
    sum: "sum",
    sorted: "sorted",
    list: "list",
    dict: "dict",
    any: "any",
    all: "all",
    reversed: "reversed",
    enumerate: "enumerate",
    collections.deque: "deque",
    heapq.heappush: "heapq.heappush",
    heapq.heappop: "heapq.heappop",
    heapq.heapreplace: "heapq.heapreplace",
    heapq.heappushpop: "heapq.heappushpop",
    heapq.heapify: "heapq.heapify",
    heapq.nlargest: "heapq.nlargest",
    heapq.nsmallest: "heapq.nsmallest",
    bisect.bisect_left: "bisect.bisect_left",
    bisect.bisect_right: "bisect.bisect_right",
    bisect.insort_left: "bisect.insort_left",
    bisect.insort_right: "bisect.insort_right",
    math.isnan: "math.isnan",
    math.isinf: "math.isinf",
    math.isfinite: "math.isfinite",
    math.fabs: "math.fabs",
    math.sqrt: "math.sqrt",
    math.pow: "math.pow",
    math.atan2: "math.atan2",
    math.fmod: "math.fmod",
    math.copysign: "math.copysign",
    math.floor: "math.floor",
    math.ceil: "math.ceil",
    math.trunc: "math.trunc",
    math.gcd: "math.gcd",
    math.degrees: "math.degrees",
    math.radians: "math.radians",
    **{getattr(math, name): f"math.{name}" for name in ONE_FLOAT},
    round: "round",
    divmod: "divmod",
    dataclasses.replace: "replace",
}
