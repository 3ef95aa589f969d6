"""A user's function as an operator holds it: where it stands, how it is called, what it returns.

Everything here is checked while the flow is built, so that a message can name operator, function, file and
line: where, what was expected, what came, what to do.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from thalweg.checks import meant
from thalweg.errors import BuildError, SchemaError
from thalweg.flow.fields.user_rows import Adapter, adapter_of
from thalweg.flow.records import Schema


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A callable with its place in the user's code."""

    call: Callable[..., Any] = dataclasses.field(compare=False)
    name: str
    file: str
    line: int

    @classmethod
    def of(
        cls, call: Any, operator: str, *, coroutine: bool = False, argument: str = ""
    ) -> Function:
        """The function record of any callable, or of a coroutine function; ``argument`` names it in messages.

        Raises:
            BuildError: it cannot be called, or it is of the other kind.
        """
        if not callable(call):
            named = f"{argument}: " if argument else ""
            raise BuildError(f"operator {operator!r}: {named}expected a function, got {call!r}")
        label = getattr(call, "__qualname__", call)
        if coroutine and inspect.isasyncgenfunction(call):
            raise BuildError(
                f"operator {operator!r}: {label} has a yield, which makes it an async generator; an operator puts out"
                " a row by await out.push(row)"
            )
        if coroutine and not inspect.iscoroutinefunction(call):
            raise BuildError(
                f"operator {operator!r}: {label} is not a coroutine; an operator with"
                " its own driver loop is written async def, and awaits tw.wait_for_all(...) and out.push(row)"
            )
        if not coroutine and (
            inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
        ):
            raise BuildError(
                f"operator {operator!r}: {label} is async def; this verb calls a plain function"
                " for each tuple, write def instead of async def, or pass it to stream.map_async or flow.operator"
            )
        return cls._named(call)

    @classmethod
    def of_async(cls, call: Any, operator: str) -> Function:
        """The function record of a coroutine function that is called for each row.

        Raises:
            BuildError: it is none.
        """
        if not callable(call):
            raise BuildError(f"operator {operator!r}: expected an async def function, got {call!r}")
        label = getattr(call, "__qualname__", call)
        if inspect.isasyncgenfunction(call):
            raise BuildError(
                f"operator {operator!r}: {label} has a yield, which makes it an async generator; a call returns one"
                " record, or None: give one that has a list, and flat_map behind it"
            )
        awaited = call if inspect.isroutine(call) else getattr(call, "__call__", call)  # noqa: B004
        if not any(map(inspect.iscoroutinefunction, (call, awaited, inspect.unwrap(call)))):
            raise BuildError(
                f"operator {operator!r}: {label} is not async def, so calls would run one after the other; write"
                " async def and await in it, or use map"
            )
        return cls._named(call)

    @classmethod
    def _named(cls, call: Any) -> Function:
        inner = inspect.unwrap(call)
        code = getattr(inner, "__code__", None)
        name = getattr(call, "__name__", type(call).__name__)
        return cls(
            call, name, code.co_filename if code else "?", code.co_firstlineno if code else 0
        )

    def __reduce__(self) -> tuple[Any, ...]:
        found = adapter_of(self.call)
        adapter, call = (None, self.call) if found is None else found
        return _function, (call, self.name, self.file, self.line, adapter)

    def adapted(self, adapter: Adapter) -> Function:
        """The function of rows as they are inside."""
        return dataclasses.replace(self, call=adapter(self.call))

    @property
    def is_lambda(self) -> bool:
        return self.name == "<lambda>"

    @property
    def where(self) -> str:
        """``track (cart.py:12)``, for messages."""
        return f"{self.name} ({os.path.basename(self.file)}:{self.line})"


def _function(
    call: Any, name: str, file: str, line: int, adapter: Adapter | None = None
) -> Function:
    """A function from another process; code that travels by value has lost its file, which messages name."""
    inner = inspect.unwrap(call)
    code = getattr(inner, "__code__", None)
    if code is not None and code.co_filename == "<dynamic-code>":
        inner.__code__ = code.replace(co_filename=file)
    return Function(call if adapter is None else adapter(call), name, file, line)


@dataclasses.dataclass(frozen=True, slots=True)
class Returns:
    """What a function gives: records of ``schema`` (None: never any), several a call, or perhaps none."""

    schema: Schema | None
    many: bool = False
    maybe: bool = False


_ITERATORS: Final = {
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.Sequence,
    list,
    tuple,
}


