"""Where compiled code is kept: a folder that nobody but its owner can write, since what lies there is executed.

Candidates are ``THALWEG_CACHE_DIR``, then ``XDG_CACHE_HOME``, then ``~/.cache``. In each the folder ``kernels`` is made
with mode 0700. One that exists is used only if it is ours, no link, and open to nobody else; where none can be used,
each process compiles for itself, and a warning says so.

``THALWEG_SHARED_CACHE_DIR`` names one more folder of an administrator, whose ``kernels`` is read and never written. Who
sets it trusts everybody who can write there.
"""

from __future__ import annotations

import functools
import logging
import os
import pathlib
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Final

from thalweg.user_cache import user_cache

_LOG: Final = logging.getLogger("thalweg")

#: Names a folder for compiled code, used before all others.
CACHE_VARIABLE: Final = "THALWEG_CACHE_DIR"
#: Names a folder of compiled code that others have made, which is trusted.
SHARED_VARIABLE: Final = "THALWEG_SHARED_CACHE_DIR"
_NAME: Final = "kernels"
#: What was not used for so long is deleted, seconds.
MAX_AGE_S: Final = 45 * 24 * 3600
#: What is beyond that size is deleted, the longest unused first.
MAX_BYTES: Final = 1 << 30


@functools.cache
def own_folder() -> pathlib.Path | None:
    """The folder where this process keeps compiled code; None where there is none."""
    return choose(os.environ)


@functools.cache
def shared_folder() -> pathlib.Path | None:
    """The folder of an administrator, if one is named."""
    named = os.environ.get(SHARED_VARIABLE)
    return pathlib.Path(named) / _NAME if named else None


def choose(environment: Mapping[str, str]) -> pathlib.Path | None:
    """The first candidate that is ours alone, made if need be."""
    for base in _candidates(environment):
        folder = base / _NAME
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            if problem := why_unsafe(folder):
                _LOG.warning("compiled code is not kept in %s: %s", folder, problem)
                continue
            with tempfile.NamedTemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    _LOG.warning(
        "no folder for compiled code can be written: each process compiles anew; name one by %s",
        CACHE_VARIABLE,
    )
    return None


def _candidates(environment: Mapping[str, str]) -> Iterator[pathlib.Path]:
    if named := environment.get(CACHE_VARIABLE):
        yield pathlib.Path(named)
    yield user_cache(environment)


def why_unsafe(folder: pathlib.Path) -> str:
    """Why code from a folder must not be run; empty if it may be."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder, or a link"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}"
    if found.st_mode & 0o077:
        return f"its mode is {found.st_mode & 0o777:04o}, others may use it (chmod 700 it if you trust what is there)"
    above = folder.parent.stat()
    if above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX:
        return f"others may rename it: the mode of {folder.parent} is {above.st_mode & 0o777:04o}"
    return ""


def prune(
    folder: pathlib.Path, *, max_age_s: float = MAX_AGE_S, max_bytes: int = MAX_BYTES
) -> None:
    """Deletes what was not used for long, and of the rest the longest unused until it is small enough."""
    oldest, size = time.time() - max_age_s, 0
    for used, length, file in sorted(_files(folder), reverse=True):
        size += length
        if used < oldest or size > max_bytes:
            file.unlink(missing_ok=True)


def _files(folder: pathlib.Path) -> Iterator[tuple[float, int, pathlib.Path]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # another process deletes, too
                continue
            if stat.S_ISREG(found.st_mode):
                yield found.st_mtime, found.st_size, pathlib.Path(entry.path)
