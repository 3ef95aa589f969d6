"""Compiled code is found again by what it is made from, and only in folders that nobody else can write."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import thalweg
from thalweg.jit import folder as folders
from thalweg.jit import njit, when_compiling
from thalweg.jit.digest import digest_of, import_closure
from thalweg.jit.kernels import read, write

#: The digests of the worker loop, of a partition's run, of the stable hash and of a kernel's helper.
DIGESTS = """
from thalweg import hashing
from thalweg.jit.digest import digest_of
from thalweg.workers.native.keyed_run import run_partition
from thalweg.workers.worker_loop.loop import work
from thalweg.compiler.code.modules import load
kernel = load("probe", '''@kernel
def run(columns, n, out):
    return divide_int(columns, need((True, n)))
''').run
for one in (work, run_partition, hashing.hash_span, kernel):
    print(digest_of(one))
"""
LOOP, PARTITION, HASH, KERNEL = range(4)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A copy of the package that may be edited."""
    copy = tmp_path_factory.mktemp("source") / "thalweg"
    origin = pathlib.Path(thalweg.__file__).parent
    shutil.copytree(origin, copy, ignore=shutil.ignore_patterns("__pycache__", "data"))
    return copy


def digests(package: pathlib.Path) -> list[str]:
    environment = {
        "PYTHONPATH": str(package.parent),
        "THALWEG_CACHE_DIR": str(package.parent / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("cli/run.py", "import", "# an edit of the command\nimport", set()),
        ("workers/worker_loop/loop.py", '"""', '"""Other words. ', set()),
        ("workers/lockfree/atomics.py", "PAUSES: Final = 40", "PAUSES: Final = 41", {LOOP}),
        ("workers/memory/layout.py", "PHASE: Final = ", "PHASE: Final = 1 + ", {LOOP}),
        ("compiler/runtime/support.py", "DONE: Final = 0", "DONE: Final = 7", {LOOP, PARTITION}),
        ("compiler/runtime/support.py", '"None where', '"no where', {LOOP, PARTITION, KERNEL}),
        ("hashing.py", "_P1: Final = 0x9E37", "_P1: Final = 0x9E38", {PARTITION, HASH}),
    ],
)  # fmt: skip
def test_an_edit_drops_what_is_built_on_it(
    package: pathlib.Path, file: str, old: str, new: str, changed: set[int]
) -> None:
    """Code that is not compiled, comments and documentation keep all kernels; a helper drops all its callers."""
    before, place = digests(package), package / file
    text = place.read_text()
    assert old in text
    place.write_text(text.replace(old, new, 1))
    try:
        after = digests(package)
    finally:
        place.write_text(text)
    assert {i for i in range(4) if before[i] != after[i]} == changed


def made(text: str) -> object:
    space: dict[str, object] = {"njit": njit, "np": np, "__name__": "probe"}
    exec(textwrap.dedent(text), space)
    return space["f"]


FIRST = """
LIMIT = 3
@njit
def g(x):
    return x + LIMIT
@njit
def f(x):
    return g(x) * 2
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = 3.0"),
        ("LIMIT = 3", "LIMIT = np.int32(3)"),
        ("x + LIMIT", "x - LIMIT"),
        ("@njit\ndef g", "@njit(inline='always')\ndef g"),
        ("g(x) * 2", "g(x) * 3"),
    ],
)
def test_values_callees_and_options_count(old: str, new: str) -> None:
    """A global's value and type, a callee's code and a decorator's options are part of a function's digest."""
    assert digest_of(made(FIRST.replace(old, new))) != digest_of(made(FIRST))


def test_words_about_the_code_do_not_count() -> None:
    """Moved lines, comments and documentation leave the digest as it is."""
    moved = FIRST.replace("def f(x):", 'def f(x):\n    """Twice."""\n    # and more\n')
    assert digest_of(made("\n\n\n" + moved)) == digest_of(made(FIRST))


def test_functions_that_call_each_other_have_a_digest() -> None:
    """Recursion ends, and a change anywhere in the circle is seen."""
    text = """
    @njit
    def f(n):
        return 1 if n == 0 else g(n - 1)
    @njit
    def g(n):
        return 2 if n == 0 else f(n - 1)
    """
    assert digest_of(made(text)) != digest_of(made(text.replace("return 2", "return 3")))


def test_what_makes_atomics_is_small() -> None:
    """The modules whose text counts as a whole import little, so that few edits drop much."""
    assert import_closure("thalweg.workers.lockfree.atomics") == {
        "thalweg.workers.lockfree.atomics"
    }
    assert len(import_closure("thalweg.compiler.runtime.calls")) <= 3


# -- files -----------------------------------------------------------------------------------------------


def test_a_damaged_file_is_not_read(tmp_path: pathlib.Path) -> None:
    """A file that was cut short or changed is as good as none."""
    file = tmp_path / "one.kernel"
    assert read(file) is None
    write(file, b"machine code")
    assert read(file) == b"machine code"
    file.write_bytes(file.read_bytes()[:-1])
    assert read(file) is None
    file.write_bytes(b"")
    assert read(file) is None


def test_old_and_large_entries_are_deleted(tmp_path: pathlib.Path) -> None:
    """What was not used for long goes, and of the rest the longest unused, until the size fits."""
    now = time.time()
    for age, name in ((0, "a"), (10, "b"), (20, "c"), (5_000, "d")):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (now - age, now - age))
    folders.prune(tmp_path, max_age_s=1_000, max_bytes=250)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


def test_the_folder_is_one_that_can_be_written(tmp_path: pathlib.Path) -> None:
    """The named folder first, then the user's cache; made with a mode that shuts others out."""
    blocked = tmp_path / "file"
    blocked.write_text("a file is no folder")
    first = {"THALWEG_CACHE_DIR": str(tmp_path / "named"), "XDG_CACHE_HOME": str(tmp_path / "user")}
    assert folders.choose(first) == tmp_path / "named" / "kernels"
    assert (tmp_path / "named" / "kernels").stat().st_mode & 0o777 == 0o700
    second = first | {"THALWEG_CACHE_DIR": str(blocked)}
    assert folders.choose(second) == tmp_path / "user" / "thalweg" / "kernels"
    assert folders.choose(second | {"XDG_CACHE_HOME": str(blocked)}) is None


def test_a_folder_that_others_can_write_is_not_used(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither one with an open mode, nor a link, nor one that others may rename; the log says why."""
    for name, spoil in (
        ("open", lambda at: at.mkdir(mode=0o755)),
        ("link", lambda at: at.symlink_to(tmp_path)),
        ("renamed", lambda at: (at.mkdir(mode=0o700), at.parent.chmod(0o777))),
    ):
        base = tmp_path / name
        base.mkdir(mode=0o700)
        spoil(base / "kernels")
        environment = {"THALWEG_CACHE_DIR": str(base), "XDG_CACHE_HOME": str(tmp_path / "user")}
        assert folders.choose(environment) == tmp_path / "user" / "thalweg" / "kernels"
        assert str(base / "kernels") in caplog.text


def test_listeners_hear_of_a_compilation_once() -> None:
    """Whoever waits is told when the first function is really compiled, and not again."""
    heard: list[str] = []
    with (
        when_compiling(lambda: heard.append("outer")),
        when_compiling(lambda: heard.append("inner")),
    ):
        function = made(FIRST.replace("LIMIT = 3", f"LIMIT = {time.time_ns()}"))
        assert function(1) > 0  # type: ignore[operator]
    assert heard == ["outer", "inner"]
