"""Bytes of a file in blocks: decompressed, checked for completeness, cut at line ends, bounded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import fs as pafs

from thalweg.connectors.readers.packed import (
    HEAD_BYTES,
    codec_in,
    codec_of,
    decompressed,
    xz_errors,
)
from thalweg.connectors.readers.parsed import Int64s, Parsed, bad_row
from thalweg.connectors.readers.steady import Look, check_seen, steady
from thalweg.errors import DataError
from thalweg.flow.records import Schema

#: How much is read at a time.
BLOCK_BYTES: Final = 1 << 20
#: A longer row is a bad row; what is held in memory is bounded by it.
MAX_ROW_BYTES: Final = 1 << 24

BOM: Final = b"\xef\xbb\xbf"
#: Why the last line of a file that grows does not fit.
UNFINISHED: Final = "cut off: the line had no end yet when the file was opened"


class Lines(NamedTuple):
    """Whole lines: the bytes, where each newline is, and the number of the first line.

    The last line of a file may lack its newline; ``data`` then has one all the same (so that a CR at
    the very end of a file ends its line, too).
    """

    data: bytes
    ends: Int64s
    first: int
    #: The one line here is longer than the limit and only its beginning is here.
    too_long: bool = False
    #: The one line here stands at the end of a file that grows, and has no end yet.
    unfinished: bool = False

    @property
    def is_row(self) -> bool:
        """Whether the lines are whole."""
        return not self.too_long and not self.unfinished


@contextlib.contextmanager
def told(path: str, what: str = "cannot be read", *, packed: bool = False) -> Iterator[None]:
    """Turns the errors of file system, decompressor (``packed``) and decoder into a DataError naming the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, pa.ArrowException, *xz_errors()) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        hint = "; the file is cut off or damaged, write it again" if packed else ""
        raise DataError(f"{path}: {what}: {reason}{hint}") from error


def read_bytes(
    fs: pafs.FileSystem,
    path: str,
    size: int = BLOCK_BYTES,
    *,
    listed: Look | None = None,
    growing: bool = False,
    text: bool = True,
) -> Iterator[bytes]:
    """The decompressed content in pieces, without the byte order mark.

    Args:
        fs: the file's system.
        path: its place there.
        size: the greatest piece.
        listed: what the file was when it was found.
        growing: whether it may be written to at its end; then what it holds when it is opened is read.
        text: whether it must be UTF-8.

    Raises:
        DataError: the file cannot be read, changes meanwhile, or its compressed content is cut off or damaged.
    """
    with told(path), steady(fs, path, listed, growing=growing) as before:
        if before.length == 0 and codec_of(path):
            raise DataError(f"{path}: an empty file is not {codec_of(path)}; it is cut off")
        part = before.length if growing else None
        codec = None
        with told(path), _open(fs, path, part) as raw:
            # What has a compression's name is opened again in any case.
            first = raw.read(HEAD_BYTES) if codec_of(path) else _head(raw)
            codec = codec_in(path, first[:HEAD_BYTES], text=text)
            if codec is None:
                seen = 0
                for piece in _pieces(first, raw, size):
                    seen += len(piece)
                    yield piece if seen > len(piece) else piece.removeprefix(BOM)
                check_seen(path, before, seen)
        if codec is not None:
            with told(path, packed=True), _open(fs, path, part) as raw:
                stream = decompressed(raw, codec)
                yield from _pieces(_head(stream).removeprefix(BOM), stream, size)


def _pieces(first: bytes, stream: Any, size: int) -> Iterator[bytes]:
    if first:
        yield first
    while piece := stream.read(size):
        yield piece


def compression(fs: pafs.FileSystem, path: str) -> str | None:
    """The compression of the file, by its first bytes.

    Raises:
        DataError: as :func:`read_bytes`.
    """
    with told(path), _open(fs, path, None) as raw:
        return codec_in(path, raw.read(HEAD_BYTES), text=False)


@contextlib.contextmanager
def _open(fs: pafs.FileSystem, path: str, length: int | None) -> Iterator[Any]:
    """The raw bytes of the file, or the first ``length`` of them."""
    if length is None:
        with fs.open_input_stream(path, compression=None) as raw:
            yield raw
        return
    with fs.open_input_file(path) as source:
        yield source.get_stream(0, length)


