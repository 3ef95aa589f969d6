"""What has been explored: a digest of the structures and of the explorer, kept in ``explored.txt``.

An exploration is deterministic, so it need not be repeated while nothing changes that it depends on.
``make explore`` runs those that ``make test`` would, and then this module, which writes the digest; the deeper ones run
with ``--slow`` and ``--exhaustive`` in any case.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import pathlib

from tests.interleavings.plain import ATOMICS, CALLS, CLOCKS, STRUCTURES

from thalweg.jit.digest import import_closure

HERE = pathlib.Path(__file__).parent
RECORD = HERE / "explored.txt"


def digest() -> str:
    """Of the structures' sources and all that they import, and of the explorer and the tests."""
    modules = {
        name
        for one in (ATOMICS, CALLS, CLOCKS, *STRUCTURES.values())
        for name in import_closure(one)
    }
    files = [file for name in sorted(modules) if (file := importlib.import_module(name).__file__)]
    texts = [pathlib.Path(file) for file in files] + sorted(HERE.glob("*.py"))
    code = sorted(code_of(file.read_text(encoding="utf-8")) for file in texts)
    return hashlib.sha256("\0".join(code).encode()).hexdigest()


def code_of(text: str) -> str:
    """What runs of a module: without comments, docstrings and imports, whose targets count by themselves."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _says_only(one)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _says_only(one: ast.stmt) -> bool:
    of_text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
    return of_text or isinstance(one, ast.Import | ast.ImportFrom)


def is_explored() -> bool:
    """Whether all of it has been explored as it stands."""
    return RECORD.exists() and RECORD.read_text().strip() == digest()


if __name__ == "__main__":
    RECORD.write_text(digest() + "\n")
