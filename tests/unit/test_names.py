"""A name means one thing in the project."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Classes whose name another one has, too, and why.
SHARED = {
    "Source": "of a flow, and of a graph that is simulated: users write tw.simulate.Source",
}


def classes() -> dict[str, list[str]]:
    """Where each class of the package and the lab stands, by name.

    Left out are programs of their own, which name their records as a user does: the examples, those that the lab
    compares with, and the lab's everyday functions.
    """
    found = defaultdict(list)
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab").rglob("*.py")]:
        if {"examples", "peers", "everyday", ".venv"} & set(
            path.parts
        ) and path.name != "running.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_a_class_name_means_one_thing() -> None:
    """No two classes have one name, but for those listed, which have."""
    found = classes()
    assert len(found) > 500
    several = {name: places for name, places in found.items() if len(places) > 1}
    assert several.keys() == SHARED.keys(), several
