"""The parts of a checkpoint: Spark's log, the commit records and the state folder are of one history, or refused."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state_fakes import FS, Process

from thalweg.checkpoint import history, identity
from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.cleaning import clean, garbage
from thalweg.checkpoint.hosts import lease as leases
from thalweg.checkpoint.hosts.lease import Lease
from thalweg.checkpoint.hosts.spark_log import read_log
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.inspect import describe
from thalweg.checkpoint.manifest import Manifest
from thalweg.checkpoint.record import CommitRecord, next_record
from thalweg.errors import CheckpointError
from thalweg.spark.checkpoint.store import Store

QUERY = "5d3c"


def log_batch(checkpoint: Path, batch: int, *, done: bool = True, query: str = QUERY) -> None:
    """What Spark's log has of a batch."""
    spark = checkpoint / "spark"
    (spark / "sources" / "0").mkdir(parents=True, exist_ok=True)
    for log in ("offsets", "commits")[: 1 + done]:
        (spark / log).mkdir(exist_ok=True)
        (spark / log / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{batch}}}\n-\n7')
    (spark / "sources" / "0" / str(batch)).write_text("v1")
    (spark / "metadata").write_text(json.dumps({"id": query}))


def run_batch(checkpoint: Path, batch: int, state: Path | None = None, **log: Any) -> CommitRecord:
    """A batch with its state, record and log, as a query leaves them."""
    store = opened(checkpoint, state)
    found = store.history(batch, log.get("query", QUERY))
    segment = Process(store.root).run(found.before, [0], {0: {1: (batch, "")}}, batch=batch)
    record = next_record(
        found.before, batch, f"try {batch}", [segment], {}, slots=1, extra=store.said(QUERY)
    )
    log_batch(checkpoint, batch, **log)
    store.commit(record, found)
    keep = [record] if found.before is None else [found.before, record]
    clean(store.fs, store.root, keep)
    return record


def opened(checkpoint: Path, state: Path | None = None) -> Store:
    """The store of a checkpoint, which is free again."""
    store = Store.open(str(checkpoint), None if state is None else str(state))
    store.lease.give_back()
    return store


def used(folder: Path, batches: int = 4, state: Path | None = None) -> Path:
    """A checkpoint after so many batches."""
    for batch in range(batches):
        run_batch(folder, batch, state)
    return folder


def refused(checkpoint: Path, says: str, state: Path | None = None) -> str:
    """The text of what start() refuses: at most ten lines, and it changes nothing."""
    before = {path: path.read_bytes() for path in checkpoint.rglob("*.json")}
    with pytest.raises(CheckpointError, match=says) as failed:
        opened(checkpoint, state)
    text = str(failed.value)
    assert len(text.splitlines()) <= 10
    assert {path: path.read_bytes() for path in checkpoint.rglob("*.json")} == before
    return text


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on the disk when is not asked here, and many small files take long to sync."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


# -- Spark's log and the records -------------------------------------------------------------------------


@pytest.mark.parametrize("found", [[2], [2, 3], [3], [0, 1, 2, 3]])
def test_a_batch_finds_the_record_before_it(found: list[int]) -> None:
    """Batch 3 runs on record 2, also when it has a record of its own from an earlier try; else it is refused."""
    if 2 in found:
        history.require(found, 3, "root")
    else:
        with pytest.raises(CheckpointError, match=r"root/commits/2\.json is missing.*batches 3\."):
            history.require(found, 3, "root")


def test_the_first_batch_finds_nothing() -> None:
    """Batch 0 starts from nothing and may have a record of an earlier try, but no later one."""
    history.require([], 0, "root")
    history.require([0], 0, "root")
    with pytest.raises(CheckpointError, match="after batch 1, but Spark starts anew"):
        history.require([0, 1], 0, "root")
    with pytest.raises(CheckpointError, match="no commit record at all"):
        history.require([], 1, "root")
    with pytest.raises(CheckpointError, match="after batch 5, but Spark goes on with batch 4"):
        history.require([3, 4, 5], 4, "root")


