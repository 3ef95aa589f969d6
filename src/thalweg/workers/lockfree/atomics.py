"""Atomic operations on the words of an int64 array: compiled as machine instructions, runnable as plain Python.

Concurrent structures live in one int64 array ``mem``; ``at`` is the offset of a structure's first word. The
functions here are plain Python. Compiled code gets the intrinsic of the same meaning in their place
(``@overload``), so one source serves workers and, run as Python, the explorer of interleavings: every plain form
calls :data:`switch` before it acts, and there the explorer stops one logical thread and resumes another. Outside
an explorer the plain forms are for a single thread; only the compiled ones are atomic.

Orders are those of C11: ``load`` acquires, ``store`` releases, ``add`` and ``cas`` do both, ``swap`` and ``fence``
are sequentially consistent. A store followed by a load of another word may be seen by others in the opposite
order, on x86 too; where that matters (Dekker's pattern: announce, then look) there must be a ``swap`` or a
``fence`` in between.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils as _untyped_cgutils
from numba.extending import intrinsic, overload

from thalweg.jit import Decorator, njit

Words = npt.NDArray[np.int64]

#: A cache line in words: what different threads write stands on different lines.
LINE: Final = 8
#: "Nothing there", from queues of items, which are never negative.
EMPTY: Final = -1
#: So many pauses before a waiting thread gives its processor away. Pure spinning is 12 times slower where there
#: are more threads than processors.
PAUSES: Final = 40

#: Decorates every function of a concurrent structure. The explorer loads the sources with this as the identity.
#: Without Numba's reference counts: a function counts its array arguments up and down, by atomic operations on a
#: word that all threads would share. So these functions, and loops that call them, cannot make arrays.
shared: Final = cast("Decorator", functools.partial(njit, _nrt=False))
#: As :data:`shared`, for what Python calls that is over in a moment: such a call keeps the interpreter's lock. To let
#: go of it is to wait for it afterwards, behind every thread that has something to do in Python.
brief: Final = cast("Decorator", functools.partial(njit, _nrt=False, nogil=False))

#: Numba's own helpers have no types.
cgutils: Final[Any] = _untyped_cgutils
_I64: Final = ir.IntType(64)
_sched_yield: Final = types.ExternalFunction("sched_yield", types.int32())


def _no_switch(kind: str, a: Words | None, i: int) -> bool:
    return False


#: Called by the plain forms before they act, with the kind of the operation and the word it is about to touch;
#: says whether an explorer is in charge.
switch: Callable[[str, Words | None, int], bool] = _no_switch


def line_up(words: int) -> int:
    """The number of words rounded up to whole cache lines."""
    return -(-words // LINE) * LINE


def new_words(count: int) -> Words:
    """``count`` zeroed words that begin on a cache line; the owner keeps the array alive."""
    room = np.zeros(count + LINE, dtype=np.int64)
    skipped = -room.ctypes.data // room.itemsize % LINE
    return room[skipped : skipped + count]


# -- plain forms -----------------------------------------------------------------------------------------------


def load(a: Words, i: int) -> int:
    """The word, with acquire order."""
    switch("load", a, i)
    return int(a[i])


def store(a: Words, i: int, v: int) -> None:
    """Writes the word, with release order."""
    switch("store", a, i)
    a[i] = v


def add(a: Words, i: int, v: int) -> int:
    """Adds to the word and returns what it was (``fetch_add``)."""
    switch("add", a, i)
    old = int(a[i])
    a[i] = old + v
    return old


def swap(a: Words, i: int, v: int) -> int:
    """Writes the word and returns what it was (``exchange``), sequentially consistent."""
    switch("swap", a, i)
    old = int(a[i])
    a[i] = v
    return old


def cas(a: Words, i: int, expected: int, new: int) -> bool:
    """Writes the word if it is as expected, and says whether it was (``compare_exchange_strong``)."""
    switch("cas", a, i)
    if int(a[i]) != expected:
        return False
    a[i] = new
    return True


def fence() -> None:
    """Everything before stands, for every thread, before everything after."""
    switch("fence", None, -1)


def relax() -> None:
    """A pause inside a spin loop."""
    switch("relax", None, -1)


def give_way() -> None:
    """Lets another thread run on this processor (``sched_yield``)."""
    switch("give_way", None, -1)


# -- compiled forms --------------------------------------------------------------------------------------------


def _is_words(a: Any) -> bool:
    return isinstance(a, types.Array) and a.dtype == types.int64 and a.ndim == 1 and a.layout == "C"


def element(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """The LLVM pointer to an array's element."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


