"""Python's parser, used by one thread at a time.

CPython 3.11 counts how deep a tree is in a place that all threads share. Two that turn trees into objects, or back, may
therefore both be refused: ``SystemError: AST constructor recursion depth mismatch``.
"""

from __future__ import annotations

import ast
import threading
import types
from typing import Final

_LOCK: Final = threading.RLock()


def parse(text: str) -> ast.Module:
    """The syntax tree of a module's text; errors as of :func:`ast.parse`."""
    with _LOCK:
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The syntax tree of an expression's text."""
    with _LOCK:
        return ast.parse(text, mode="eval").body


def compiled(tree: ast.Module, *, file: str = "<check>", flags: int = 0) -> types.CodeType:
    """The code of a tree, under its own flags and not those of this module."""
    with _LOCK:
        code: types.CodeType = compile(tree, file, "exec", flags, dont_inherit=True)
    return code
