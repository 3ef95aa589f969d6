"""Runs a function beside the caller, and keeps its result or error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Runs a function in a thread of its own, from :meth:`start` on.

    The thread does not keep the process alive.
    """

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._ended = threading.Event()
        self._value: list[T] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.has_begun = False
        #: what the function raised
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begins; once."""
        self.has_begun = True
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value.append(self._function())
        except BaseException as error:
            self.error = error
        finally:
            self._ended.set()

    @property
    def has_ended(self) -> bool:
        """Whether it has returned or raised."""
        return self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until it has ended, for so long at most; whether it has."""
        return self._ended.wait(timeout_s)

    def result(self) -> T:
        """What it returned; it must have ended.

        Raises:
            BaseException: what it raised.
        """
        if self.error is not None:
            raise self.error
        return self._value[0]