def _on_word(result: Any, operands: int, act: Callable[[Any, Any, Any], Any]) -> Any:
    """An intrinsic that does ``act(builder, pointer, operands)`` on a word of an int64 array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element(context, builder, signature.args[0], *args[:2])
        got = act(builder, pointer, args[2:])
        return context.get_dummy_value() if result is types.void else got

    def signed(a: Any) -> Any:
        return (result(a, *[types.int64] * (1 + operands)), generate) if _is_words(a) else None

    # Numba reads the number of parameters off the function.
    forms: list[Any] = [
        lambda typing, a, i: signed(a),
        lambda typing, a, i, v: signed(a),
        lambda typing, a, i, v, w: signed(a),
    ]
    return intrinsic(forms[operands])


def _store_word(builder: Any, pointer: Any, operands: Any) -> None:
    builder.store_atomic(operands[0], pointer, "release", 8)


def _compare_and_swap(builder: Any, pointer: Any, operands: Any) -> Any:
    pair = builder.cmpxchg(pointer, *operands, "acq_rel", "acquire")
    return builder.extract_value(pair, 1)


_load: Final = _on_word(types.int64, 0, lambda b, p, v: b.load_atomic(p, "acquire", 8))
_store: Final = _on_word(types.void, 1, _store_word)
_add: Final = _on_word(types.int64, 1, lambda b, p, v: b.atomic_rmw("add", p, v[0], "acq_rel"))
_swap: Final = _on_word(types.int64, 1, lambda b, p, v: b.atomic_rmw("xchg", p, v[0], "seq_cst"))
_cas: Final = _on_word(types.boolean, 2, _compare_and_swap)


def _without_operands(act: Callable[[Any], Any]) -> Any:
    """An intrinsic that does ``act(builder)``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        act(builder)
        return context.get_dummy_value()

    return intrinsic(lambda typing: (types.void(), generate))


def _pause_processor(builder: Any) -> None:
    # As LLVM intrinsics: Numba's just-in-time compiler has no parser for inline assembly and would abort.
    void, number, machine = ir.VoidType(), ir.IntType(32), platform.machine().lower()
    if machine in {"x86_64", "amd64"}:
        kind, name, args = ir.FunctionType(void, []), "llvm.x86.sse2.pause", []
    elif machine in {"aarch64", "arm64"}:
        kind, name, args = ir.FunctionType(void, [number]), "llvm.aarch64.hint", [number(1)]
    else:
        return
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


_fence: Final = _without_operands(lambda builder: builder.fence("seq_cst"))
_pause: Final = _without_operands(_pause_processor)

overload(load)(lambda a, i: lambda a, i: _load(a, i))
overload(store)(lambda a, i, v: lambda a, i, v: _store(a, i, v))
overload(add)(lambda a, i, v: lambda a, i, v: _add(a, i, v))
overload(swap)(lambda a, i, v: lambda a, i, v: _swap(a, i, v))
overload(cas)(lambda a, i, expected, new: lambda a, i, expected, new: _cas(a, i, expected, new))
overload(fence)(lambda: lambda: _fence())
overload(relax)(lambda: lambda: _pause())


@overload(give_way)
def _compiled_give_way() -> Any:
    def call() -> None:
        _sched_yield()

    return call


# -- waiting ---------------------------------------------------------------------------------------------------


@shared
def back_off(tries: int) -> int:
    """One turn of a spin loop: pauses at first, then gives way. Returns the tries so far, this one included."""
    if tries < PAUSES:
        relax()
    else:
        give_way()
    return tries + 1
