"""Wheel and sdist: what is inside, and that it works away from the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

FLOW = """\
from typing import NamedTuple

import thalweg as tw


class Row(NamedTuple):
    key: str
    n: int


@tw.state
class Sum:
    n: int = 0


def add(total: Sum, row: Row) -> Row:
    total.n += row.n
    return Row(row.key, total.n)


flow = tw.Flow("sums")
flow.source("rows", Row).filter(lambda row: row.n > 0).key_by("key").process(add, state=Sum).sink("sums")
"""
RESULT = """
    import thalweg as tw
    from thalweg import data
    from sums import Row, flow

    assert len(data.path("nyc_flights").read_bytes()) > 100_000
    result = tw.run(flow, {"rows": [Row("a", 1), Row("b", 0), Row("a", 2)]})
    assert result.rows("sums") == [Row("a", 1), Row("a", 3)]
    assert flow.explain().count("compiled") == 2, flow.explain()
    with tw.start(page=True) as running:
        assert "/vendor/uPlot.iife.min.js" in running.page.files
    print(tw.__file__)
"""


class Built(NamedTuple):
    """Both distributions, and the wheel that the sdist gives."""

    wheel: Path
    sdist: Path
    from_sdist: Path


def hatch(source: Path, target: Path, *what: str) -> None:
    """Builds as pip does, by the build backend, which is installed already."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *what, "-d", str(target)],
        cwd=source, check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    pytest.importorskip("hatchling", reason="needs hatchling, which the dev extra brings")
    folder = tmp_path_factory.mktemp("built")
    hatch(ROOT, folder / "dist", "-t", "wheel", "-t", "sdist")
    (wheel,), (sdist,) = (list((folder / "dist").glob(one)) for one in ("*.whl", "*.tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    hatch(source, folder / "again", "-t", "wheel")
    return Built(wheel, sdist, next((folder / "again").glob("*.whl")))


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {one: archive.read(one) for one in archive.namelist()}


@pytest.mark.merge
def test_a_wheel_has_the_package_and_nothing_else(built: Built) -> None:
    """Each file of the package, types, data and the page's vendored files with their licences; no tests, no lab."""
    found = contents(built.wheel)
    package = ROOT / "src" / "thalweg"
    wanted = {
        f"thalweg/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    info = {one for one in found if one.partition("/")[0].endswith(".dist-info")}
    assert set(found) - info == wanted
    vendor = "thalweg/page/static/vendor/"
    assert {"thalweg/py.typed", f"{vendor}LICENSES.txt", f"{vendor}uPlot.iife.min.js"} <= wanted
    assert any(one.startswith("thalweg/data/nyc_flights/") for one in wanted)
    (licences,) = {one.partition("/")[0] for one in info}
    assert {one.partition("licenses/")[2] for one in info if "/licenses/" in one} == {
        "LICENSE", "NOTICE", f"src/{vendor}LICENSES.txt",
    }  # fmt: skip
    assert b"thalweg = thalweg.cli:main" in found[f"{licences}/entry_points.txt"]


@pytest.mark.merge
def test_an_sdist_is_what_the_wheel_is_made_of(built: Built) -> None:
    """No tests, no lab, no site; the wheel that it gives is the same, byte for byte."""
    with tarfile.open(built.sdist) as archive:
        tops = {one.partition("/")[2].partition("/")[0] for one in archive.getnames()}
    assert tops - {""} == {
        "src", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "requirements.lock", "PKG-INFO",
        ".gitignore",
    }  # fmt: skip
    assert contents(built.from_sdist) == contents(built.wheel)


@pytest.mark.merge
def test_it_works_away_from_the_repository(built: Built, tmp_path: Path) -> None:
    """Installed into an empty folder: the command, a result in Python, and one from the command line."""
    site, work = tmp_path / "site", tmp_path / "work"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(site), str(built.from_sdist)],
        check=True,
    )
    work.mkdir()
    (work / "sums.py").write_text(FLOW)
    (work / "rows.csv").write_text("key,n\na,1\nb,0\na,2\n")
    # Before all that the tests' own environment has, the package in its source folder included.
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=work, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    command = str(site / "bin" / "thalweg")
    assert run(command, "--version").strip() == f"thalweg {_version()}"
    place = run(sys.executable, "-c", textwrap.dedent(RESULT)).strip()
    assert Path(place) == site / "thalweg" / "__init__.py"
    given = ("run", "sums.py", "--input", "rows.csv", "--once", "--engine", "local")
    run(command, *given, "--output", "out,format=csv")
    (written,) = (work / "out").rglob("*.csv")
    assert written.read_text().replace('"', "").split() == ["key,n", "a,1", "a,3"]


def _version() -> str:
    from thalweg.version import __version__

    return __version__
