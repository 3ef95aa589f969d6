"""Inputs that can be read again: where each has been read to, and the rows from there on, the same each time.

What was read of an input between two looks is a *span*, what lies behind all spans a *place*; both are plain JSON
values. A place goes into the commit record, spans into what was planned of a batch.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from thalweg.connectors import as_source
from thalweg.connectors.contracts import Feed, RowSource, Stop
from thalweg.connectors.embedded.log_source import LogSource
from thalweg.connectors.files import FileSource, Found, file_chunks, find
from thalweg.connectors.in_process.iterables import CollectionSource, TableSource
from thalweg.connectors.logs import Confirming
from thalweg.connectors.readers.steady import Look
from thalweg.embedded.durable.reels import Count, Reel
from thalweg.embedded.read_ahead import read_ahead
from thalweg.engine.machine import usable_processors
from thalweg.errors import BuildError, CheckpointMismatch, DataError
from thalweg.flow.operators.nodes import Source

#: How long a look for new files is put off that found none, seconds.
_LOOK_S: Final = 0.5
#: Files of so many bytes are decoded in a thread of their own.
_MUCH_BYTES: Final = 4 << 20


class ReadFor(NamedTuple):
    """What a reader of an input is made for; ``stop`` is set only where all that it has read is dropped."""

    source: Source
    chunk_rows: int
    stop: Stop


class Repeatable(Protocol):
    """One input, from a place on; used by one thread."""

    #: whether no row will come any more
    is_over: bool

    @property
    def live(self) -> bool:
        """Whether rows may still come, though there are none now."""

    @property
    def caught_up(self) -> bool:
        """Whether there was nothing more to read when :meth:`next` was called last."""

    @property
    def place(self) -> Any:
        """Behind all that was read."""

    def next(self, rows: int) -> Feed:
        """About so many rows more; none where there are none now."""

    def again(self, span: Any) -> Feed:
        """The rows of a span that was read from here before."""

    def span(self) -> Any:
        """What was read since this was called last; None for nothing."""

    def joined(self, first: Any, then: Any) -> Any:
        """Two spans, one behind the other, as one."""

    def confirm(self) -> None:
        """All up to here is committed."""

    def close(self) -> None:
        """Lets go of the input; may be called again."""


def refuse_unrepeatable(sources: Mapping[str, RowSource]) -> None:
    """Refuses inputs that cannot be read again.

    Raises:
        BuildError: there is one; it names it.
    """
    for name, given in sources.items():
        if not isinstance(given, (LogSource, FileSource, TableSource, CollectionSource)):
            what = getattr(given, "made_by", type(given).__name__)
            raise BuildError(
                f"input {name!r}: {what} cannot be read again from where it was, which a run with checkpoint= must be"
                " able to do after a crash; put a log such as Kafka in between, or give files, a table or a list"
            )


def repeatable(name: str, given: Any, made: ReadFor, at: Any) -> Repeatable:
    """The reader of an input.

    Args:
        name: of its source.
        given: the input.
        made: what it is for.
        at: the place of the checkpoint; None for the beginning.

    Raises:
        CheckpointMismatch: the place is one of another kind of input.
    """
    source = as_source(name, given)
    kind: Any = {LogSource: LogInput, FileSource: FileInput}.get(type(source), RowsInput)
    if at is not None and at["kind"] != kind.kind:
        raise CheckpointMismatch(
            f"input {name!r}: the checkpoint has a place in {_KINDS[at['kind']]}, and now {_KINDS[kind.kind]} is given"
            "; give the input that the checkpoint was begun with, or a new checkpoint folder"
        )
    reader: Repeatable = kind(source, made, at)
    return reader


_KINDS: Final = {"log": "a log", "files": "a set of files", "rows": "a table or list"}


class LogInput:
    """A log: positions by lane."""

    kind = "log"

    def __init__(self, given: LogSource, made: ReadFor, at: Any) -> None:
        given.log.check(made.source)
        self._log, self._made = given.log, made
        self._reader = given.log.open()
        self.live, self.is_over, self.caught_up = given.log.follow, False, False
        try:
            self._at = self._reader.begin() if at is None else at["at"]
            self._last = None if self.live else self._reader.end(self._at)
        except BaseException:
            self._reader.close()
            raise
        self._seen = self._at

    @property
    def place(self) -> Any:
        return {"kind": self.kind, "at": dict(self._at)}

    def next(self, rows: int) -> Feed:
        end = self._reader.end(self._at) if self._last is None else self._last
        upto = self._reader.upto(self._at, end, min(rows, self._log.max_rows or rows))
        self.caught_up = upto in (self._at, end)
        if upto == self._at:
            self.is_over = not self.live
            return
        yield from self.again(dict(upto))

    def again(self, span: Any) -> Feed:
        source, chunk_rows, stop = self._made
        feed = self._reader.read(source, self._at, span, chunk_rows, stop)
        yield from feed
        self._at = span

    def span(self) -> Any:
        if self._seen == self._at:
            return None
        self._seen = self._at
        return dict(self._at)

    def joined(self, first: Any, then: Any) -> Any:
        return then

    def confirm(self) -> None:
        if isinstance(self._reader, Confirming):
            self._reader.confirm(self._at)

    def close(self) -> None:
        self._reader.close()


class RowsInput:
    """A table or a collection: how many rows were read."""

    kind = "rows"
    live = caught_up = False

    def __init__(self, given: RowSource, made: ReadFor, at: Any) -> None:
        feed = given.rows(made.source, made.chunk_rows, made.stop)
        self._reel = Reel(feed, f"input {made.source.name!r}")
        self.is_over = False
        if at is not None:
            self._reel.skip(Count(*at["at"]))
        self._seen = self._reel.at

    @property
    def place(self) -> Any:
        return {"kind": self.kind, "at": list(self._reel.at)}

    def next(self, rows: int) -> Feed:
        while rows > 0 and not self.is_over:
            fed = self._reel.next(rows)
            if fed is None:
                self.is_over = True
                return
            rows -= len(fed[0]) + len(fed[1])
            yield fed

    def again(self, span: Any) -> Feed:
        yield from self._reel.upto(Count(*span))

    def span(self) -> Any:
        if self._seen == self._reel.at:
            return None
        self._seen = self._reel.at
        return list(self._seen)

    def joined(self, first: Any, then: Any) -> Any:
        return then

    def confirm(self) -> None:
        """Nobody keeps the rows for us."""

    def close(self) -> None:
        self._reel.close()


class FileSpan(NamedTuple):
    """What was read of a file: up to which row, and whether that is all of it."""

    path: str
    length: int
    mtime_us: int | None
    good: int
    bad: int
    whole: bool


class _OpenFile(NamedTuple):
    """The file that is being read."""

    path: str
    look: Look
    reel: Reel

    def span(self, *, whole: bool) -> FileSpan:
        return FileSpan(self.path, self.look.length, self.look.mtime_us, *self.reel.at, whole)


class FileInput:
    """Files in the order of change: which were read whole, and how far the one is read that is open."""

    kind = "files"

    def __init__(self, given: FileSource, made: ReadFor, at: Any) -> None:
        self._given, self._made = given, made
        self.live, self.is_over = given.live, False
        self._done: dict[str, None] = dict.fromkeys(_paths(at["done"]) if at else ())
        self._waiting: collections.deque[Found] = collections.deque()
        self._file: _OpenFile | None = None
        self._spans: list[FileSpan] = []
        self._known: FileSpan | None = None
        self._looked = float("-inf")
        self._find()
        if at and at["open"]:
            one = FileSpan(*at["open"])
            self._open(one).reel.skip(Count(one.good, one.bad))
            self._known = one

    @property
    def caught_up(self) -> bool:
        return self._file is None and not self._waiting

    @property
    def place(self) -> Any:
        now = self._file and self._file.span(whole=False)
        return {"kind": self.kind, "done": _by_folder(self._done), "open": now and list(now)}

    def next(self, rows: int) -> Feed:
        while rows > 0 and (self._file is not None or self._open_next()):
            assert self._file is not None
            fed = self._file.reel.next(rows)
            if fed is None:
                self._end()
                continue
            rows -= len(fed[0]) + len(fed[1])
            yield fed

    def again(self, span: Any) -> Feed:
        for entry in span:
            one = FileSpan(*entry)
            if self._file is None or self._file.path != one.path:
                self._open(one)
            assert self._file is not None
            yield from self._file.reel.upto(Count(one.good, one.bad))
            if one.whole:
                self._end()

    def span(self) -> Any:
        now = self._file and self._file.span(whole=False)
        new = [now] if now and now != self._known and (now.good or now.bad) else []
        found, self._spans, self._known = [*self._spans, *new], [], now
        return [list(one) for one in found] or None

    def joined(self, first: Any, then: Any) -> Any:
        goes_on = first[-1][0] == then[0][0]
        return [*(first[:-1] if goes_on else first), *then]

    def confirm(self) -> None:
        """Files stay."""

    def close(self) -> None:
        if self._file is not None:
            self._file.reel.close()

    def _open_next(self) -> bool:
        if not self._waiting and self.live:
            self._find()
        while self._waiting:
            found = self._waiting.popleft()
            if found.info.path not in self._done:
                self._begin(found, found.info.look)
                return True
        self.is_over = not self.live
        return False

    def _find(self) -> None:
        """Looks for files, now and then; what was found is read in the order of change."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        name = self._made.source.name
        try:
            found = find(self._given.paths, recursive=self._given.recursive)
        except DataError as error:
            raise DataError(f"source {name!r}: {error}") from None
        if not found and not self.live and not self._done:
            raise BuildError(
                f"input {name!r}: there are no files at {', '.join(self._given.paths)}"
            )
        self._waiting.extend(one for one in found if one.info.path not in self._done)

    def _open(self, one: FileSpan) -> _OpenFile:
        """Opens a file that the checkpoint names, as it was."""
        self.close()
        found = next((f for f in self._waiting if f.info.path == one.path), None)
        if found is None:
            raise DataError(
                f"source {self._made.source.name!r}: {one.path} is not there any more, of which the checkpoint has read"
                f" {one.good + one.bad:,} rows; bring it back"
            )
        return self._begin(found, Look(one.length, one.mtime_us))

    def _begin(self, found: Found, look: Look) -> _OpenFile:
        source, rows, stop = self._made
        path = found.info.path
        feed = file_chunks(source, found.fs, path, self._given.options, rows, listed=look)
        if found.info.length >= _MUCH_BYTES and usable_processors() > 1:
            feed = read_ahead(source.name, feed, rows, stop)
        self._file = _OpenFile(path, look, Reel(feed, f"source {source.name!r}: {path}"))
        self._known = None
        return self._file

    def _end(self) -> None:
        """The open file has been read."""
        assert self._file is not None
        self._spans.append(self._file.span(whole=True))
        self._done[self._file.path] = None
        self._file.reel.close()
        self._file = self._known = None


def _by_folder(paths: Mapping[str, None]) -> dict[str, list[str]]:
    """Paths in a short form: names by folder."""
    found: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, []).append(name)
    return found


def _paths(by_folder: Mapping[str, list[str]]) -> list[str]:
    return [f"{folder}/{name}" for folder, names in by_folder.items() for name in names]