def _forget(*names: str) -> Callable[[Path], None]:
    def forget(checkpoint: Path) -> None:
        for name in names:
            path = checkpoint / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return forget


def _empty_records(checkpoint: Path) -> None:
    for one in (checkpoint / "thalweg" / "commits").iterdir():
        one.unlink()


def _another_query(checkpoint: Path) -> None:
    (checkpoint / "spark" / "metadata").write_text(json.dumps({"id": "other"}))


def _older_copy(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "thalweg")
    older = used(checkpoint.parent / "older", 2)
    shutil.copytree(older / "thalweg", checkpoint / "thalweg")


def _change(checkpoint: Path) -> None:
    path = checkpoint / "thalweg" / "commits" / "3.json"
    path.write_bytes(path.read_bytes().replace(b'"slots":1', b'"slots":2'))


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing record": (
        _forget("thalweg/commits/3.json"),
        r"3\.json is missing; there are records of the batches 2\.",
    ),
    "no records": (_empty_records, "no commit record at all"),
    "our part deleted": (_forget("thalweg"), "no commit record at all"),
    "our part an older copy": (_older_copy, r"3\.json is missing"),
    "Spark's part deleted": (_forget("spark"), "after batch 3, but Spark starts anew, at batch 0"),
    "Spark's log rolled back": (
        _forget("spark/offsets/3", "spark/offsets/2", "spark/commits/3", "spark/commits/2"),
        "after batch 3, but Spark goes on with batch 2",
    ),
    "Spark's part of another query": (_another_query, "of the query 5d3c, now other"),
    "Spark's name of the query lost": (_forget("spark/metadata"), "no file metadata"),
    "a changed record": (_change, "checksum differs"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_parts_that_do_not_fit(tmp_path: Path, what: str) -> None:
    """Refused at the start, saying what is missing and what to do."""
    checkpoint = used(tmp_path / "ck")
    harm, says = FAULTS[what]
    harm(checkpoint)
    text = refused(checkpoint, says)
    assert "copy" in text


def test_a_deleted_spark_part_after_one_batch(tmp_path: Path) -> None:
    """Also where the one record could be that of an earlier try of batch 0."""
    checkpoint = used(tmp_path / "ck", 1)
    shutil.rmtree(checkpoint / "spark")
    refused(checkpoint, "folder spark was deleted or replaced")


@pytest.mark.parametrize("missing", ["commits/3", "commits/3 offsets/3", ""])
def test_what_a_crash_leaves_is_no_fault(tmp_path: Path, missing: str) -> None:
    """Spark may lose its log of the last batch, which runs again from the record before."""
    checkpoint = used(tmp_path / "ck")
    _forget(*(f"spark/{one}" for one in missing.split()))(checkpoint)
    store = opened(checkpoint)
    batch = 3 if missing else 4
    assert read_log(Folder.at(str(checkpoint / "spark"))) == (batch, QUERY)
    found = store.history(batch, QUERY)
    assert found.before is not None
    assert found.before.batch == batch - 1
    assert (found.retried is not None) == bool(missing)
    record = run_batch(checkpoint, batch)
    assert records.latest(FS, store.root) == record


def test_a_record_of_another_checkpoint(tmp_path: Path) -> None:
    """It is refused by the batch that would start from it."""
    one, other = used(tmp_path / "one"), used(tmp_path / "other")
    shutil.copy(other / "thalweg/commits/3.json", one / "thalweg/commits/3.json")
    store = opened(one)
    with pytest.raises(CheckpointError, match="was written for another checkpoint"):
        store.history(4, QUERY)
    with pytest.raises(CheckpointError, match="another Spark part"):
        opened(other).history(4, "x")


def test_a_checkpoint_of_before_there_were_identities(tmp_path: Path) -> None:
    """It is given one at its next start, and its records, which say nothing and have no checksum, are taken."""
    checkpoint = used(tmp_path / "ck")
    (checkpoint / "thalweg" / identity.FILE).unlink()
    for path in (checkpoint / "thalweg" / "commits").iterdir():
        plain = json.loads(path.read_bytes())
        del plain["checksum"], plain["extra"]["checkpoint"], plain["extra"]["query"]
        path.write_text(json.dumps(plain))
    run_batch(checkpoint, 4)
    store = opened(checkpoint)
    assert store.id
    newest = records.latest(FS, store.root)
    assert newest is not None
    assert (newest.batch, newest.extra["checkpoint"]) == (4, store.id)


def test_records_without_their_meaning(tmp_path: Path) -> None:
    """Without thalweg.json nobody can tell whether a flow reads the state as it was written."""
    checkpoint = used(tmp_path / "ck", 2)
    with pytest.raises(CheckpointError, match=r"thalweg\.json is missing"):
        manifests.require_new(FS, str(checkpoint / "thalweg"))


def test_sparks_list_of_files_is_lost(tmp_path: Path) -> None:
    """Without it Spark would take files again, or none: what its offsets name must be there."""
    checkpoint = used(tmp_path / "ck", 2)
    opened(checkpoint)
    (checkpoint / "spark/sources/0/1").rename(checkpoint / "spark/sources/0/1.compact")
    opened(checkpoint)
    shutil.rmtree(checkpoint / "spark/sources")
    refused(checkpoint, r"sources/0/1 is missing")


def test_the_log_is_on_the_disk_before_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record is never ahead of what Spark has logged of its batch: offsets, lists of files, the query's name."""
    store = opened(used(tmp_path / "ck", 1))
    synced: list[str] = []

    def note(descriptor: int) -> None:
        path = os.path.realpath(f"/proc/self/fd/{descriptor}")
        synced.append(os.path.relpath(path, tmp_path / "ck"))

    log_batch(tmp_path / "ck", 1, done=False)
    (tmp_path / "ck/spark/offsets/.1.crc").touch()
    found = store.history(1, QUERY)
    monkeypatch.setattr(os, "fsync", note)
    store.commit(next_record(found.before, 1, "a", [], {}, slots=1), found)
    first = next(i for i, path in enumerate(synced) if path.startswith("thalweg/commits"))
    wanted = {"metadata", "offsets/1", "offsets/.1.crc", "offsets", "sources/0/1", "sources/0"}
    assert {f"spark/{one}" for one in wanted} <= set(synced[:first])
    # A retry of the batch, and the next one without new files, sync what is new.
    synced.clear()
    store.commit(next_record(None, 1, "a", [], {}, slots=1), store.history(1, QUERY))
    assert not [path for path in synced if path.startswith("spark")]


# -- the state folder ------------------------------------------------------------------------------------


def test_a_state_folder_that_is_empty(tmp_path: Path) -> None:
    """A disk that is not mounted is no state; when it is there again, the query goes on."""
    checkpoint, state = used(tmp_path / "ck", state=tmp_path / "state"), tmp_path / "state"
    state.rename(tmp_path / "unmounted")
    state.mkdir()
    text = refused(checkpoint, "not mounted", state)
    assert str(state) in text
    assert not (state / identity.FILE).exists()
    shutil.rmtree(state)
    (tmp_path / "unmounted").rename(state)
    run_batch(checkpoint, 4, state)


def test_a_restart_without_the_state_folder(tmp_path: Path) -> None:
    """Without state=, with another, or with one where there was none: the right one is named."""
    checkpoint = used(tmp_path / "ck", state=tmp_path / "state")
    assert str(tmp_path / "state") in refused(checkpoint, "is in another folder")
    assert str(tmp_path / "state") in refused(checkpoint, "Start with state=", tmp_path / "new")
    inside = used(tmp_path / "inside")
    refused(inside, "Start without state=", tmp_path / "new")


def test_two_checkpoints_with_one_state_folder(tmp_path: Path) -> None:
    """The second is refused, before and after its own first batch, and the first goes on."""
    state = tmp_path / "state"
    one = used(tmp_path / "one", state=state)
    (tmp_path / "two").mkdir()
    assert str(one) in refused(tmp_path / "two", "belongs to the checkpoint", state)
    two = used(tmp_path / "three", state=tmp_path / "other")
    refused(two, "belongs to the checkpoint", state)
    run_batch(one, 4, state)


def test_folders_that_were_moved(tmp_path: Path) -> None:
    """Both parts may be moved; a copy beside the original may not have its state, too."""
    state = tmp_path / "state"
    used(tmp_path / "ck", state=state)
    shutil.copytree(tmp_path / "ck", tmp_path / "copy")
    refused(tmp_path / "copy", "belongs to the checkpoint", state)
    (tmp_path / "ck").rename(tmp_path / "moved")
    state.rename(tmp_path / "elsewhere")
    run_batch(tmp_path / "moved", 4, tmp_path / "elsewhere")
    said = identity.read(Folder.at(str(tmp_path / "moved" / "thalweg")))
    assert said is not None
    assert (said.checkpoint, said.state) == (str(tmp_path / "moved"), str(tmp_path / "elsewhere"))
    opened(Path(f"file:{tmp_path}/moved"), Path(f"file:{tmp_path}/elsewhere"))
    (tmp_path / "link").symlink_to(tmp_path / "moved")
    opened(tmp_path / "link", tmp_path / "elsewhere")
    inside = used(tmp_path / "inside")
    inside.rename(tmp_path / "inside moved")
    run_batch(tmp_path / "inside moved", 4)


def test_looking_into_a_checkpoint_whose_state_is_elsewhere(tmp_path: Path) -> None:
    """The checkpoint's folder is enough: it says where the state is."""
    state = tmp_path / "state"
    state.mkdir()
    manifests.write(FS, str(state), Manifest("f", "0.1", {}))
    used(tmp_path / "ck", 2, state)
    assert (describe(str(tmp_path / "ck")).batch, describe(str(state)).batch) == (1, 1)


def test_a_start_that_ended_between_the_two_parts(tmp_path: Path) -> None:
    """The state folder says it belongs to a checkpoint that says nothing yet: it does."""
    state = tmp_path / "state"
    store = opened(tmp_path / "ck", state)
    (tmp_path / "ck" / "thalweg" / identity.FILE).unlink()
    assert opened(tmp_path / "ck", state).id == store.id


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"format": 9}', b"null"])
def test_a_torn_identity(tmp_path: Path, content: bytes) -> None:
    """It is refused by name."""
    checkpoint = used(tmp_path / "ck", 1)
    (checkpoint / "thalweg" / identity.FILE).write_bytes(content)
    refused(checkpoint, rf"{identity.FILE} cannot be read")


