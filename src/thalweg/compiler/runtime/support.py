"""What generated kernels call: memory by address, and the operations where Numba and Python part.

Kernels see columns, tables and buffers as addresses. So all kernels have one signature, a call costs the
same whatever the number of columns, read-only Arrow buffers need no second compilation, and no reference
is counted in a loop.
"""

from __future__ import annotations

from typing import Any, Final

import numba
from llvmlite import ir
from numba import types as _untyped_types
from numba.core import cgutils as _untyped_cgutils
from numba.extending import intrinsic

from thalweg.jit import OPTIONS, njit

_I64: Final = ir.IntType(64)
_BYTE: Final = ir.IntType(8)

#: Numba exports these without types.
types: Final[Any] = _untyped_types
cgutils: Final[Any] = _untyped_cgutils
carray: Final[Any] = vars(numba)["carray"]

#: How generated functions are compiled: into the kernel that calls them.
inner: Final = numba.njit(**OPTIONS, forceinline=True)
#: How kernels are compiled: at import, or loaded from the cache.
kernel: Final = njit(signature="int64(int64, int64, int64)")

#: What a kernel returns: all rows done, or the output buffers are full (ctl says how much is needed).
DONE: Final = 0
FULL: Final = 1


def _loader(value: Any, stored: Any) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            # Rows of state tables are packed, so nothing is known about alignment.
            got = builder.load(builder.inttoptr(args[0], stored.as_pointer()), align=1)
            if value is types.boolean:
                return builder.icmp_unsigned("!=", got, ir.Constant(stored, 0))
            return got

        return value(types.int64), generate

    return load


def _storer(value: Any, stored: Any) -> Any:
    @intrinsic
    def store(typing: Any, address: Any, content: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = args[1]
            if value is types.boolean and given.type.width < 8:
                given = builder.zext(given, stored)
            builder.store(given, builder.inttoptr(args[0], stored.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, value), generate

    return store


get_i: Final = _loader(types.int64, _I64)
get_f: Final = _loader(types.float64, ir.DoubleType())
get_b: Final = _loader(types.boolean, _BYTE)
get_u: Final = _loader(types.uint8, _BYTE)
put_i: Final = _storer(types.int64, _I64)
put_f: Final = _storer(types.float64, ir.DoubleType())
put_b: Final = _storer(types.boolean, _BYTE)
put_u: Final = _storer(types.uint8, _BYTE)


@intrinsic
def _copy_bytes(typing: Any, target: Any, origin: Any, size: Any) -> Any:
    """Copies ``size`` bytes between addresses."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, at = (builder.inttoptr(one, _BYTE.as_pointer()) for one in args[:2])
        cgutils.raw_memcpy(builder, to, at, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


#: ``copy_bytes(to, from, bytes)`` between addresses.
copy_bytes: Final[Any] = _copy_bytes


def pointer(stored: Any, width: int) -> Any:
    """An intrinsic that makes a typed pointer of an address, for ``carray``."""

    @intrinsic
    def made(typing: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.DoubleType() if stored is types.float64 else ir.IntType(width)
            return builder.inttoptr(args[0], kind.as_pointer())

        return types.CPointer(stored)(types.int64), generate

    return made


# -- None ----------------------------------------------------------------------------------------------


@inner
def need(boxed: Any) -> Any:
    """The value of an optional; the TypeError that Python raises when it computes with None."""
    if not boxed[0]:
        raise TypeError("None where a value is needed")
    return boxed[1]


@inner
def truth_of(boxed: Any) -> Any:
    """Whether an optional number counts as true."""
    return boxed[0] and boxed[1] != 0


@inner
def equal_one(boxed: Any, value: Any) -> Any:
    """``optional == value``."""
    return boxed[0] and boxed[1] == value


@inner
def equal_both(a: Any, b: Any) -> Any:
    """``optional == optional``."""
    if a[0] and b[0]:
        return a[1] == b[1]
    return a[0] == b[0]


# -- numbers -------------------------------------------------------------------------------------------

_FIRST_OUTSIDE: Final = 9223372036854775808.0


@inner
def compare(a: Any, b: Any) -> Any:
    """An int with a float, exactly, as Python does: -1, 0, 1, or 2 when the float is NaN."""
    if b != b:
        return 2
    if b >= _FIRST_OUTSIDE:
        return -1
    if b < -_FIRST_OUTSIDE:
        return 1
    whole = numba.int64(b)
    if a != whole:
        return -1 if a < whole else 1
    rest = b - numba.float64(whole)
    if rest > 0:
        return -1
    return 1 if rest < 0 else 0


@inner
def mod_float(a: Any, b: Any) -> Any:
    """``a % b`` of floats with Python's signs, zeros included."""
    if b == 0.0:
        raise ZeroDivisionError("float modulo")
    return a % b


@inner
def lesser(a: Any, b: Any) -> Any:
    """``min(a, b)`` as Python orders it: the first unless the second is smaller."""
    return b if b < a else a


@inner
def greater(a: Any, b: Any) -> Any:
    """``max(a, b)`` as Python orders it: the first unless the second is greater."""
    return b if b > a else a


@intrinsic
def _square_root(typing: Any, a: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.DoubleType(), [ir.DoubleType()]),
            "llvm.sqrt.f64",
        )
        return builder.call(function, args)

    return types.float64(types.float64), generate


_sqrt: Final[Any] = _square_root


@inner
def root(a: Any) -> Any:
    """``math.sqrt``, which raises below zero."""
    if a < 0.0:
        raise ValueError("math domain error")
    return _sqrt(a)


@intrinsic
def as_float(typing: Any, bits: Any) -> Any:
    """The float that has these 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate
