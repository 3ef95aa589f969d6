"""To a type checker flows have types: the documentation's are right, and wrong ones are refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOWS = Path(__file__).with_name("typed_flows.py")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SETTINGS = """
[mypy]
strict = true
[mypy-thalweg.*,pyspark.*,py4j.*]
follow_imports = silent
[mypy-numba.*,pyarrow.*]
ignore_missing_imports = true
"""


def as_module(text: str) -> str:
    """A page's Python blocks, each line at the number that it has on the page."""
    lines = [""] * (text.count("\n") + 1)
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        code = block[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)


def complaints(folder: Path, modules: list[str]) -> dict[tuple[str, int], set[str]]:
    """What mypy --strict says of the modules: codes by module and line."""
    (folder / "mypy.ini").write_text(_SETTINGS)
    environ = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir",
         str(ROOT / ".mypy_cache" / "pages"), "--no-error-summary", *modules],
        capture_output=True, text=True, cwd=folder, env=environ, timeout=300,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    told = defaultdict(set)
    for line in done.stdout.splitlines():
        if found := re.match(r"(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", line):
            told[found[1], int(found[2])].add(found[3])
    return told


@pytest.mark.merge
def test_types_of_flows(tmp_path: Path) -> None:
    """README and documentation pass mypy --strict; of typed_flows.py just the lines that are marked are refused."""
    modules = ["typed_flows.py"]
    (tmp_path / modules[0]).write_text(FLOWS.read_text(encoding="utf-8"))
    docs = ROOT / "docs"
    folders = (docs, docs / "coming-from", docs / "howto")
    pages = [page for folder in folders for page in sorted(folder.glob("*.md"))]
    for page in [ROOT / "README.md", *pages]:
        text = page.read_text(encoding="utf-8")
        if _BLOCK.search(text):
            modules.append(f"page_{page.parent.name}_{page.stem}.py".replace("-", "_"))
            (tmp_path / modules[-1]).write_text(as_module(text), encoding="utf-8")
    assert len(modules) > 10
    told = complaints(tmp_path, modules)
    expected = {
        ("typed_flows", number): line.split("# error: ")[1]
        for number, line in enumerate(FLOWS.read_text(encoding="utf-8").splitlines(), 1)
        if "# error: " in line and not line.startswith('"""')
    }
    assert len(expected) > 10
    assert {place: codes for place, codes in told.items() if place not in expected} == {}
    missing = {place: code for place, code in expected.items() if code not in told[place]}
    assert missing == {}


def test_the_package_is_typed() -> None:
    """Type checkers look for the marker of PEP 561."""
    assert (ROOT / "src" / "thalweg" / "py.typed").exists()
