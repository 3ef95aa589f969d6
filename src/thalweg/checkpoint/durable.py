"""Files of a local file system that are on the disk, whole, before their name is: a power cut finds them or not.

The order is the one that file systems promise to keep: write under a temporary name, sync the file, rename, sync
the folder. What other file systems promise is said in :mod:`thalweg.checkpoint.paths`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any, Final

#: Ends the name of a file that is not finished; such a file belongs to nobody but its writer.
TEMPORARY: Final = ".tmp"

#: What a folder answers that cannot be synced, on file systems without that notion.
_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM})
#: What is answered where a file cannot have two names.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


def write_local(path: str, content: Any, *, replace: bool) -> bool:
    """Writes a file whole and syncs it and its name; makes its folders.

    Args:
        path: where.
        content: bytes or anything with a buffer.
        replace: whether a file of that name is replaced; else it is left and False is given.

    Raises:
        OSError: as the system does; then nothing is left of the file.
    """
    temporary = f"{path}.{os.urandom(6).hex()}{TEMPORARY}"
    try:
        _write_synced(temporary, content)
        if replace:
            os.replace(temporary, path)
        elif not _link(temporary, path):
            return False
    finally:
        # A retry on a full disk must not find it fuller.
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    sync_folder(os.path.dirname(path))
    return True


def _write_synced(path: str, content: Any) -> None:
    try:
        file = open(path, "xb")  # noqa: SIM115 -- closed below
    except FileNotFoundError:
        # Making folders first would cost a call for every file; they are missing once a batch.
        make_folders(os.path.dirname(path))
        file = open(path, "xb")  # noqa: SIM115
    with file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _link(temporary: str, path: str) -> bool:
    """Gives the file its name if no other has it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.exists(path):
            return False
        os.replace(temporary, path)
    return True


def make_folders(folder: str) -> None:
    """Makes a folder and those above it; their names are synced, too."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    make_folders(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    sync_folder(above)


def _sync(descriptor: int) -> None:
    """Brings what it opens to the disk, and closes it."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_folder(folder: str) -> None:
    """Brings the names in a folder to the disk, where the system can."""
    if os.name == "nt":
        return
    _sync(os.open(folder, os.O_RDONLY))


def sync_file(path: str) -> None:
    """Brings a file that another process wrote to the disk; one that is not there is left out."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    _sync(descriptor)


def sync_tree(folder: str) -> None:
    """Brings a folder with all that it holds to the disk, and its own name."""
    for place, _, names in os.walk(folder):
        for name in names:
            sync_file(os.path.join(place, name))
        sync_folder(place)
    above = os.path.dirname(folder)
    if os.path.isdir(above):
        sync_folder(above)


#: What a repeat does not mend, with what does.
ADVICE: Final = {
    errno.ENOSPC: "The disk is full: make room on it",
    errno.EDQUOT: "The quota is used up: make room, or have it raised",
    errno.EFBIG: "The file would be larger than allowed: raise the limit (ulimit -f)",
    errno.EROFS: "The file system is mounted read-only: mount it for writing",
    errno.EACCES: "The permissions forbid it: let this user write there",
    errno.EPERM: "The permissions forbid it: let this user write there",
    errno.ENOTDIR: "A part of the path is a file: take it away",
}


def advice(error: OSError) -> str | None:
    """What to do about an error that a repeat does not mend; None where a repeat may."""
    return ADVICE.get(error.errno or 0)
