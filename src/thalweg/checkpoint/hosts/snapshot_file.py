"""The last snapshot of a query beside its checkpoint, for who looks from another process, or after a crash.

``<checkpoint>/snapshot.json`` has the snapshot and which process wrote it. It is replaced as a whole, and is no part of
the checkpoint: it may be deleted, and a run that cannot write it goes on.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import time
from typing import Any, Final

import orjson
import psutil

from thalweg.checkpoint.paths import absolute, is_local, join, read_bytes, resolve, write_atomic
from thalweg.errors import BuildError, CheckpointError, ThalwegError
from thalweg.snapshot import Snapshot

_LOG: Final = logging.getLogger("thalweg")
NAME: Final = "snapshot.json"
#: How often it is written at most, seconds: on a disk of this machine, and elsewhere, where each is a request.
EVERY_S: Final = 1.0
ELSEWHERE_S: Final = 15.0


@dataclasses.dataclass(frozen=True, slots=True)
class FoundSnapshot:
    """A snapshot that was found beside a checkpoint.

    Attributes:
        snapshot: what the query did.
        age_s: how long ago, seconds.
        pid, machine: the process that wrote it.
        is_alive: whether that still runs; None where it is on another machine.
    """

    snapshot: Snapshot
    age_s: float
    pid: int
    machine: str
    is_alive: bool | None


class SnapshotFile:
    """Writes snapshots beside a checkpoint; one thread at a time."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._fs, self._root = resolve(location)
        self.every_s = EVERY_S if is_local(self._fs) else ELSEWHERE_S
        self._failed = False

    def write(self, snapshot: Snapshot) -> None:
        """Replaces the file; where that fails it says so once."""
        content = b'{"process":%s,"snapshot":%s}' % (
            orjson.dumps(_myself()),
            snapshot.to_json().encode(),
        )
        try:
            if is_local(self._fs):
                _replace(join(self._root, NAME), content)
            else:
                write_atomic(self._fs, join(self._root, NAME), content)
        except (OSError, ThalwegError) as error:
            if not self._failed:
                self._failed = True
                _LOG.warning("no snapshot is written beside %s: %s", self._location, error)


def _replace(path: str, content: bytes) -> None:
    """Without a sync: what a power cut would lose is of no use after it."""
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def snapshot_file(location: str) -> SnapshotFile | None:
    """The file of a checkpoint; None where only Spark can open its folder."""
    try:
        return SnapshotFile(location)
    except CheckpointError as error:
        _LOG.info("no snapshot is written beside %s: %s", location, error)
        return None


def read_snapshot(location: str) -> FoundSnapshot:
    """The last snapshot of the query on a checkpoint.

    Raises:
        CheckpointError: there is none.
    """
    fs, root = resolve(absolute(location))
    content = read_bytes(fs, join(root, NAME))
    if content is None:
        raise CheckpointError(
            f"{location} has no {NAME}: no query of this release has run on that checkpoint yet"
        )
    try:
        given = orjson.loads(content)
        process = given["process"]
        snapshot = Snapshot.from_json(orjson.dumps(given["snapshot"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, BuildError) as error:
        raise CheckpointError(f"{location}/{NAME}: {error}") from None
    age_s = max(0.0, time.time() - (snapshot.at_s or 0.0))
    return FoundSnapshot(snapshot, age_s, process["pid"], process["machine"], _is_alive(process))


def _myself() -> dict[str, Any]:
    pid = os.getpid()
    began = psutil.Process(pid).create_time()
    return {"pid": pid, "machine": socket.gethostname(), "began_s": began}


def _is_alive(process: dict[str, Any]) -> bool | None:
    """Whether the process is there, and not another one that got its number."""
    if process["machine"] != socket.gethostname():
        return None
    try:
        found = psutil.Process(process["pid"])
        same = abs(found.create_time() - process["began_s"]) < 1.0
        return bool(same and found.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
