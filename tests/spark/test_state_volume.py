"""State in proportion: memory, bytes written a batch, and what a warm and a cold worker read."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pytest
from tests.spark.task_host import TaskHost

import thalweg as tw
from thalweg.checkpoint import store
from thalweg.slots import slot_state
from thalweg.spark.tasks import worker


class Row(NamedTuple):
    key: int
    value: int


@tw.state
class Five:
    """Forty bytes of state."""

    a: int = 0
    b: int = 0
    c: int = 0
    d: float = 0.0
    e: int = 0


def add(five: Five, row: Row) -> None:
    five.a += row.value
    five.b += 1
    five.c = row.value * 7
    five.d = row.value * 0.37
    five.e = five.a * 31 + row.key


def make_flow() -> tw.Flow:
    flow = tw.Flow("volume", compile="require")
    added = flow.source("rows", Row).key_by("key").process(add, state=Five)
    added.rejected.sink("rejected")
    return flow


def tables(keys: np.ndarray, random: np.random.Generator) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(keys), 100_000):
        part = keys[start : start + 100_000]
        values = random.integers(0, 1 << 40, len(part))
        yield pa.RecordBatch.from_pydict({"key": part, "value": values})


@pytest.mark.parametrize("keys", [200_000, pytest.param(5_000_000, marks=pytest.mark.slow)])
def test_state_in_proportion(keys: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five million keys fit in 2 GB; a batch that changes 1 % writes at most 5 %; a warm worker reads nothing."""
    TaskHost.forget()
    read: list[int] = []

    def load(*args: object, **options: object) -> dict[int, store.Loaded]:
        loaded = store.load_buckets(*args, **options)  # type: ignore[arg-type]
        read.append(sum(one.bytes_read for one in loaded.values()))
        return loaded

    monkeypatch.setattr(slot_state, "load_buckets", load)
    random = np.random.default_rng(keys)
    process = psutil.Process()
    gc.collect()
    before = process.memory_info().rss
    host = TaskHost(make_flow(), str(tmp_path))
    host.run(tables(random.permutation(keys), random))
    assert host.keys == {"add": keys}
    assert process.memory_info().rss - before < 2 << 30
    whole = host.written(0)
    for batch in range(1, 12):
        read.clear()
        host.run(tables(random.choice(keys, keys // 100, replace=False), random))
        assert host.written(batch) <= 0.05 * whole
        assert sum(read) == 0
    TaskHost.forget()
    gc.collect()
    read.clear()
    host.run(tables(random.choice(keys, keys // 100, replace=False), random))
    assert host.keys == {"add": keys}
    assert sum(read) >= 40 * keys


@pytest.mark.parametrize("threads", [1, 2])
def test_tables_given_up_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Tables of buckets that another slot owned for a batch, and that were too large to keep, come back whole."""
    monkeypatch.setattr(slot_state, "_ASIDE_BYTES", -1)
    host = TaskHost(make_flow(), str(tmp_path), threads)
    host.run(tables(np.arange(1_000), np.random.default_rng(1)))
    job = host.job()
    with worker.hot_engine(dataclasses.replace(job, slots=2), None, 0) as half:
        assert 0 < sum(map(len, half.engine.keyed["add"].tables.values())) < 1_000
    with worker.hot_engine(job, None, 0) as whole:
        assert sum(map(len, whole.engine.keyed["add"].tables.values())) == 1_000


@pytest.fixture(autouse=True)
def _no_engines_left() -> Iterator[None]:
    yield
    TaskHost.forget()
