"""The words that an explored program works on, watched by the explorer."""

from __future__ import annotations

from typing import Any, Protocol


class Watcher(Protocol):
    """What an explorer does when words are read and written."""

    def reading(self, i: int, value: int) -> int:
        """What the current thread sees in a word that holds the value for all."""

    def delays(self, i: int, value: int) -> bool:
        """Whether the write of the current thread does not reach memory yet."""

    def changed(self) -> None:
        """A word has changed."""


class Memory(list[int]):
    """The words of a program. ``log`` is for what it does outside them; it counts as a part of the state."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []
        self.explorer: Watcher | None = None
        self.start: tuple[int, ...] = ()
        #: The words that are not as they were at the start: memory may be large, and few of it changes.
        self.changes: dict[int, int] = {}

    def begin(self, explorer: Watcher) -> None:
        """From now on the explorer sees what is read and written."""
        self.start, self.changes, self.explorer = tuple(self), {}, explorer

    def contents(self) -> frozenset[tuple[int, int]]:
        """What stands in memory, given the start."""
        return frozenset(self.changes.items())

    def reserve(self, words: int) -> int:
        """The offset of so many new words, which are 0."""
        at = len(self)
        self.extend([0] * words)
        return at

    def __getitem__(self, i: Any) -> Any:
        value = super().__getitem__(i)
        return value if self.explorer is None else self.explorer.reading(i, value)

    def __setitem__(self, i: Any, value: Any) -> None:
        if self.explorer is None or not self.explorer.delays(i, value):
            self.write(i, value)

    def write(self, i: int, value: int) -> None:
        """Changes the word for all threads."""
        if self.explorer is not None and super().__getitem__(i) != value:
            self.explorer.changed()
            if value == self.start[i]:
                del self.changes[i]
            else:
                self.changes[i] = value
        super().__setitem__(i, value)
