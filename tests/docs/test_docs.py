"""The examples of the README and the documentation run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a page's Python blocks one after the other, as one module; a failure shows the page's own lines."""
    text = path.read_text(encoding="utf-8")
    module = types.ModuleType(f"page_{path.stem}")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found = list(_BLOCK.finditer(text))
    assert found, f"{path.name} has no examples"
    for block in found:
        lines = text.count("\n", 0, block.start(1))
        exec(compile("\n" * lines + block[1], str(path), "exec"), module.__dict__)


@pytest.mark.parametrize(
    "page",
    [
        "signatures",
        "coroutines",
        "order",
        "errors",
        "runtime",
        "scheduling",
        "elasticity",
        "simulator",
        "locality",
    ],
)
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of the page runs and its assertions hold."""
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / f"{page}.md", monkeypatch)


def test_each_guarantee_names_its_test() -> None:
    """Every row of the table of faults has tests that exist."""
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    table = text.split("## Faults")[1].split("## What is not promised")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`(tests/\S+?\.py)::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), (file, test)


def program(page: str, folder: Path) -> str:
    """What a page's Python blocks print as one program in a process of its own, started in ``folder``."""
    blocks = _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    (folder / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    done = subprocess.run(
        [sys.executable, "page.py"], capture_output=True, text=True, cwd=folder, env=environ, timeout=300
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.spark
def test_spark_page(tmp_path: Path) -> None:
    """Every example of the page on Spark runs, and its assertions hold."""
    program("docs/spark.md", tmp_path)


@pytest.mark.spark
def test_readme(tmp_path: Path) -> None:
    """The README's flow is a program that runs as it stands there, and prints planes that came back."""
    text = program("README.md", tmp_path)
    assert "│ N730MQ │ LGA" in text
    assert "flow planes: 2 stages" in text


def test_links() -> None:
    """Links between pages lead somewhere, and every page is linked from the README."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    linked = set()
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            if page.name == "README.md":
                linked.add((page.parent / target).resolve())
    assert set(pages[1:]) <= linked
