"""Compiled functions in files: a file a function and signature, under the digest of what it is made from."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

from numba.core import compiler as _untyped_compiler
from numba.core import serialize as _untyped_serialize
from numba.core.caching import _Cache

from thalweg.jit.digest import Undescribable, digest_of
from thalweg.jit.folder import own_folder, prune, shared_folder

#: Numba's own helpers have no types.
_CompileResult: Final[Any] = _untyped_compiler.CompileResult
_serialize: Final[Any] = _untyped_serialize
#: In front of what is kept stands its SHA-256.
_DIGEST_BYTES: Final = 32
_ODD: Final = re.compile(r"[^A-Za-z0-9_.]")


#: Who in this thread wants to know that a compilation begins.
_waiting: Final[ContextVar[tuple[Callable[[], None], ...]]] = ContextVar("_waiting", default=())


@contextlib.contextmanager
def when_compiling(listener: Callable[[], None]) -> Iterator[None]:
    """Calls ``listener`` once if, in this thread, something is compiled and not found among what is kept."""
    _waiting.set((*_waiting.get(), listener))
    try:
        yield
    finally:
        _waiting.set(tuple(one for one in _waiting.get() if one is not listener))


def _tell() -> None:
    listeners = _waiting.get()
    _waiting.set(())
    for listener in listeners:
        listener()


class KernelCache(_Cache):
    """Numba's cache of one function, looked up by the function's digest."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._is_on = True

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(own_folder() or "")

    def enable(self) -> None:
        """Looks up and keeps from now on."""
        self._is_on = True

    def disable(self) -> None:
        """Neither looks up nor keeps from now on."""
        self._is_on = False

    def flush(self) -> None:
        """Nothing is stale here, so nothing is thrown away."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for a signature, by this process or another; None if nothing was."""
        found = self._find(sig, target_context)
        if found is None:
            _tell()
        return found

    def _find(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        name = self._file_name(sig, target_context.codegen())
        for folder in (own_folder(), shared_folder()):
            if name is None or folder is None:
                continue
            content = read(folder / name)
            if content is not None:
                return _CompileResult._rebuild(target_context, *pickle.loads(content))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps a result; a full disk does not stop the run."""
        name, folder = self._file_name(sig, data.codegen), own_folder()
        has_addresses = data.library.has_dynamic_globals or any(
            not x.can_cache for x in data.lifted
        )
        if name is None or folder is None or has_addresses:
            return
        with contextlib.suppress(OSError):
            _prune_once(folder)
            write(folder / name, _serialize.dumps(data._reduce()))

    def _file_name(self, sig: Any, codegen: Any) -> str | None:
        if not self._is_on:
            return None
        try:
            made_from = digest_of(self._dispatcher)
        except Undescribable:
            return None
        key = hashlib.sha256(f"{made_from}\n{sig}\n{codegen.magic_tuple()}".encode()).hexdigest()
        return f"{_ODD.sub('', self._dispatcher.py_func.__qualname__)[-60:]}-{key[:32]}.kernel"


@functools.cache
def _prune_once(folder: pathlib.Path) -> None:
    prune(folder)


def read(file: pathlib.Path) -> bytes | None:
    """The content of a file if it is whole; a use keeps it from being deleted for its age."""
    try:
        content = file.read_bytes()
        if hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
            return None
        with contextlib.suppress(OSError):  # a shared folder is read only
            os.utime(file)
    except OSError:
        return None
    return content[_DIGEST_BYTES:]


def write(file: pathlib.Path, content: bytes) -> None:
    """Writes a file so that no other process ever sees a part of it."""
    handle, part = tempfile.mkstemp(dir=file.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(hashlib.sha256(content).digest() + content)
        os.replace(part, file)
    except BaseException:
        pathlib.Path(part).unlink(missing_ok=True)
        raise
