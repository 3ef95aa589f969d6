"""Compressed files, known by their name or their first bytes; what is no text is refused by name."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from thalweg.errors import DataError

#: The compressions that are opened, by the ends of names.
CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}

#: How many bytes :func:`codec_in` wants to see.
HEAD_BYTES: Final = 64

_BEGINS: Final = {
    "gzip": re.compile(rb"\x1f\x8b\x08", re.DOTALL),
    "bz2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
}

#: What begins like this is no text, and what to do about it.
_OTHER: Final = (
    (rb"PK\x03\x04", "a zip archive (or a sheet of Excel); unpack it"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it"),
    (rb"\x1f\x9d", "compressed by compress (.Z); use gzip or zstd"),
    (rb"\x04\x22\x4d\x18", "compressed by lz4; use gzip or zstd"),
    (rb"\xff\x06\x00\x00sNaPpY", "compressed by snappy; use gzip or zstd"),
    (rb"LZIP[\x00\x01]", "compressed by lzip; use gzip or zstd"),
    (rb"PAR1[\x00-\x08\x0e-\x1f]", "Parquet; read it with format='parquet'"),
    (rb"ARROW1\x00\x00", "an Arrow file; read it with pyarrow and give the table"),
    (rb"Obj\x01", "Avro; convert it to Parquet or JSON lines"),
    (rb"SQLite format 3\x00", "an SQLite database; export its table"),
    (rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff", "UTF-32 text; convert it to UTF-8"),
    (rb"\xff\xfe|\xfe\xff", "UTF-16 text; convert it to UTF-8"),
    (rb"(?:[\x01-\x7f]\x00){8}|(?:\x00[\x01-\x7f]){8}", "UTF-16 text; convert it to UTF-8"),
)


def codec_of(path: str) -> str | None:
    """The compression that the file's name tells."""
    return next((codec for end, codec in CODECS.items() if path.lower().endswith(end)), None)


def codec_in(path: str, head: bytes, *, text: bool = True) -> str | None:
    """The compression that the file's first bytes tell; ``text`` says whether what they hold is to be UTF-8.

    Raises:
        DataError: they tell another than the name, or something that cannot be read as lines.
    """
    found = next((codec for codec, begins in _BEGINS.items() if begins.match(head)), None)
    named = codec_of(path)
    if named and named != found and head:
        what = f"compressed by {found}" if found else "not, or its beginning is damaged"
        raise DataError(f"{path}: by its name it is compressed by {named}, but it is {what}")
    if text and not found:
        check_text(path, head)
    return found


def check_text(path: str, head: bytes) -> None:
    """Refuses what begins like something else than text in UTF-8.

    Raises:
        DataError: naming what it is, and what to do.
    """
    for begins, what in _OTHER:
        if re.match(begins, head, re.DOTALL):
            raise DataError(f"{path}: the file is {what}")


def decompressed(raw: Any, codec: str) -> Any:
    """The stream decompressed; its ``read`` fails where the content is cut off or damaged.

    Raises:
        DataError: this Python has no module for it.
    """
    if codec != "xz":
        return pa.CompressedInputStream(raw, codec)
    return _lzma().LZMAFile(raw)


def compressed(path: str, codec: str | None) -> Any:
    """A new file to write to; the codec is one of :data:`CODECS`, or None.

    Raises:
        DataError: this Python has no module for it.
        OSError: the file cannot be opened.
    """
    if codec != "xz":
        return pa.output_stream(path, compression=codec)
    return _lzma().LZMAFile(path, "wb")


def _lzma() -> Any:
    try:
        import lzma
    except ImportError:
        raise DataError("xz is not a part of this Python; use gzip or zstd") from None
    return lzma


def xz_errors() -> tuple[type[Exception], ...]:
    """What reading xz raises when the content is damaged."""
    try:
        from lzma import LZMAError
    except ImportError:
        return (EOFError,)
    return (EOFError, LZMAError)
