"""What is printed is what is there: no text is read as markup, and nothing in it moves the terminal."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import thalweg
import thalweg as tw
from thalweg.cli import app, heartbeat
from thalweg.cli.failures import CLOSED
from thalweg.flow.records import Schema
from thalweg.printing import OutputClosed, Table, Terminal, plain, say
from thalweg.spark.writing.sinks import ConsoleSink

SOURCE = Path(thalweg.__file__).parent
#: What rich, and terminals, take for orders; each line whole, as it is to be seen.
TEXTS = [
    "GET [/x] HTTP",
    "[x]",
    "a [red]b[/red]",
    "[/]",
    "[[",
    "\\[bold]",
    ":smile:",
    "[link=http://a]b[/link]",
    "[@click=f]",
]


class Line(NamedTuple):
    line: str


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_shown_as_it_is(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """As a line, as a title, a head, a cell and a note of a table, and as a batch of a console sink."""
    table = Table(text)
    table.column(text)
    table.row(text)
    table.note(text)
    Terminal().print(table)
    assert printed(capsys).count(text) == 4
    Terminal().print(text)
    assert printed(capsys) == f"{text}\n"
    say(text)
    assert capsys.readouterr().err == f"{text}\n"
    ConsoleSink(5).show(text, Schema.of(Line), pa.table({"line": [text]}), 0)
    assert printed(capsys).count(text) == 2


def test_wide_texts_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """What is wider than the terminal goes on below, and is not cut."""
    table = Table()
    table.column("text")
    table.row("x" * 500)
    Terminal().print(table)
    assert printed(capsys).count("x") == 501


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb", "a\\rb"),
        ("bell\x07", "bell\\x07"),
        ("\u202eabc", "\\u202eabc"),
        ("half \ud800", "half \\ud800"),
        ("tab\t", "tab\\t"),
        ("two\nlines", "two\nlines"),
        ("größer → 世界", "größer → 世界"),
    ],
)
def test_orders_to_the_terminal_are_escapes(text: str, seen: str) -> None:
    """Control characters and marks of direction are seen and not obeyed; other text stays."""
    assert plain(text) == seen


def test_one_door_only() -> None:
    """No other module imports rich, so that no text of another's can be read as markup."""
    imports = re.compile(r"^\s*(from|import) rich\b", re.MULTILINE)
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if imports.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"printing.py"}


def test_no_command_reads_markup() -> None:
    """Typer would have rich read the texts of its own errors and helps: each app says that it is not to."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert text.count("typer.Typer(") == text.count("rich_markup_mode=None"), path


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_closed_pipe_is_an_error_and_no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who prints is told; rich would have raised SystemExit, in whatever thread this is."""
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(OutputClosed):
        Terminal().print("line")


def test_commands_end_quietly_on_a_closed_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is the cause of a failure that says something else: exit code 141, and not a word."""
    from thalweg.cli import plans
    from thalweg.errors import EnvironmentProblem

    def show(place: str) -> None:
        raise EnvironmentProblem("sink 'out': cannot be written") from OutputClosed("nobody reads")

    monkeypatch.setattr(plans, "load_flow", show)
    result = CliRunner().invoke(app, ["explain", "x.py"])
    assert (result.exit_code, result.output) == (CLOSED, "")


class At(NamedTuple):
    at: tw.Timestamp | None


class Timed(NamedTuple):
    ts: tw.Timestamp
    several: list[tw.Timestamp]
    one: At | None


def test_times_are_shown_as_times(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result's rows for people: also times inside lists and records, and those that Python's calendar lacks."""
    monkeypatch.setenv("COLUMNS", "200")
    flow = tw.Flow("timed")
    timed = flow.source("timed", Timed)
    timed.sink("out")
    timed.filter(lambda row: row.ts < 0).sink("none")
    rows = [Timed(0, [1], At(2_000_000)), Timed(2**60, [], None), Timed(0, [], At(None))]
    result = tw.run(flow, {"timed": rows})
    result.show("out", rows=2)
    told = printed(capsys)
    assert "out: 3 rows" in told and "1 more" in told
    first = "1970-01-01T00:00:00Z │ [1970-01-01T00:00:00.000001Z] │ At(at=1970-01-01T00:00:02Z)"
    assert re.search(re.sub(" +", " +", re.escape(first).replace("\\ ", " ")), told)
    assert f"{2**60}us" in told and "At(at=–)" not in told
    result.show("none")
    assert printed(capsys) == "none: 0 rows\n"
    with pytest.raises(tw.BuildError, match="no rows of a sink 'nowhere'"):
        result.show("nowhere")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("explain", "thalweg.examples.web_sessions", "--no-compile"), ("--help",)]
)
def test_a_command_in_a_pipe(arguments: tuple[str, ...]) -> None:
    """In a process: the reader has gone before the command writes."""
    reads, writes = os.pipe()
    os.close(reads)
    path = os.pathsep.join([str(SOURCE.parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", *arguments],
        stdout=writes, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}, timeout=100,
    )  # fmt: skip
    os.close(writes)
    assert done.stderr == b""
    assert done.returncode in ((CLOSED,) if arguments[0] != "--help" else (CLOSED, 1))


def test_a_silent_command_says_that_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After some seconds without a line there is one with what is done; who prints is left alone."""
    quiet, asked = [0.0], threading.Event()

    def doing() -> str:
        asked.set()
        return heartbeat.time_left(2, 4, 60.0)

    monkeypatch.setattr(heartbeat, "_LOOK_S", 0.001)
    monkeypatch.setattr(heartbeat, "quiet_s", lambda: quiet[0])
    with heartbeat.heartbeat("bench", doing):
        assert not asked.wait(0.02)
        quiet[0] = heartbeat.QUIET_S
        assert asked.wait(30)
    said = capsys.readouterr().err
    assert "bench: 3 of 4, about 1:00 left".replace("1:00", "0:01:00") in said and "so far" in said
    assert heartbeat.time_left(0, 4, 1.0) == "1 of 4"
