"""The examples of the README and the documentation run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(path: Path, monkeypatch: pytest.MonkeyPatch, **given: object) -> None:
    """Runs a page's Python blocks one after the other, as one module; a failure shows the page's own lines.

    Args:
        given: names that the module has from the beginning, such as the address of a server.
    """
    text = path.read_text(encoding="utf-8")
    module = types.ModuleType(f"page_{path.stem}")
    module.__file__ = str(path)
    module.__dict__.update(given)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found = list(_BLOCK.finditer(text))
    assert found, f"{path.name} has no examples"
    for block in found:
        lines = text.count("\n", 0, block.start(1))
        exec(compile("\n" * lines + block[1], str(path), "exec"), module.__dict__)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("signatures", marks=pytest.mark.merge),
        "aggregates",
        "windows",
        "coroutines",
        "order",
        "errors",
        "inputs",
        "runtime",
        "scheduling",
        "elasticity",
        pytest.param("simulator", marks=pytest.mark.merge),
        "locality",
        "connectors/own",
    ],
)
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of the page runs and its assertions hold."""
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / f"{page}.md", monkeypatch)


def test_connectors_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions are made and compared without a server."""
    run_page(ROOT / "docs" / "connectors" / "README.md", monkeypatch)


def test_kafka_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of the page runs, with a broker on loopback in place of the reader's own."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from thalweg_lab import brokers

    with brokers.mock() as broker:
        broker.producer.list_topics("totals", timeout=10)
        for part, (user, at) in enumerate((("ann", 1), ("bob", 2), ("ann", 3))):
            value = b'{"user": "%s", "amount": 1.5}' % user.encode()
            broker.send("orders", value, part, timestamp=1_700_000_000_000 + at)
        broker.flush()
        run_page(ROOT / "docs" / "connectors" / "kafka.md", monkeypatch, SERVERS=broker.servers)


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


@pytest.mark.merge
@pytest.mark.spark
def test_spark_page(tmp_path: Path) -> None:
    """Every example of the page on Spark runs, and its assertions hold."""
    program("docs/spark.md", tmp_path)


#: Commands of the README that install, which a test that needs no network leaves out.
INSTALLING = ("python3 -m venv", ". .venv/bin/activate", "pip install", "make ")


def commands(text: str) -> list[str]:
    """The commands of a page, line by line, as a reader copies them."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def first_steps(folder: Path, lines: list[str], environ: dict[str, str]) -> str:
    """What a reader sees who saves the README's program, runs it, and then the commands."""
    [code] = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    (folder / "planes.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        capture_output=True, text=True, cwd=folder, env=environ, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def check_first_steps(shown: str, folder: Path) -> None:
    assert "│ N730MQ │ LGA" in shown
    assert "flow planes: 2 stages" in shown
    plan = shown[shown.index("flow planes") : shown.index("time: one watermark")]
    assert plan.count(" compiled\n") == 2 and "interpreted" not in plan
    assert "│ back     │" in shown
    assert list((folder / "out").glob("batch=0/*.parquet"))


@pytest.mark.spark
def test_readme(tmp_path: Path) -> None:
    """The README's flow is a program that runs as it stands there; so do its commands; its functions compile."""
    (tmp_path / "bin").mkdir()
    for name in ("python", "python3"):
        (tmp_path / "bin" / name).symlink_to(sys.executable)
    (tmp_path / "bin" / "thalweg").write_text(f'#!/bin/sh\nexec {sys.executable} -m thalweg "$@"\n')
    (tmp_path / "bin" / "thalweg").chmod(0o755)
    environ = {
        **os.environ,
        "PATH": os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)]),
    }
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [one for one in commands(text) if not one.startswith(INSTALLING)]
    shown = first_steps(tmp_path, ["python planes.py", *lines], environ)
    check_first_steps(shown, tmp_path)


def test_what_the_readme_installs() -> None:
    """Packages go into an environment of their own, made before; each target of make is there."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = commands(text)
    made, entered, installed = (
        next(place for place, line in enumerate(lines) if line.startswith(one))
        for one in INSTALLING[:3]
    )
    assert made < entered < installed
    targets = re.findall(
        r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    asked = [line.removeprefix("make ") for line in lines if line.startswith("make ")]
    assert asked and set(asked) <= set(targets)


@pytest.mark.exhaustive
@pytest.mark.spark
def test_the_readme_from_the_beginning(tmp_path: Path) -> None:
    """All commands in a copy of the source folder, the installation, too; what it needs is there already."""
    folder = tmp_path / "thalweg"
    ignored = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=ignored)
    known = [path for path in sys.path if "site-packages" in path]
    environ = {**os.environ, "PIP_NO_DEPS": "1", "PYTHONPATH": os.pathsep.join(known)}
    lines = [
        one for one in commands((ROOT / "README.md").read_text()) if not one.startswith("make ")
    ]
    lines.insert(3, "python planes.py")
    check_first_steps(first_steps(folder, lines, environ), folder)


def test_links() -> None:
    """Links between pages lead somewhere, and every page is linked from the README, or from that of its folder."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    pages += sorted((ROOT / "docs" / "connectors").glob("*.md"))
    linked = set()
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            if page.name == "README.md":
                linked.add((page.parent / target).resolve())
        if page.parent.name == "connectors":
            linked.add(
                page
            )  # the chapters are linked from their first page, which the README links
    assert set(pages[1:]) <= linked
