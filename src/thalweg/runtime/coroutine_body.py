"""The coroutine of one operator: started, resumed, closed, and held to the rules."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from thalweg.errors import OperatorError
from thalweg.operators.coroutines import Input, Output, Push, Wait
from thalweg.operators.functions import Function
from thalweg.runtime.failures import coroutine_error, refusal

#: So many answers in a row that say "never again", with nothing read in between, are a loop that does not look at
#: them.
_REFUSED: Final = 1_000


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
        self._refused = 0
        self._read = 0

    def resume(self, answer: Any) -> None:
        """Starts, or goes on with the answer to the request, up to the next request or the end.

        Raises:
            OperatorError: it raised, awaited something else than a wait on its ports or a push, did not await a
                push, or goes on waiting for what can never come.
        """
        self._count_refused(answer)
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
                raise self._refuse(
                    f"a push to {output.name!r} is not awaited, so its row would be lost;"
                    f" write await {output.name}.push(row)"
                )

    def _count_refused(self, answer: Any) -> None:
        refused = answer is not None and not answer
        read = sum(port.queue.taken for port in self._inputs) if refused else 0
        self._refused = self._refused + 1 if refused and read == self._read else 0
        self._read = read
        if self._refused > _REFUSED:
            raise self._refuse(
                "it goes on and on though a wait or push said that it is over; leave the loop when a wait gives"
                " False (wait_for_all) or no port (wait_for_any), or when a push gives False"
            )

    def _refuse(self, what: str) -> OperatorError:
        self.close()
        return refusal(self.name, self._function, what)