def check_parameters(function: Function, operator: str, wanted: Sequence[str]) -> None:
    """Refuses a function that cannot be called with these positional arguments.

    Raises:
        BuildError: naming the parameters that it has and those it will be called with.
    """
    try:
        signature = inspect.signature(function.call)
        signature.bind(*wanted)
    except (TypeError, ValueError):
        try:
            has = str(inspect.signature(function.call))
        except (TypeError, ValueError):
            return
        raise BuildError(
            f"operator {operator!r}: {function.where} is called with ({', '.join(wanted)}),"
            f" but it is defined as {function.name}{has}"
        ) from None


def check_arguments(call: Any, label: str, given: Mapping[str, Any]) -> None:
    """Refuses keyword arguments that a composite does not have.

    Raises:
        BuildError: naming those that it has.
    """
    try:
        parameters = list(inspect.signature(call).parameters.values())[1:]
    except (TypeError, ValueError):
        return
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return
    known = [one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY]
    for extra in sorted(given.keys() - set(known)):
        where = Function.of(call, label).where
        raise BuildError(
            f"apply {label!r}: {where} has no argument {extra!r}; it has {', '.join(known) or 'none'}"
            f"{meant(extra, known)}"
        )


def returns_of(
    function: Function, operator: str, into: Any = None, *, may_be_nothing: bool
) -> Returns:
    """What the function returns, from ``into=`` or its annotation.

    Args:
        function: the function.
        operator: the operator's name, for messages.
        into: a record class or schema that overrides the annotation's record.
        may_be_nothing: whether ``-> None`` is a fine answer (functions that only change state).

    Raises:
        BuildError: there is no annotation and no into=, or it is not a record.
    """
    hint = _return_hint(function, operator)
    if into is not None:
        many = hint is not inspect.Parameter.empty and _is_many(hint)
        try:
            record = Schema.of(into)
        except SchemaError as error:
            raise SchemaError(f"operator {operator!r}: into: {error}") from None
        return Returns(record, many=many or inspect.isgeneratorfunction(function.call), maybe=True)
    if hint is inspect.Parameter.empty:
        raise BuildError(
            f"operator {operator!r}: {function.where} does not say what it returns;"
            " annotate it (-> Record, -> Record | None, -> Iterator[Record]) or pass into=Record"
        )
    return _parse(hint, function, operator, may_be_nothing=may_be_nothing)


def _return_hint(function: Function, operator: str) -> Any:
    return hints_of(function, operator).get("return", inspect.Parameter.empty)


def hints_of(function: Function, operator: str) -> dict[str, Any]:
    """The function's annotations by parameter, and as "return"; those that are text are looked up.

    Raises:
        BuildError: one of them names what is not there.
    """
    inner = inspect.unwrap(function.call)
    if not hasattr(inner, "__annotations__"):
        inner = type(inner).__call__
    try:
        return typing.get_type_hints(inner, include_extras=True)
    except NameError as error:
        missing = _local_hints(inner)
        if missing is None:
            raise BuildError(
                f"operator {operator!r}: the annotations of {function.where} cannot be read: {error}"
            ) from None
        return missing


def _local_hints(inner: Any) -> dict[str, Any] | None:
    """Annotations that name classes of an enclosing function: looked up in the frames that are still there."""
    frame = inspect.currentframe()
    while frame is not None:
        try:
            return typing.get_type_hints(inner, localns=frame.f_locals, include_extras=True)
        except NameError:
            frame = frame.f_back
    return None


def _is_many(hint: Any) -> bool:
    return typing.get_origin(hint) in _ITERATORS


def _parse(hint: Any, function: Function, operator: str, *, may_be_nothing: bool) -> Returns:
    if hint is None or hint is type(None):
        if may_be_nothing:
            return Returns(None)
        raise BuildError(
            f"operator {operator!r}: {function.where} returns nothing, so there would be no stream after it"
        )
    if _is_many(hint):
        inner = _parse(typing.get_args(hint)[0], function, operator, may_be_nothing=False)
        return Returns(inner.schema, many=True)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(rest) == 1:
            inner = _parse(rest[0], function, operator, may_be_nothing=False)
            return Returns(inner.schema, many=inner.many, maybe=True)
    try:
        return Returns(Schema.of(hint))
    except SchemaError as error:
        raise BuildError(
            f"operator {operator!r}: {function.where} returns {hint!r}; expected a record"
            f" (NamedTuple), Record | None or Iterator[Record]: {error}"
        ) from None
