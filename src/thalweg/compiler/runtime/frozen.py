"""Addresses that machine code asks the linker for: captured tables, and C's own functions of numbers.

Machine code names them by symbol. So it can be kept whatever they hold and wherever they stand, and LLVM knows
nothing of a function that it could put something else in place of.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding as _untyped_binding
from llvmlite import ir
from numba.extending import intrinsic

from thalweg.compiler.runtime.dicts import fill_index
from thalweg.compiler.runtime.support import cgutils, types
from thalweg.jit import njit

#: llvmlite has no types.
binding: Final[Any] = _untyped_binding
_I64: Final = ir.IntType(64)
_DOUBLE: Final = ir.DoubleType()


def name_address(symbol: str, place: int) -> None:
    """Gives the linker a name for an address; what is there must be kept."""
    binding.add_symbol(symbol, place)


def table_place(symbol: str) -> Any:
    """An intrinsic that gives the address that has this name."""

    @intrinsic
    def place(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [])
            return builder.ptrtoint(
                cgutils.get_or_insert_function(builder.module, kind, symbol), _I64
            )

        return types.int64(), generate

    return place


@njit
def fill_table(header: int, key: int, size: int) -> None:
    """Fills a dict's index: what many threads read is not changed by the first of them."""
    fill_index(header, key, size)


def c_function(name: str, arguments: int) -> Any:
    """An intrinsic that calls the C library's function of so many floats, the one that CPython calls."""
    symbol = f"thalweg_c_{name}"
    name_address(symbol, binding.address_of_symbol(name))

    @intrinsic
    def one(typing: Any, a: Any) -> Any:
        return types.float64(types.float64), _call_of(symbol, 1)

    @intrinsic
    def two(typing: Any, a: Any, b: Any) -> Any:
        return types.float64(types.float64, types.float64), _call_of(symbol, 2)

    return one if arguments == 1 else two


def _call_of(symbol: str, arguments: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE] * arguments)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), args)

    return generate
