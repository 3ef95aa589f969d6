"""The one door to Numba: functions compiled without the interpreter's lock, kept from one process to the next.

Numba's own cache asks only whether a function's file has changed, so a changed helper would leave stale code in its
callers. Here machine code is kept under a digest of all that it is really made from (:mod:`thalweg.jit.digest`), in
a folder that only its owner can write (:mod:`thalweg.jit.folder`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast, overload

import numba
from numba.core.dispatcher import Dispatcher

from thalweg.jit.kernels import KernelCache, when_compiling

__all__ = ["OPTIONS", "Decorator", "is_kept", "njit", "when_compiling"]

P = ParamSpec("P")
R = TypeVar("R")

#: How the whole package compiles: without the interpreter's lock, with Python's division errors.
OPTIONS: Final[dict[str, Any]] = {"nogil": True, "error_model": "python"}


class Decorator(Protocol):
    """What ``numba.njit`` is to a type checker: it keeps the function's signature."""

    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def __call__(self, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def _njit(function: Any = None, /, *, signature: str | None = None, **options: Any) -> Any:
    if function is None:
        return lambda given: _njit(given, signature=signature, **options)
    made = numba.njit(**{**OPTIONS, **options})(function)
    # Numba gives the function back where NUMBA_DISABLE_JIT is set.
    if isinstance(made, Dispatcher) and options.get("cache", True):
        vars(made)["_cache"] = KernelCache(made)
    if isinstance(made, Dispatcher) and signature is not None:
        made.compile(signature)
        made.disable_compile()
    return made


#: ``numba.njit`` with :data:`OPTIONS` and the cache. With ``signature`` it compiles (or loads) at once.
njit: Final = cast("Decorator", _njit)


def is_kept(function: Callable[..., Any], signature: Any) -> bool:
    """Whether a function has been compiled for a signature, by this process or, as far as it can be found, another."""
    cache = vars(function).get("_cache") if isinstance(function, Dispatcher) else None
    return not isinstance(cache, KernelCache) or cache.is_kept(signature)
