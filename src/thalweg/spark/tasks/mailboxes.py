"""Files by which the tasks of one machine pass rows to each other while all of them run, and share the work out.

A batch has a folder. A *unit* of its work is a stage in a slot: a task claims it by making a file that was not there,
so each unit has one owner, and a task that Spark has not started yet keeps nobody waiting. What a unit sends goes
behind what is in a file of the sender and the receiver, and is read while that grows; a mark says that a sender has
sent all. Nobody answers anybody, so no task waits for one that is not at work on what it waits for.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

import pyarrow as pa

from thalweg.spark.tasks.transport import Blob

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

#: Whether tasks can be told here that another one has died.
WORKS: Final = fcntl is not None and hasattr(os, "preadv") and hasattr(os, "writev")

#: In front of a blob: kind, node, port, phase, bytes.
_HEAD: Final = struct.Struct("<BiiiQ")
_KINDS: Final = ("chunk", "clock", "step")
#: Blobs begin at multiples of so many bytes, where Arrow's readers want numbers.
_ALIGNED: Final = 64
#: One waits so long at first, at most, and so long before one looks whether the others live, s.
_FIRST_S, _MOST_S, _LOOK_S = 0.0003, 0.004, 0.2
#: A task that is early goes home if the first one has not begun by then: it holds a core that might be wanted.
_PATIENCE_S: Final = 10.0
#: Spark says better than we do why a worker died, and soon.
_SPARK_S: Final = 5.0
_AGAIN: Final = (
    "Spark runs a task of a batch once more, and not those that it shared the work with; the query must repeat"
    " the batch"
)


class StageUnit(NamedTuple):
    """A stage in a slot."""

    stage: int
    slot: int

    def __str__(self) -> str:
        return f"{self.stage}.{self.slot}"


class MailboxStopped(Exception):
    """Another task of the batch has failed; what this one does is not wanted."""


class Mailboxes:
    """The folder of a batch, as one of its tasks sees it.

    Args:
        folder: of this batch alone; the driver makes it, and takes it away when the batch has run.
        task: the number of the task, from 0, which is the one that reads the input.
    """

    def __init__(self, folder: str, task: int) -> None:
        self._folder = Path(folder)
        self._stopped = f"{folder}/stopped"
        self.task = task
        self._alive: int | None = None
        self._sending: dict[tuple[StageUnit, StageUnit], BinaryIO] = {}

    # -- life ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Says that this task is at work; others see when its process has gone.

        Raises:
            RuntimeError: the batch has run, and Spark wants a part of it again.
        """
        made = self._folder / f"new-{self.task}"
        try:
            self._alive = os.open(made, os.O_CREAT | os.O_RDWR)
        except FileNotFoundError:
            raise RuntimeError(_AGAIN) from None
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        made.rename(self._folder / f"alive-{self.task}")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leaves; after an error the others stop, too."""
        if kind is not None:
            self.stop()
        for file in self._sending.values():
            file.close()
        if self._alive is not None:
            (self._folder / f"alive-{self.task}").unlink(missing_ok=True)
            os.close(self._alive)

    def begin(self) -> None:
        """The task that reads the input has begun.

        Raises:
            RuntimeError: one did so before; what that has made of the batch may be in use.
        """
        if not self._made("begun"):
            raise RuntimeError(_AGAIN)

    def has_begun(self) -> bool:
        """Waits for :meth:`begin`; whether it came, which it may not while the cores are busy."""
        deadline = time.monotonic() + _PATIENCE_S
        begun = self._folder / "begun"
        self._wait(lambda: begun.exists() or time.monotonic() > deadline)
        return begun.exists()

    def stop(self) -> None:
        """Tells the others that the batch is given up."""
        with contextlib.suppress(FileNotFoundError):  # the driver has given it up already
            self._made("stopped")

    # -- work ----------------------------------------------------------------------------------------------

    def claim(self, stage: int, slots: Sequence[int]) -> StageUnit | None:
        """The first of these slots that nobody has claimed in a stage, which is this task's now; None: all are."""
        for slot in slots:
            if self._made(f"claimed-{StageUnit(stage, slot)}"):
                return StageUnit(stage, slot)
        return None

    def _made(self, name: str) -> bool:
        """Whether it was this task that made a file."""
        try:
            os.close(os.open(self._folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    # -- rows ----------------------------------------------------------------------------------------------

    def send(self, sender: StageUnit, receiver: StageUnit, blob: Blob) -> None:
        """Puts a blob into a unit's mailbox."""
        file = self._sending.get((sender, receiver))
        if file is None:
            file = open(self._box(sender, receiver), "wb", buffering=0)  # noqa: SIM115
            self._sending[sender, receiver] = file
        data = memoryview(blob.data)
        head = _HEAD.pack(_KINDS.index(blob.kind), blob.node, blob.port, blob.phase, len(data))
        parts: list[bytes | memoryview] = [head.ljust(_ALIGNED), data, bytes(-len(data) % _ALIGNED)]
        left = sum(map(len, parts))
        if (written := os.writev(file.fileno(), parts)) < left:
            # What is left of a large write.
            rest = b"".join(parts)[written:]
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]

    def sent(self, sender: StageUnit) -> None:
        """A unit has sent all that it will."""
        for pair in [pair for pair in self._sending if pair[0] == sender]:
            self._sending.pop(pair).close()
        self._made(f"sent-{sender}")

    def arriving(self, sender: StageUnit, receiver: StageUnit) -> Iterator[Blob]:
        """All blobs of one unit for another, as they come.

        Raises:
            MailboxStopped: another task has given up the batch.
        """
        box = _Box(self._box(sender, receiver), receiver)
        done = self._mark(sender)
        ended = False
        while not ended:
            # In this order: what is there when the mark is, is all.
            ended = os.path.exists(done)
            found = False
            for blob in box.new():
                found = True
                yield blob
            if not found and not ended:
                self._wait(lambda: box.has_grown() or os.path.exists(done))
        box.close()

    def wait_for(self, senders: Sequence[StageUnit]) -> None:
        """Waits until all of these units have sent all.

        Raises:
            MailboxStopped: another task has given up the batch.
        """
        for sender in senders:
            self._wait(functools.partial(os.path.exists, self._mark(sender)))

    def _mark(self, sender: StageUnit) -> str:
        # As a text: it is looked for again and again.
        return f"{self._folder}/sent-{sender}"

    def _box(self, sender: StageUnit, receiver: StageUnit) -> Path:
        return self._folder / f"{receiver}-from-{sender}"

    # -- waiting -------------------------------------------------------------------------------------------

    def _wait(self, condition: Callable[[], bool]) -> None:
        pause, look = _FIRST_S, time.monotonic() + _LOOK_S
        while not condition():
            time.sleep(pause)
            pause = min(2 * pause, _MOST_S)
            if time.monotonic() > look:
                self._require_others()
                look = time.monotonic() + _LOOK_S

    def _require_others(self) -> None:
        if os.path.exists(self._stopped) or not self._folder.exists():
            raise MailboxStopped
        for path in self._folder.glob("alive-*"):
            if path.name != f"alive-{self.task}" and _is_free(path):
                time.sleep(_SPARK_S)
                raise RuntimeError("another Python worker of this batch ended unexpectedly")


def _is_free(path: Path) -> bool:
    """Whether whoever had a lock has gone, and did not take the file away first."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return path.exists()


class _Box:
    """What one unit sends to another, read as it grows."""

    def __init__(self, path: Path, receiver: StageUnit) -> None:
        self._path = path
        self._receiver = receiver
        self._file: int | None = None
        self._at = 0

    def has_grown(self) -> bool:
        """Whether there is more than was read."""
        try:
            return os.stat(self._path).st_size > self._at
        except FileNotFoundError:
            return False

    def new(self) -> Iterator[Blob]:
        """The blobs that are here as a whole, and have not been given."""
        if self._file is None:
            if not self._path.exists():
                return
            self._file = os.open(self._path, os.O_RDONLY)
        while True:
            head = os.pread(self._file, _HEAD.size, self._at)
            if len(head) < _HEAD.size:
                return
            kind, node, port, phase, size = _HEAD.unpack(head)
            end = self._at + _ALIGNED + -(-size // _ALIGNED) * _ALIGNED
            if os.fstat(self._file).st_size < end:
                return
            data = pa.allocate_buffer(size)
            _read(self._file, memoryview(data), self._at + _ALIGNED)
            self._at = end
            yield Blob(*self._receiver, _KINDS[kind], node, port, phase, data)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)


def _read(file: int, into: memoryview, at: int) -> None:
    done = 0
    while done < len(into):
        done += os.preadv(file, [into[done:]], at + done)
