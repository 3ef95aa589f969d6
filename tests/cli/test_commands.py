"""The command line without Spark: arguments, errors, plans."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

import thalweg as tw
from thalweg.cli import app, arguments, loading, progress
from thalweg.cli import local as local_engine
from thalweg.flow.operators.nodes import Sink, Source

FLOW = """\
import thalweg as tw
from typing import Any, NamedTuple

class Word(NamedTuple):
    text: str

def long(word: Word) -> bool:
    return len(word.text) > 3

flow = tw.Flow("words")
flow.source("words", Word).filter(long).sink("long")
"""


class Row(NamedTuple):
    ts: tw.Timestamp
    line: str


class Line(NamedTuple):
    line: str


def command(*parts: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(part) for part in parts])
    return result.exit_code, result.output


@pytest.fixture
def flow_file(tmp_path: Path) -> Path:
    file = tmp_path / "words_flow.py"
    file.write_text(FLOW)
    return file


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    log = logging.getLogger("thalweg")
    before = log.handlers[:], log.level, log.propagate
    yield
    log.handlers[:], log.level, log.propagate = before


def test_version() -> None:
    """The version is the package's."""
    assert command("--version") == (0, f"thalweg {tw.__version__}\n")


def test_explain(flow_file: Path) -> None:
    """The plan of a flow in a file, by default name, by name, and of a module."""
    code, text = command("explain", flow_file, "--no-compile")
    assert code == 0
    assert text.startswith("flow words: 1 stage, 3 operators, 1 source, 1 sink\n")
    assert command("explain", f"{flow_file}:flow", "--no-compile") == (0, text)
    code, text = command("explain", "thalweg.examples.web_sessions", "--no-compile")
    assert (code, text.split(":")[0]) == (0, "flow web_sessions")


@pytest.mark.parametrize(
    ("content", "place", "said"),
    [
        (None, "", "there is no file"),
        ("x = 1\n", "", "has no flow; make one at its top level"),
        ("x = 1\n", ":x", "x is a int, not a flow"),
        ("x = 1\n", ":y", "it has no flow y; flows in it: none"),
        ("import thalweg as tw\na = tw.Flow('a')\nb = tw.Flow('b')\n", "", "several flows: a, b"),
        ("def broken(:\n", "", "cannot be run: invalid syntax (line 1)"),
        ("x = 1\ny = 1 / 0\n", "", "ZeroDivisionError: division by zero (line 2)"),
        ("import nowhere_to_be_found\n", "", "No module named 'nowhere_to_be_found'"),
    ],
)
def test_files_without_a_flow(tmp_path: Path, content: str | None, place: str, said: str) -> None:
    """What is wrong with the file is said in one line, and the exit code is that of a wrong call."""
    file = tmp_path / "some_flow.py"
    if content is not None:
        file.write_text(content)
    code, text = command("explain", f"{file}{place}")
    assert code == 2
    assert said in text
    assert "Traceback" not in text


