"""Functions are found, described and frozen: lambdas, closures, notebooks, scripts, other processes."""

import logging
import pathlib
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from thalweg import times
from thalweg.cli import progress
from thalweg.columns.chunks import Chunk
from thalweg.compiler.code import modules
from thalweg.compiler.code import source as found
from thalweg.compiler.code.source import Const, Frozen, FunctionSource, describe
from thalweg.compiler.freeze import freeze
from thalweg.compiler.stateless import Step, check_stateless, stateless_kernel
from thalweg.errors import BuildError
from thalweg.flow.records import Schema

SCALE = 10
NAMES = ["a", "b"]


class Pair(NamedTuple):
    a: int
    b: int


def scaled(p: Pair) -> Pair:
    return Pair(p.a * SCALE, p.b + times.SECOND)


def makers() -> list[Any]:
    def more(k: int) -> Any:
        return lambda p: p.a > k

    return [*(more(k) for k in (1, 2, 3)), *(lambda p, k=k: p.b < k for k in (1, 2))]


def results(function: Any, rows: list[Pair]) -> list[Any]:
    schema = Schema.of(Pair)
    kernel = stateless_kernel([Step("filter", "f", function, schema)], schema, reject=False)
    return Chunk(schema, kernel(Chunk.from_rows(schema, rows)).columns, 0).rows()


ROWS = [Pair(i, 5 - i) for i in range(6)]


def test_lambdas_on_one_line_are_told_apart() -> None:
    """Each lambda gets its own body, also when one stands inside the other."""
    first, second = (lambda p: p.a > 2), (lambda p: p.b > 2)
    outer = lambda k: lambda p: p.a == k  # noqa: E731
    chain = [lambda p: p.a >= 0, lambda p: (p.a
        + p.b) == 5]  # fmt: skip
    for function in (first, second, outer(3), *chain):
        assert results(function, ROWS) == [row for row in ROWS if function(row)]


def test_closures_are_compiled_by_value() -> None:
    """One text with three captured numbers is three functions."""
    for function in makers():
        assert results(function, ROWS) == [row for row in ROWS if function(row)]


def test_describe_captures_values_when_called() -> None:
    """A later change of a global does not reach the described function; callees come along."""
    source = describe(scaled)
    captured = dict(source.captured)
    assert captured["SCALE"] == Const(10)
    assert captured["times.SECOND"] == Const(1_000_000)
    assert source.line == scaled.__code__.co_firstlineno
    minutes = dict(describe(lambda p: times.minutes(p.a) > 0).captured)["times.minutes"]
    assert isinstance(minutes, FunctionSource)
    assert minutes.name == "minutes"
    assert isinstance(dict(describe(lambda p: p.a > len(NAMES)).captured)["NAMES"], Frozen)


def test_a_source_travels_where_the_file_is_missing(tmp_path: pathlib.Path) -> None:
    """Pickled on the driver, compiled where the file is not; without the source it says so."""
    file = tmp_path / "gone.py"
    file.write_text("def low(p):\n    return p.a < 2\n")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    source = pickle.loads(pickle.dumps(describe(space["low"])))
    file.unlink()
    schema = Schema.of(Pair)
    assert not describe(space["low"]).text
    compiled, reason = check_stateless([Step("filter", "f", space["low"], schema)], schema)
    assert (compiled, "source not found" in reason) == (False, True)
    kernel = stateless_kernel(
        [Step("filter", "f", space["low"], schema, source)], schema, reject=False
    )
    assert kernel(Chunk.from_rows(schema, ROWS)).source.tolist() == [0, 1]


def test_an_edited_file_is_not_taken_for_the_source(tmp_path: pathlib.Path) -> None:
    """The file changed after the function was made: interpreted, never another function compiled."""
    file = tmp_path / "edited.py"
    file.write_text("def low(p):\n    return p.a < 2\n")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    file.write_text("def low(p):\n    return p.a < 777\n")
    assert "source not found" in describe(space["low"]).reason


