"""Checks of what users pass: one function for each kind of argument, one form of message.

``require_text("sink", name=3)`` says ``sink: name: expected a text that is not empty, got 3``. What a function passes
on to others is checked there.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from thalweg.brief import brief
from thalweg.errors import BuildError

#: Characters of a value that a message shows.
_SHOWN = 80


def shown(value: Any) -> str:
    """A value as messages show it."""
    text = repr(value) if isinstance(value, str | int | float) else brief(value, 1)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def kind_of(value: Any) -> str:
    """What a value is, in the words of users: how they make it, ``tw.files(...)``, or the name of its class."""
    return str(getattr(type(value), "made_by", type(value).__name__))


def refuse(where: str, name: str, expected: str, value: Any) -> BuildError:
    """The error of an argument that cannot be meant.

    Args:
        where: the function, or the operator.
        name: of the argument.
        expected: what it is.
        value: what came.
    """
    place = f"{where}: " if where else ""
    return BuildError(f"{place}{name}: expected {expected}, got {shown(value)}")


def meant(name: Any, known: Iterable[str]) -> str:
    """``; did you mean 'header'?`` where one of the names is near to what came, else nothing."""
    near = difflib.get_close_matches(str(name), [str(one) for one in known], n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def is_int_from(value: Any, least: int) -> TypeGuard[int]:
    """Whether it is an int of at least ``least``; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def require_share(owner: object, **values: float) -> None:
    """Refuses what is no share between 0 and 1, both included."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise BuildError(f"{type(owner).__name__}: {name} must be from 0 to 1, not {value!r}")


def require_int(owner: object, least: int, **values: int) -> None:
    """Refuses what is no int of at least ``least``."""
    for name, value in values.items():
        if not is_int_from(value, least):
            raise BuildError(
                f"{type(owner).__name__}: {name} must be an int of at least {least}, not {value!r}"
            )


def require_count(name: str, value: Any) -> None:
    """Refuses what is no int from 1 on."""
    if not is_int_from(value, 1):
        raise BuildError(f"{name}: expected a number from 1 on, got {shown(value)}")


def require_class(owner: str, value: Any) -> None:
    """Refuses what is no priority class.

    Args:
        owner: whose class it is, as the message begins.
        value: the class.
    """
    if not is_int_from(value, 0):
        raise BuildError(f"{owner}: a priority class is an int, 0 the most urgent, not {value!r}")


def require_text(where: str, **values: Any) -> None:
    """Refuses what is no text, and the empty one."""
    for name, value in values.items():
        if not isinstance(value, str) or not value:
            raise refuse(where, name, "a text that is not empty", value)


def require_optional_text(where: str, **values: Any) -> None:
    """As :func:`require_text`, but None is nothing."""
    for name, value in values.items():
        if value is not None and (not isinstance(value, str) or not value):
            raise refuse(where, name, "a text that is not empty, or None", value)


def path_of(where: str, name: str, value: Any) -> str:
    """A path as a text.

    Raises:
        BuildError: it is none, or empty.
    """
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise refuse(where, name, "a path", value)
    return str(os.fspath(value))


def names_of(where: str, names: Any) -> tuple[str, ...]:
    """The names of operators to be dropped.

    Raises:
        BuildError: they are no names.
    """
    if not isinstance(names, list | tuple | set | frozenset) or not all(
        isinstance(name, str) and name for name in names
    ):
        raise refuse(where, "drop", 'names of operators, such as ("totals",)', names)
    return tuple(names)


def require_flag(where: str, **values: Any) -> None:
    """Refuses what is neither True nor False."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise refuse(where, name, "True or False", value)


def require_function(where: str, **values: Any) -> None:
    """Refuses what cannot be called."""
    for name, value in values.items():
        if not callable(value):
            raise refuse(where, name, "a function", value)


def require_mapping(where: str, expected: str, **values: Any) -> None:
    """Refuses what is no mapping; ``expected`` says of what, say ``sinks by name``."""
    for name, value in values.items():
        if not isinstance(value, Mapping):
            raise refuse(where, name, f"a dict of {expected}", value)


def require_instance(
    where: str, kind: type | tuple[type, ...], expected: str, **values: Any
) -> None:
    """Refuses what is not of a class."""
    for name, value in values.items():
        if not isinstance(value, kind):
            raise refuse(where, name, expected, value)


def require_rows(where: str, **values: Any) -> None:
    """Refuses what is no number from 1 on."""
    for name, value in values.items():
        if not is_int_from(value, 1):
            raise refuse(where, name, "a whole number from 1 on", value)


def is_length(value: Any, *, above: bool = True) -> bool:
    """Whether a value is a length of time: a number above 0, or from 0 on, and not endless."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf and not (above and not value)


def require_seconds(
    where: str, *, above: bool = False, unit: str = "seconds", **values: Any
) -> None:
    """Refuses what is no length of time."""
    for name, value in values.items():
        if not is_length(value, above=above):
            raise refuse(where, name, f"{unit} {'above 0' if above else 'from 0 on'}", value)