def test_a_flow_that_is_wrong(tmp_path: Path) -> None:
    """An error in the flow itself is the flow's own message, exit code 1."""
    file = tmp_path / "bad_flow.py"
    file.write_text(FLOW.replace('"text"', "").replace("filter(long)", "filter(3)"))
    code, text = command("explain", file)
    assert code == 1
    assert text.startswith("error: ")
    assert "expected a function, got 3" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "nothing=x"], "the flow has no source 'nothing'; it has words"),
        (["--input", "{words}", "--output", "none=x"], "the flow has no sink 'none'; it has long"),
        (["--input", "{words},format=xml"], "format is one of csv, json, text, parquet"),
        (["--input", "{words},colour=red"], "there is no option 'colour'"),
        (["--input", "/no/such/folder"], "there is no such file or folder"),
        (["--input", "{flow}"], "the files there end in py); add ,format="),
        (["--input", "{words}", "--output", "x,format=xml"], "format is one of parquet, json, csv"),
        (["--input", "{words}", "--output", "x.orc"], "format is one of parquet, json, csv"),
        (["--input", "{words},header=maybe"], "header is true or yes or 1, or false or no or 0"),
        (["--input", "{words},max_files_per_trigger=x"], "max_files_per_trigger is a whole number"),
        (["--input", "{words},max_files_per_trigger=0"], "max_files_per_trigger is a whole number"),
        (["--input", "{folder}"], "1 in folders below, such as "),
        (["--input", "{folder},recursive=yes", "--output", "x.orc"], "format is one of parquet"),
        (["--input", "wrds=x"], "did you mean 'words'?"),
        (["--input", "{words},delimeter=;"], "did you mean 'delimiter'?"),
        (["--input", "{words}", "--output", "x,partitionBy=a"], "no option 'partitionBy'"),
        (["--input", "{words}", "--output", "x,nosuch=3"], "no option 'nosuch'"),
        (["--input", "{words}", "--output", "console,nosuch=3"], "no option 'nosuch'"),
        (["--input", "{words}", "--output", "console,max_rows=0"], "max_rows is a whole number"),
        (["--input", "{words}", "--output", "console,format=csv"], "console has no format"),
        (["--input", "{words}", "--slots", "0"], "Invalid value for '--slots'"),
        (["--input", "{words}", "--output", "{words}"], "words.csv is a file, and an output is a"),
        (["--input", "{words}", "--drain"], "--drain ends the input, so it needs --once"),
        (["--input", "{words}", "--once", "--trigger", "1 s"], "--once or --trigger, not both"),
        (
            ["--input", "{words}", "--output", "o", "--checkpoint", "c", "--trigger", "soon"],
            "not a duration: 'soon'",
        ),
        (["--input", "{words}"], "needs --checkpoint FOLDER"),
        ([], "source 'words' has no input; add --input words=PATH"),
    ],
)
def test_wrong_calls_of_run(flow_file: Path, arguments: list[str], said: str) -> None:
    """A wrong argument is found before Spark starts, and exit code 2 says it was the call."""
    words = flow_file.with_name("words.csv")
    words.write_text("text\nriver\n")
    folder = flow_file.with_name("deep")
    (folder / "batch=0").mkdir(parents=True)
    (folder / "batch=0" / "part.csv").write_text("text\nriver\n")
    filled = [one.format(words=words, flow=flow_file, folder=folder) for one in arguments]
    code, text = command("run", flow_file, *filled)
    text = " ".join(text.split())
    assert said in text
    assert code == 2
    assert "Traceback" not in text


