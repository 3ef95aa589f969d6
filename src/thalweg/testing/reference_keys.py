"""Keys in the serial reference runner: how they group, how they are ordered (docs/order.md), and who is told."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Final, Protocol

from thalweg.flow.operators.nodes import Keyed, Node


def key_of(node: Keyed, row: Any) -> Any:
    """The key of a row: bare for one field, a tuple for several, () for none."""
    if node.key.function is not None:
        function = canonical(node.key.fields[0].type.coerce(node.key.function.call(row)))
        extra = [canonical(getattr(row, field.name)) for field in node.key.fields[1:]]
        return (function, *extra) if extra else function
    values = tuple(canonical(getattr(row, field.name)) for field in node.key.fields)
    return values[0] if len(values) == 1 else values


_NAN = math.nan


def canonical(value: Any) -> Any:
    """The value that stands for its group: one NaN, and 0.0 for -0.0."""
    if isinstance(value, float):
        return _NAN if value != value else value + 0.0
    return value


def sort_key(key: Any) -> Any:
    """Something that orders like the key: null, numbers, NaN, then text by its UTF-8 bytes."""
    if isinstance(key, tuple):
        return tuple(sort_key(one) for one in key)
    if key is None:
        return (0,)
    if isinstance(key, (bool, int, float)):
        return (2,) if key != key else (1, key)
    return (3, key.encode("utf-8", "surrogatepass") if isinstance(key, str) else bytes(key))


class KeyObserver(Protocol):
    """Who wants to know the keys by which tuples go."""

    def took(self, node: Keyed, key: Any) -> None:
        """A keyed operator took a tuple."""

    def giving(self, node: Node, key: Any) -> contextlib.AbstractContextManager[None]:
        """While it is open, an operator gives tuples: a keyed one by reason of a key, any other by that of ``()``."""


_NOTHING: Final = contextlib.nullcontext()


class Nobody:
    """Does not want to know."""

    def took(self, node: Keyed, key: Any) -> None:
        pass

    def giving(self, node: Node, key: Any) -> contextlib.AbstractContextManager[None]:
        return _NOTHING
