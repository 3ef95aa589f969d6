"""Plans as bytes for the workers: the user's own modules travel by value, installed libraries by name."""

from __future__ import annotations

import pickle
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import cloudpickle

from thalweg.engine.build import Prepared
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.nodes import Coroutine, Keyed
from thalweg.plan.plan import Plan

_INSTALLED: Final = tuple(
    Path(sysconfig.get_path(name)).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


#: Never by value, wherever they are installed (Spark's own copy lies in SPARK_HOME).
_OURS: Final = ("thalweg", "pyspark", "py4j", "thalweg_compiled")


def pickled_plan(prepared: Prepared) -> bytes:
    """The plan's bytes; modules of the user that workers may not be able to import go inside.

    Modules that the plan's functions import in turn go inside too, unless one of them holds what cannot be
    pickled (a lock, say); then workers must be able to import those.
    """
    named = [
        module
        for name in _modules(prepared.plan)
        if (module := sys.modules.get(name)) and _is_users(module)
    ]
    try:
        return _by_value(prepared, [m for m in list(sys.modules.values()) if _is_users(m)])
    except (TypeError, AttributeError, pickle.PicklingError):
        return _by_value(prepared, named)


def _by_value(prepared: Prepared, modules: Sequence[ModuleType]) -> bytes:
    added = [m for m in modules if m.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(prepared))
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _modules(plan: Plan) -> set[str]:
    names: set[str] = set()
    for node in plan.nodes:
        for value in vars(node).values():
            if isinstance(value, Function):
                names.add(getattr(value.call, "__module__", "") or "")
        if isinstance(node, Keyed):
            names.add(node.state.cls.__module__)
        if isinstance(node, Coroutine) and node.own is not None:
            names.add(node.own.cls.__module__)
        for port in node.main:
            record: Any = node.record_of(port)
            if record is not None:
                names.add(record.cls.__module__)
    return names - {"", "__main__"}


def _is_users(module: ModuleType) -> bool:
    """Whether a module is the user's own: neither Thalweg nor installed."""
    file = getattr(module, "__file__", None)
    name = getattr(module, "__name__", "")
    if file is None or name == "__main__" or sys.modules.get(name) is not module:
        return False
    if name.split(".")[0] in _OURS:
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in _INSTALLED)
