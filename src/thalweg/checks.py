"""Checks of what users pass: one function for each kind of argument, one form of message.

``require_text("sink", name=3)`` says ``sink: name: expected a text that is not empty, got 3``. What a function passes
on to others is checked there.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import os
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeGuard, TypeVar

from thalweg.brief import brief
from thalweg.errors import BuildError, ThalwegError
from thalweg.guesses import GUESSES, hint, hint_of_option

Given = ParamSpec("Given")
Result = TypeVar("Result")
Class = TypeVar("Class")

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
    lowered = {str(one).lower(): str(one) for one in known}
    near = difflib.get_close_matches(str(name).lower(), lowered, n=1, cutoff=0.6)
    return f"; did you mean {lowered[near[0]]!r}?" if near else ""


def one_of(where: str, name: str, value: Any, known: Iterable[str]) -> Any:
    """The word of those that is meant, whatever the case of its letters.

    Raises:
        BuildError: it is none of them.
    """
    words = tuple(known)
    if isinstance(value, str) and value.lower() in words:
        return value.lower()
    error = refuse(where, name, f"one of {', '.join(words)}", value)
    raise BuildError(f"{error}{meant(value, words) if isinstance(value, str) else ''}")


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


def known_keywords(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function, with an error of ours for a keyword that it does not have, in place of a bare TypeError.

    Example::

        >>> @known_keywords
        ... def to_table(path: str) -> None: ...
        >>> to_table(pth="out")
        Traceback (most recent call last):
        thalweg.errors.BuildError: to_table: there is no option 'pth'; there are path; did you mean 'path'?
    """
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return _keywords_of(function, None)  # it looks at them itself
    return _keywords_of(function, ())


def known_keywords_and(
    *more: str,
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """As :func:`known_keywords`, of a function that passes on these keywords besides its own."""
    return lambda function: _keywords_of(function, more)


def _keywords_of(
    function: Callable[Given, Result], more: tuple[str, ...] | None
) -> Callable[Given, Result]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind in named and one.name != "self"]
    names += more or ()

    @functools.wraps(function)
    def checked(*args: Given.args, **given: Given.kwargs) -> Result:
        for name in given:
            if more is not None and name not in names:
                raise no_option(function.__qualname__.removesuffix(".__init__"), name, names)
        try:
            return function(*args, **given)
        except TypeError:
            refuse_call(function, args, given)
            raise
        except ThalwegError as error:
            # The message says it all; frames of the library would only stand between it and the caller's line.
            failure = error
        raise failure.with_traceback(None)

    return checked


def refuse_call(
    function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
) -> None:
    """Says how a function is called where its arguments do not fit it.

    Raises:
        TypeError: they do not.
    """
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        shown = [
            f"{'*' * one.kind.name.count('VAR')}{one.name}{'' if one.default is one.empty else '='}"
            for one in signature.parameters.values()
            if one.name != "self"
        ]
        name = function.__qualname__.rpartition(".")[2]
        failure = TypeError(f"{name}: {error}; it is {name}({', '.join(shown)})")
    else:
        return
    raise failure from None


def no_option(where: str, name: str, names: Iterable[str]) -> BuildError:
    """The error of a keyword that a function does not have."""
    known = list(names)
    there = f"there are {', '.join(known)}" if known else "there are none"
    hinted = hint_of_option(name, known)
    more = f"; {hinted}" if hinted else meant(name, known)
    return BuildError(f"{where}: there is no option {name!r}; {there}{more}")


def no_attribute(
    where: str, name: str, known: Iterable[str], table: str = "", own: str = ""
) -> AttributeError:
    """The error of a name that is not there, with what is meant by it, as far as that is known.

    Args:
        where: what was asked, as users call it: ``Stream``, ``tw.agg``.
        name: that is not there.
        known: the names that there are.
        table: of :mod:`thalweg.guesses`; "" where it is called as ``where``.
        own: what to write, where that is known already.
    """
    if name.startswith("_"):
        return AttributeError(f"{where} has no {name!r}")
    names = [one for one in known if not one.startswith("_")]
    hinted = own or hint(table or where, name, names)
    more = f": write {hinted}" if hinted else meant(name, names)
    return AttributeError(f"{where} has no {name!r}{more}")


class Guessable:
    """A class whose missing names say what is meant, where people try those of other libraries."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            kind = type(self)
            if name.startswith("_") or name in dir(
                kind
            ):  # a property of it asked for something else
                raise AttributeError(f"{kind.__name__} has no {name!r}")
            where = next((one.__name__ for one in kind.__mro__ if one.__name__ in GUESSES), "")
            own = self._meant_by(name)
            raise no_attribute(kind.__name__, name, dir(kind), where, own)

        def _meant_by(self, name: str) -> str:
            """What an object of its own content knows of the name; "" for nothing."""
            return ""


def known_keywords_of(owner: type[Class]) -> type[Class]:
    """The class, whose public methods and constructor are as :func:`known_keywords` makes them."""
    for name, one in list(vars(owner).items()):
        if isinstance(one, types.FunctionType) and (name == "__init__" or name[0] != "_"):
            setattr(owner, name, known_keywords(one))
    return owner
