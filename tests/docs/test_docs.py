"""The examples of the README and the documentation run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(
    path: Path, monkeypatch: pytest.MonkeyPatch, file: Path | None = None, **given: object
) -> None:
    """Runs a page's Python blocks one after the other, as one module; a failure shows the page's own lines.

    Args:
        file: where the code is to stand as a file; then its functions can be compiled, which takes longer.
        given: names that the module has from the beginning, such as the address of a server.
    """
    text = path.read_text(encoding="utf-8")
    module = types.ModuleType(f"page_{path.stem}")
    module.__file__ = str(file or path)
    module.__dict__.update(given)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found = list(_BLOCK.finditer(text))
    assert found, f"{path.name} has no examples"
    if file:
        file.write_text("".join(_at_their_lines(text, found)), encoding="utf-8")
    for block in found:
        lines = text.count("\n", 0, block.start(1))
        exec(compile("\n" * lines + block[1], module.__file__, "exec"), module.__dict__)


def _at_their_lines(text: str, blocks: list[re.Match[str]]) -> Iterator[str]:
    """The page's code, each line at the number that it has there."""
    end = 0
    for block in blocks:
        yield "\n" * text.count("\n", end, block.start(1)) + block[1]
        end = block.end(1)


#: Pages that run by themselves. Others are in the tests that give them a server, or Spark.
PAGES = (
    "aggregates",
    "async",
    "coming-from/bytewax",
    "coming-from/faust",
    "coming-from/flink",
    "coming-from/index",
    "coming-from/kafka-streams",
    "coming-from/structured-streaming",
    "connectors/own",
    "coroutines",
    "elasticity",
    "errors",
    "evolve",
    "howto/late-data",
    "howto/order-by-key",
    "howto/policy",
    "howto/testing",
    "idle",
    "index",
    "inputs",
    "joins",
    "locality",
    "metrics",
    "notebooks",
    "order",
    "page",
    "runtime",
    "scheduling",
    "signatures",
    "simulator",
    "snapshot",
    "state",
    "timers",
    "wall-clock",
    "windows",
)
#: Those that also say what is compiled.
COMPILED = ("compiled", "tutorial")
#: Run by tests of their own, here and in test_connector_pages.py.
ELSEWHERE = (
    "howto/kafka-to-delta",
    "spark",
    "tutorial-spark",
    *(f"connectors/{name}" for name in ("README", "delta", "files", "http", "iceberg", "kafka")),
    *(f"connectors/{name}" for name in ("mqtt", "nats", "postgres", "redis")),
)
_LONG = {"compiled", "howto/testing", "signatures", "simulator"}


def _items(pages: tuple[str, ...]) -> list[Any]:
    return [pytest.param(one, marks=pytest.mark.merge) if one in _LONG else one for one in pages]


@pytest.mark.parametrize("page", _items(PAGES))
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of the page runs and its assertions hold."""
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / f"{page}.md", monkeypatch)


@pytest.mark.parametrize("page", _items(COMPILED))
def test_page_with_its_functions_compiled(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, with the page's code in a file."""
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / f"{page}.md", monkeypatch, tmp_path / "page.py")


def test_every_page_with_examples_runs() -> None:
    """No page has Python that no test runs, so a new page cannot be forgotten."""
    docs = ROOT / "docs"
    found = {
        page.relative_to(docs).with_suffix("").as_posix()
        for page in docs.rglob("*.md")
        if _BLOCK.search(page.read_text(encoding="utf-8"))
    }
    known = [*PAGES, *COMPILED, *ELSEWHERE]
    assert len(known) == len(set(known))
    assert sorted(found - set(known)) == []
    assert sorted(set(known) - found) == []


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


@pytest.mark.merge
def test_kafka_to_delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe's table has each order once, and the message that is no order stands beside it."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    pytest.importorskip("deltalake", reason="needs deltalake")
    from thalweg_lab import brokers

    monkeypatch.chdir(tmp_path)
    values = (
        b'{"user": "ann", "amount": 1.0}',
        b'{"user": "ann", "amount": 2.0}',
        b'{"user": "bob", "amount": 1.5}',
        b"no order",
    )
    with brokers.mock() as broker:
        for number, value in enumerate(values):
            broker.send("orders", value, number % 3, timestamp=1_700_000_000_000 + number)
        broker.flush()
        run_page(ROOT / "docs" / "howto" / "kafka-to-delta.md", monkeypatch, SERVERS=broker.servers)


@pytest.mark.merge
def test_the_tutorials_commands(tmp_path: Path) -> None:
    """Its commands work as copied, over the file that the page writes and the program of the next page."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    lines = [line for line in commands(text) if line.startswith("thalweg ")]
    assert len(lines) == 2
    flow = _BLOCK.findall((ROOT / "docs" / "tutorial-spark.md").read_text(encoding="utf-8"))[0]
    (tmp_path / "alarms.py").write_text(flow, encoding="utf-8")
    readings = (
        "0,hall,20.5\n20,attic,25.0\n10,hall,21.0\n70,attic,27.5\n95,hall,24.5\n130,attic,26.0\n"
    )
    (tmp_path / "readings.csv").write_text(f"ts,room,degrees\n{readings}", encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    for line in lines:
        words = [sys.executable, "-m", *line.split()]
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=300
        )
        assert done.returncode == 0, done.stderr
    [written] = (tmp_path / "out").glob("batch=*/*.csv")
    assert written.read_text().splitlines()[-1] == '190,"attic","silent"'


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


def program(pages: Iterable[str], folder: Path) -> str:
    """What the pages' Python blocks print as one program in a process of its own, started in ``folder``."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in pages]
    blocks = [block for text in texts for block in _BLOCK.findall(text)]
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
def test_pages_on_spark(tmp_path: Path) -> None:
    """Every example of the tutorial's second page and of the page on Spark runs, and its assertions hold."""
    program(("docs/tutorial-spark.md", "docs/spark.md"), tmp_path)


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
