"""CPU time and memory of a process and what it has started, for programs that run where Thalweg is not installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PATH = Path(__file__).resolve().parents[1] / "thalweg_lab" / "usage.py"
_SPEC = importlib.util.spec_from_file_location("usage", _PATH)
assert _SPEC is not None and _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
Tree = _MODULE.Tree
