"""Reading arrays as a processor does: eight bytes at once wherever they stand, and cells that will be needed soon."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types as _untyped_types
from numba.extending import intrinsic

_types: Final[Any] = _untyped_types
_BYTE: Final = ir.IntType(8)
_I32: Final = ir.IntType(32)


def _place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Where an element of a contiguous array stands, by its number."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def _eight_bytes(typing: Any, data: Any, at: Any) -> Any:
    """The eight bytes of an array of bytes from this place on, the first one lowest."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.bitcast(
            _place(context, builder, signature, args), ir.IntType(64).as_pointer()
        )
        return builder.load(place, align=1)

    return _types.uint64(data, _types.int64), generate


@intrinsic
def _soon(typing: Any, array: Any, at: Any) -> Any:
    """Tells the processor that this element will be read."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _I32, _I32, _I32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        place = builder.bitcast(_place(context, builder, signature, args), pointer)
        # To read, to be kept in all caches, data.
        builder.call(prefetch, [place, *(ir.Constant(_I32, one) for one in (0, 3, 1))])
        return context.get_dummy_value()

    return _types.void(array, _types.int64), generate


# A type checker sees the first parameter of an intrinsic, which is not the caller's.
eight_bytes: Final[Any] = _eight_bytes
soon: Final[Any] = _soon
