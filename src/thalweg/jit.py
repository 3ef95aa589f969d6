"""The one door to Numba: picks a writable folder for compiled code before Numba is imported.

Numba decides where to cache when a function is decorated, and fails at import when neither the
source folder nor the user's cache can be written to. A changed helper does not invalidate the
cached code of its callers either. So the folder's name carries a hash over all sources of this
package and the versions of Python and Numba: a cache is only ever read by the sources that wrote
it. Old folders may be deleted at any time.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast, overload

P = ParamSpec("P")
R = TypeVar("R")

#: Names a folder for compiled code, used before all others.
CACHE_VARIABLE: Final = "THALWEG_CACHE_DIR"


class Decorator(Protocol):
    """What ``numba.njit`` is to a type checker: it keeps the function's signature."""

    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def __call__(self, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def source_tag(package: pathlib.Path) -> str:
    """A short name for these sources under this Python and Numba: equal names, equal code."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"\n{file.relative_to(package).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    digest.update(f"{sys.version_info[:3]}{platform.machine()}".encode())
    digest.update(importlib.metadata.version("numba").encode())
    return digest.hexdigest()[:16]


def is_writable(folder: pathlib.Path) -> bool:
    """Whether a file can be made in the folder, which is made first if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_folder(environment: dict[str, str], tag: str) -> pathlib.Path:
    """The first writable one of THALWEG_CACHE_DIR, the user's cache and a fresh temporary one."""
    candidates = []
    if named := environment.get(CACHE_VARIABLE):
        candidates.append(pathlib.Path(named))
    base = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    candidates.append(pathlib.Path(base) / "thalweg")
    for candidate in candidates:
        if is_writable(candidate / tag):
            return candidate / tag
    return pathlib.Path(tempfile.mkdtemp(prefix="thalweg-"))


def _choose() -> str:
    folder = str(cache_folder(dict(os.environ), source_tag(pathlib.Path(__file__).parent)))
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:
        # The user imported Numba first: its settings are read again at each decoration.
        sys.modules["numba"].config.CACHE_DIR = folder
    return folder


#: Where this process keeps compiled code.
CACHE_DIR: Final = _choose()

import numba  # noqa: E402

#: ``numba.njit`` as the whole package uses it: without the GIL, cached, with Python's division
#: errors.
njit: Final = cast(
    "Decorator", functools.partial(numba.njit, nogil=True, cache=True, error_model="python")
)
