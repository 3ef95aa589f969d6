"""Objects as bytes for other processes: the user's own modules travel by value, installed libraries by name."""

from __future__ import annotations

import pickle
import sys
import sysconfig
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import cloudpickle

_INSTALLED: Final = tuple(
    Path(sysconfig.get_path(name)).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
#: Folders that hold what was installed, wherever they are.
_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})

#: Never by value, wherever they are installed (Spark's own copy lies in SPARK_HOME).
_OURS: Final = ("thalweg", "pyspark", "py4j", "thalweg_compiled")


def pickled(value: Any, needed: Collection[str] = ()) -> bytes:
    """The value's bytes; modules of the user that workers may not be able to import go inside.

    Modules that these import in turn go inside too, unless one of them holds what cannot be pickled (a lock, say);
    then workers must be able to import those.

    Args:
        needed: names of modules that go inside in any case.
    """
    try:
        return _by_value(value, [m for m in list(sys.modules.values()) if _is_users(m)])
    except (TypeError, AttributeError, pickle.PicklingError):
        found = [sys.modules[name] for name in needed if name in sys.modules]
        return _by_value(value, [module for module in found if _is_users(module)])


def _by_value(value: Any, modules: Sequence[ModuleType]) -> bytes:
    added = [m for m in modules if m.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(value))
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _is_users(module: ModuleType) -> bool:
    """Whether a module is the user's own: neither Thalweg nor installed."""
    file = getattr(module, "__file__", None)
    name = getattr(module, "__name__", "")
    if file is None or name == "__main__" or sys.modules.get(name) is not module:
        return False
    if name.split(".")[0] in _OURS:
        return False
    path = Path(file).resolve()
    if not _PACKAGES.isdisjoint(path.parts):
        return False  # also those of another environment, which a .pth file brings in
    return not any(path.is_relative_to(folder) for folder in _INSTALLED)
