"""An output that is, holds or lies in what the same flow reads: it would write over its input, or read its output."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from thalweg.checkpoint.paths import is_here, resolve
from thalweg.connectors.embedded.target_sink import TargetSink
from thalweg.connectors.readers import ReadOptions
from thalweg.connectors.written.file_sink import FileSink
from thalweg.errors import BuildError

_WILD: Final = re.compile(r"[*?\[]")
_TO_DO: Final = "; give the sink a place elsewhere"


def refuse_own_input(inputs: Mapping[str, Any], sinks: Mapping[str, Any]) -> None:
    """Refuses sinks whose files are among those of a source, before anything is written.

    Args:
        inputs: by source name; those that are no files are passed by.
        sinks: by sink name, as well.

    Raises:
        BuildError: naming sink, source and both places.
    """
    for name, sink in sinks.items():
        written = _path_of(sink)
        if written is None:
            continue
        for source, given in inputs.items():
            for read in _paths_of(given):
                if why := _shared(
                    _parts(written), _parts(read), is_file=isinstance(sink, FileSink)
                ):
                    raise BuildError(f"sink {name!r}: {written} {why.format(source, read)}{_TO_DO}")


def _path_of(sink: Any) -> str | None:
    path = getattr(sink.target if isinstance(sink, TargetSink) else sink, "path", None)
    return path if isinstance(path, str) else None


def _paths_of(given: Any) -> Iterator[str]:
    if not isinstance(getattr(given, "options", None), ReadOptions):
        return  # not files: a table has versions, and a log is appended to
    for path in getattr(given, "paths", None) or (getattr(given, "path", None),):
        if isinstance(path, str):
            yield path


def _parts(location: str) -> list[str]:
    """The parts of a path, of one on this machine behind its links."""
    if is_here(location):
        location = os.path.realpath(resolve(location)[1])
    return location.rstrip("/").split("/")


def _shared(written: Sequence[str], read: Sequence[str], *, is_file: bool) -> str:
    """What a sink's place has to do with a source's, which may be a pattern; empty: nothing."""
    if any(map(_WILD.search, read)) and not os.path.exists("/".join(read)):
        fits = _fits(written, read, is_file=is_file)
        return "is among {1}, which source {0!r} reads: input and output would mix" if fits else ""
    if written == read:
        return "is what source {0!r} reads: the run would write over its own input"
    if written[: len(read)] == read:
        return "lies in {1}, which source {0!r} reads: it would read its own output"
    if read[: len(written)] == written and not is_file:
        return "holds {1}, which source {0!r} reads: input and output would mix"
    return ""


def _fits(written: Sequence[str], pattern: Sequence[str], *, is_file: bool) -> bool:
    """Whether a file, or one in a folder, may fit a pattern, or lie in a folder that does."""
    if "**" in pattern:
        deep = pattern.index("**")
        if is_file and not fnmatchcase(written[-1], pattern[-1]):
            return False
        return all(map(fnmatchcase, written[:deep], pattern[:deep]))
    if is_file and len(written) < len(pattern):
        return False
    return all(map(fnmatchcase, written, pattern))