ONE_LINERS = """
def same(f): return f
def in_function():
    def low(p): return p.a < 2
    return low
class Holder:
    @staticmethod
    def low(p): return p.a < 2
    @same
    def bare(p): return p.a < 2
class Tabs:
\tdef low(p): return p.a < 2
if True:
    def in_if(p): return p.a < 2
    @same
    def decorated(p): return p.a < 2
    @same
    def decorated_long(
        p
    ): return p.a < 2
    lines = (lambda p: p.a
  <  # a comment
2)
    more = lambda p: (
p.a < 2
    )
    broken = lambda p: \\
        p.a < 2
found = [in_function(), Holder.low, Holder.bare, Tabs.low, in_if, decorated, decorated_long]
found += [lines, more, broken]
"""


def test_definitions_on_one_line(tmp_path: pathlib.Path) -> None:
    """A def on one line is found wherever it stands, as are lambdas over several lines."""
    file = tmp_path / "one_liners.py"
    file.write_text(ONE_LINERS)
    space: dict[str, Any] = {"__name__": "one_liners"}
    exec(compile(ONE_LINERS, str(file), "exec"), space)
    for function in space["found"]:
        source = describe(function)
        assert (source.reason, bool(source.node())) == ("", True)
        assert source.line in (
            function.__code__.co_firstlineno,
            function.__code__.co_firstlineno + 1,
        )
        assert results(function, ROWS) == ROWS[:2]