# -- two drivers -----------------------------------------------------------------------------------------


def test_a_driver_that_was_overtaken(tmp_path: Path) -> None:
    """Batch 4 is planned; another driver commits 4, or 4 and 5, or 3 anew: refused, and what is there stays."""
    for name, others in {"same": (4,), "next": (4, 5), "before": (3,)}.items():
        checkpoint = used(tmp_path / name)
        store = opened(checkpoint)
        found = store.history(4, QUERY)
        if others == (3,):
            _forget("spark/commits/3")(checkpoint)
            again = store.history(3, QUERY)
            last = next_record(again.before, 3, "again", [], {}, slots=1, extra=store.said(QUERY))
            store.commit(last, again)
        else:
            for batch in others:
                last = run_batch(checkpoint, batch)
        with pytest.raises(CheckpointError, match=f"record of batch {others[-1]} was written"):
            store.require_alone(found, 4)
        mine = next_record(found.before, 4, "mine", [], {}, slots=1)
        with pytest.raises(CheckpointError, match="another query"):
            store.commit(mine, found)
        assert records.latest(FS, store.root) == last


def test_of_two_records_the_first_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when both drivers have looked before either wrote."""
    store = opened(used(tmp_path / "ck"))
    found = store.history(4, QUERY)
    one, two = (next_record(found.before, 4, a, [], {}, slots=1) for a in ("one", "two"))
    monkeypatch.setattr(Store, "require_alone", lambda *_: None)
    store.commit(one, found)
    with pytest.raises(CheckpointError, match="another query"):
        store.commit(two, found)
    assert records.read(FS, store.root, 4) == one


def test_cleaning_leaves_what_newer_records_name(tmp_path: Path) -> None:
    """A driver that was overtaken deletes nothing: neither behind newer records nor behind another's of its batch."""
    checkpoint = used(tmp_path / "ck")
    root = str(checkpoint / "thalweg")
    old = [records.read(FS, root, batch) for batch in (2, 3)]
    known = [one for one in old if one is not None]
    run_batch(checkpoint, 4)
    assert garbage(FS, root, known) == []
    newest = records.read(FS, root, 4)
    assert newest is not None
    mine = dataclasses.replace(newest, attempt="mine", chains={})
    assert garbage(FS, root, [known[1], mine]) == []


