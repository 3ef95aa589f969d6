"""One cluster for all figures that need one: a process that starts with the first of them and ends with the last."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import thalweg
from thalweg_lab import network
from thalweg_lab.figures.caneill import runs
from thalweg_lab.figures.caneill.measured import CaneillSetting, Found, found_of
from thalweg_lab.figures.caneill.troubles import HostTrouble, trouble_of
from thalweg_lab.figures.contract import CannotMeasureHere, Progress

_STOP_S: Final = 30.0
_held: list[_ClusterProcess] = []


def measured(setting: CaneillSetting, tell: Progress) -> Found:
    """What a setting gives on the cluster, which is started if it is not there.

    Raises:
        CannotMeasureHere: there is no Java, or links are to have a rate and nobody here may give them one.
        RuntimeError: with what the process said, where it failed.
    """
    require_cluster(needs_rates=setting.gbit_s is not None)
    return found_of(_process().ask(setting, tell))


def befallen(what: str, tell: Progress) -> HostTrouble:
    """What comes of one of :data:`thalweg_lab.figures.caneill.troubles.TROUBLES`.

    Raises:
        CannotMeasureHere, RuntimeError: as :func:`measured`.
    """
    require_cluster(needs_rates=True)
    return trouble_of(_process().ask(what, tell))


def _process() -> _ClusterProcess:
    if not _held or not _held[0].is_alive:
        _held[:] = [_ClusterProcess()]
    return _held[0]


def require_cluster(*, needs_rates: bool) -> None:
    """Says what a machine lacks.

    Args:
        needs_rates: whether links are to have one.

    Raises:
        CannotMeasureHere: there is no Java, or there are no network namespaces.
    """
    from thalweg.spark.cluster.java import JavaNotFound, prepare_java

    try:
        prepare_java()
    except JavaNotFound as error:
        raise CannotMeasureHere(str(error).splitlines()[0]) from error
    if needs_rates and not network.is_possible():
        raise CannotMeasureHere(
            "links of a given rate need Linux with network namespaces, ip and tc"
        )


class _ClusterProcess:
    """The process of :mod:`thalweg_lab.figures.caneill.runs`."""

    def __init__(self) -> None:
        homes = [
            str(Path(one).resolve().parents[1]) for one in (thalweg.__file__, network.__file__)
        ]
        paths = os.pathsep.join([*homes, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._wrong = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by close)
        command = [sys.executable, "-m", runs.__name__]
        self._child = subprocess.Popen(
            network.own_network(command) if network.is_possible() else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._wrong,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )
        atexit.register(self.close)

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._child.poll() is None

    def ask(self, asked: CaneillSetting | str, tell: Progress) -> Any:
        """What it finds; when this process is interrupted, it ends, too."""
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(asked) + "\n")
            self._child.stdin.flush()
            for line in self._child.stdout:
                said = json.loads(line)
                if "found" in said:
                    return said["found"]
                tell(said["say"])
        except BrokenPipeError:
            pass
        except BaseException:
            self.close()
            raise
        self._child.wait()
        self._wrong.seek(0)
        raise RuntimeError(f"the cluster's process failed:\n{self._wrong.read()[-4_000:]}")

    def close(self) -> None:
        """Ends the process, which ends the cluster."""
        if self.is_alive and self._child.stdin is not None:
            with contextlib.suppress(OSError):
                self._child.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_STOP_S)
            self._child.terminate()
            self._child.wait()
        self._wrong.close()
