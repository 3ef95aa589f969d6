"""The coroutine of one operator: started, resumed, closed, and held to the rules.

One that waits in a circle is an error, not a thread that is lost: neither may it ask over and over for what can never
come, nor for what is there already without reading it. Algorithm 4 of C-Stream as printed allows both (Sahin &
Gedik, section 3.2.1). Nor may it push on and on without reading: nobody else gets a turn, and the rows fill memory.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from thalweg.errors import OperatorError
from thalweg.flow.failures import coroutine_error, refusal
from thalweg.flow.fields.user_rows import is_library
from thalweg.flow.operators.coroutines import Input, Output, Push, Wait
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.nodes import Coroutine as Node
from thalweg.flow.operators.nodes import OutPort

#: So many answers in a row (twice as many at most) without progress are a loop that does not end.
WITHOUT_PROGRESS: Final = 1_000
#: So many in a row that say "never again" are, too, though it pushed in between: what it held is out by then.
REFUSED: Final = 1_000_000
#: So many rows pushed while nothing was read, and nothing came, are one, too. Of operators with inputs: a source may.
PUSHED: Final = 10_000_000


class Body:
    """What an operator's coroutine awaits, and how it goes on.

    Attributes:
        request: what it awaits: a :class:`Wait` or a :class:`Push`; None before the start and at the end.
        started: whether it has begun.
        done: whether it has returned.

    Args:
        name: the operator's.
        function: what was called, for messages.
        start: calls the function with its ports.
        inputs: its input ports; only these may be waited for.
        outputs: its output ports.
    """

    def __init__(
        self,
        name: str,
        function: Function,
        start: Callable[[], Coroutine[Any, Any, Any]],
        inputs: Sequence[Input[Any]],
        outputs: Sequence[Output[Any]],
    ) -> None:
        self.name = name
        self.request: Wait[Any] | Push[Any] | None = None
        self.started = False
        self.done = False
        self._function = function
        self._start = start
        self._inputs = inputs
        self._outputs = outputs
        self._mine = frozenset(map(id, (*inputs, *outputs)))
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        #: answers, and pushes among them, since the last look whether they lead anywhere
        self._answers = 0
        self._pushes = 0
        #: since something moved at its ports: how often it was told "never again", and how many rows it has pushed
        self._refused = 0
        self._pushed = 0
        #: what had come and gone at its ports at the last look, and the most that it was asking of each at those looks
        self._seen: tuple[int, ...] = ()
        self._asked: dict[Input[Any], int] = {}

    def resume(self, answer: Any) -> None:
        """Starts, or goes on with the answer to the request, up to the next request or the end.

        Raises:
            OperatorError: it raised, awaited something else than a wait on its ports or a push, did not await a
                push, goes on waiting for what can never come, or pushes without end.
        """
        self._check_progress(answer)
        try:
            if self._coroutine is None:
                self._coroutine = self._start()
                self.started = True
            request = self._coroutine.send(answer)
        except StopIteration:
            self.request, self.done = None, True
            self._check_pushes()
            return
        except Exception as error:
            raise coroutine_error(self.name, self._function, error) from error
        self._check(request)
        self.request = request
        self._check_pushes()

    def close(self) -> None:
        """Ends the coroutine where it stands; ``finally`` blocks run.

        Raises:
            OperatorError: one of them raised, or awaited.
        """
        try:
            if self._coroutine is not None:
                self._coroutine.close()
        except Exception as error:
            raise coroutine_error(self.name, self._function, error) from error

    @property
    def place(self) -> tuple[int, ...]:
        """The lines where it stands, in the function and in each coroutine that it awaits.

        By instructions, a loop whose condition waits would stand at two places: the compiler repeats the condition.
        """
        found, awaited = [], self._coroutine
        while (frame := getattr(awaited, "cr_frame", None)) is not None:
            found += [id(frame.f_code), frame.f_lineno]
            awaited = getattr(awaited, "cr_await", None)
        return tuple(found)

    @property
    def where(self) -> str:
        """`` at line 12``: the innermost line of the function's own file where it stands; "" without one."""
        line, awaited = 0, self._coroutine
        while (frame := getattr(awaited, "cr_frame", None)) is not None:
            if frame.f_code.co_filename == self._function.file:
                line = frame.f_lineno
            awaited = getattr(awaited, "cr_await", None)
        return f" at line {line}" if line else ""

    def _check(self, request: Any) -> None:
        if not isinstance(request, (Wait, Push)):
            raise self._refuse(
                f"it awaits {type(request).__name__} {request!r:.80};"
                " an operator awaits tw.wait_for_all, tw.wait_for_any and push only, nothing of asyncio"
            )
        ports = request.wanted if isinstance(request, Wait) else [request.output]
        for port in ports:
            if id(port) not in self._mine:
                raise self._refuse(f"{port!r} is not one of its ports")

    def _check_pushes(self) -> None:
        for output in self._outputs:
            if output.unawaited:
                where = _place(output.unawaited[0], self._function)
                raise self._refuse(
                    f"a push to {output.name!r}{where} is not awaited, so its row would be lost;"
                    f" write await {output.name}.push(row)"
                )

    def _check_progress(self, answer: Any) -> None:
        """Looks, once in so many answers, whether they have led anywhere."""
        refused = answer is not None and not answer
        self._answers += 1
        self._refused += refused
        self._pushes += isinstance(self.request, Push) and not refused
        if self._answers < WITHOUT_PROGRESS:
            return
        moved, pushes = self._has_moved(), self._pushes
        self._answers = self._pushes = 0
        self._pushed += pushes
        if moved:
            self._refused = self._pushed = 0
            self._asked.clear()
        more = self._asks_for_more()
        if self._refused > REFUSED or not (moved or pushes or more):
            raise self._refuse(self._circle(bool(refused)))
        if self._inputs and self._pushed > PUSHED:
            raise self._refuse(
                f"it pushes on and on{self.where}: more than {PUSHED:,} rows, and it read nothing in between;"
                " let the loop end, or wait for rows and pop them"
            )

    def _circle(self, refused: bool) -> str:
        if refused:
            return (
                f"it goes on and on{self.where}, though a wait or push said that it is over; leave the loop when"
                " a wait gives False (wait_for_all) or no port (wait_for_any), or when a push gives False"
            )
        return (
            f"it waits in a circle{self.where}: {WITHOUT_PROGRESS:,} times in a row what it waits for was there,"
            " and it read nothing; pop what it has seen, or wait for more: {port: len(port) + 1}"
        )

    def _has_moved(self) -> bool:
        """Whether rows have come or were read, or an input was closed, since the last look."""
        queues = [port.queue for port in self._inputs]
        seen = tuple(
            number for q in queues for number in (q.taken, q.taken + len(q.rows), int(q.closed))
        )
        moved, self._seen = seen != self._seen, seen
        return moved

    def _asks_for_more(self) -> bool:
        """Whether the wait is for more rows than those looked at before, since something moved: who scans does that."""
        wanted = self.request.wanted if isinstance(self.request, Wait) else {}
        more = {port: n for port, n in wanted.items() if n > self._asked.get(port, 0)}
        self._asked |= more
        return bool(more)

    def _refuse(self, what: str) -> OperatorError:
        self.close()
        return refusal(self.name, self._function, what)


def _place(push: Push[Any], function: Function) -> str:
    """Where a push was made: the line, and the file where it is not the function's."""
    file, line = push.where
    return f" at line {line}" if file == function.file else f" at {file}:{line}"


def fitted(node: Node, port: OutPort, push: Push[Any]) -> Any:
    """A pushed row as a record of the output.

    Raises:
        OperatorError: it does not fit.
    """
    try:
        inward = None if is_library(node.function.call) else port.record.inward
        return port.record.coerce(push.row if inward is None else inward(push.row))
    except TypeError as error:
        where = _place(push, node.function) if node.told is node.function else ""
        what = f"a row pushed to {port.parameter!r}{where} does not fit: {error}"
        raise refusal(node.name, node.told, what) from error