def commands(group: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The ways to all commands, ``("state", "show")``."""
    for name, one in getattr(group, "commands", {}).items():
        if hasattr(one, "commands"):
            yield from commands(one, *path, name)
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", [*commands(typer.main.get_command(app))], ids=" ".join)
def test_options_that_no_command_has(path: tuple[str, ...]) -> None:
    """Each command refuses an option that it does not have by its name; peers passes on what it is given."""
    if path == ("bench", "peers"):
        return
    code, text = command(*path, "--nosuch", "3")
    assert (code, "--nosuch" in text) == (2, True), text


def test_parts_of_an_argument() -> None:
    """Names, paths and options; what is no option belongs to what stands before it."""
    parse = arguments.parse
    assert parse("a=b/c") == arguments.Given("a", "b/c", "", {})
    assert parse("b/c.csv") == arguments.Given("", "b/c.csv", "", {})
    assert parse("out/day=1") == arguments.Given("", "out/day=1", "", {})
    assert parse("x,nullValue=a").options == {"nullValue": "a"}
    assert parse("sshd/alerts=x", ["sshd/alerts"]).name == "sshd/alerts"
    assert parse("a=x,y.csv") == arguments.Given("a", "x,y.csv", "", {})
    assert parse("a=x,format=csv,delimiter=,") == arguments.Given(
        "a", "x", "csv", {"delimiter": ","}
    )


def source(record: type, name: str = "rows") -> Source:
    flow = tw.Flow("f")
    flow.source(name, record)
    [node] = flow.nodes
    assert isinstance(node, Source)
    return node


def test_formats_are_found_out(tmp_path: Path) -> None:
    """By the ends of the names, compressed or not; by the record where there are none."""
    for folder, name in (("a", "x.csv.gz"), ("b", "x.jsonl"), ("c", "x.tsv"), ("d", "messages")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("")
    read = lambda folder, record: arguments.read_inputs(  # noqa: E731
        [f"rows={tmp_path / folder}"], [source(record)]
    )["rows"]
    assert read("a", Row).format == "csv"
    assert read("b", Row).format == "json"
    assert read("c", Row).options == {"delimiter": "\t"}
    assert read("d", Line).format == "text"
    with pytest.raises(typer.BadParameter, match=r"the format of .* is not clear"):
        read("d", Row)


def test_options_have_their_types(tmp_path: Path) -> None:
    """Lists are cut at bars; flags and numbers are read."""
    (tmp_path / "x.csv").write_text("")
    options = "null_values=NA|null,header=false,growing=true,quote=none,max_files_per_trigger=3"
    given = f"{tmp_path},{options}"
    one = arguments.read_inputs([given], [source(Row)])["rows"]
    assert one.options == {
        "null_values": ("NA", "null"),
        "header": False,
        "growing": True,
        "quote": None,
        "max_files_per_trigger": 3,
    }


def test_outputs() -> None:
    """Parquet unless the path says otherwise; console is the terminal; an unnamed one needs a single sink."""
    flow = tw.Flow("f")
    rows = flow.source("rows", Row)
    rows.sink("a")
    rows.sink("b")
    sinks = [node for node in flow.nodes if isinstance(node, Sink)]
    found = arguments.read_outputs(["a=out", "b=console"], sinks)
    assert [one.format for one in found.values()] == ["parquet", "console"]
    assert arguments.read_outputs(["a=out.json"], sinks)["a"].format == "json"
    with pytest.raises(typer.BadParameter, match="does not say which sink it is for: a, b"):
        arguments.read_outputs(["out"], sinks)
    with pytest.raises(typer.BadParameter, match="given twice"):
        arguments.read_outputs(["a=x", "a=y"], sinks)


def test_neighbours_can_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow's file imports the file beside it, as when it is run by Python."""
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    monkeypatch.setenv("PYTHONPATH", "")
    (tmp_path / "neighbour_of_flow.py").write_text("NAME = 'beside'\n")
    file = tmp_path / "importing_flow.py"
    file.write_text("import thalweg as tw\nfrom neighbour_of_flow import NAME\nx = tw.Flow(NAME)\n")
    assert loading.load_flow(str(file)).name == "beside"


def test_progress_in_a_line() -> None:
    """A batch's rows and rate, and what is late, rejected, kept and waiting."""
    line = progress.batch_line(
        {
            "batch": 3,
            "rows": 1200,
            "rows_per_s": 2400.4,
            "totals": {"a": {"late": 1, "rejected": 2}, "b": {"in": 9}},
            "state": {"a": {"keys": 7, "bytes": 9}},
            "waiting": {"a": 4},
        }
    )
    assert line == "batch 3: 1,200 rows, 2,400 rows/s, 1 late, 2 rejected, 7 keys, 4 waiting"


def test_state_of_nothing(tmp_path: Path) -> None:
    """A folder that is no checkpoint is named, with what was expected there."""
    code, text = command("state", "show", tmp_path)
    assert code == 1
    assert text.startswith(f"error: {tmp_path}: expected a checkpoint folder")


def test_datagen(tmp_path: Path) -> None:
    """The generators are commands, too."""
    code, text = command("datagen", "clicks", "--out", tmp_path / "c", "--rows", 100, "--files", 1)
    assert (code, "100 clicks in 1 file" in text) == (0, True)


def test_demo_embedded() -> None:
    """The demo without Spark: table, totals, plan, what to try next."""
    code, text = command("demo", "--embedded")
    assert code == 0
    for part in ("10.0.0.5", "3,052 sessions of 1,753 clients", "1 line rejected", "0 rows late"):
        assert part in text
    assert "flow web_sessions: 3 stages" in text
    assert text.rstrip().endswith("thalweg --help")


def local(flow_file: Path, *more: object) -> tuple[int, str]:
    words = flow_file.with_name("words.csv")
    words.write_text("text\nriver\nsea\ndelta\nbank\n")
    return command("run", flow_file, "--input", words, "--once", *more)


def read_back(folder: Path, format: str) -> list[str]:
    flow = tw.Flow("read")
    flow.source("rows", NamedTuple("Word", [("text", str)])).sink("rows")
    rows = tw.run(flow, {"rows": tw.files(folder, format)}).rows("rows")  # type: ignore[arg-type]
    return [row.text for row in rows]


def test_run_in_this_process(flow_file: Path) -> None:
    """A run without Spark writes where Spark would, in each format, and never into a folder that has batches."""
    for format, more in (("parquet", ""), ("csv", ",compression=gzip"), ("json", "")):
        out = flow_file.with_name(format)
        given = ["--engine", "local", "--output", f"{out},format={format}{more}"]
        code, text = local(flow_file, *given)
        assert code == 0, text
        assert "the input ends with its last row, as with --drain" in text
        assert read_back(out / "batch=0", format) == ["river", "delta", "bank"]
        code, text = local(flow_file, *given)
        assert (code, "already has the output of 1 batch, of a run before" in text) == (1, True)


def test_run_to_the_terminal(flow_file: Path) -> None:
    """``auto`` takes this process where the outcome is Spark's; a table has the rows asked for, and their count."""
    code, text = local(
        flow_file, "--drain", "--engine", "auto", "--output", "console,max_rows=2", "--slots", 1
    )
    assert code == 0, text
    assert "--engine auto: in this process" in text
    assert "long: 3 rows" in " ".join(text.split())
    assert "delta" in text
    assert "bank" not in text
    assert "1 more" in text
    code, text = local(flow_file, "--engine", "local", "--slots", 2)
    assert code == 0, text
    assert "console" not in text


def test_sinks_without_an_output(flow_file: Path) -> None:
    """With a checkpoint they are refused by name, on both engines, unless discarded; without one it is said."""
    state = flow_file.with_name("state")
    for engine in ("local", "spark"):
        code, text = local(flow_file, "--engine", engine, "--checkpoint", state)
        assert code == 2
        said = " ".join(text.split())
        assert "sink 'long' has no --output" in said and "--output long=discard" in said, text
    assert not state.exists()
    code, text = local(flow_file, "--engine", "local")
    assert (code, "sink 'long': rows are counted, not written" in text) == (0, True), text
    for more in ([], ["--checkpoint", state]):
        code, text = local(flow_file, "--engine", "local", "--output", "long=discard", *more)
        assert (code, "warning" in text, "not written" in text) == (0, False, False), text
    code, text = local(flow_file, "--output", "discard,format=csv")
    assert (code, "discard has no format" in text) == (2, True), text


def test_wrong_before_the_run(flow_file: Path) -> None:
    """An address that is none is refused before the run begins; ``plan`` has no ``--input`` to blame."""
    code, text = local(flow_file, "--engine", "local", "--metrics", "foo")
    assert code == 1 and "metrics: expected HOST:PORT" in text
    assert "the input ends" not in text
    flow_file.write_text(FLOW.replace(".filter(long)", ".key_by('text').last()"))
    for given in ("nosuch.csv", "wrds=x"):
        code, text = command("plan", flow_file, given)
        assert (code, "--input" in text, "SOURCE" in text) == (2, False, True), text


def test_what_still_waits_is_said(tmp_path: Path) -> None:
    """Rows behind the watermark, windows and timers, with what ends them; nothing where all came out."""
    flow = tmp_path / "visits_flow.py"
    flow.write_text(
        "import thalweg as tw\nfrom typing import NamedTuple\n"
        "class Visit(NamedTuple):\n    ts: tw.Timestamp\n    page: str\n"
        "flow = tw.Flow('visits')\nvisits = flow.source('visits', Visit, order_by='ts')\n"
        "visits.key_by('page').window('1 minute', n=tw.agg.count()).sink('counts')\n"
    )
    times = ("00:00:01", "00:01:00", "00:02:00")
    rows = "".join(f"2026-01-01T{one}Z,a\n" for one in times)
    (tmp_path / "in.csv").write_text(f"ts,page\n{rows}")
    given = ["run", flow, "--input", tmp_path / "in.csv", "--once", "--engine", "local"]
    more = ["--checkpoint", tmp_path / "state", "--output", tmp_path / "out"]
    for _ in range(2):  # also where a start has nothing to read
        code, text = command(*given, *more)
        assert code == 0, text
        assert "open windows or timers of 'window'" in text and "--drain ends the input" in text
    code, text = command(*given, *more, "--drain")
    assert (code, "not in the output" in text) == (0, False), text
    assert "counts 3 3 0 0" in " ".join(text.replace("│", " ").split())
    code, text = command(*given)
    assert (code, "not in the output" in text) == (0, False), text
    assert "counts 3 0 0 0" in " ".join(text.replace("│", " ").split())


def test_what_this_process_cannot_do(flow_file: Path) -> None:
    """Each option that only Spark has is named, all at once, and the exit code is that of a wrong call."""
    for more, said in (
        (
            ["--checkpoint", "c", "--slots", 2, "--output", "o"],
            "--slots 2: with --checkpoint it has one",
        ),
        (["--master", "local[2]"], "--master: that is Spark's"),
        (
            ["--follow"],
            "--follow, which is the default: without --checkpoint it reads what there is and ends",
        ),
        (["--follow"], "ends add --once, or leave out --engine local"),
        (["--follow", "--master", "m"], "leave these out and add --once, or leave"),
        (
            ["--follow", "--trigger", "1 second"],
            "--trigger: without --checkpoint it has no batches",
        ),
        (["--output", "s3a://bucket/out"], "s3a://bucket/out is not on a disk of this machine"),
        (["--output", "x,format=csv,quoteAll=true"], "option 'quoteAll': it has only compression"),
        (["--output", "x,compression=zstd"], "its Parquet is compressed by snappy"),
    ):
        code, text = local(flow_file, "--engine", "local", *more)
        assert (code, said in " ".join(text.split())) == (2, True), text
    words = flow_file.with_name("words.csv")
    code, text = command(
        "run", flow_file, "--input", f"{words},max_files_per_trigger=1", "--once", "--engine",
        "local", "--checkpoint", "c", "--slots", 2, "--output", "o",
    )  # fmt: skip
    assert code == 2
    assert "max_files_per_trigger: it has no batches" in text
    assert "--slots 2" in text
    asked = local_engine.Asked(once=True, drain=True)
    assert not list(local_engine.why_not(asked, {}, {}))


def test_a_run_that_fails_leaves_no_output(flow_file: Path) -> None:
    """A function that raises is one message, and no file appears."""
    flow_file.write_text(FLOW.replace("len(word.text) > 3", 'bool(1 // (word.text != "sea"))'))
    out = flow_file.with_name("out")
    code, text = local(flow_file, "--engine", "local", "--output", out)
    assert code == 1
    assert "ZeroDivisionError" in text
    assert "text='sea'" in text
    assert "Traceback" not in text
    assert not [*out.glob("*")]
    flow_file.write_text(FLOW)
    assert local(flow_file, "--engine", "local", "--output", out)[0] == 0


@pytest.mark.slow
def test_a_checkpoint_in_this_process(flow_file: Path) -> None:
    """Starts go on where the last one stopped, and each row is written once; followed until Ctrl-C it commits."""
    words = flow_file.parent / "words"
    words.mkdir()
    out, state = flow_file.with_name("out"), flow_file.with_name("state")
    given = [
        "run", flow_file, "--input", f"{words},format=csv", "--output", f"{out},format=json",
        "--checkpoint", state, "--engine", "local",
    ]  # fmt: skip
    for number, name in enumerate(("river", "delta")):
        (words / f"{number}.csv").write_text(f"text\n{name}\n")
        code, text = command(*given, "--once")
        assert code == 0, text
    assert len(list(out.glob("batch=*"))) == 2
    (words / "2.csv").write_text("text\nbank\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "thalweg", *map(str, given), "--trigger", "1 second"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while len(list(out.glob("batch=*"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, process.stderr and process.stderr.read()
    finally:
        process.kill()
    found = [row for batch in sorted(out.glob("batch=*")) for row in read_back(batch, "json")]
    assert found == ["river", "delta", "bank"]
