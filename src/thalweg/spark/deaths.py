"""Which process of Spark's died, and by which signal: its JVM, a Python worker, an executor."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

#: The folder in which the daemon of Python workers (``worker_daemon``) notes who was ended by a signal.
NOTES: Final = "spark.executorEnv.THALWEG_WORKER_DEATHS"

_WORKER: Final = "Python worker exited unexpectedly"
_EXECUTOR: Final = re.compile(
    r"ExecutorLostFailure \((executor \S+) exited.*?(?:exit(?:ed with)? code:? (\d+))", re.DOTALL
)
#: How long the system may take to say how a process ended that is known to be gone.
_WAIT_S: Final = 2.0
_LOOK_S: Final = 0.02
_OF_MEMORY: Final = (
    "So the system ends what takes too much memory (dmesg says it), and so does kill -9"
)
_MEANINGS: Final = {
    signal.SIGKILL: _OF_MEMORY,
    signal.SIGTERM: "So somebody, or a system that shuts down, ends a process",
    signal.SIGSEGV: "So native code ends that writes where it may not: a library's, or compiled code",
    signal.SIGBUS: "So a process ends whose mapped file was cut, or whose shared memory is full",
    signal.SIGFPE: "So native code ends that divides by zero",
    signal.SIGILL: "So code ends that was compiled for another processor",
    signal.SIGABRT: "So a library ends the process when it cannot go on; its last words are on stderr",
}


def death(error: BaseException, text: str, since_s: float) -> str | None:
    """Who died, in a sentence or two; None where nobody did.

    Args:
        error: what was raised.
        text: all that it says.
        since_s: the wall time before which a worker's death is an old story.
    """
    found = _jvm_death(error)
    if found is None and _WORKER in text:
        found = _worker_death(since_s)
    if found is None and (lost := _EXECUTOR.search(text)) is not None:
        return _told(f"Spark's {lost[1]}", int(lost[2]) - 128)
    return found


def jvm_is_gone(error: BaseException | None = None) -> bool:
    """Whether Spark's JVM has ended, as far as that is known in this process, which started it."""
    return _jvm_code(error) is not None


def _jvm_code(error: BaseException | None) -> int | None:
    """The exit code of the JVM; after an error of the connection it is waited for."""
    gateway: Any = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return None
    if isinstance(error, (Py4JNetworkError, OSError, EOFError)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_WAIT_S)
    return process.poll()


def _jvm_death(error: BaseException) -> str | None:
    code = _jvm_code(error)
    if code is None:
        return None
    who = f"Spark's JVM (process {SparkContext._gateway.proc.pid})"  # type: ignore[union-attr]
    if code >= 0:
        return f"{who} ended with exit code {code}"
    return _told(who, -code)


def _worker_death(since_s: float) -> str:
    """What the daemon has noted, which may be a moment behind what Spark says."""
    context = SparkContext._active_spark_context
    folder = None if context is None else context.getConf().get(NOTES)
    deadline = time.monotonic() + _WAIT_S
    while folder and time.monotonic() < deadline:
        newest = _newest_note(Path(folder), since_s)
        if newest is not None:
            return _told(
                f"a Python worker of Spark (process {newest.name})", int(newest.read_text())
            )
        time.sleep(_LOOK_S)
    return (
        "a Python worker of Spark ended unexpectedly: it was killed (kill -9, or for want of memory, which dmesg says),"
        " it crashed, or it left by os._exit"
    )


def _newest_note(folder: Path, since_s: float) -> Path | None:
    notes = [(one.stat().st_mtime, one) for one in folder.glob("*[0-9]")]
    return max((found for found in notes if found[0] >= since_s), default=(0.0, None))[1]


def _told(who: str, number: int) -> str:
    try:
        name, meaning = signal.Signals(number).name, _MEANINGS.get(signal.Signals(number))
    except ValueError:
        return f"{who} ended"
    return f"{who} was ended by {name}" + (f". {meaning}" if meaning else "")
