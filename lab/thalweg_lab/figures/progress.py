"""What a long measurement says meanwhile: where it is, and for how long still; never is it silent for five seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

#: Silence longer than this is broken, s.
_SILENCE_S: Final = 4.0
#: What a figure says more often than this is not shown, s.
_TALK_S: Final = 1.0


class Talk:
    """Lines with place, text and time left; a thread repeats the last one where a figure is silent.

    Args:
        say: takes a line.
        expected_s: of each figure to measure, in turn; what is measured corrects it.
    """

    def __init__(self, say: Callable[[str], None], expected_s: Sequence[float]) -> None:
        self._say = say
        self._expected = list(expected_s)
        self._lock = threading.Lock()
        self._done: list[float] = []
        self._name, self._text = "", ""
        self._begun = time.monotonic()
        self._said = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="thalweg-talk", daemon=True)

    def __enter__(self) -> Talk:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def begin(self, name: str) -> None:
        """The next figure is measured."""
        with self._lock:
            self._name, self._text, self._begun = name, "begins", time.monotonic()
            self._line()

    def tell(self, text: str) -> None:
        """What the figure does now."""
        with self._lock:
            self._text = text
            if time.monotonic() - self._said >= _TALK_S:
                self._line()

    def end(self, text: str) -> float:
        """The figure has been measured; the seconds that it took."""
        with self._lock:
            took = time.monotonic() - self._begun
            self._done.append(took)
            self._text = text
            self._line()
            self._name = ""
            return took

    def _line(self) -> None:
        place = f"[{min(len(self._done) + (self._name != ''), len(self._expected))}/{len(self._expected)}]"
        here = time.monotonic() - self._begun
        self._say(
            f"{place} {self._name}: {self._text} ({here:.0f} s; {clock(self._left(here))} left)"
        )
        self._said = time.monotonic()

    def _left(self, here: float) -> float:
        return left_s(self._expected, self._done, here)

    def _repeat(self) -> None:
        while not self._over.wait(0.5):
            with self._lock:
                if self._name and time.monotonic() - self._said >= _SILENCE_S:
                    self._line()


def left_s(expected: Sequence[float], done: Sequence[float], here: float) -> float:
    """The time left: what was expected of the rest, times how much longer or shorter those done took.

    Args:
        expected: of each.
        done: what those that are over took.
        here: for how long the present one has been measured.
    """
    before = sum(expected[: len(done)])
    factor = (sum(done) / before) if before else 1.0
    rest = [factor * one for one in expected[len(done) :]]
    return max(rest[0] - here, 0.0) + sum(rest[1:]) if rest else 0.0


def clock(seconds: float) -> str:
    """Seconds below two minutes, else minutes."""
    return f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} min"
