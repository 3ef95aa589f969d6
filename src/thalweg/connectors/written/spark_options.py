"""The options of Spark's file writers: Spark reads those that it knows, and says nothing of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from thalweg.checks import meant, refuse
from thalweg.errors import BuildError

FileFormat = Literal["parquet", "json", "csv"]

_ALL: Final = ("compression", "maxRecordsPerFile")
_TEXT: Final = (
    *_ALL, "dateFormat", "encoding", "lineSep", "locale", "timestampFormat", "timestampNTZFormat", "timeZone",
)  # fmt: skip
#: By format, what its writer reads (Spark 4.3).
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "parquet": _ALL,
    "json": (*_TEXT, "ignoreNullFields", "pretty", "writeNonAsciiCharacterAsCodePoint"),
    "csv": (
        *_TEXT, "charToEscapeQuoteEscaping", "delimiter", "emptyValue", "escape", "escapeQuotes", "extension", "header",
        "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "nanValue", "negativeInf", "nullValue", "positiveInf",
        "quote", "quoteAll", "sep",
    ),
}  # fmt: skip
_CODECS: Final[Mapping[str, tuple[str, ...]]] = {
    "parquet": ("none", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd"),
    "json": ("none", "uncompressed", "bzip2", "deflate", "gzip", "lz4", "snappy", "zstd"),
    "csv": ("none", "uncompressed", "bzip2", "deflate", "gzip", "lz4", "snappy", "zstd"),
}  # fmt: skip
#: What people look for here that is none.
_ELSEWHERE: Final = {
    "partitionby": "a sink has a folder for each batch, batch=<n>; for other folders use tw.spark.foreach_batch",
    "mode": "a repeated batch replaces its earlier try; other modes are not possible",
    "format": "the function says the format: parquet, json or csv",
    "path": "it is the first argument",
}  # fmt: skip


def writer_options(format: FileFormat, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, all of which the writer reads; names with a dot are of the libraries behind it.

    Upper and lower case are one, as in Spark.

    Raises:
        BuildError: there is no such option, or a value is none.
    """
    known = {name.lower(): name for name in OPTIONS[format]}
    for name, value in given.items():
        if "." not in name and name.lower() not in known:
            why = _ELSEWHERE.get(name.lower(), f"there are {', '.join(OPTIONS[format])}")
            raise BuildError(
                f"{format}: there is no option {name!r}{meant(name, OPTIONS[format])}; {why}"
            )
        if not isinstance(value, str | bool | int | float):
            raise refuse(format, name, "a text, a number, True or False", value)
        if name.lower() == "compression":
            _require_codec(format, name, value)
    return {known.get(name.lower(), name): value for name, value in given.items()}


def _require_codec(format: str, name: str, value: Any) -> None:
    codecs = _CODECS[format]
    if not isinstance(value, str) or ("." not in value and value.lower() not in codecs):
        raise refuse(format, name, f"one of {', '.join(codecs)}", value)
