"""Bytes of a file in blocks: decompressed, checked for completeness, cut at line ends, bounded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import fs as pafs

from thalweg.errors import DataError
from thalweg.readers.parsed import Int64s

#: How much is read at a time.
BLOCK_BYTES: Final = 1 << 20
#: A longer row is a bad row; what is held in memory is bounded by it.
MAX_ROW_BYTES: Final = 1 << 24

BOM: Final = b"\xef\xbb\xbf"
CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


class Lines(NamedTuple):
    """Whole lines: the bytes, where each newline is, and the number of the first line.

    The last line of a file may lack its newline; ``data`` then has one all the same (so that a CR at
    the very end of a file ends its line, too).
    """

    data: bytes
    ends: Int64s
    first: int
    #: The one line here is longer than MAX_ROW_BYTES and only its beginning is.
    too_long: bool = False


def codec_of(path: str) -> str | None:
    """The compression that the file's name tells."""
    return next((codec for end, codec in CODECS.items() if path.lower().endswith(end)), None)


@contextlib.contextmanager
def told(path: str, what: str = "cannot be read") -> Iterator[None]:
    """Turns the errors of file system, decompressor and decoder into a DataError naming the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        hint = "; the file is cut off or damaged, write it again" if codec_of(path) else ""
        raise DataError(f"{path}: {what}: {reason}{hint}") from error


def read_bytes(fs: pafs.FileSystem, path: str, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The decompressed content in pieces, without the byte order mark.

    Raises:
        DataError: the file cannot be read, or its compressed content is cut off or damaged.
    """
    codec = codec_of(path)
    with told(path), fs.open_input_stream(path, compression=None) as raw:
        stream: Any = pa.CompressedInputStream(raw, codec) if codec else raw
        first = _head(stream)
        if not first and codec and fs.get_file_info(path).size == 0:
            raise DataError(f"{path}: an empty file is not {codec}; it is cut off")
        first = first.removeprefix(BOM)
        if first:
            yield first
        while piece := stream.read(size):
            yield piece


def _head(stream: Any) -> bytes:
    """The first bytes, enough of them to hold a byte order mark."""
    head = b""
    while len(head) < len(BOM) and (piece := stream.read(BLOCK_BYTES)):
        head += piece
    return head


def newlines(data: bytes) -> Int64s:
    """Where the newlines are."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == 10)


def read_lines(fs: pafs.FileSystem, path: str) -> Iterator[Lines]:
    """The file's lines in blocks; lines end with LF or CR LF.

    Raises:
        DataError: as :func:`read_bytes`.
    """
    rest, line = b"", 1
    pieces = read_bytes(fs, path)
    for piece in pieces:
        data = rest + piece if rest else piece
        stop = data.rfind(b"\n") + 1
        if not stop and len(data) > MAX_ROW_BYTES:
            yield Lines(data[:1000] + b"\n", np.array([1000]), line, too_long=True)
            line += 1
            rest = _after_newline(pieces)
            continue
        whole, rest = data[:stop], data[stop:]
        if whole:
            ends = newlines(whole)
            yield Lines(whole, ends, line)
            line += len(ends)
    if rest:
        rest = rest if rest.endswith(b"\n") else rest + b"\n"
        yield Lines(rest, newlines(rest), line)


def _after_newline(pieces: Iterator[bytes]) -> bytes:
    """Skips the rest of a line that is too long and gives what follows it in the piece it ends in."""
    for piece in pieces:
        at = piece.find(b"\n")
        if at >= 0:
            return piece[at + 1 :]
    return b""


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
