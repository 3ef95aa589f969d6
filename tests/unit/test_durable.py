"""Writing that no kill, power cut or full disk can tear, on local disks and where renames do not replace."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state_fakes import FS, StrictMoves

from thalweg.checkpoint import durable, paths
from thalweg.checkpoint import record as records
from thalweg.checkpoint.record import next_record
from thalweg.errors import CheckpointError


class Killed(BaseException):
    """The process ended here."""


def calls_of(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """What is called of ``os`` from now on, each with the name of the file."""
    seen: list[tuple[str, str]] = []

    def watch(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(first: Any, *rest: Any, **more: Any) -> Any:
            place = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else first
            seen.append((name, os.path.basename(place)))
            return real(first, *rest, **more)

        return watched

    for name in names:
        monkeypatch.setattr(os, name, watch(name, getattr(os, name)))
    return seen


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_file_is_on_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content is synced, then it is named, then the folder is synced; new folders are synced, too."""
    seen = calls_of(monkeypatch, ("fsync", "replace", "mkdir"))
    paths.write_atomic(FS, f"{tmp_path}/a/b/c", b"one")
    monkeypatch.undo()
    temporary = next(name for call, name in seen if call == "replace")
    assert temporary.startswith("c.")
    assert seen == [
        ("mkdir", "a"), ("fsync", tmp_path.name), ("mkdir", "b"), ("fsync", "a"),
        ("fsync", temporary), ("replace", temporary), ("fsync", "b"),
    ]  # fmt: skip


@pytest.mark.parametrize("where", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "The disk is full"),
        (errno.EROFS, "mounted read-only"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "permissions"),
    ],
)
def test_a_write_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, number: int, says: str
) -> None:
    """The old file stays, no temporary file is left, and the error names file, reason and what to do."""
    path = f"{tmp_path}/commits/3.json"
    paths.write_atomic(FS, path, b"old")

    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(CheckpointError, match=says) as failed:
        paths.write_atomic(FS, path, b"new")
    monkeypatch.undo()
    text = str(failed.value)
    assert path in text
    assert os.strerror(number) in text
    assert "same checkpoint" in text
    assert os.listdir(tmp_path / "commits") == ["3.json"]
    assert paths.read_bytes(FS, path) == b"old"


def test_what_a_repeat_may_mend_stays_an_oserror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that does not answer is no verdict: Spark tries the task again; the file is named all the same."""

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=rf"cannot write {tmp_path}/x"):
        paths.write_atomic(FS, f"{tmp_path}/x", b"new")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint is refused, with folder and reason, and nothing is left in it."""

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CheckpointError, match=r"cannot write and rename a file.*No space left"):
        paths.probe(str(tmp_path))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_never_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """The first of two writers has the name, the second is told; also where a file cannot have two names."""
    if not links:

        def refuse(*_: Any) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    for fs in (FS, StrictMoves()):
        path = f"{tmp_path}/{fs.type_name}"
        assert paths.write_new(fs, path, b"one")
        assert not paths.write_new(fs, path, b"two")
        assert paths.read_bytes(fs, path) == b"one"
    assert sorted(os.listdir(tmp_path)) == ["hdfs", "local"]


def test_a_store_of_objects_is_written_in_one_piece(tmp_path: Path) -> None:
    """No temporary name, no rename; a new one is refused where there is one."""

    class Objects(StrictMoves):
        type_name = "s3"

        def move(self, src: str, dest: str) -> None:
            raise AssertionError("a rename is a copy there")

    path = f"{tmp_path}/x"
    paths.write_atomic(Objects(), path, b"one")
    assert not paths.write_new(Objects(), path, b"two")
    assert paths.read_bytes(Objects(), path) == b"one"


class Mortal(StrictMoves):
    """Ends the process at its n-th change."""

    def __init__(self, at: int) -> None:
        self.left = at

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def move(self, src: str, dest: str) -> None:
        self._step()
        super().move(src, dest)

    def delete_file(self, path: str) -> None:
        self._step()
        FS.delete_file(path)

    def open_output_stream(self, path: str) -> Any:
        self._step()
        return FS.open_output_stream(path)


def test_a_crash_at_any_step_loses_no_record(tmp_path: Path) -> None:
    """Where a rename does not replace, a reader finds the old record or the new one, whenever the writer dies."""
    one = next_record(None, 0, "one", [], {}, slots=1)
    two = next_record(None, 0, "two", [], {}, slots=1)
    found = []
    for at in itertools.count():
        root = f"{tmp_path}/{at}"
        records.write(StrictMoves(), root, one)
        try:
            records.write(Mortal(at), root, two)
            ended = True
        except Killed:
            ended = False
        seen = records.latest(StrictMoves(), root)
        assert seen in (one, two), at
        found.append(seen)
        assert records.batches(StrictMoves(), root) == [0]
        # The next try of the batch, whatever was left.
        records.write(StrictMoves(), root, two)
        assert records.latest(StrictMoves(), root) == two
        if ended:
            break
    assert (found[0], found[-1]) == (one, two)
    assert at >= 4


def test_deleting_takes_what_stepped_aside(tmp_path: Path) -> None:
    """What was deleted does not come back under its other name."""
    fs, path = StrictMoves(), f"{tmp_path}/x.json"
    (tmp_path / f"x.json{paths.ASIDE}").write_bytes(b"old")
    assert paths.read_bytes(fs, path) == b"old"
    assert paths.stems(fs, str(tmp_path), ".json") == ["x"]
    assert paths.delete(fs, path)
    assert paths.read_bytes(fs, path) is None
    assert not paths.delete(fs, path)


def test_syncing_what_others_wrote(tmp_path: Path) -> None:
    """A tree is synced to its own name; what is not there is no error."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("x")
    durable.sync_tree(str(tmp_path / "a"))
    durable.sync_tree(str(tmp_path / "none"))
    durable.sync_file(str(tmp_path / "none"))