def test_the_lock(tmp_path: Path) -> None:
    """Checkpoint and state folder are locked, each against any query that shares it."""
    home, state, other = (Folder.at(str(tmp_path / name)) for name in ("ck/thalweg", "state", "x"))
    store = Store.open(str(tmp_path / "ck"), str(tmp_path / "state"))
    for shared in ([home, other], [other, state], [home]):
        with pytest.raises(CheckpointError, match=r"in use.*in this process"):
            Lease("ck", shared).take()
    Lease("ck", [other]).take()
    leases._HELD[str(tmp_path / "x" / "lock")][0].give_back()
    store.lease.give_back()
    # Queries that other tests left running have theirs.
    assert not [one for one in leases._HELD if one.startswith(str(tmp_path))]
    opened(tmp_path / "ck", tmp_path / "state")


def test_a_lock_of_another_process(tmp_path: Path) -> None:
    """It is refused as long as that process lives."""
    used(tmp_path / "ck", 1)
    program = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(1, flush=True); sys.stdin.read()"
    command = [sys.executable, "-S", "-c", program, str(tmp_path / "ck/thalweg/lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        refused(tmp_path / "ck", "in another process")
        other.kill()
    opened(tmp_path / "ck")


def test_a_lock_file_that_was_deleted(tmp_path: Path) -> None:
    """The one who has the lock takes it anew, or learns that another has it."""
    folder = Folder.at(str(tmp_path / "ck" / "thalweg"))
    first, second = Lease("ck", [folder]), Lease("ck", [folder])
    first.take()
    (tmp_path / "ck/thalweg/lock").unlink()
    first.hold()
    with pytest.raises(CheckpointError, match="in use"):
        second.take()
    (tmp_path / "ck/thalweg/lock").unlink()
    leases._HELD.clear()
    second.take()
    with pytest.raises(CheckpointError, match="in use"):
        first.hold()
    second.give_back()


def test_a_lock_that_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, once, with the folder."""

    def none(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(leases.fcntl, "flock", none)
    with caplog.at_level(logging.WARNING, "thalweg"):
        store = Store.open(str(tmp_path / "ck"))
        store.lease.take()
    (said,) = [one.getMessage() for one in caplog.records]
    assert f"{tmp_path}/ck/thalweg cannot be locked" in said
    store.lease.give_back()


def test_the_lock_stands_before_the_checks(tmp_path: Path) -> None:
    """A start that is refused leaves the checkpoint free."""
    checkpoint = used(tmp_path / "ck")
    (checkpoint / "thalweg/commits/3.json").unlink()
    with pytest.raises(CheckpointError, match="missing"):
        Store.open(str(checkpoint))
    # Queries that other tests left running have theirs.
    assert not [one for one in leases._HELD if one.startswith(str(tmp_path))]
    assert os.listdir(checkpoint / "thalweg/commits") == ["2.json"]
