"""The ``with`` blocks of a flow; one that was made and never entered would say nothing, so the plan refuses it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from thalweg.errors import BuildError


class Block:
    """What holds for the operators that are defined between entering it and leaving it."""

    __slots__ = ("_firsts", "_hold", "_next", "_waiting", "call")

    def __init__(
        self,
        call: str,
        waiting: list[Block],
        next_: Callable[[], int],
        hold: Callable[[range], None],
    ) -> None:
        #: as its author wrote it, ``threading('dedicated')``
        self.call = call
        #: the flow's blocks that nobody has entered yet
        self._waiting = waiting
        self._next, self._hold = next_, hold
        #: of each entry that is open, the place of the operator that came next
        self._firsts: list[int] = []
        waiting.append(self)

    def __enter__(self) -> None:
        if self in self._waiting:
            self._waiting.remove(self)
        self._firsts.append(self._next())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hold(range(self._firsts.pop(), self._next()))


def refuse_not_entered(flow: str, waiting: list[Block]) -> None:
    """Refuses blocks that nobody entered.

    Raises:
        BuildError: naming the first of them, and how it is written.
    """
    if waiting:
        call = waiting[0].call
        raise BuildError(
            f"flow {flow!r}: {call} was called without `with`, so it says nothing of any operator; write"
            f" `with flow.{call}:` and define in the block the operators that it is for"
        )
