"""Ports and waits: what an operator with a driver loop of its own is written with (Sahin & Gedik, section 2.3).

Such an operator is an ``async def`` function. It says when it can go on, and reads and writes in between::

    async def barrier(views: tw.Input, sales: tw.Input, out: tw.Output) -> None:
        while await tw.wait_for_all(views, sales):
            await out.push((views.pop(), sales.pop()))

Nothing here runs an operator, and no asyncio is involved: an awaited :class:`Wait` or :class:`Push` hands itself
to whoever steps the coroutine (:mod:`thalweg.engine.coroutines.frame`), and comes back with the answer.
"""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Generic, TypeVar, overload

from thalweg.brief import counted

Row = TypeVar("Row")
Answer = TypeVar("Answer")


class Queue(Generic[Row]):
    """The rows between outputs and one input, in the order in which they were pushed.

    Attributes:
        name: of the input, for messages.
        rows: those that have not been read.
        capacity: a push waits while so many rows are here; None: it never does.
        closed: no more rows will come.
        abandoned: the reader has completed: what comes is dropped, and counted in ``dropped``.
        taken: how many rows have been read.
    """

    __slots__ = ("abandoned", "capacity", "closed", "dropped", "name", "rows", "taken")

    def __init__(self, name: str, capacity: int | None = None) -> None:
        self.name = name
        self.rows: collections.deque[Row] = collections.deque()
        self.capacity = capacity
        self.closed = False
        self.abandoned = False
        self.dropped = 0
        self.taken = 0

    @property
    def has_room(self) -> bool:
        """Whether a push need not wait."""
        return self.abandoned or self.capacity is None or len(self.rows) < self.capacity

    def put(self, row: Row) -> None:
        """Adds a row, also beyond the capacity; drops it when nobody reads any more."""
        if self.abandoned:
            self.dropped += 1
        else:
            self.rows.append(row)

    def take(self, count: int) -> list[Row]:
        """Removes the next rows, of which there are so many, and gives them."""
        self.taken += count
        return [self.rows.popleft() for _ in range(count)]


class _Reader(Generic[Row]):
    """What inputs and control inputs have in common."""

    __slots__ = ("outward", "queue")

    def __init__(self, queue: Queue[Row]) -> None:
        self.queue = queue
        #: what makes of a row in the queue the row that the function sees; None: it is that
        self.outward: Callable[[Row], Row] | None = None

    @property
    def name(self) -> str:
        """The parameter's name; with ``*views: tw.Input`` it is ``views[0]``, ``views[1]``, ..."""
        return self.queue.name

    @property
    def is_closed(self) -> bool:
        """Whether no more rows will come; some may still wait to be read."""
        return self.queue.closed

    def __len__(self) -> int:
        """How many rows can be read now."""
        return len(self.queue.rows)

    def peek(self, i: int = 0) -> Row:
        """The row at position i, without taking it; 0 is the next row.

        Raises:
            IndexError: there are not so many.
        """
        if not 0 <= i < len(self):
            raise IndexError(f"{self!r}: there is no row at {i}; wait for it first")
        row = self.queue.rows[i]
        return row if self.outward is None else self.outward(row)

    @overload
    def pop(self) -> Row: ...
    @overload
    def pop(self, n: int) -> list[Row]: ...
    def pop(self, n: int | None = None) -> Row | list[Row]:
        """Takes and returns the next row, or the next n rows as a list.

        Raises:
            IndexError: there are not so many.
        """
        wanted = 1 if n is None else n
        if not 0 <= wanted <= len(self):
            raise IndexError(
                f"{self!r}: {counted(wanted, 'row')} cannot be taken; wait for them first"
            )
        taken = self.queue.take(wanted)
        if self.outward is not None:
            taken = list(map(self.outward, taken))
        return taken[0] if n is None else taken

    def __repr__(self) -> str:
        closed = ", closed" if self.is_closed else ""
        return f"{type(self).__name__}({self.name!r}, {counted(len(self), 'row')}{closed})"


class Input(_Reader[Row]):
    """An input port; ``tw.Input[Click]`` in a signature also checks the stream's record type."""

    __slots__ = ()


class Control(_Reader[Row]):
    """A control port: read without waiting; its rows steer the operator but produce no output by themselves.

    A row is here from its place in the order of the flow on. Rows that come do not wake the operator, and no
    wait can name a control port (Sahin & Gedik, section 3.2.2).
    """

    __slots__ = ()


class Output(Generic[Row]):
    """An output port; ``tw.Output[Pair]`` in a signature declares the record type of its rows.

    Attributes:
        name: the parameter's name.
        readers: the queues that a pushed row goes to.
    """

    __slots__ = ("name", "readers", "unawaited")

    def __init__(self, name: str, readers: Iterable[Queue[Any]] = ()) -> None:
        self.name = name
        self.readers = list(readers)
        #: pushes that were made but not awaited: rows that would be lost without a word
        self.unawaited: list[Push[Any]] = []

    def push(self, row: Row) -> Push[Row]:
        """``await out.push(row)`` puts out a row; it waits while the queue of a reader is full.

        The answer is True; for an operator without inputs it is False once a stop was asked for: no wait tells it.
        """
        caller = sys._getframe(1)
        push = Push(self, row, (caller.f_code, caller.f_lasti))
        self.unawaited.append(push)
        return push

    def __repr__(self) -> str:
        return f"Output({self.name!r})"


