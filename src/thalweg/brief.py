"""Short texts of objects: what ``print`` shows of a result, a table of keys or a measurement, however large it is."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final, TypeVar

import numpy as np

Class = TypeVar("Class", bound=type)

#: Items that are shown of a collection.
_ITEMS: Final = 4
#: Characters of a whole text, of a part of one, and of a part of that: some lines of a terminal at most.
_LENGTHS: Final = (800, 200, 60)


def counted(count: int, noun: str) -> str:
    """So many of something, with commas.

    Example::

        >>> counted(1, "batch"), counted(0, "key"), counted(1200, "query")
        ('1 batch', '0 keys', '1,200 queries')
    """
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and not noun.endswith(("ay", "ey", "oy")):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def brief_repr(cls: Class) -> Class:
    """The class with a ``repr`` of a few lines: its public attributes, of collections the first items and their number.

    Stands above ``dataclass``.
    """

    def __repr__(self: Any) -> str:
        return brief(self)

    __repr__.is_brief = True  # type: ignore[attr-defined]
    cls.__repr__ = __repr__  # type: ignore[assignment]
    return cls


def brief(value: Any, depth: int = 0) -> str:
    """The text of an object, a line of bounded length.

    Example::

        >>> brief({"keys": list(range(1000)), "name": "a"})
        "{'keys': [0, 1, 2, 3, … 996 more], 'name': 'a'}"
    """
    text = _text(value, depth)
    longest = _LENGTHS[min(depth, len(_LENGTHS) - 1)]
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _text(value: Any, depth: int) -> str:
    name = type(value).__name__
    if isinstance(value, str | bytes):
        return repr(value[: 2 * _LENGTHS[0]])
    if isinstance(value, np.ndarray):
        return f"<{value.size:,} {value.dtype}>"
    if hasattr(type(value), "num_rows") and hasattr(type(value), "column_names"):
        return f"<{name} of {counted(value.num_rows, 'row')}: {', '.join(value.column_names)}>"
    if depth >= len(_LENGTHS):
        return f"{name}(…)"
    if isinstance(value, Mapping):
        pairs = (f"{brief(k, depth + 1)}: {brief(v, depth + 1)}" for k, v in value.items())
        return "{" + _first(pairs, len(value)) + "}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{name}({_attributes(zip(value._fields, value, strict=True), depth)})"
    if isinstance(value, list | tuple | Set):
        return _collection(value, depth)
    if depth and _has_own_text(value):
        return repr(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
        return f"{name}({_attributes(fields, depth)})"
    return f"{name}({_attributes(getattr(value, '__dict__', {}).items(), depth)})"


def _has_own_text(value: Any) -> bool:
    """Whether somebody wrote its ``repr``: not that of every object, of a dataclass, or of here."""
    its: Any = type(value).__repr__
    made = hasattr(its, "__wrapped__") or hasattr(its, "is_brief")
    return its is not object.__repr__ and not made


def _collection(value: Sequence[Any] | Set[Any], depth: int) -> str:
    inside = _first((brief(one, depth + 1) for one in value), len(value))
    if isinstance(value, list):
        return f"[{inside}]"
    if isinstance(value, Set):
        return "{" + inside + "}"
    return f"({inside},)" if len(value) == 1 else f"({inside})"


def _first(texts: Iterable[str], count: int) -> str:
    shown = list(itertools.islice(texts, _ITEMS))
    return ", ".join([*shown, f"… {count - _ITEMS:,} more"] if count > _ITEMS else shown)


def _attributes(given: Iterable[tuple[str, Any]], depth: int) -> str:
    return ", ".join(f"{k}={brief(v, depth + 1)}" for k, v in given if not k.startswith("_"))
