"""A name means one thing in the project, and arrows up are names only."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Classes whose name another one has, too, and why.
SHARED = {
    "Source": "of a flow, and of a graph that is simulated: users write tw.simulate.Source",
    "Line": "of a plot in the lab, and of a cache in the simulator",
}


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is the record of a stream, or the state of an operator."""
    marks = [ast.unparse(one) for one in (*node.bases, *node.decorator_list)]
    return any(mark.endswith(("NamedTuple", "tw.state")) for mark in marks)


def classes() -> dict[str, list[str]]:
    """Where each class of the package and the lab stands, by name.

    Left out are programs of their own, which name their records as a user does: the examples, those that the lab
    compares with, and the lab's everyday functions; and records and states of the lab's flows.
    """
    found = defaultdict(list)
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab").rglob("*.py")]:
        if {"examples", "peers", "everyday", ".venv"} & set(
            path.parts
        ) and path.name != "running.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not ("lab" in path.parts and is_record(node)):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_a_class_name_means_one_thing() -> None:
    """No two classes have one name, but for those listed, which have."""
    found = classes()
    assert len(found) > 500
    several = {name: places for name, places in found.items() if len(places) > 1}
    assert several.keys() == SHARED.keys(), several


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that a module imports, also in functions; those for type checkers apart."""
    if isinstance(node, ast.ImportFrom):
        yield str(node.module)
    elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        for one in ast.iter_child_nodes(node):
            yield from imported(one)


def test_verbs_name_streams_in_signatures_only() -> None:
    """What import-linter ignores in ``flow`` are imports for type checkers."""
    for path in (ROOT / "src" / "thalweg" / "flow").glob("*.py"):
        runs = set(imported(ast.parse(path.read_text(encoding="utf-8"))))
        assert "thalweg.flow.flow" not in runs, path
        assert path.stem == "flow" or "thalweg.flow.streams" not in runs, path
        assert path.stem != "field_types" or "thalweg.flow.records" not in runs, path
