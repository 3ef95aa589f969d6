"""Spark's classes as an archive that Java maps into memory: reading and checking them is half of a start's CPU time.

Java (13 and newer) writes the archive when it ends (``-XX:ArchiveClassesAtExit``), once for each Java and Spark, which
takes some seconds behind the end of the program. The next session takes it. Java itself refuses an archive that is
another version's, or of other jars, and goes on without. What lies in it is executed: it is kept where compiled
code is, in a folder that nobody else can write.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark
from pyspark import SparkContext

from thalweg.jit.folder import own_folder

_LOG: Final = logging.getLogger("thalweg")
#: A new archive that is not whole after so long never will be, seconds.
_GIVEN_UP_S: Final = 3600.0
#: A session that did nothing leaves a smaller one, which would be taken for ever.
_LEAST_BYTES: Final = 150 << 20
#: Java's warnings of archives that it does not take are not the user's business.
_QUIET: Final = "-Xlog:cds*=off"
#: Options of the user's by which Java's archives are already spoken for.
_SPOKEN_FOR: Final = ("-Xshare", "SharedArchive", "ArchiveClasses", "RecordDynamicDump")


def archive_options(java: str, asked: str) -> str:
    """The options by which Java takes the archive, or makes it; "" where there is to be none.

    Args:
        java: which Java it is, with its version.
        asked: the user's own options.
    """
    folder = own_folder()
    if folder is None or any(word in asked for word in _SPOKEN_FOR):
        return ""
    stem = f"spark-{_digest(java)}"
    archive = adopt(folder, stem)
    if archive is not None:
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    if " " in str(folder):
        return ""
    _LOG.info(
        "Java keeps Spark's classes for faster starts: it works on a little after the end, this once"
    )
    atexit.register(_let_go)
    return f"-XX:ArchiveClassesAtExit={folder / stem}.{uuid.uuid4().hex[:8]}.new {_QUIET}"


def _let_go() -> None:
    """Closes Java's output, so that who reads this program's does not wait until the archive is written."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    with contextlib.suppress(Exception):  # Java has gone
        for stream in (gateway.jvm.System.out, gateway.jvm.System.err):
            stream.close()


def adopt(folder: Path, stem: str, least_bytes: int = _LEAST_BYTES) -> Path | None:
    """The archive of that name, made of one that Java has finished since; None if there is none yet."""
    archive = folder / f"{stem}.jsa"
    for new in sorted(folder.glob(f"{stem}.*.new")):
        try:
            if _is_whole(new):
                if new.stat().st_size >= least_bytes and not archive.exists():
                    os.replace(new, archive)
                else:
                    new.unlink()
            elif time.time() - new.stat().st_mtime > _GIVEN_UP_S:
                new.unlink()
        except FileNotFoundError:  # another process was faster
            continue
    try:
        os.utime(archive)  # used now: the folder is cleared by that
    except OSError:
        return None
    return archive


def _is_whole(new: Path) -> bool:
    """Java writes the head last."""
    with open(new, "rb") as file:
        return any(file.read(4))


def _digest(java: str) -> str:
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    parts: Sequence[str] = [java, pyspark.__version__, str(home), *_jars(home / "jars")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _jars(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(f"{one.name} {one.stat().st_mtime_ns}" for one in entries)
    except OSError:
        return []
