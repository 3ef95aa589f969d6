"""Files that a batch was planned with, and the folders they come from: what has gone since is missed by name.

Spark logs the files of a batch before it runs and, where one is not there any more, runs the batch without it. For
rows that were promised once that is a loss in silence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
from pyarrow import fs as pafs

from thalweg.checkpoint.hosts.spark_log import file_lists, log_lines, log_offset
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.paths import FileSystem, resolve
from thalweg.errors import EnvironmentProblem
from thalweg.spark.reading.inputs import InputOptions

_WILD = re.compile(r"[\[\]{}*?\\]")
#: Files that an error names before it says how many more there are.
_SHOWN = 3


class Watched(NamedTuple):
    """A folder from which an input's files come."""

    source: str
    fs: FileSystem
    path: str


class FileInputs:
    """The inputs of a query that are files.

    Args:
        sources: the names of all, in the flow's order.
        options: of the inputs, by name.
    """

    def __init__(self, sources: Sequence[str], options: Mapping[str, InputOptions]) -> None:
        self._folders = _watched_folders(options)
        are_one = [options[name].is_one for name in sources]
        #: by their place in Spark's log; behind a frame of the user's, which may have several places, none
        self._places = {
            i: name
            for i, name in enumerate(sources)
            if all(are_one[: i + 1]) and options[name].read is not None
        }

    def require_folders(self) -> None:
        """Refuses to call an input read to its end whose folder has gone.

        Raises:
            EnvironmentProblem: naming it.
        """
        for one in self._folders:
            if not _is_folder(one.fs, one.path):
                raise EnvironmentProblem(
                    f"input {one.source!r}: the folder {one.path} is not there any more: it was moved, deleted or"
                    " unmounted while the query ran, and what came into it since was not read.\n"
                    "Bring it back, and start again from the same checkpoint."
                )

    def require_planned(
        self, spark: Folder | None, batch: int, reports: Iterable[Mapping[str, Any]]
    ) -> None:
        """Refuses a batch that Spark ran without some of the files that it had planned.

        Args:
            spark: Spark's part of the checkpoint; None where only Spark can open it.
            batch: the batch.
            reports: of the tasks, which say how many files came in.

        Raises:
            EnvironmentProblem: naming the files.
        """
        if spark is None:
            return
        arrived: Counter[str] = Counter()
        for said in reports:
            arrived.update(said.get("arrived", {}))
        for place, source in self._places.items():
            files = planned_files(spark, batch, place)
            if len(files) > arrived[source]:
                _require_there(files, source, batch)


def _watched_folders(options: Mapping[str, InputOptions]) -> list[Watched]:
    """The folders of the inputs that are folders or patterns, as far as they are there."""
    found = []
    for source, one in options.items():
        if one.read is None:
            continue
        fs, path = resolve(one.base)
        if not _is_folder(fs, path):
            path = _WILD.split(path)[0].rpartition("/")[0] if _WILD.search(path) else ""
        if path and _is_folder(fs, path):
            found.append(Watched(source, fs, path))
    return found


def _is_folder(fs: FileSystem, path: str) -> bool:
    return bool(fs.get_file_info(path).type == pafs.FileType.Directory)


def _require_there(files: Sequence[str], source: str, batch: int) -> None:
    gone = [one for one in files if not _is_there(one)]
    if gone:
        more = f" and {len(gone) - _SHOWN} more" if gone[_SHOWN:] else ""
        raise EnvironmentProblem(
            f"input {source!r}: batch {batch} was planned with {len(files)} file(s), of which {len(gone)} cannot be"
            f" found any more: {', '.join(gone[:_SHOWN])}{more}.\n"
            "Bring them back, and start again from the same checkpoint. If their rows are not wanted, put a file"
            " without rows in the place of each."
        )


def _is_there(location: str) -> bool:
    fs, path = resolve(location)
    return bool(fs.get_file_info(path).type != pafs.FileType.NotFound)


def planned_files(spark: Folder, batch: int, place: int) -> list[str]:
    """The files of an input that Spark's log has for a batch; none where the log is in a form that is not known."""
    end = _offset(spark, batch, place)
    start = _offset(spark, batch - 1, place) if batch else -1
    if end is None or start is None:
        return []
    numbers = range(start + 1, end + 1)
    return [one for number in numbers for one in _entries(spark, place, number)]


def _offset(spark: Folder, batch: int, place: int) -> int | None:
    """The number of the source's newest log entry that a batch has; -1 for none."""
    lines = log_lines(spark, f"offsets/{batch}")
    if len(lines) <= 2 + place:
        return None
    return log_offset(lines[2 + place])


def _entries(spark: Folder, place: int, number: int) -> Iterator[str]:
    """The files of one entry of a source's log; every tenth holds those before it, too."""
    for name in file_lists(place, number):
        for line in filter(None, log_lines(spark, name)[1:]):
            entry: dict[str, Any] = orjson.loads(line)
            if entry["batchId"] == number:
                yield unquote(entry["path"])  # the log writes it as a URI
