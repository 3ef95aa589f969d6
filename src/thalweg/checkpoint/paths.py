"""Where a checkpoint lies: Spark's locations as pyarrow file systems, and writing that a kill cannot tear.

A file appears whole or not at all, and stays what it is until another is whole. What holds then depends on the store:

- local disks: the file and its name are on the disk when a write returns (:mod:`thalweg.checkpoint.durable`), so a
  power cut finds it. A mounted network file system promises as much as its server does of fsync and rename.
- S3, GCS, ABFS: written in one piece; the store has it, in several copies, when the write returns.
- HDFS: written under a temporary name and renamed. A closed file is in the memory of as many data nodes as there are
  copies, not on their disks: a power cut that takes all of them loses it, and its reader says so. A rename never
  replaces, so an older file first steps aside; whoever finds no file of the name takes that one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.fs as pafs

from thalweg.checkpoint import durable
from thalweg.checkpoint.durable import TEMPORARY as TEMPORARY
from thalweg.errors import CheckpointError

#: pyarrow has no types of its own.
FileSystem: TypeAlias = Any

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
_ALIAS: Final = {"s3a": "s3", "s3n": "s3"}
#: Stores whose put is atomic and whose "rename" is a copy.
_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})
#: Ends the name of a file that stepped aside for a newer one of its name, where a rename does not replace.
ASIDE: Final = ".old"


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


def is_here(location: str) -> bool:
    """Whether a location as Spark writes it is a path of this machine; asks no store."""
    scheme = _SCHEME.match(location)
    return scheme is None or scheme[1].lower() == "file"


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
    except (pa.ArrowException, OSError, CheckpointError) as error:
        said = str(error.__cause__ or error)[:300]
        raise CheckpointError(
            f"checkpoint location {location!r}: cannot {step} a file there: {said}\n"
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

    ``content`` is bytes or anything with a buffer. A write that fails leaves nothing behind.

    Raises:
        CheckpointError: the disk is full, read-only or not ours; a repeat would not help.
        OSError: other errors, which name the file.
    """
    with _named(path):
        if is_local(fs):
            durable.write_local(path, content, replace=True)
        elif fs.type_name in _OBJECT_STORES:
            _write(fs, path, content)
        else:
            _write_and_move(fs, path, content, replace=True)


def write_new(fs: FileSystem, path: str, content: Any) -> bool:
    """As :func:`write_atomic`, but a file of that name is left as it is; whether it was written.

    Of two writers one is told False; in object stores only if the other's file is there already.
    """
    with _named(path):
        if is_local(fs):
            return durable.write_local(path, content, replace=False)
        if fs.type_name not in _OBJECT_STORES:
            return _write_and_move(fs, path, content, replace=False)
        if _exists(fs, path):
            return False
        _write(fs, path, content)
        return True


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors name the file and, where a repeat does not help, say what does."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)[:300]
        todo = durable.advice(error)
        if todo is None:
            raise OSError(error.errno, f"cannot write {path}: {reason}") from error
        raise CheckpointError(
            f"cannot write {path}: {reason}.\n{todo}. Nothing is lost: start again from the same checkpoint, and it"
            " goes on with the batch that was not committed."
        ) from error


def _write_and_move(fs: FileSystem, path: str, content: Any, *, replace: bool) -> bool:
    temporary = f"{path}.{os.urandom(6).hex()}{TEMPORARY}"
    try:
        _write(fs, temporary, content)
        try:
            fs.move(temporary, path)
        except OSError:
            if not _exists(fs, path):
                raise
            if not replace:
                return False
            _step_aside(fs, path)
            fs.move(temporary, path)
        # Also what stepped aside for a writer that died before its file had the name.
        _delete_one(fs, path + ASIDE)
        return True
    finally:
        with contextlib.suppress(pa.ArrowException, OSError):
            _delete_one(fs, temporary)


def _step_aside(fs: FileSystem, path: str) -> None:
    """At each moment one of both names has a whole file."""
    _delete_one(fs, path + ASIDE)
    fs.move(path, path + ASIDE)


def _exists(fs: FileSystem, path: str) -> bool:
    return bool(fs.get_file_info(path).type != pafs.FileType.NotFound)


def _replaces(fs: FileSystem) -> bool:
    """Whether a new file takes the place of an older one at once."""
    return is_local(fs) or fs.type_name in _OBJECT_STORES


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
    """A file's content, or that of the one that stepped aside for it; None when there is no such file.

    Raises:
        CheckpointError: it is there and cannot be read.
    """
    content = _read_one(fs, path)
    return _read_one(fs, path + ASIDE) if content is None and not _replaces(fs) else content


def _read_one(fs: FileSystem, path: str) -> bytes | None:
    try:
        with fs.open_input_file(path) as stream:
            content: bytes = stream.read()
            return content
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) == errno.ENOTDIR:
            return None  # what would be its folder is a file
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def stems(fs: FileSystem, folder: str, suffix: str) -> list[str]:
    """What stands in front of a suffix in the names of a folder's files, sorted; unfinished files are left out."""
    names = (name.removesuffix(ASIDE) for name in list_files(fs, folder))
    return sorted({name.removesuffix(suffix) for name in names if name.endswith(suffix)})


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
    aside = not _replaces(fs) and _delete_one(fs, path + ASIDE)
    return _delete_one(fs, path) or aside


def _delete_one(fs: FileSystem, path: str) -> bool:
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
