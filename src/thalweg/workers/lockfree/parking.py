"""An event count: idle workers sleep until the next event, and no event is missed.

A worker that found nothing announces itself (``prepare``), looks for work once more, and only then parks; or it
cancels. Who makes work available calls ``unpark`` afterwards. Both write before they look, with a fence between: so
either the worker's second look finds the work, or ``unpark`` sees the sleeper and moves the epoch, and then ``park``
returns, or does not even begin. While nobody sleeps, ``unpark`` is one fence and one load.

Sleeping is a pthread mutex and condition variable, called by symbol from compiled code and kept in the words of the
structure itself, which must therefore never move.
"""

from __future__ import annotations

import time
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from thalweg.workers.lockfree import atomics
from thalweg.workers.lockfree.atomics import LINE, Words, add, cgutils, element, fence, load, shared
from thalweg.workers.lockfree.clocks import I32, I64, SECOND_NS, TIMESPEC, clock_reader

#: Words of an event count: the epoch, which counts events that found a sleeper; the number of announced sleepers, on
#: a line of its own since every ``unpark`` reads it; the mutex and the condition variable, at most 64 bytes each on
#: any system, and given more.
_EPOCH: Final = 0
_SLEEPERS: Final = LINE
_MUTEX: Final = 2 * LINE
_CONDITION: Final = 2 * LINE + 64
_WORDS: Final = 2 * LINE + 128


# -- what the operating system does ----------------------------------------------------------------------------


def _on_addresses(symbol: str, count: int) -> Any:
    return types.ExternalFunction(symbol, types.int32(*[types.int64] * count))


_mutex_init: Final = _on_addresses("pthread_mutex_init", 2)
_mutex_lock: Final = _on_addresses("pthread_mutex_lock", 1)
_mutex_unlock: Final = _on_addresses("pthread_mutex_unlock", 1)
_condition_init: Final = _on_addresses("pthread_cond_init", 2)
_condition_broadcast: Final = _on_addresses("pthread_cond_broadcast", 1)
_NULL: Final = 0


def _address_of_word(typing: Any, a: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(element(context, builder, signature.args[0], *args), I64)

    return types.int64(a, types.int64), generate


def _wait_on_condition(typing: Any, condition: Any, mutex: Any, deadline_ns: Any) -> Any:
    """``pthread_cond_timedwait``: 0, or an error number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(I32, [I64, I64, TIMESPEC.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, kind, "pthread_cond_timedwait")
        spec = cgutils.alloca_once(builder, TIMESPEC)
        for field, part in enumerate((builder.sdiv, builder.srem)):
            place = builder.gep(spec, [I32(0), I32(field)])
            builder.store(part(args[2], I64(SECOND_NS)), place)
        return builder.call(function, [*args[:2], spec])

    return types.int32(types.int64, types.int64, types.int64), generate


_address: Final[Any] = intrinsic(_address_of_word)
_wait_until: Final[Any] = intrinsic(_wait_on_condition)
#: Not the monotonic clock: not every system's condition variables can be told to wait by that.
_real_time_ns: Final = clock_reader(time.CLOCK_REALTIME)


def _prepare_system(mem: Words, at: int) -> None:
    """Makes the mutex and the condition variable."""


def _sleep(mem: Words, at: int, key: int, limit_us: int) -> None:
    """Returns when the epoch is not ``key``. The plain form, outside an explorer: at once, as if the time were up."""
    while load(mem, at + _EPOCH) == key and atomics.switch("park", mem, at + _EPOCH):
        pass


def _wake(mem: Words, at: int) -> None:
    """Moves the epoch and wakes all who sleep."""
    add(mem, at + _EPOCH, 1)


@overload(_prepare_system)
def _prepare_system_compiled(mem: Any, at: Any) -> Any:
    def call(mem: Any, at: Any) -> None:
        _mutex_init(_address(mem, at + _MUTEX), _NULL)
        _condition_init(_address(mem, at + _CONDITION), _NULL)

    return call


@overload(_sleep)
def _sleep_compiled(mem: Any, at: Any, key: Any, limit_us: Any) -> Any:
    def call(mem: Any, at: Any, key: Any, limit_us: Any) -> None:
        mutex, condition = _address(mem, at + _MUTEX), _address(mem, at + _CONDITION)
        deadline_ns = _real_time_ns() + 1000 * limit_us
        _mutex_lock(mutex)
        while load(mem, at + _EPOCH) == key and _wait_until(condition, mutex, deadline_ns) == 0:
            pass
        _mutex_unlock(mutex)

    return call


@overload(_wake)
def _wake_compiled(mem: Any, at: Any) -> Any:
    def call(mem: Any, at: Any) -> None:
        # Under the mutex, or a sleeper could look at the epoch before and begin to wait after.
        _mutex_lock(_address(mem, at + _MUTEX))
        add(mem, at + _EPOCH, 1)
        _condition_broadcast(_address(mem, at + _CONDITION))
        _mutex_unlock(_address(mem, at + _MUTEX))

    return call


# -- the event count -------------------------------------------------------------------------------------------


@shared
def parking_words() -> int:
    """The words that an event count takes, whole lines."""
    return _WORDS


@shared
def parking_init(mem: Words, at: int) -> None:
    """Makes an event count without sleepers; no other thread may know of it yet."""
    for word in range(at, at + _WORDS):
        mem[word] = 0
    _prepare_system(mem, at)


@shared
def prepare(mem: Words, at: int) -> int:
    """Announces a sleeper and returns the key to park with.

    The caller looks for work once more, and then parks or cancels.
    """
    add(mem, at + _SLEEPERS, 1)
    fence()
    return load(mem, at + _EPOCH)


@shared
def cancel(mem: Words, at: int) -> None:
    """The announced sleeper found work."""
    add(mem, at + _SLEEPERS, -1)


@shared
def park(mem: Words, at: int, key: int, limit_us: int) -> None:
    """Sleeps until an event after ``prepare`` returned this key, or for so many microseconds."""
    _sleep(mem, at, key, limit_us)
    add(mem, at + _SLEEPERS, -1)


@shared
def unpark(mem: Words, at: int) -> None:
    """Wakes all sleepers. For who has just made work available, or wants the workers to look around."""
    fence()
    if load(mem, at + _SLEEPERS) > 0:
        _wake(mem, at)
