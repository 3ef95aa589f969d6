"""State on disk: state files, commit records and the manifest of a checkpoint.

``tw.checkpoint`` has what users ask of a folder: :func:`copy`, :func:`describe`, :func:`diff`, :func:`read_state`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from thalweg.checkpoint.hosts.comparing import StateDiff, diff
    from thalweg.checkpoint.hosts.copying import copy
    from thalweg.checkpoint.inspect import describe, read_state

#: Loaded on first use: most of the package's readers need one module of it.
_LAZY: Final = {
    "StateDiff": "thalweg.checkpoint.hosts.comparing",
    "copy": "thalweg.checkpoint.hosts.copying",
    "describe": "thalweg.checkpoint.inspect",
    "diff": "thalweg.checkpoint.hosts.comparing",
    "read_state": "thalweg.checkpoint.inspect",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'thalweg.checkpoint' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["StateDiff", "copy", "describe", "diff", "read_state"]