class Push(Generic[Row]):
    """An output's row on its way; await it once.

    ``made_at`` is the code that made it and the offset of the instruction there. Only errors ask :attr:`where` for
    the line, since to find it takes as long as a push.
    """

    __slots__ = ("awaited", "made_at", "output", "row")

    def __init__(self, output: Output[Row], row: Row, made_at: tuple[types.CodeType, int]) -> None:
        self.output = output
        self.row = row
        self.awaited = False
        self.made_at = made_at

    @property
    def where(self) -> tuple[str, int]:
        """File and line of the call of ``push``; line 0 where the code does not tell."""
        code, offset = self.made_at
        lines = (line for start, end, line in code.co_lines() if start <= offset < end)
        return code.co_filename, next(lines, None) or 0

    def __await__(self) -> Generator[Any, Any, bool]:
        if self.awaited:
            raise RuntimeError(f"a push to {self.output.name!r} is awaited twice")
        self.awaited = True
        self.output.unawaited.remove(self)
        answer: bool = yield self
        return answer

    def __bool__(self) -> bool:
        raise TypeError(f"a push needs await: await {self.output.name}.push(row)")


class Wait(Generic[Answer]):
    """A wait for rows on some ports; how it is answered is said by :func:`wait_for_all` and :func:`wait_for_any`.

    ``wanted`` is the number of rows by port.
    """

    __slots__ = ("wanted",)

    #: the answer when it can never be satisfied
    never: Answer

    def __init__(self, wanted: Mapping[Input[Any], int]) -> None:
        self.wanted = wanted

    def answer(self) -> Answer | None:
        """The answer as the ports are now; None: it is not known yet, go on waiting."""
        raise NotImplementedError

    @property
    def missing(self) -> tuple[Input[Any], ...]:
        """The ports that hold fewer rows than wanted and may still get some."""
        return tuple(p for p, n in self.wanted.items() if len(p) < n and not p.is_closed)

    def __await__(self) -> Generator[Any, Any, Answer]:
        answer: Answer = yield self
        return answer

    def __bool__(self) -> bool:
        raise TypeError("a wait needs await: while await tw.wait_for_all(...)")


class WaitForAll(Wait[bool]):
    """Conjunctive: see :func:`wait_for_all`."""

    __slots__ = ()
    never = False

    def answer(self) -> bool | None:
        """True, False (never), or None."""
        short = [port for port, count in self.wanted.items() if len(port) < count]
        if not short:
            return True
        return False if any(port.is_closed for port in short) else None


class WaitForAny(Wait[tuple[Input[Any], ...]]):
    """Disjunctive: see :func:`wait_for_any`."""

    __slots__ = ()
    never = ()

    def answer(self) -> tuple[Input[Any], ...] | None:
        """The ports that hold, none (never), or None."""
        holding = tuple(port for port, count in self.wanted.items() if len(port) >= count)
        return holding if holding or not self.missing else None


Spec = Input[Any] | Mapping[Input[Any], int]


def wait_for_all(*ports: Spec) -> WaitForAll:
    """Waits until every port holds a row, or the number of rows in a mapping: ``wait_for_all({views: 10, sales: 1})``.

    Awaited, it gives True; or False when that can never be: a port is closed and holds fewer, or a stop was
    asked for. A closed port that holds enough is waited on like any other (Algorithm 4 as printed returns
    to the caller there, which asks again at once, for ever). What is left stays readable.

    Raises:
        TypeError: something is not an input port, or nothing was given.
        ValueError: a number is not positive.
    """
    return WaitForAll(_wanted("wait_for_all", ports))


def wait_for_any(*ports: Spec) -> WaitForAny:
    """Waits until any of the ports holds a row, or the number of rows in a mapping.

    Awaited, it gives the ports that hold, in the order in which they were named; none when no port can ever
    hold, or a stop was asked for. In a flow, a row is seen only when no input can still bring an earlier one.
    Errors as for :func:`wait_for_all`.
    """
    return WaitForAny(_wanted("wait_for_any", ports))


def _wanted(what: str, ports: Iterable[Spec]) -> dict[Input[Any], int]:
    wanted: dict[Input[Any], int] = {}
    for given in ports:
        for port, count in given.items() if isinstance(given, Mapping) else [(given, 1)]:
            if isinstance(port, Control):
                raise TypeError(
                    f"{what}: {port.name!r} is a control port, which is read without waiting"
                )
            if not isinstance(port, Input):
                raise TypeError(f"{what} takes input ports, or {{port: number}}, got {port!r}")
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise ValueError(f"{what}: wait for 1 row or more on {port.name!r}, not {count!r}")
            wanted[port] = max(count, wanted.get(port, 0))
    if not wanted:
        raise TypeError(f"{what} needs at least one input port")
    return wanted
