"""Int arithmetic of compiled functions: exact, or OverflowError where 64 bits do not hold the result.

Python's ints have no bounds. So an overflow is never a value: it raises, and the caller runs the row again in Python,
which computes with as many bits as it needs and alone says what comes of the row. Numba's own operators are not used
for a user's ints: they promise LLVM that nothing overflows (``nsw``), and LLVM then drops comparisons and tests for
zero that the promise makes needless.
"""

from __future__ import annotations

from typing import Any, Final

import numba
from numba.extending import intrinsic

from thalweg.compiler.runtime.support import cgutils, inner, types
from thalweg.jit import OPTIONS

_EXACT: Final = 2**53


def _checked(operation: str) -> Any:
    """An intrinsic ``(int64, int64) -> int64`` that raises where the processor's overflow flag would be set."""

    @intrinsic
    def computed(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pair = getattr(builder, f"{operation}_with_overflow")(*args)
            with cgutils.if_unlikely(builder, builder.extract_value(pair, 1)):
                context.call_conv.return_user_exc(builder, OverflowError, ("more than 64 bits",))
            return builder.extract_value(pair, 0)

        return types.int64(types.int64, types.int64), generate

    return computed


#: ``a + b``, ``a - b``, ``a * b``.
add_int: Final = _checked("sadd")
sub_int: Final = _checked("ssub")
mul_int: Final = _checked("smul")


def _wrapping(operation: str) -> Any:
    @intrinsic
    def computed(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, operation)(*args)

        return types.int64(types.int64, types.int64), generate

    return computed


_wrap_add: Final[Any] = _wrapping("add")
_wrap_mul: Final[Any] = _wrapping("mul")


@inner
def neg_int(a: Any) -> Any:
    """``-a``."""
    return sub_int(0, a)


@inner
def abs_int(a: Any) -> Any:
    """``abs(a)``."""
    return sub_int(0, a) if a < 0 else a


@inner
def floor_int(a: Any, b: Any) -> Any:
    """``a // b``; the processor would trap at -2**63 // -1."""
    if b == -1:
        return sub_int(0, a)
    return a // b


@inner
def mod_int(a: Any, b: Any) -> Any:
    """``a % b``."""
    if b == -1:
        return 0
    return a % b


@numba.njit(**OPTIONS)
def _divide_exactly(a: Any, b: Any) -> Any:
    """``a / b`` of ints above 2**53, rounded once: a quotient of 55 bits or more and a sticky bit."""
    negative = (a < 0) != (b < 0)
    zero = numba.uint64(0)
    x = zero - numba.uint64(a) if a < 0 else numba.uint64(a)
    y = zero - numba.uint64(b) if b < 0 else numba.uint64(b)
    quotient = x // y
    rest = x - quotient * y
    scale = 1.0
    one = numba.uint64(1)
    # Comparing before doubling keeps the rest inside 64 bits for every divisor.
    while quotient < numba.uint64(1 << 55) and x != zero:
        room = y - rest
        quotient = quotient << one
        if rest >= room:
            quotient = quotient | one
            rest = rest - room
        else:
            rest = rest << one
        scale *= 0.5
    if rest != zero:
        quotient = quotient | one
    value = numba.float64(quotient) * scale
    return -value if negative else value


@inner
def divide_int(a: Any, b: Any) -> Any:
    """``a / b``, correctly rounded also where an int is not exactly a float."""
    if b == 0:
        raise ZeroDivisionError("division by zero")
    if -_EXACT <= a <= _EXACT and -_EXACT <= b <= _EXACT:
        return numba.float64(a) / numba.float64(b)
    return _divide_exactly(a, b)


@intrinsic
def _unsigned_floor(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.udiv(*args)

    return types.int64(types.int64, types.int64), generate


_udiv: Final[Any] = _unsigned_floor


@inner
def turns(start: Any, stop: Any, step: Any) -> Any:
    """``len(range(start, stop, step))``; the distance is taken without a sign, so that it always fits.

    Raises:
        OverflowError: 2**63 turns or more, which no loop lives to see.
    """
    if (start >= stop) if step > 0 else (start <= stop):
        return 0
    distance = _wrap_add(stop, _wrap_mul(start, -1))
    if step < 0:
        distance, step = _wrap_mul(distance, -1), _wrap_mul(step, -1)
    count = _udiv(_wrap_add(distance, -1), step)
    if count < 0 or count == 2**63 - 1:
        raise OverflowError("more than 64 bits")
    return count + 1


@inner
def turn(start: Any, step: Any, k: Any) -> Any:
    """The k-th value of a range, which lies between two ints that fit, so its way there may wrap."""
    return _wrap_add(start, _wrap_mul(step, k))
