"""How Spark lists the files of a folder, so that those of one time of change come in the order of their paths.

Spark cuts batches of at most so many files by the time of change, in milliseconds, and among equal times by how the
folder was listed. Object stores and HDFS list by name, local file systems as they like: there the folder goes in as a
pattern, since what fits a pattern is sorted.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from pyarrow import fs as pafs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from thalweg.checkpoint.paths import is_local, resolve

#: For more paths than this Spark runs a job at each look, and each file is a path of its own where it fits a pattern.
_LISTED_BY_JOBS: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"


class Listed(Protocol):
    """What is to be known of an input of files."""

    @property
    def path(self) -> str: ...

    @property
    def max_files_per_trigger(self) -> int | None: ...

    @property
    def recursive(self) -> bool: ...


def is_listed_by_path(given: Listed) -> bool:
    """Whether a folder goes in as a pattern: it is local, and its files may be cut into batches."""
    if given.max_files_per_trigger is None or given.recursive:
        return False
    fs, path = resolve(given.path)
    return is_local(fs) and bool(fs.get_file_info(path).type == pafs.FileType.Directory)


def listed_by_path(path: str) -> str:
    """The pattern of all that a folder has."""
    return f"{listable(path).rstrip('/')}/*"


def files_of(frame: DataFrame, folder: str) -> DataFrame:
    """Rows of the folder's own files: the pattern fits the folders in it, too, whose files are not meant."""
    parts = len(resolve(folder)[1].rstrip("/").split("/")) + 1
    local = f.regexp_replace(frame["path"], "^file:/+", "/")
    return frame.filter(f.size(f.split(local, "/")) == parts)


@contextlib.contextmanager
def listing_on_driver(spark: SparkSession, inputs: Iterable[Listed]) -> Iterator[None]:
    """The setting under which a query is started that lists files by a pattern; a query keeps what it starts with."""
    if not any(map(is_listed_by_path, inputs)):
        yield
        return
    before = str(spark.conf.get(_LISTED_BY_JOBS))
    spark.conf.set(_LISTED_BY_JOBS, str(2**31 - 1))
    try:
        yield
    finally:
        spark.conf.set(_LISTED_BY_JOBS, before)


def listable(path: str) -> str:
    """A path that Spark's file stream takes: a single file goes in as a pattern that only it fits.

    (Spark passes a path that is no pattern on as ``basePath``, which must be a folder.)
    """
    fs, inner = resolve(path)
    kind = fs.get_file_info(inner).type
    if kind == pafs.FileType.NotFound:
        return path
    # What exists is meant as it stands, even where its name could be read as a pattern.
    plain = re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
    if kind != pafs.FileType.File or plain != path:
        return plain
    return f"{plain[:-1]}[{plain[-1]}]"
