"""Which files there are, in the order in which they arrived."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import NamedTuple

from pyarrow import fs as pafs

from thalweg.connectors.readers.packed import CODECS
from thalweg.connectors.readers.steady import Look
from thalweg.connectors.readers.streams import told
from thalweg.errors import DataError

_WILD = re.compile(r"[*?\[]")


class FileInfo(NamedTuple):
    """A file: where it is, when it was last changed, how long it is."""

    path: str
    mtime_us: int
    length: int

    @property
    def look(self) -> Look:
        """What it must still be when it is read."""
        return Look(self.length, self.mtime_us)


def list_files(
    fs: pafs.FileSystem,
    path_or_glob: str,
    *,
    suffixes: Sequence[str] = (),
    recursive: bool = False,
) -> list[FileInfo]:
    """The files of a folder, of a pattern, or the one file, by time of change and then by path.

    Names that start with ``_`` or ``.`` are left out, and folders of such names with all they hold; a
    single file given by its name is not. In a pattern ``*``, ``?`` and ``[...]`` stand for one part of
    a path, ``**`` for any number of them; what exists by that very name is no pattern. ``suffixes``
    keeps names with one of these ends, before or after the end of a compression: ``.csv`` keeps
    ``a.csv`` and ``a.csv.gz``.

    Raises:
        DataError: there is nothing at that path (a pattern may match nothing).
    """
    parts = path_or_glob.rstrip("/").split("/")
    wild = next((i for i, part in enumerate(parts) if _WILD.search(part)), None)
    if wild is not None and _exists(fs, path_or_glob.rstrip("/")):
        wild = None
    if wild is None:
        base, pattern = path_or_glob.rstrip("/") or "/", None
    else:
        base, pattern = "/".join(parts[:wild]) or ("/" if wild else "."), parts[wild:]
        recursive = len(pattern) > 1 or pattern[0] == "**"
    with told(base):
        info = fs.get_file_info(base)
        if info.type == pafs.FileType.NotFound:
            raise DataError(f"{base}: there is no such file or folder")
        if info.type == pafs.FileType.File:
            return [_info(info)]
        found = fs.get_file_info(pafs.FileSelector(base, recursive=recursive))
    kept = []
    for one in found:
        inside = one.path.removeprefix(base.removeprefix("./")).lstrip("/").split("/")
        if one.type != pafs.FileType.File or any(part[:1] in ("_", ".") for part in inside):
            continue
        if _has_suffix(one.path, suffixes) and (pattern is None or _matches(inside, pattern)):
            kept.append(_info(one))
    return sorted(kept, key=lambda one: (one.mtime_us, one.path))


def _exists(fs: pafs.FileSystem, path: str) -> bool:
    with told(path):
        return bool(fs.get_file_info(path).type != pafs.FileType.NotFound)


def _info(info: pafs.FileInfo) -> FileInfo:
    return FileInfo(info.path, (info.mtime_ns or 0) // 1000, info.size or 0)


def _has_suffix(path: str, suffixes: Sequence[str]) -> bool:
    if not suffixes:
        return True
    bare = next((path[: -len(end)] for end in CODECS if path.endswith(end)), path)
    return path.endswith(tuple(suffixes)) or bare.endswith(tuple(suffixes))


def _matches(parts: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        # At the pattern's end it stands for files at any depth.
        return _matches(parts, pattern[1:] or ["*"]) or (
            bool(parts) and _matches(parts[1:], pattern)
        )
    if not parts or not fnmatch.fnmatchcase(parts[0], pattern[0]):
        return False
    return _matches(parts[1:], pattern[1:])
