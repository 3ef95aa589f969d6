"""kill -9 while new keys are placed, keys move and slots change: as one run that is routed by hash and left alone.

Kills fall on the steps of a reconfiguration (docs/locality.md): what a batch counts comes with its tasks (1, 2), its
tables are written before it (3), its tasks write the state that leaves with their own (4, 6), its commit record
names the table of the next one (5), and the next batch reads what was handed over (6).
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import kill_driver
import moves_driver as driver
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from test_kill import MOMENTS, Run

from thalweg.checkpoint.inspect import describe, read_state
from thalweg.checkpoint.paths import resolve
from thalweg.checkpoint.record import latest
from thalweg.checkpoint.routing_files import read_table
from thalweg.checkpoint.segments import read_units
from thalweg.columns.keys import KeySpec
from thalweg.locality import routed_by
from thalweg.plan.plan import make_plan

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_200)]

FILES = 8
#: A kill follows each, at once or up to so many seconds later.
KILLS = {
    "planned": 0.0,
    "a table": 0.0,
    "its tasks": 1.0,
    "state": 0.0,
    "handing over": 0.3,
    "first sink": 0.0,
    "last sink": 0.0,
    "committed": 0.0,
    "taking over": 1.0,
    "logged": 0.0,
}
PLACES = MOMENTS | {
    "first sink": "out/late/batch={}",
    "last sink": "out/shares/batch={}",
    "a table": "ckpt/thalweg/routing/{}.json",
    "its tasks": "ckpt/thalweg/routing/{}.json",
    "handing over": "ckpt/thalweg/state/{}",
    "taking over": "ckpt/spark/offsets/{}",
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same input by hash, in two slots, without a kill."""
    folder = tmp_path_factory.mktemp("hashed")
    rows = driver.make_rows(1, FILES, 150)
    kill_driver.write_files(folder / "in", rows, FILES)
    run = Run(folder, folder / "in", program=driver.__file__)
    run.to_the_end(2, "drain")
    return run


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (2, 3))]
)
def test_kills_amid_placing_and_moving(tmp_path: Path, undisturbed: Run, seed: int) -> None:
    """Four kills each, on every step at least once in all; then rows, states and counts are those of the other run."""
    rng = random.Random(seed)
    moments = list(itertools.islice(itertools.cycle(KILLS), 4 * seed - 4, 4 * seed))
    run = Run(
        tmp_path, undisturbed.source, locality="online", program=driver.__file__, moments=PLACES
    )
    for moment in moments:
        # With one slot nothing is placed: keys get state that nobody pinned.
        slots = ",".join(map(str, rng.sample((1, 2, 3, 4), 3)))
        reached = run.killed(
            rng, tear_log=rng.random() < 0.4, moment=moment, slots=slots, later_s=KILLS[moment]
        )
        assert reached, f"{moment} did not come: all input was processed before"
    run.to_the_end("2,4,3", "drain")
    for sink in driver.SINKS:
        assert rows_of(run, sink) == rows_of(undisturbed, sink), sink
    for name in driver.STATEFUL:
        mine, other = (read_state(str(one.folder / "ckpt"), name) for one in (run, undisturbed))
        assert mine.to_pylist() == other.to_pylist(), name
    assert counts_of(run) == counts_of(undisturbed)
    assert require_one_unit_a_key(run) > FILES


def rows_of(run: Run, sink: str) -> list[dict[str, Any]]:
    """A sink's rows, batch after batch."""
    batches = [one for one in (run.folder / "out" / sink).glob("batch=*") if one.is_dir()]
    batches.sort(key=lambda one: int(one.name.removeprefix("batch=")))
    files = [file for batch in batches for file in sorted(batch.glob("*.parquet"))]
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def counts_of(run: Run) -> dict[str, dict[str, int]]:
    """By operator, the rows in, out, late and rejected."""
    counts = {one.name: one.counters for one in describe(str(run.folder / "ckpt")).operators}
    return {
        name: {what: one.get(what, 0) for what in ("in", "out", "late", "rejected")}
        for name, one in counts.items()
    }


def require_one_unit_a_key(run: Run) -> int:
    """Each key is in the state unit that the table of the newest record says, and in no other; some are pinned.

    Gives the table's epoch.
    """
    fs, root = resolve(str(run.folder / "ckpt" / "thalweg"))
    record = latest(fs, root)
    assert record is not None
    table = read_table(fs, root, record.extra["routing"])
    plan = make_plan(driver.new_keys_host.FLOW)
    homes, nodes = routed_by(plan), {node.name: node for node in plan.keyed}
    pinned = 0
    for name in driver.STATEFUL:
        spec, routes = KeySpec(nodes[name].key.fields), table.operators[homes[name]]
        for unit, chain in record.chains.get(name, {}).items():
            for rows in read_units(fs, root, [(one.file, one.number) for one in chain]):
                hashes = spec.hashes_of(alive(rows))
                assert set(routes.units_of(hashes).tolist()) <= {unit}, (name, unit)
                pinned += len(hashes) if unit >= len(routes.buckets) else 0
    assert pinned
    return table.epoch


def alive(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Without the keys that are deleted there."""
    return rows.filter(pc.invert(rows.column("_deleted")))
