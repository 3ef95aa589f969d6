"""Tasks of one machine pass rows on by files: who has what, what arrives, and what becomes of it when one fails."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import random
import time
from pathlib import Path

import pytest

from thalweg.errors import CheckpointError
from thalweg.spark.tasks import mailboxes
from thalweg.spark.tasks.mailboxes import Mailboxes, MailboxStopped, StageUnit
from thalweg.spark.tasks.transport import Blob
from thalweg.spark.told import require_all

INPUT, FIRST = StageUnit(0, 0), StageUnit(1, 0)


def blob(number: int, data: bytes) -> Blob:
    return Blob(1, 0, ("chunk", "clock", "step")[number % 3], number, -number, 7, data)


def test_each_unit_has_one_owner(tmp_path: Path) -> None:
    """Whoever asks for slots gets the first that is free; together the tasks get each once."""
    with Mailboxes(str(tmp_path), 0) as one, Mailboxes(str(tmp_path), 1) as other:
        assert one.claim(1, [2, 0, 1]) == StageUnit(1, 2)
        assert other.claim(1, [2, 1, 0]) == StageUnit(1, 1)
        assert other.claim(1, [2, 1]) is None
        assert other.claim(2, [2]) == StageUnit(2, 2)

        def all_of(mail: Mailboxes) -> list[StageUnit]:
            return list(iter(lambda: mail.claim(3, range(50)), None))

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = [*pool.map(all_of, (one, other))]
        assert sorted(found[0] + found[1]) == [StageUnit(3, slot) for slot in range(50)]


def test_rows_arrive_as_they_were_sent(tmp_path: Path) -> None:
    """All blobs, in order, whole and aligned, whatever their size, also to who reads while they are written."""
    rng = random.Random(1)
    sent = [
        blob(n, rng.randbytes(rng.choice([0, 1, 63, 64, 65, 5_000, 300_000]))) for n in range(60)
    ]
    with Mailboxes(str(tmp_path), 0) as one, Mailboxes(str(tmp_path), 1) as other:

        def send() -> None:
            for each in sent:
                one.send(INPUT, FIRST, each)
                one.send(INPUT, StageUnit(1, 1), each._replace(slot=1))
                time.sleep(0.0005)
            one.sent(INPUT)

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(send)
            found = [each._replace(data=bytes(each.data)) for each in other.arriving(INPUT, FIRST)]
            done.result()
        assert found == sent
        # Again and later, as by a task that takes what another one has not begun.
        assert [bytes(each.data) for each in one.arriving(INPUT, FIRST)] == [
            each.data for each in sent
        ]
        assert len(list(one.arriving(INPUT, StageUnit(1, 1)))) == len(sent)
        assert list(one.arriving(INPUT, StageUnit(1, 2))) == []
        one.wait_for([INPUT])


def test_an_unfinished_blob_is_not_read(tmp_path: Path) -> None:
    with Mailboxes(str(tmp_path), 0) as mail:
        mail.send(INPUT, FIRST, blob(0, b"x" * 1_000))
        path = tmp_path / f"{FIRST}-from-{INPUT}"
        whole = path.read_bytes()
        for size in (0, 10, 64, 500, len(whole) - 1):
            path.write_bytes(whole[:size])
            assert list(mailboxes._Box(path, FIRST).new()) == []
        path.write_bytes(whole)
        assert len(list(mailboxes._Box(path, FIRST).new())) == 1


def test_a_failure_stops_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailboxes, "_LOOK_S", 0.01)
    with Mailboxes(str(tmp_path), 1) as waiting:
        with pytest.raises(ValueError, match="mine"), Mailboxes(str(tmp_path), 0):
            raise ValueError("mine")
        with pytest.raises(MailboxStopped):
            list(waiting.arriving(INPUT, FIRST))
        with pytest.raises(MailboxStopped):
            waiting.wait_for([INPUT])


def _die(folder: str) -> None:
    Mailboxes(folder, 1).__enter__()
    os._exit(9)


def test_a_task_that_died_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has left is not dead."""
    monkeypatch.setattr(mailboxes, "_SPARK_S", 0)
    monkeypatch.setattr(mailboxes, "_LOOK_S", 0.01)
    with Mailboxes(str(tmp_path), 0) as waiting:
        with Mailboxes(str(tmp_path), 2):
            waiting._require_others()
        waiting._require_others()
        process = multiprocessing.get_context("fork").Process(target=_die, args=[str(tmp_path)])
        process.start()
        process.join()
        with pytest.raises(RuntimeError, match="ended unexpectedly"):
            waiting.wait_for([StageUnit(1, 1)])


def test_who_comes_early_late_or_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for the first task for some time, which runs once; behind the batch nobody runs."""
    monkeypatch.setattr(mailboxes, "_PATIENCE_S", 0.01)
    with Mailboxes(str(tmp_path), 1) as other:
        assert not other.has_begun()
        with Mailboxes(str(tmp_path), 0) as first:
            first.begin()
            assert other.has_begun()
            with pytest.raises(RuntimeError, match="once more"):
                first.begin()
    with pytest.raises(RuntimeError, match="once more"), Mailboxes(str(tmp_path / "gone"), 0):
        pass


def test_a_batch_of_which_a_part_is_missing_or_double_is_refused() -> None:
    said = [{"stage": stage, "slot": slot} for stage, slot in ((0, 0), (1, 0), (1, 1))]
    require_all(2, 2, said)
    require_all(2, 1, said[:1])
    require_all(1, 2, said[:1])
    for wrong in (said[:2], [*said, said[2]], [*said[:2], said[1]]):
        with pytest.raises(CheckpointError, match="start the query again"):
            require_all(2, 2, wrong)
