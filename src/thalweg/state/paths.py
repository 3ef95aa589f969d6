"""Where a checkpoint lies: Spark's locations as pyarrow file systems, and writing that a kill cannot tear.

A file appears whole or not at all: it is written under a temporary name and renamed, or, where the
store has no rename, put in one piece. Nothing is synced to the platter. What a killed process wrote
stays in the kernel's cache, so kill -9 loses nothing; after a power cut a file may be short or empty,
which its reader reports as a :class:`CheckpointError`. Spark's own checkpoint files promise no more,
and a sync for each file of each batch would cost more than the batch.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.fs as pafs

from thalweg.errors import CheckpointError

#: pyarrow has no types of its own.
FileSystem: TypeAlias = Any

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
_ALIAS: Final = {"s3a": "s3", "s3n": "s3"}
#: Stores whose put is atomic and whose "rename" is a copy.
_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})
#: Ends the name of a file that is not finished; such a file belongs to nobody but its writer.
TEMPORARY: Final = ".tmp"


def resolve(location: str) -> tuple[FileSystem, str]:
    """The file system and the path in it of a location as Spark writes it.

    Takes a plain path (relative ones to the working directory), ``file:/…``, ``file:///…``, ``hdfs://…``,
    ``s3a://…`` (read as s3), ``gs://…``, ``abfs://…``. Touches no file.

    Raises:
        CheckpointError: no such file system, or its client library is missing.
    """
    scheme = _SCHEME.match(location)
    if scheme is None:
        return pafs.LocalFileSystem(), os.path.abspath(location)
    name = scheme[1].lower()
    if name == "file":
        path = location[scheme.end() :]
        if path.startswith("//"):
            path = path[2:].partition("/")[2]
        # Spark takes "%20" in a path as it stands, and so do we.
        return pafs.LocalFileSystem(), "/" + path.strip("/")
    try:
        fs, path = pafs.FileSystem.from_uri(_ALIAS.get(name, name) + location[scheme.end(1) :])
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        raise CheckpointError(
            f"checkpoint location {location!r}: expected a path, file:, hdfs:, s3a:, gs: or abfs: that pyarrow"
            f" can open; got {type(error).__name__}: {str(error)[:300]}.\n"
            "Install the client library of that store, or put Thalweg's state elsewhere with state=."
        ) from error
    return fs, path.rstrip("/")


def absolute(location: str) -> str:
    """The location with a relative path made absolute, so that Spark and Python mean the same folder."""
    return location if _SCHEME.match(location) else os.path.abspath(location)


def probe(location: str) -> None:
    """Writes, renames, reads and deletes a small file in a location, which is created if missing.

    Raises:
        CheckpointError: one of these fails; the message says which.
    """
    fs, root = resolve(location)
    path, content = join(root, f"_probe-{os.urandom(6).hex()}"), b"thalweg"
    step = "write and rename"
    try:
        write_atomic(fs, path, content)
        step = "read"
        if fs.open_input_stream(path).read() != content:
            raise OSError("what was read is not what was written")
        step = "delete"
        fs.delete_file(path)
    except (pa.ArrowException, OSError) as error:
        raise CheckpointError(
            f"checkpoint location {location!r}: cannot {step} a file there: {str(error)[:300]}\n"
            "The driver and every executor need to read and write it: check that it exists on all of them,"
            " its permissions, the space left and the credentials."
        ) from error


def join(*parts: str) -> str:
    """Parts of a path inside a file system; always with slashes."""
    return posixpath.join(*parts)


def is_local(fs: FileSystem) -> bool:
    """Whether files can be mapped into memory."""
    return bool(fs.type_name == "local")


def write_atomic(fs: FileSystem, path: str, content: Any) -> None:
    """Writes a file that appears whole or not at all and replaces one of that name; makes its folders.

    ``content`` is bytes or anything with a buffer. Raises OSError as the file system does.
    """
    if fs.type_name in _OBJECT_STORES:
        _write(fs, path, content)
        return
    temporary = f"{path}.{os.urandom(6).hex()}{TEMPORARY}"
    _write(fs, temporary, content)
    try:
        fs.move(temporary, path)
    except OSError:
        # HDFS does not rename over a file. A reader in between sees the file missing, never torn.
        if is_local(fs):
            delete(fs, temporary)
            raise
        delete(fs, path)
        fs.move(temporary, path)


def _write(fs: FileSystem, path: str, content: Any) -> None:
    try:
        stream = fs.open_output_stream(path)
    except FileNotFoundError:
        # Making folders first would cost a call for every file; they are missing once a batch.
        fs.create_dir(posixpath.dirname(path), recursive=True)
        stream = fs.open_output_stream(path)
    with stream:
        stream.write(content)


def read_bytes(fs: FileSystem, path: str) -> bytes | None:
    """A file's content; None when there is no such file.

    Raises:
        CheckpointError: it is there and cannot be read.
    """
    try:
        with fs.open_input_file(path) as stream:
            content: bytes = stream.read()
            return content
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def list_files(fs: FileSystem, folder: str, *, recursive: bool = False) -> list[str]:
    """The files in a folder as paths relative to it, sorted; none when the folder is missing."""
    return [name for name, is_file in _list(fs, folder, recursive) if is_file]


def list_folders(fs: FileSystem, folder: str) -> list[str]:
    """The names of the folders in a folder, sorted; none when it is missing."""
    return [name for name, is_file in _list(fs, folder, False) if not is_file]


def _list(fs: FileSystem, folder: str, recursive: bool) -> list[tuple[str, bool]]:
    found = fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True, recursive=recursive))
    start = len(folder.rstrip("/")) + 1
    return sorted((info.path[start:], info.type == pafs.FileType.File) for info in found)


def delete(fs: FileSystem, path: str) -> bool:
    """Deletes a file; False when it was not there."""
    try:
        fs.delete_file(path)
    except FileNotFoundError:
        return False
    return True


def delete_folder(fs: FileSystem, path: str) -> bool:
    """Deletes a folder with all it holds; False when it was not there."""
    try:
        fs.delete_dir(path)
    except FileNotFoundError:
        return False
    return True
