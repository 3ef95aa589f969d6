"""The verb whose function is awaited: calls to other services, many at once, in the order of the stream."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from thalweg.checks import known_keywords_of, refuse, require_function, require_rows
from thalweg.errors import BuildError
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.generics import Out, Row
from thalweg.flow.operators import key_order
from thalweg.flow.operators.arguments import Duration, label_of
from thalweg.flow.operators.asynchronous import MapAsync, Tries, seconds_of
from thalweg.flow.operators.functions import Function, returns_of
from thalweg.flow.operators.nodes import Errors, Ref
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.records import Schema
from thalweg.times import duration

if TYPE_CHECKING:
    from thalweg.flow.fields.field_types import FieldType
    from thalweg.flow.flow import Flow
    from thalweg.flow.streams import Stream

Client = TypeVar("Client")
RetryOn = type[Exception] | Sequence[type[Exception]]


@known_keywords_of
class AsyncVerbs(Generic[Row]):
    """The verb of a stream whose function is a coroutine."""

    flow: Flow
    ref: Ref
    schema: Schema
    time: FieldType | None
    own: key_order.Own | None

    @overload
    def map_async(
        self,
        function: Callable[[Row], Awaitable[Out | None]],
        *,
        concurrency: int = 100,
        timeout: Duration | None = None,
        retries: int = 0,
        backoff: Duration = "100 ms",
        retry_on: RetryOn = Exception,
        client: None = None,
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
    ) -> Stream[Out]: ...

    @overload
    def map_async(
        self,
        function: Callable[[Row, Client], Awaitable[Out | None]],
        *,
        concurrency: int = 100,
        timeout: Duration | None = None,
        retries: int = 0,
        backoff: Duration = "100 ms",
        retry_on: RetryOn = Exception,
        client: Callable[[], contextlib.AbstractAsyncContextManager[Client]],
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
    ) -> Stream[Out]: ...

    @overload
    def map_async(
        self,
        function: Callable[..., Awaitable[Any]],
        *,
        concurrency: int = 100,
        timeout: Duration | None = None,
        retries: int = 0,
        backoff: Duration = "100 ms",
        retry_on: RetryOn = Exception,
        client: Callable[[], Any] | None = None,
        name: str | None = None,
        into: type[Out],
        errors: Errors | None = None,
    ) -> Stream[Out]: ...

    def map_async(
        self,
        function: Callable[..., Any],
        *,
        concurrency: int = 100,
        timeout: Duration | None = None,
        retries: int = 0,
        backoff: Duration = "100 ms",
        retry_on: RetryOn = Exception,
        client: Callable[[], Any] | None = None,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
    ) -> Stream[Any]:
        """Maps each row by a coroutine, many at once: ``async def function(row) -> R``, or ``R | None`` to drop rows.

        Outputs stand in the order of their rows, however long each call takes. The next rows wait while
        ``concurrency`` calls are open. A step of the stream ends when its calls have ended, so none is open at a
        commit: after a kill the batch is called again, and no output is lost or repeated; the calls may be.

        Args:
            function: the coroutine function; with ``client=`` it is called ``function(row, client)``.
            concurrency: how many calls are open at once, in each process or slot that runs the operator.
            timeout: after so long a call is cancelled, and fails with TimeoutError; without it a call that has not
                ended within 5 seconds is named in the log.
            retries: how often a call that failed or timed out is made again, at most.
            backoff: the pause before the first retry, twice as long before each further one, 30 seconds at most.
            retry_on: the exceptions, one or several, that are worth another call.
            client: makes an async context manager, say ``aiohttp.ClientSession``: entered before the first call in
                each process or slot, and left at its end.
            name: the operator's name.
            into: the output record of a function without annotation.
            errors: what becomes of a row whose call failed in all tries.
        """
        label = label_of(name, "map_async")
        made = Function.of_async(function, label)
        label = label_of(name, "map_async" if made.is_lambda else made.name)
        where = f"operator {label!r}"
        if client is not None:
            _require_client(where, client)
        wanted: dict[str, Any] = {"row": self.schema}
        check_takes(made, label, wanted if client is None else wanted | {"client": None})
        returns = returns_of(made, label, into, may_be_nothing=False)
        if returns.many or returns.schema is None:
            raise BuildError(
                f"{where}: {made.where} gives several records a row; give one that has a list, and flat_map behind it"
            )
        require_rows(where, concurrency=concurrency)
        tries = _tries(where, timeout, retries, backoff, retry_on)
        takes = (self.schema.whole, *[None] * (client is not None))
        made = made.adapted(Adapter(takes, returns.schema.whole, awaits=True))
        flow = self.flow
        node = MapAsync(
            flow._next(), flow._stateless_name(label), self.ref, made, returns.schema,
            flow._errors(errors), concurrency, tries, client,
        )  # fmt: skip
        return flow._add(node, self.time, self.own and self.own.keeping(()))


def _require_client(where: str, client: Any) -> None:
    """Refuses a client that is open, or there, already: each that runs the operator opens its own.

    Raises:
        BuildError: it is one, or nothing that makes one.
    """
    if hasattr(client, "__aenter__") and not inspect.isclass(client):
        raise BuildError(
            f"{where}: client: expected a function that makes an async context manager, got one; each process opens"
            f" its own: client=lambda: {type(client).__name__}(...)"
        )
    if inspect.iscoroutinefunction(client):
        raise BuildError(
            f"{where}: client: {getattr(client, '__qualname__', client)} is async def; put"
            " @contextlib.asynccontextmanager on it, and yield the client"
        )
    require_function(where, client=client)


def _tries(
    where: str, timeout: Duration | None, retries: int, backoff: Duration, on: RetryOn
) -> Tries:
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise refuse(where, "retries", "a whole number from 0 on", retries)
    limit = None if timeout is None else _real_time(where, "timeout", timeout)
    if limit == 0:
        raise refuse(where, "timeout", "a duration above 0", timeout)
    kinds = (on,) if isinstance(on, type) else on
    if isinstance(kinds, str) or not isinstance(kinds, Sequence) or not all(map(_is_error, kinds)):
        raise refuse(where, "retry_on", "an exception class, or several", on)
    return Tries(limit, retries, _real_time(where, "backoff", backoff), tuple(kinds))


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def _real_time(where: str, what: str, value: Duration) -> float:
    """A duration of the clock on the wall, seconds; never a bare number, which would be microseconds."""
    if isinstance(value, int) and value != 0:
        raise refuse(where, what, 'a duration such as "2 seconds" or a timedelta', value)
    try:
        length = duration(value)
    except (ValueError, TypeError) as error:
        raise BuildError(f"{where}: {what}: {error}") from None
    if length < 0:
        raise refuse(where, what, "a duration from 0 on", value)
    return seconds_of(length)
