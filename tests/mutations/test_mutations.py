"""Seeded faults: the short tests of an area find a fault in it."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from tests.mutations.elasticity import ELASTICITY
from tests.mutations.locality import LOCALITY
from tests.mutations.lockfree import LOCKFREE
from tests.mutations.table import MUTATIONS, Mutation

ALL = [*MUTATIONS, *LOCALITY, *LOCKFREE, *ELASTICITY]
ROOT = pathlib.Path(__file__).parents[2]


def test_each_is_a_fault_of_a_line_that_is_there() -> None:
    """The text occurs once, the fault differs from it, and the tests exist."""
    for one in ALL:
        text = (ROOT / "src" / "thalweg" / one.file).read_text()
        assert text.count(one.old) == 1, one.area
        assert one.new != one.old, one.area
        assert all((ROOT / "tests" / name).exists() for name in one.tests.split()), one.area


@pytest.mark.exhaustive
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.area)
def test_the_short_tests_find_it(one: Mutation, tmp_path: pathlib.Path) -> None:
    """With the fault in a copy of the source at least one of the named tests fails, and not since none was found."""
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    broken = source / "thalweg" / one.file
    broken.write_text(broken.read_text().replace(one.old, one.new))
    paths = [str(source), str(ROOT / "lab"), str(ROOT)]
    try:
        done = run(paths, one.tests.split())
    except subprocess.TimeoutExpired:
        return  # a test that hangs finds it, too
    # A crash finds it, too.
    assert done.returncode == 1 or done.returncode < 0, done.stdout[-2_000:] + done.stderr[-2_000:]


def run(paths: list[str], tests: list[str]) -> subprocess.CompletedProcess[str]:
    """The tests with the sources that stand first in ``paths``."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        # The paths of the project would put its own source before the copy.
        + ["-o", f"pythonpath={' '.join(paths)}", "-o", "timeout=60"]
        + [f"tests/{name}" for name in tests],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
