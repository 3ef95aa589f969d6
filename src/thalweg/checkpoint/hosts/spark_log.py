"""Spark's part of a checkpoint, as far as ours must agree with it: which batch is next, and of which query.

Spark names a batch in ``offsets/<n>`` before it runs and in ``commits/<n>`` after; the name of the query, which it
keeps for the life of the checkpoint, is in ``metadata``. Only names of files and that name are read.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from thalweg.checkpoint import durable
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.paths import is_local, join, list_files, list_folders, read_bytes
from thalweg.errors import CheckpointError


class SparkLog(NamedTuple):
    """Where Spark's log stands.

    Attributes:
        next_batch: what Spark runs next: the newest batch again if it was not logged as done.
        query: how Spark names the query; "" before its first start.
    """

    next_batch: int
    query: str


def read_log(spark: Folder) -> SparkLog:
    """Where the log in a folder stands.

    Raises:
        CheckpointError: it is not a log that Spark can go on with.
    """
    offsets, commits = _entries(spark, "offsets"), _entries(spark, "commits")
    newest = max(offsets, default=-1)
    query = _query(spark)
    if newest >= 0 and not query:
        raise CheckpointError(
            f"{spark.location} has batches up to {newest} but no file metadata, which names the query: Spark's part of"
            " the checkpoint is damaged.\nBring it back from a copy of the whole checkpoint, made at one time."
        )
    if newest >= 0:
        _require_sources(spark, newest)
    return SparkLog(newest + 1 if newest in commits or newest < 0 else newest, query)


def _require_sources(spark: Folder, batch: int) -> None:
    """Refuses a log of offsets whose lists of files have gone; sources that are no files keep none."""
    for place, line in enumerate(log_lines(spark, f"offsets/{batch}")[2:]):
        number = log_offset(line)
        if number is None or number < 0:
            continue
        names = file_lists(place, number)
        if all(read_bytes(spark.fs, join(spark.root, name)) is None for name in names):
            raise CheckpointError(
                f"{join(spark.root, names[0])} is missing: Spark's list of the files that batch {batch} has taken."
                " Without it files would be taken twice or left out.\n"
                "Bring Spark's part back from a copy of the whole checkpoint that was made at one time."
            )


def log_lines(spark: Folder, name: str) -> list[str]:
    """The lines of an entry of a log, the version first; none where it is missing or only Spark knows its form."""
    content = read_bytes(spark.fs, join(spark.root, name))
    lines = [] if content is None else content.decode().split("\n")
    return lines if lines[:1] == ["v1"] else []


def file_lists(place: int, number: int) -> tuple[str, str]:
    """Where a source's list of files of a number may be; every tenth is a compact one."""
    return f"sources/{place}/{number}", f"sources/{place}/{number}.compact"


def log_offset(line: str) -> int | None:
    """The number of the newest list of files that a line of an offset names; -1 for none, None for other sources."""
    if line == "-":
        return -1
    try:
        plain = orjson.loads(line)
        return int(plain["logOffset"]) if plain.keys() == {"logOffset"} else None
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def _entries(spark: Folder, log: str) -> set[int]:
    names = list_files(spark.fs, join(spark.root, log))
    return {int(name) for name in names if name.isdecimal()}


def _query(spark: Folder) -> str:
    content = read_bytes(spark.fs, join(spark.root, "metadata"))
    if content is None:
        return ""
    try:
        return str(orjson.loads(content)["id"])
    except (ValueError, TypeError, LookupError) as error:
        raise CheckpointError(
            f"{spark.location}/metadata cannot be read: {error}\nIt names Spark's query; bring it back from a copy."
        ) from error


def sync_log(spark: Folder, synced: dict[str, int]) -> None:
    """Brings what Spark has logged of the running batch to a local disk, so that no commit record is ahead of it.

    Args:
        spark: the folder.
        synced: the newest entry of each log that is on the disk, kept between calls. What Spark logs behind the record
            is left to the next batch: without it the batch only runs again.
    """
    if not is_local(spark.fs):
        return
    if not synced:
        durable.sync_file(join(spark.root, "metadata"))
        durable.sync_folder(spark.root)
    sources = list_folders(spark.fs, join(spark.root, "sources"))
    for log in ("offsets", *(f"sources/{one}" for one in sources)):
        names = list_files(spark.fs, join(spark.root, log))
        newest = max((int(n.partition(".")[0]) for n in names if n[:1].isdecimal()), default=-1)
        if newest >= 0 and synced.get(log) != newest:
            _sync_entry(join(spark.root, log), names, str(newest))
            synced[log] = newest


def _sync_entry(folder: str, names: list[str], entry: str) -> None:
    for name in names:
        # Also its checksum, .<n>.crc, without which Spark refuses it.
        if entry in name.split("."):
            durable.sync_file(join(folder, name))
    durable.sync_folder(folder)
