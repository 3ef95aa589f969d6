"""map_async as the engine runs it: a step's rows are called, at most so many at a time, and leave in their order."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np

from thalweg.columns.chunks import Chunk
from thalweg.columns.contracts import RejectedRow
from thalweg.columns.ordering import row_order, with_columns
from thalweg.engine.asynchronous.calls import Awaited, OpenCalls, SlowCalls
from thalweg.engine.asynchronous.loop import CallsGivenUp, ClientFailed, LoopThread
from thalweg.engine.units import Given, Moment, Setting
from thalweg.errors import OperatorError
from thalweg.flow.failures import operator_error, reason_of, shorten
from thalweg.flow.operators.asynchronous import MapAsync
from thalweg.flow.operators.nodes import Ref

#: Rows of a step for each call that may be open: few enough to come out soon, and so many that the end of a step, when
#: fewer calls are open, is a small part of it.
ROWS_A_CALL: Final = 64


class AsyncUnit:
    """Runs the calls of a step and waits for all of them; several threads may run steps at once.

    The loop and the client are opened by the first row, and closed by :meth:`close`.
    """

    def __init__(self, setting: Setting, node: MapAsync) -> None:
        self._setting = setting
        self.node = node
        self._lock = threading.Lock()
        self._running: tuple[LoopThread, OpenCalls, SlowCalls] | None = None
        self._is_over = False

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """The outputs of the input's rows, and those that were rejected."""
        chunk, node, given = inputs[0], self.node, Given()
        ref = Ref(node.index)
        columns = self._setting.columns(ref)
        if not len(chunk):
            return {ref: Chunk.empty(node.record, columns)}
        rows = chunk.rows()
        answers = self._answers(rows)
        self._setting.give_rejected(node, chunk, self._rejected(rows, answers), given)
        places = [place for place, one in enumerate(answers.rows) if one is not None]
        made = Chunk.from_rows(node.record, [answers.rows[place] for place in places])
        made.order = row_order(chunk, np.array(places, np.int64), None)
        self._setting.count(node.name, **{"in": len(chunk), "out": len(made)})
        given[ref] = with_columns(made, columns)
        return given

    def _answers(self, rows: Sequence[object]) -> Awaited:
        try:
            loop, calls, slow = self._opened()
            return loop.run(calls.of(rows), slow.look)
        except CallsGivenUp:
            raise OperatorError(
                f"operator {self.node.name!r}: the run was stopped while calls were open",
                operator=self.node.name,
            ) from None
        except ClientFailed as failed:
            cause = failed.__cause__
            assert cause is not None
            raise OperatorError(
                f"operator {self.node.name!r}: its client could not be opened: {reason_of(cause)}\n"
                "  client= makes an async context manager, say a session of an HTTP library",
                operator=self.node.name,
            ) from cause

    def _opened(self) -> tuple[LoopThread, OpenCalls, SlowCalls]:
        with self._lock:
            if self._is_over:
                raise CallsGivenUp
            if self._running is None:
                loop = LoopThread(self.node.name, self.node.client)
                calls = OpenCalls(self.node, loop)
                self._running = loop, calls, SlowCalls(self.node, calls, loop)
            return self._running

    def _rejected(self, rows: Sequence[object], answers: Awaited) -> list[RejectedRow]:
        """The rows whose calls failed.

        Raises:
            OperatorError: the operator does not reject rows; of the first of them.
        """
        node, bad = self.node, []
        for place, error in sorted(answers.failed.items()):
            if not isinstance(error, Exception):
                raise error
            if node.errors == "fail":
                raise operator_error(node.name, node.function, rows[place], error) from error
            bad.append(RejectedRow(place, node.name, reason_of(error), shorten(rows[place])))
        return bad

    def give_up(self) -> None:
        """Cancels the calls that are open, and makes no further ones; waits for nothing."""
        with self._lock:
            self._is_over = True
            if self._running is not None:
                self._running[0].give_up()

    def close(self) -> None:
        """As :meth:`give_up`, and leaves the client."""
        self.give_up()
        if self._running is not None:
            self._running[0].close()