def test_a_text_that_does_not_parse_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the text of a definition turns out to be, the function is interpreted, never an error."""
    for text in ("def", "x = 1", "lambda p: p", "(" * 1000):
        monkeypatch.setattr(found, "_own_text", lambda *_, text=text: text)
        found._located.cache_clear()
        assert "source not found" in describe(scaled).reason
    monkeypatch.undo()
    found._located.cache_clear()
    assert describe(scaled).reason == ""


def test_freeze_cuts_captured_values_off() -> None:
    """Later changes of globals, cells and defaults are not seen; code of the same module follows."""
    values = [1, 2]
    limit = 3

    def helper() -> int:
        return values[0] + limit

    def function(extra: Any = (1,)) -> Any:
        return helper(), len(NAMES), SCALE, extra

    frozen = freeze(function)
    before = frozen()
    values[0], limit = 100, 200
    NAMES.append("c")
    try:
        assert frozen() == before == (4, 2, 10, (1,))
        assert function() == (300, 3, 10, (1,))
    finally:
        NAMES.pop()


def test_freeze_refuses_what_cannot_be_copied() -> None:
    """The error names operator, function and variable."""
    lock = threading.Lock()
    with pytest.raises(BuildError, match=r"operator guarded: .*captures 'lock'"):
        freeze(lambda p: lock.locked(), "guarded")


def test_freeze_keeps_recursion() -> None:
    """A function that calls itself calls its frozen self."""

    def down(n: int) -> int:
        return 0 if n == 0 else 1 + down(n - 1)

    assert freeze(down)(5) == 5


SCRIPT = """
    import logging, sys
    from typing import NamedTuple
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s", stream=sys.stdout)
    from thalweg.flow.records import Schema
    from thalweg.columns.chunks import Chunk
    from thalweg.compiler.stateless import Step, stateless_kernel

    class Pair(NamedTuple):
        a: int
        b: int

    STEP = 3

    def halve(p: Pair) -> Pair | None:
        assert p.a >= 0
        return Pair(p.a // 2 + STEP, p.b) if p.b % 2 else None

    schema = Schema.of(Pair)
    steps = [Step("map", "halve", halve, schema), Step("filter", "some", lambda p: p.a != 4, schema)]
    kernel = stateless_kernel(steps, schema, reject=False)
    print("hits", sum(kernel.kernel.stats.cache_hits.values()))
    print("rows", kernel(Chunk.from_rows(schema, [Pair(i, i) for i in range(6)])).source.tolist())
"""


def test_a_script_is_compiled_once_for_all_processes(tmp_path: pathlib.Path) -> None:
    """Functions of __main__: the second process loads what the first compiled, in silence."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    package = pathlib.Path(modules.__file__).parents[3]
    seen = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, str(script)],
            env={"PYTHONPATH": str(package), "THALWEG_CACHE_DIR": str(tmp_path), "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        # Where the machine is busy, it also says that compiling takes a while.
        long = "thalweg compiling operators (first run"
        seen.append([line for line in run.stdout.splitlines() if not line.startswith(long)])
    assert seen[0] == ["thalweg compiling halve, some …", "hits 0", "rows [1, 5]"] or seen[0][
        1:
    ] == [
        "hits 0",
        "rows [1, 5]",
    ]
    assert seen[1] == ["hits 1", seen[0][-1]]


class FakeTimer:
    """Fires when it is told to."""

    def __init__(self, after_s: float, function: Callable[[], None]) -> None:
        self.after_s, self.fire = after_s, function
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def cancel(self) -> None:
        self.calls.append("cancel")

    def join(self) -> None:
        self.calls.append("join")


def test_long_compilations_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Short ones are silent, but add up; each timer has ended behind its compilation."""
    timers: list[FakeTimer] = []

    def timer(after_s: float, function: Callable[[], None]) -> FakeTimer:
        timers.append(FakeTimer(after_s, function))
        return timers[-1]

    now_s = iter([10.0, 11.5, 20.0, 29.0])
    patience = modules.Patience(2.0, timer=timer, clock=lambda: next(now_s))
    with caplog.at_level(logging.WARNING, "thalweg"):
        with patience.during("short"):
            pass
        assert caplog.messages == []
        with patience.during("long"):
            timers[-1].fire()
        with patience.during("another"):
            pass
    assert caplog.messages == ["compiling operators (first run; cached afterwards), now long …"]
    assert [one.after_s for one in timers] == [2.0, 0.5]
    assert all(one.calls == ["start", "cancel", "join"] for one in timers)


def test_a_command_says_once_that_it_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows each compilation as it begins, so the line of those that have no display is none of its warnings."""
    display = progress.open_display(live=False)
    try:
        modules.announce("mine")
        modules.Patience()._tell("mine")
        modules._LOG.warning("something else")
    finally:
        display.close()
        for handler in [one for one in progress.log.handlers if hasattr(one, "thalweg_cli")]:
            progress.log.removeHandler(handler)
        progress.log.propagate = True
    told = capsys.readouterr().err
    assert told.count("compiling") == 1 and "warning: something else" in told


def test_listeners_hear_of_compilations_only() -> None:
    """Called with the operators' names before a compilation; a kernel already there is silent."""
    heard: list[str] = []
    remove = modules.on_compile(heard.append)
    try:
        number = threading.get_native_id() * 1000 + id(heard) % 1000
        schema = Schema.of(Pair)
        for _ in range(2):
            steps = [Step("filter", "fresh", lambda p: p.a != number, schema)]
            stateless_kernel(steps, schema, reject=False)
    finally:
        remove()
    assert heard == ["fresh"]


def test_a_function_of_many_operators_is_compiled_once() -> None:
    """Names of operators are no part of the machine code."""
    number = time.time_ns() % 1_000_000_007
    schema = Schema.of(Pair)

    def changed(pair: Pair) -> bool:
        return pair.a != number

    steps = [Step("filter", name, changed, schema) for name in ("first", "second")]
    one, two = (stateless_kernel([step], schema, reject=False) for step in steps)
    assert one.kernel is two.kernel
    rows = Chunk.from_rows(schema, [Pair(number, 1), Pair(number + 1, 1)])
    assert [kernel(rows).source.tolist() for kernel in (one, two)] == [[1], [1]]
