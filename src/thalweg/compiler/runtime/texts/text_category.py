"""The code of a text as a Category: its stable hash."""

from __future__ import annotations

from typing import Any, Final

import numba

from thalweg.compiler.runtime.support import carray, pointer, types
from thalweg.hashing import hash_span
from thalweg.jit import njit

_bytes: Final = pointer(types.uint8, 8)


@njit
def category_of(text: Any) -> Any:
    """The category code of a text that this process knows as a category."""
    return numba.int64(hash_span(carray(_bytes(text[0]), text[1]), 0, text[1]))


@njit
def category_or_none(boxed: Any) -> Any:
    """The same of an optional text: (is there, code)."""
    return (boxed[0], category_of(boxed[1]) if boxed[0] else numba.int64(0))
