"""Which fields of a row a function reads, as its bytecode says."""

from __future__ import annotations

import dis
import functools
import types
from typing import Any, Final

#: Names by which a function may reach its own variables.
_LOOKS_AT_ITSELF: Final = frozenset({"locals", "vars", "eval", "exec", "dir", "_getframe"})
_LOADS: Final = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW")


def fields_read(function: Any, place: int) -> frozenset[str] | None:
    """The attributes of the parameter at this place that a function reads; None where it may do anything with it.

    So it is where the whole row is passed on, compared, taken apart or kept, and where the function is no plain one.
    """
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        return None
    return _read_by(function.__code__, place)


@functools.lru_cache(maxsize=1024)
def _read_by(code: types.CodeType, place: int) -> frozenset[str] | None:
    if place >= code.co_argcount or _LOOKS_AT_ITSELF.intersection(code.co_names):
        return None
    name = code.co_varnames[place]
    if name in code.co_cellvars:
        return None
    found = set()
    steps = list(dis.get_instructions(code))
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if not _names(step, name):
            continue
        is_read = step.opname in _LOADS and after is not None and after.opname == "LOAD_ATTR"
        if not is_read or after is None or not isinstance(after.argval, str):
            return None
        found.add(after.argval)
    return frozenset(found)


def _names(step: dis.Instruction, name: str) -> bool:
    """Whether an instruction is about a local variable of this name, or about two of which one is."""
    if "FAST" not in step.opname:
        return False
    return name in (step.argval if isinstance(step.argval, tuple) else (step.argval,))
