"""The functions of ``math`` and of floats, as CPython computes them: by the same C functions, with its checks.

Where CPython raises these raise, too, and where a result is beyond 64 bits; Python then makes the call.
"""

from __future__ import annotations

import math
from typing import Any, Final

from llvmlite import ir
from numba.extending import intrinsic

from thalweg.compiler.runtime.frozen import c_function
from thalweg.compiler.runtime.integers import mul_int
from thalweg.compiler.runtime.support import cgutils, inner, types
from thalweg.compiler.runtime.undo import called

_FIRST_OUTSIDE: Final = 9223372036854775808.0
#: Below, a float times a power of ten keeps half units.
_HALVES: Final = 4503599627370496.0
_TENS: Final = tuple(10.0**n for n in range(23))
_SPLIT: Final = 134217729.0
_DEGREES: Final = 180.0 / math.pi
_RADIANS: Final = math.pi / 180.0


def _rounding(name: str) -> Any:
    """An intrinsic of LLVM that rounds a float; exact, so there is one result."""

    @intrinsic
    def rounded(typing: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()])
            function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.f64")
            return builder.call(function, args)

        return types.float64(types.float64), generate

    return rounded


_floor: Final[Any] = _rounding("floor")
_ceil: Final[Any] = _rounding("ceil")
_trunc: Final[Any] = _rounding("trunc")
_round: Final[Any] = _rounding("round")
_rint: Final[Any] = _rounding("rint")


@inner
def copysign(x: Any, y: Any) -> Any:
    """``math.copysign``."""
    return math.copysign(x, y)


def _checked(name: str) -> Any:
    function = c_function(name, 1)

    @inner
    def checked(x: Any) -> Any:
        made = function(x)
        # NaN or infinity of something else: CPython raises.
        if (made - made != 0.0 and x - x == 0.0) or (made != made and x == x):
            raise ValueError("math domain error")
        return made

    return checked


m_acos: Final = _checked("acos")
m_acosh: Final = _checked("acosh")
m_asin: Final = _checked("asin")
m_asinh: Final = _checked("asinh")
m_atan: Final = _checked("atan")
m_atanh: Final = _checked("atanh")
m_cbrt: Final = _checked("cbrt")
m_cos: Final = _checked("cos")
m_cosh: Final = _checked("cosh")
m_exp: Final = _checked("exp")
m_exp2: Final = _checked("exp2")
m_expm1: Final = _checked("expm1")
m_log: Final = _checked("log")
m_log10: Final = _checked("log10")
m_log1p: Final = _checked("log1p")
m_log2: Final = _checked("log2")
m_sin: Final = _checked("sin")
m_sinh: Final = _checked("sinh")
m_tan: Final = _checked("tan")
m_tanh: Final = _checked("tanh")

_c_pow: Final = c_function("pow", 2)
_c_atan2: Final = c_function("atan2", 2)
_c_fmod: Final = c_function("fmod", 2)


@inner
def _finite(x: Any, y: Any, made: Any) -> Any:
    """The result, if all are finite; CPython treats the others one by one."""
    if made - made != 0.0 or x - x != 0.0 or y - y != 0.0:
        raise ValueError("not finite")
    return made


@inner
def m_pow(x: Any, y: Any) -> Any:
    """``math.pow``, and ``x ** y`` of floats."""
    return _finite(x, y, _c_pow(x, y))


@inner
def m_atan2(x: Any, y: Any) -> Any:
    """``math.atan2``."""
    return _finite(x, y, _c_atan2(x, y))


@inner
def m_fmod(x: Any, y: Any) -> Any:
    """``math.fmod``."""
    return _finite(x, y, _c_fmod(x, y))


@inner
def m_degrees(x: Any) -> Any:
    """``math.degrees``."""
    return x * _DEGREES


@inner
def m_radians(x: Any) -> Any:
    """``math.radians``."""
    return x * _RADIANS


@inner
def as_int(x: Any) -> Any:
    """A whole float as an int."""
    if not (-_FIRST_OUTSIDE <= x < _FIRST_OUTSIDE):
        raise OverflowError("more than 64 bits")
    return types.int64(x)


@inner
def floor_float(x: Any) -> Any:
    """``math.floor``."""
    return as_int(_floor(x))


@inner
def ceil_float(x: Any) -> Any:
    """``math.ceil``."""
    return as_int(_ceil(x))


@inner
def trunc_float(x: Any) -> Any:
    """``int`` and ``math.trunc``."""
    return as_int(_trunc(x))


@inner
def round_float(x: Any) -> Any:
    """``round(x)``: halves to even."""
    return as_int(_rint(x))


@called
def round_digits(x: Any, digits: Any) -> Any:
    """``round(x, digits)``: of the exact value, halves to even; the float next to the decimal number."""
    if digits < 0 or digits > 22:
        raise ValueError("left to Python")
    scale = _TENS[digits]
    scaled = x * scale
    if not (abs(scaled) < _HALVES):
        raise ValueError("left to Python")
    # What the product lost (Dekker): the halves of both factors multiply exactly.
    a = _SPLIT * x
    a = a - (a - x)
    b = _SPLIT * scale
    b = b - (b - scale)
    lost = ((a * b - scaled) + a * (scale - b) + (x - a) * b) + (x - a) * (scale - b)
    whole = _rint(scaled)
    rest = scaled - whole
    if rest == 0.5 and lost > 0.0:
        whole += 1.0
    elif rest == -0.5 and lost < 0.0:
        whole -= 1.0
    return math.copysign(whole / scale, x)


@called
def floor_div_float(x: Any, y: Any) -> Any:
    """``x // y`` of floats, step by step as CPython."""
    if y == 0.0:
        raise ZeroDivisionError("float floor division by zero")
    rest = _c_fmod(x, y)
    quotient = (x - rest) / y
    if rest != 0.0:
        if (y < 0.0) != (rest < 0.0):
            quotient -= 1.0
    if quotient != 0.0:
        whole = _floor(quotient)
        if quotient - whole > 0.5:
            whole += 1.0
        return whole
    return math.copysign(0.0, x / y)


@called
def power_int(x: Any, n: Any) -> Any:
    """``x ** n`` of ints, n not negative; raises where a product leaves 64 bits."""
    if n < 0:
        raise ValueError("left to Python")
    made = 1
    while n > 0:
        if n & 1:
            made = mul_int(made, x)
        n >>= 1
        if n > 0:
            x = mul_int(x, x)
    return made


@called
def gcd(a: Any, b: Any) -> Any:
    """``math.gcd``."""
    while b != 0:
        if b == -1:
            return 1
        a, b = b, a % b
    if a == -9223372036854775807 - 1:
        raise OverflowError("more than 64 bits")
    return abs(a)


@inner
def shift_left(a: Any, n: Any) -> Any:
    """``a << n``."""
    if n < 0 or n > 63:
        raise OverflowError("left to Python")
    made = a << n
    if made >> n != a:
        raise OverflowError("more than 64 bits")
    return made


@inner
def shift_right(a: Any, n: Any) -> Any:
    """``a >> n``."""
    if n < 0:
        raise ValueError("negative shift count")
    return a >> min(n, 63)
