"""Calling compiled functions by address from compiled code.

Numba's own convention is used, not C's: the called function says whether it raised, and a call costs a few
nanoseconds less. Every function that is called so has the signature ``int64(int64, int64, int64)``.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types as _untyped_types
from numba.core import cgutils as _untyped_cgutils
from numba.extending import intrinsic

from thalweg.runtime.compiler.support import get_i as get_i

#: Numba exports these without types.
types: Final[Any] = _untyped_types
cgutils: Final[Any] = _untyped_cgutils

_I64: Final = ir.IntType(64)
_POINTER: Final = ir.IntType(8).as_pointer()
#: ``int32 function(int64* result, excinfo** error, int64, int64, int64)``
_FUNCTION: Final = ir.FunctionType(
    ir.IntType(32), [_I64.as_pointer(), _POINTER.as_pointer(), _I64, _I64, _I64]
)


def address_of(dispatcher: Any) -> int:
    """The machine address of a function compiled for its one signature; the dispatcher must be kept alive."""
    (made,) = dispatcher.overloads.values()
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
