"""A file stays what it was when it was listed, as long as it is read; one that does not is an error, not fewer rows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyarrow import fs as pafs

from thalweg.errors import DataError

_AGAIN = "write it under another name and rename it when it is whole"


class Look(NamedTuple):
    """What tells a file from what it was before; None is not known."""

    length: int
    mtime_us: int | None = None
    #: On local disks: which file the name stands for.
    inode: int | None = None


def look(fs: pafs.FileSystem, path: str) -> Look | None:
    """The file as it is now; None if there is none.

    Raises:
        OSError: nobody can tell.
    """
    if isinstance(fs, pafs.LocalFileSystem):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        return Look(found.st_size, found.st_mtime_ns // 1000, found.st_ino)
    info = fs.get_file_info(path)
    if info.type == pafs.FileType.NotFound:
        return None
    return Look(info.size or 0, None if info.mtime_ns is None else info.mtime_ns // 1000)


@contextlib.contextmanager
def steady(
    fs: pafs.FileSystem, path: str, listed: Look | None = None, *, growing: bool = False
) -> Iterator[Look]:
    """Watches over the reading of a file; gives what it is at the beginning.

    Args:
        fs: its file system.
        path: its place there.
        listed: what it was when it was found; None: that is not compared.
        growing: whether it may be written to at its end.

    Raises:
        DataError: at the beginning or at the end: it is not what it was.
        FileNotFoundError: it is not there.
    """
    opened = look(fs, path)
    if opened is None:
        if listed is not None:
            raise DataError(f"{path}: {_change(listed, None, 'listed')}")
        raise FileNotFoundError(path)
    if listed is not None:
        compare(path, listed, opened, "listed", growing=growing)
    try:
        yield opened
    except (DataError, OSError, pa.ArrowException) as error:
        try:
            compare(path, opened, look(fs, path), "opened", growing=growing)
        except DataError as change:
            raise change from error  # what looks like a damage has this cause
        raise
    compare(path, opened, look(fs, path), "opened", growing=growing)


def compare(path: str, before: Look, now: Look | None, when: str, *, growing: bool) -> None:
    """Refuses a file that is not what it was before.

    Raises:
        DataError: it says what was expected and what came.
    """
    if now is not None:
        # Not by inode alone: some network file systems give a file a new one now and then.
        if now.length == before.length and before.mtime_us in (None, now.mtime_us):
            return
        if growing and now.length > before.length and before.inode in (None, now.inode):
            return
    raise DataError(f"{path}: {_change(before, now, when)}")


def check_seen(path: str, before: Look, seen: int) -> None:
    """Refuses a file of which other than all its bytes came, whatever its file system says of it.

    Raises:
        DataError: it says what was expected and what came.
    """
    if seen != before.length:
        raise DataError(f"{path}: {_change(before, before._replace(length=seen), 'opened')}")


def _change(before: Look, now: Look | None, when: str) -> str:
    since = f"it had {before.length:,} bytes when it was {when}"
    if now is None:
        return (
            f"the file was removed while it was read: {since}; leave it there until the run is over"
        )
    if before.inode not in (None, now.inode):
        return (
            f"it was replaced while it was read: {since}, the new file has {now.length:,};"
            " give new content a new name"
        )
    if now.length < before.length:
        return f"the file got shorter while it was read: {since}, now {now.length:,}, so rows are missing; {_AGAIN}"
    if now.length > before.length:
        return (
            f"the file grew while it was read: {since}, now {now.length:,}; {_AGAIN}, or set growing=True to read the"
            " lines that it holds when it is opened"
        )
    return (
        f"the file changed while it was read: {since} and has as many now, but other ones; {_AGAIN}"
    )
