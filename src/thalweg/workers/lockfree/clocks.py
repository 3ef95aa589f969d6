"""The time, read inside compiled code."""

from __future__ import annotations

import time
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils as _untyped_cgutils
from numba.extending import intrinsic, overload

#: Numba's own helpers have no types.
cgutils: Final[Any] = _untyped_cgutils
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
#: C's ``struct timespec`` on 64-bit systems: seconds and nanoseconds.
TIMESPEC: Final = ir.LiteralStructType([I64, I64])
SECOND_NS: Final = 1_000_000_000


def now_ns() -> int:
    """Nanoseconds of the monotonic clock, from an arbitrary start."""
    return time.monotonic_ns()


def clock_reader(clock: int) -> Any:
    """An intrinsic without arguments: the time of this clock in nanoseconds, by ``clock_gettime``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(I32, [I32, TIMESPEC.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        spec = cgutils.alloca_once(builder, TIMESPEC)
        builder.call(function, [I32(clock), spec])
        parts = builder.load(spec)
        seconds = builder.mul(builder.extract_value(parts, 0), I64(SECOND_NS))
        return builder.add(seconds, builder.extract_value(parts, 1))

    return intrinsic(lambda typing: (types.int64(), generate))


_monotonic_ns: Final = clock_reader(time.CLOCK_MONOTONIC)
overload(now_ns)(lambda: lambda: _monotonic_ns())
