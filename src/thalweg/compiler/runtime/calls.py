"""Calling compiled functions by address from compiled code, and memory that no Python object owns.

Numba's own convention is used, not C's: the called function says whether it raised, and a call costs a few
nanoseconds less. Every function that is called so has the signature ``int64(int64, int64, int64)``. Addresses
are int64 everywhere.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types as _untyped_types
from numba.core import cgutils as _untyped_cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array as _untyped_populate_array

from thalweg.compiler.runtime import support
from thalweg.compiler.runtime.support import get_i as get_i
from thalweg.compiler.runtime.support import put_i as put_i

#: Numba exports these without types.
types: Final[Any] = _untyped_types
cgutils: Final[Any] = _untyped_cgutils
_populate_array: Final[Any] = _untyped_populate_array
#: ``copy_bytes(to, from, bytes)`` between addresses
copy_bytes: Final[Any] = support.copy_bytes

_I64: Final = ir.IntType(64)
_POINTER: Final = ir.IntType(8).as_pointer()
#: ``int32 function(int64* result, excinfo** error, int64, int64, int64)``
_FUNCTION: Final = ir.FunctionType(
    ir.IntType(32), [_I64.as_pointer(), _POINTER.as_pointer(), _I64, _I64, _I64]
)
_SIGNATURE: Final = (types.int64,) * 3


def address_of(dispatcher: Any) -> int:
    """The machine address of a function of three int64; the dispatcher must be kept alive.

    Compiles it, or loads it from the cache, where that has not happened yet.
    """
    if _SIGNATURE not in dispatcher.overloads:
        dispatcher.compile(_SIGNATURE)
    made = dispatcher.overloads[_SIGNATURE]
    place: int = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
    return place


def _call3(typing: Any, address: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = cgutils.alloca_once(builder, _I64)
        error = cgutils.alloca_once(builder, _POINTER)
        builder.store(ir.Constant(_I64, 0), result)
        function = builder.inttoptr(args[0], _FUNCTION.as_pointer())
        status = builder.call(function, [result, error, *args[1:]])
        return cgutils.pack_array(builder, [builder.sext(status, _I64), builder.load(result)])

    int64 = types.int64
    return types.UniTuple(int64, 2)(int64, int64, int64, int64), generate


#: ``call3(address, a, b, c) -> (status, value)``; status 0 when it returned, else it raised and there is no value.
call3: Final[Any] = intrinsic(_call3)

#: C's allocator: ``malloc(bytes)`` and ``realloc(address, bytes)`` give an address, 0 when memory has run out.
malloc: Final[Any] = types.ExternalFunction("malloc", types.int64(types.int64))
realloc: Final[Any] = types.ExternalFunction("realloc", types.int64(types.int64, types.int64))
free: Final[Any] = types.ExternalFunction("free", types.void(types.int64))


def _words_at(typing: Any, place: Any) -> Any:
    words = types.Array(types.int64, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = context.make_array(words)(context, builder)
        data = builder.inttoptr(args[0], _I64.as_pointer())
        size = ir.Constant(_I64, 8)
        # Nobody asks for the length, and no array is that long.
        _populate_array(
            made, data=data, shape=[ir.Constant(_I64, 1 << 59)], strides=[size], itemsize=size, meminfo=None
        )  # fmt: skip
        return made._getvalue()

    return words(types.int64), generate


#: ``words_at(address)``: the words there as an array that owns nothing, for the atomic operations and the rings.
words_at: Final[Any] = intrinsic(_words_at)