def _head(stream: Any) -> bytes:
    """The first bytes, enough of them to hold a byte order mark."""
    head = b""
    while len(head) < len(BOM) and (piece := stream.read(BLOCK_BYTES)):
        head += piece
    return head


def newlines(data: bytes) -> Int64s:
    """Where the newlines are."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == 10)


class LineCutter:
    """Bytes that come in pieces, as whole lines with their numbers.

    A line of more than ``limit`` bytes, its end not counted, is given as its beginning only, however the pieces are
    cut; the rest of it is skipped. So no more than ``limit`` bytes and a piece are held.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        #: The pieces to come begin inside a line that was too long and has been given.
        self._skipping = False
        #: The number of the next line.
        self.line = 1

    def cut(self, piece: bytes) -> list[Lines]:
        """The lines that end in this piece, in blocks."""
        if self._skipping:
            at = piece.find(b"\n") + 1
            if not at:
                return []
            piece, self._skipping = piece[at:], False
        data = self._rest + piece if self._rest else piece
        stop = data.rfind(b"\n") + 1
        out = self._whole(data[:stop]) if stop else []
        self._rest = data[stop:]
        if len(self._rest) > self._limit:
            out.append(self._too_long(self._rest))
            self._rest, self._skipping = b"", True
        return out

    def end(self) -> bytes:
        """What stands behind the last newline; the next piece begins a line of its own."""
        rest, self._rest, self._skipping = self._rest, b"", False
        self.line += bool(rest)
        return rest

    def _whole(self, data: bytes) -> list[Lines]:
        ends = newlines(data)
        long = np.flatnonzero(np.diff(ends, prepend=-1) > self._limit + 1).tolist()
        out, done = [], 0
        for at in [*long, len(ends)]:
            if at > done:
                out.append(self._block(data, ends, done, at))
            if at < len(ends):
                start = int(ends[at - 1]) + 1 if at else 0
                out.append(self._too_long(data[start : int(ends[at])]))
            done = at + 1
        return out

    def _block(self, data: bytes, ends: Int64s, first: int, stop: int) -> Lines:
        start = int(ends[first - 1]) + 1 if first else 0
        block = Lines(data[start : int(ends[stop - 1]) + 1], ends[first:stop] - start, self.line)
        self.line += stop - first
        return block

    def _too_long(self, line: bytes) -> Lines:
        block = too_long(line, self.line)
        self.line += 1
        return block


def too_long(line: bytes, number: int) -> Lines:
    """The block that stands for a line of which only the beginning is kept."""
    head = line[:1000]
    return Lines(head + b"\n", np.array([len(head)]), number, too_long=True)


def no_row(lines: Lines, schema: Schema, limit: int) -> Parsed:
    """The part that a line which is too long, or unfinished, gives: one bad row."""
    reason = f"longer than {limit} bytes" if lines.too_long else UNFINISHED
    bad = [bad_row(lines.first, reason, lines.data)]
    return Parsed(schema.arrow.empty_table(), np.zeros(0, np.int64), bad)


def read_lines(
    fs: pafs.FileSystem,
    path: str,
    *,
    listed: Look | None = None,
    growing: bool = False,
    text: bool = True,
) -> Iterator[Lines]:
    """The file's lines in blocks; lines end with LF or CR LF. Arguments and errors are those of :func:`read_bytes`."""
    cutter = LineCutter(MAX_ROW_BYTES)
    for piece in read_bytes(fs, path, listed=listed, growing=growing, text=text):
        yield from cutter.cut(piece)
    number, rest = cutter.line, cutter.end()
    if rest:
        rest += b"\n"
        yield Lines(rest, newlines(rest), number, unfinished=growing)


def pieces(lines: Lines, size: int) -> Iterator[Lines]:
    """The same lines in pieces of about that many bytes."""
    marks = np.arange(size, len(lines.data) + size, size)
    last = np.minimum(np.searchsorted(lines.ends, marks), len(lines.ends) - 1)
    done, start = 0, 0
    for at in np.unique(last).tolist():
        stop = int(lines.ends[at]) + 1
        ends = lines.ends[done : at + 1] - start
        yield Lines(lines.data[start:stop], ends, lines.first + done)
        done, start = at + 1, stop


def is_utf8(data: bytes) -> bool:
    """Whether all of it is UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
