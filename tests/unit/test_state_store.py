"""State over many batches: loading, saving, compaction, crashes, cleaning, looking into it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from state_fakes import FS, SCHEMA, DictTable, Process, Rows, commit, stored
from tests.sizes import sized

from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import paths
from thalweg.checkpoint import record as records
from thalweg.checkpoint.cleaning import clean, garbage
from thalweg.checkpoint.compaction import BucketView, WriteLimits, choose_snapshots
from thalweg.checkpoint.inspect import describe, read_state
from thalweg.checkpoint.manifest import Manifest, ManifestField, ManifestOperator
from thalweg.checkpoint.merging import current, merge_units, sorted_by
from thalweg.checkpoint.record import Chain, ChainPart, CommitRecord, next_record
from thalweg.checkpoint.segments import NewUnit, Segment, SegmentUnit, read_units, write_segment
from thalweg.checkpoint.store import Loaded, load_buckets
from thalweg.errors import CheckpointError

BUCKETS = range(4)
#: Small enough that merges, snapshots and turns all happen within a few batches.
TIGHT = WriteLimits(small_bytes=0, idle_bytes=0, fan=2)


def changes(rng: random.Random, keys: int = 12) -> dict[int, Rows | dict[int, None]]:
    """A few writes and drops in some buckets."""
    writes: dict[int, dict[int, tuple[int, str] | None]] = {}
    for bucket in BUCKETS:
        for _ in range(rng.choice((0, 0, 1, 3))):
            value = None if rng.random() < 0.3 else (rng.randrange(100), "n" * rng.randrange(5))
            writes.setdefault(bucket, {})[bucket + 4 * rng.randrange(keys)] = value
    return writes  # type: ignore[return-value]


def model(state: dict[int, Rows], writes: dict[int, Rows | dict[int, None]]) -> dict[int, Rows]:
    """The state after these writes, the obvious way."""
    out = {bucket: dict(rows) for bucket, rows in state.items()}
    for bucket, rows in writes.items():
        for key, value in rows.items():
            out[bucket].pop(key, None)
            if value is not None:
                out[bucket][key] = value
    return out


def split(rng: random.Random, slots: int) -> list[list[int]]:
    owners = {bucket: rng.randrange(slots) for bucket in BUCKETS}
    return [[b for b in BUCKETS if owners[b] == slot] for slot in range(slots)]


@settings(max_examples=sized(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), tight=st.booleans(), cleaning=st.booleans())
def test_random_histories(
    tmp_path_factory: pytest.TempPathFactory, seed: int, tight: bool, cleaning: bool
) -> None:
    """Over batches with other slots, processes, re-runs, crashes and cleaning, what the records n and
    n − 1 name is what a serial run has, and every process that loads agrees."""
    rng = random.Random(seed)
    root = str(tmp_path_factory.mktemp("state"))
    processes = [Process(root, limits=TIGHT if tight else WriteLimits()) for _ in range(3)]
    history: list[tuple[CommitRecord | None, dict[int, Rows]]] = [(None, {b: {} for b in BUCKETS})]
    batch, tries = 0, 0
    while batch < 14:
        tries += 1
        if rng.random() < 0.15 and len(history) > 1:
            history.pop()  # Spark lost its commit: the batch runs again
            batch -= 1
        before, state = history[-1]
        assert records.read(FS, root, batch - 1) == before
        writes = changes(rng)
        segments = []
        for slot, owned in enumerate(split(rng, rng.randrange(1, 4))):
            todo = {b: writes[b] for b in owned if b in writes}
            process = rng.choice(processes)
            if rng.random() < 0.2:  # a try of the task that is not the one committed
                process.run(
                    before,
                    owned,
                    changes_of(rng, owned),
                    batch=batch,
                    slot=slot,
                    attempt=f"z{tries}",
                )
                process = rng.choice(processes)
            segments.append(
                process.run(before, owned, todo, batch=batch, slot=slot, attempt=f"a{tries}")
            )
            expected = model(state, todo)
            assert process.state(owned) == {b: expected[b] for b in owned}
        if rng.random() < 0.2:
            continue  # the driver died before the record: files without a record
        record = commit(root, before, batch, *segments)
        history.append((record, model(state, writes)))
        batch += 1
        if cleaning and rng.random() < 0.7:
            clean(FS, root, [r for r, _ in history[-2:] if r])
            history = history[-2:]
        for kept, expected in history[-2:]:
            assert stored(root, kept, BUCKETS) == expected


def changes_of(rng: random.Random, owned: list[int]) -> dict[int, Rows | dict[int, None]]:
    return {b: rows for b, rows in changes(rng).items() if b in owned}


def test_warm_table_reads_nothing(tmp_path: Path) -> None:
    """A table whose tag is the chain's last is used as it is; one that is older reads only what it lacks."""
    root = str(tmp_path)
    one, two = Process(root, limits=TIGHT), Process(root, limits=TIGHT)
    rows = {key: (key, "x" * 50) for key in range(100)}
    record = commit(root, None, 0, one.run(None, [0], {0: rows}, batch=0))
    record = commit(root, record, 1, one.run(record, [0], {0: {1: (7, "")}}, batch=1))
    assert one.bytes_read == 0
    two.run(record, [0], {}, batch=2)
    assert two.bytes_read == record.chain("track", 0)[0].bytes + record.chain("track", 0)[1].bytes
    record = commit(root, record, 2, one.run(record, [0], {0: {2: (8, "")}}, batch=2))
    two.run(record, [0], {}, batch=3)
    assert two.bytes_read == record.chain("track", 0)[-1].bytes
    assert two.state([0]) == one.state([0])
    assert [one.tables[0].loads, two.tables[0].loads] == [1, 1]


def test_merge_does_not_make_caches_stale(tmp_path: Path) -> None:
    """Another process merged what this one has in memory: this one reads only the delta after the merge."""
    root = str(tmp_path)
    one, two = Process(root, limits=TIGHT), Process(root, limits=TIGHT)
    record = commit(
        root, None, 0, one.run(None, [0], {0: {k: (k, "x" * 50) for k in range(100)}}, batch=0)
    )
    batch = 1
    while not any(unit.kind == "merge" for unit in record.chain("track", 0)):
        assert batch < 20
        writer = two if len(record.chain("track", 0)) > 2 else one
        record = commit(
            root, record, batch, writer.run(record, [0], {0: {batch: (0, "")}}, batch=batch)
        )
        batch += 1
    one.run(record, [0], {}, batch=batch)
    assert one.bytes_read == record.chain("track", 0)[-1].bytes
    assert one.tables[0].loads == 1
    assert one.state([0]) == two.state([0]) == stored(root, record, [0])


def load_bucket(
    root: str, record: CommitRecord, table: Any, have: str | None = None, **given: Any
) -> Loaded:
    have_tags = {} if have is None else {0: have}
    return load_buckets(FS, root, record, "track", {0: table}, have_tags, **given)[0]


def test_uncommitted_state_is_never_used(tmp_path: Path) -> None:
    """A table that a written-off try left, tagged or dirty, is loaded anew."""
    root = str(tmp_path)
    process = Process(root)
    record = commit(root, None, 0, process.run(None, [0], {0: {1: (1, "")}}, batch=0))
    process.run(record, [0], {0: {1: (99, "")}}, batch=1, attempt="lost")
    process.run(record, [0], {}, batch=1, attempt="b")
    assert process.state([0]) == {0: {1: (1, "")}}
    process.tables[0].put(5, (5, ""))
    loaded = load_bucket(root, record, process.tables[0], record.chain("track", 0)[-1].tag)
    assert process.state([0]) == {0: {1: (1, "")}}
    assert loaded == (record.chain("track", 0)[-1].tag, record.chain("track", 0)[0].bytes)


def test_table_that_cannot_apply(tmp_path: Path) -> None:
    """A table with load alone is loaded from the start."""

    class Plain(DictTable):
        apply = property()

        def load(self, batches: object) -> None:
            self.loads += 1

    root = str(tmp_path)
    process = Process(root, limits=TIGHT)
    first = commit(
        root, None, 0, process.run(None, [0], {0: {k: (k, "") for k in range(50)}}, batch=0)
    )
    second = commit(root, first, 1, process.run(first, [0], {0: {1: (9, "")}}, batch=1))
    table = Plain()
    tag = load_bucket(root, first, table).tag
    load_bucket(root, second, table, tag)
    assert table.loads == 2


def test_emptied_bucket_has_no_chain(tmp_path: Path) -> None:
    """When the last key goes, the bucket leaves no file behind."""
    root = str(tmp_path)
    process = Process(root)
    record = commit(root, None, 0, process.run(None, [0, 1], {0: {1: (1, "")}}, batch=0))
    record = commit(root, record, 1, process.run(record, [0, 1], {0: {1: None}}, batch=1))
    assert record.chains == {}
    assert process.tags == {0: "", 1: ""}
    process.run(record, [0, 1], {}, batch=2)
    assert process.bytes_read == 0


def test_state_classes_grow(tmp_path: Path) -> None:
    """Old rows get the new field while loading and while merging with new ones."""
    root = str(tmp_path)
    old = pa.schema([f for f in SCHEMA if f.name != "name"])
    rows = pa.RecordBatch.from_pydict({"user": [1], "pages": [2], "_deleted": [False]}, schema=old)
    place = {"batch": 0, "stage": 0, "slot": 0, "attempt": "a", "operator": "track", "metadata": {}}
    segment = write_segment(FS, root, units=[NewUnit(0, "snapshot", rows)], **place)  # type: ignore[arg-type]
    record = commit(root, None, 0, segment)
    table = DictTable()
    migrate = lambda batch: manifests.migrate_batch(batch, SCHEMA, {"name": "?"})  # noqa: E731
    load_bucket(root, record, table, migrate=migrate)
    assert table.rows == {1: (2, "?")}


# -- compaction ----------------------------------------------------------------------------------------


class Simulation:
    """Chains of buckets under a change pattern; sizes only, no files."""

    def __init__(
        self, rows: list[int], row_bytes: int = 100, limits: WriteLimits | None = None
    ) -> None:
        self.rows, self.row_bytes = rows, row_bytes
        self.limits = limits or WriteLimits()
        self.record: CommitRecord | None = None
        self.batch = 0
        self.step([1.0] * len(rows))

    def step(self, share: list[float]) -> float:
        """Changes these shares of the buckets; gives what was written as a share of the state."""
        units, written = [], 0
        views = {b: self.view(b, round(rows * share[b])) for b, rows in enumerate(self.rows)}
        choice = choose_snapshots(views, self.batch, self.limits)
        assert not choice.snapshots & choice.merges.keys()
        for bucket, view in views.items():
            if bucket in choice.snapshots:
                units.append(("snapshot", bucket, view.rows, 0))
                continue
            if bucket in choice.merges:
                start = choice.merges[bucket]
                merged = min(view.rows, sum(unit.rows for unit in view.chain[start:]))
                units.append(("merge", bucket, merged, start))
            if view.delta_rows:
                units.append(("delta", bucket, view.delta_rows, 0))
        made = []
        for i, (kind, bucket, rows, start) in enumerate(units):
            made.append(SegmentUnit(bucket, kind, i, rows, rows * self.row_bytes, start))  # type: ignore[arg-type]
            written += rows * self.row_bytes
        segment = Segment("track", f"state/{self.batch}/f", tuple(made))
        self.record = next_record(self.record, self.batch, "a", [segment], {}, slots=1)
        self.batch += 1
        return written / (sum(self.rows) * self.row_bytes)

    def view(self, bucket: int, changed: int) -> BucketView:
        return BucketView(self.chain(bucket), self.rows[bucket], changed, changed * self.row_bytes)

    def chain(self, bucket: int) -> Chain:
        return self.record.chain("track", bucket) if self.record else ()

    def longest(self) -> int:
        return max(len(self.chain(b)) for b in range(len(self.rows)))

    def fullest(self) -> float:
        """The deltas of a chain over its snapshot, the greatest."""
        return max(
            sum(u.bytes for u in c[1:]) / c[0].bytes
            for c in map(self.chain, range(len(self.rows)))
            if c
        )


@pytest.mark.parametrize("pattern", ["uniform", "half", "one", "random", "moving"])
@pytest.mark.parametrize("buckets", [128, 32])
def test_writes_stay_in_proportion(pattern: str, buckets: int) -> None:
    """A batch that changes 1 % of the keys writes at most 5 % of the state; chains stay short."""
    rng = random.Random(1)
    simulation = Simulation([20_000] * buckets)
    total, lengths = 0.0, []
    for batch in range(400):
        share = [0.01] * buckets
        if pattern == "half":
            share = [0.02 if b % 2 else 0.0 for b in range(buckets)]
        elif pattern == "one":
            share = [0.01 * buckets / 4 if b < 4 else 0.0 for b in range(buckets)]
        elif pattern == "moving":
            share = [0.04 if (b + batch) % 4 == 0 else 0.0 for b in range(buckets)]
        elif pattern == "random":
            weights = [rng.random() ** 4 for _ in range(buckets)]
            share = [min(1.0, 0.01 * buckets * w / sum(weights)) for w in weights]
        written = simulation.step(share)
        assert written <= 0.05
        total += written
        lengths.append(simulation.longest())
    assert max(lengths) <= 40
    assert simulation.fullest() <= 2.0
    assert total / 400 <= 0.045


@pytest.mark.parametrize("share", [1e-4, 1e-3])
def test_tiny_changes_stay_cheap(share: float) -> None:
    """Small deltas are merged among themselves, so a large state is hardly ever written."""
    simulation = Simulation([50_000] * 64, limits=WriteLimits(idle_bytes=64 * 1024))
    written = [simulation.step([share] * 64) for _ in range(600)]
    assert max(written) <= max(6 * share, 0.003)
    assert sum(written) / 600 <= 5 * share
    assert simulation.longest() <= 48


def test_one_bucket_with_half_of_the_state() -> None:
    """It is rewritten rarely: on average the batches stay in proportion and its chain stays bounded."""
    simulation = Simulation([100_000, *([1_000] * 100)])
    written = [simulation.step([0.01] * 101) for _ in range(600)]
    assert sum(written) / 600 <= 0.05
    assert sum(one > 0.05 for one in written) <= 60
    assert simulation.longest() <= 40


def test_bulk_changes_are_snapshots() -> None:
    """What changes at once by half or more is written once, as a snapshot."""
    simulation = Simulation([5_000] * 16)
    for share in (1.0, 0.6, 1.0):
        assert simulation.step([share] * 16) <= 1.0
        assert simulation.longest() == 1


def test_small_state_lies_in_few_files() -> None:
    """A small state is written as snapshots, and anew when it is scattered."""
    rng = random.Random(3)
    simulation = Simulation([10] * 64)
    for _ in range(200):
        simulation.step([0.1 if rng.random() < 0.02 else 0.0 for _ in range(64)])
        assert simulation.longest() == 1
        assert simulation.record is not None
        assert len(simulation.record.files) <= WriteLimits().small_files + 1


def test_an_idle_batch_writes_nothing() -> None:
    """Nothing changed, nothing written, also when buckets are overdue."""
    simulation = Simulation([20_000] * 8)
    for _ in range(7):
        simulation.step([0.05] * 8)
    assert simulation.step([0.0] * 8) == 0


@settings(max_examples=sized(60), deadline=None)
@given(st.data())
def test_any_pattern(data: st.DataObject) -> None:
    """Whatever changes, a batch without an oversized bucket stays within its budget, and nothing is lost."""
    rows = data.draw(st.lists(st.integers(2_000, 20_000), min_size=40, max_size=60))
    simulation = Simulation(rows)
    for _ in range(data.draw(st.integers(1, 60))):
        at = data.draw(st.integers(0, len(rows) - 1))
        level = data.draw(st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.3]))
        share = [level if (b + at) % 3 else level / 10 for b in range(len(rows))]
        changed = sum(round(r * s) for r, s in zip(rows, share, strict=True)) / sum(rows)
        biggest = max(rows) / sum(rows)
        assert simulation.step(share) <= max(4.5 * changed, changed + 0.03) + biggest + 1e-9


def test_rows_without_keys_are_never_merged() -> None:
    """A long chain of them is cut by a snapshot."""
    chain = tuple(
        ChainPart(f"f{i}", 0, "delta" if i else "snapshot", 10**6 if i == 0 else 100, 1000)
        for i in range(20)
    )
    choice = choose_snapshots({0: BucketView(chain, 1000, 1, 400_000)}, 0, merging=False)
    assert choice == (frozenset({0}), {})


# -- merging -------------------------------------------------------------------------------------------


def test_a_state_field_may_be_named_like_a_key(tmp_path: Path) -> None:
    """Rows are read by place, so equal names are no trouble."""
    schema = pa.schema([("user", pa.int64()), ("user", pa.int64()), ("_deleted", pa.bool_())])
    arrays = [pa.array([2, 1, 2]), pa.array([5, 6, 7]), pa.array([False, False, False])]
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    place: Any = {"batch": 0, "stage": 0, "slot": 0, "attempt": "a", "operator": "x"}
    made = write_segment(FS, str(tmp_path), metadata={}, units=[NewUnit(0, "delta", rows)], **place)
    (found,) = read_units(FS, str(tmp_path), [(made.file, 0)])
    assert [column.to_pylist() for column in current([found], 1).columns] == [[1, 2], [6, 7]]


def test_the_last_row_of_a_key_wins() -> None:
    """Null, NaN and zero are one key each, whatever their bits; tombstones count as rows."""
    nan = float("nan")
    schema = pa.schema(
        [
            ("k", pa.float64()),
            ("l", pa.list_(pa.int64())),
            ("v", pa.int64()),
            ("_deleted", pa.bool_()),
        ]
    )
    one = pa.RecordBatch.from_pydict(
        {
            "k": [None, nan, 0.0, 1.0, 2.0],
            "l": [[1]] * 5,
            "v": [1, 2, 3, 4, 5],
            "_deleted": [False] * 5,
        },
        schema=schema,
    )
    two = pa.RecordBatch.from_pydict(
        {
            "k": [None, -nan, -0.0, 1.0, 1.0],
            "l": [[1]] * 4 + [[2]],
            "v": [6, 7, 8, 9, 10],
            "_deleted": [False, False, False, True, False],
        },
        schema=schema,
    )
    merged = merge_units([one, two], 2)
    assert merged.column("v").to_pylist() == [5, 6, 7, 8, 9, 10]
    table = sorted_by(pa.Table.from_batches([current([one, two], 2)]), 2)
    assert table.column("v").to_pylist() == [6, 8, 10, 5, 7]
    assert table.column_names == ["k", "l", "v"]


# -- cleaning ------------------------------------------------------------------------------------------


def test_crash_between_the_steps(tmp_path: Path) -> None:
    """Files without a record are never read, and go once a later batch is committed; newer ones stay."""
    root = str(tmp_path)
    process = Process(root)
    first = commit(root, None, 0, process.run(None, [0], {0: {1: (1, "")}}, batch=0))
    lost = process.run(first, [0], {0: {1: (2, "")}}, batch=1, attempt="lost")
    (tmp_path / "state/1/0-0-x-track.arrow.abc.tmp").write_bytes(b"half")
    second = commit(
        root, first, 1, process.run(first, [0], {0: {1: (3, "")}}, batch=1, attempt="b")
    )
    running = process.run(second, [0], {0: {1: (4, "")}}, batch=2)
    (tmp_path / "commits/1.json.abc.tmp").write_bytes(b"half")
    assert stored(root, second, [0]) == {0: {0: {}, 1: {1: (3, "")}}[1]}
    assert garbage(FS, root, [second, first]) == [
        "state/1/0-0-lost-track.arrow",
        "state/1/0-0-x-track.arrow.abc.tmp",
        "commits/1.json.abc.tmp",
    ]
    assert clean(FS, root, [second, first]) == 3
    assert clean(FS, root, [second, first]) == 0
    assert paths.read_bytes(FS, f"{root}/{running.file}") is not None
    assert paths.read_bytes(FS, f"{root}/{lost.file}") is None
    assert records.batches(FS, root) == [0, 1]


def test_cleaning_removes_old_batches(tmp_path: Path) -> None:
    """Disk holds what two records need: files, records and folders of older batches go."""
    root = str(tmp_path)
    process = Process(root)
    kept: list[CommitRecord] = []
    for batch in range(30):
        before = kept[-1] if kept else None
        writes: dict[int, Rows | dict[int, None]] = {b: {b: (batch, "")} for b in BUCKETS}
        kept = [
            *kept[-1:],
            commit(root, before, batch, process.run(before, list(BUCKETS), writes, batch=batch)),
        ]
        clean(FS, root, kept)
    assert records.batches(FS, root) == [28, 29]
    assert sorted(paths.list_folders(FS, f"{root}/state")) == ["28", "29"]
    assert clean(FS, root, []) == 0


# -- looking into it -----------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    root = f"{tmp_path}/ckpt/thalweg"
    fields = [ManifestField(n, "int", "int64") for n in ("user", "pages")]
    track = ManifestOperator(
        "keyed", (fields[0],), 4, "Open", (fields[1], ManifestField("name", "str", "string", ""))
    )
    operators = {"track": track, "parse": ManifestOperator("stateless")}
    manifests.write(FS, root, Manifest("cart", "0.1", operators, {}))
    process = Process(root, limits=TIGHT)
    writes: dict[int, Rows | dict[int, None]] = {
        b: {b + 4 * i: (i, f"n{i}") for i in range(10)} for b in BUCKETS
    }
    segments = [process.run(None, list(BUCKETS), writes, batch=0)]
    record = next_record(
        None, 0, "a", segments, {"parse": {"in": 40}}, slots=1, clock={"clicks": 7}
    )
    records.write(FS, root, record)
    mixed: Any = {0: {0: None, 4: (99, "new")}}
    segment = process.run(record, list(BUCKETS), mixed, batch=1)
    records.write(FS, root, next_record(record, 1, "a", [segment], {"track": {"in": 2}}, slots=1))
    return tmp_path / "ckpt"


def test_describe(checkpoint: Path) -> None:
    """Flow, batch, operators, sizes, chains and counts; from the folder or its parent, as path or URI."""
    info = describe(f"file:{checkpoint}")
    assert (info.flow, info.batch, info.slots, info.clock) == ("cart", 1, 1, {"clicks": 7})
    track, parse = info.operators
    assert (track.name, track.kind, track.keys, track.buckets, track.used) == (
        "track",
        "keyed",
        ("user: int",),
        4,
        4,
    )
    assert (track.longest_chain, track.mean_chain, track.files, track.rows) == (2, 1.25, 2, 42)
    assert (parse.counters, track.counters) == ({"in": 40}, {"in": 2})
    assert describe(f"{checkpoint}/thalweg").operators == info.operators


def test_read_state(checkpoint: Path) -> None:
    """The merged state by key, deleted keys left out; a limit; one key, also given as text."""
    table = read_state(str(checkpoint), "track")
    assert table.column("user").to_pylist() == list(range(1, 40))
    assert table.column_names == ["user", "pages", "name"]
    assert read_state(str(checkpoint), "track", limit=2).num_rows == 2
    assert read_state(str(checkpoint), "track", key=4).to_pylist() == [
        {"user": 4, "pages": 99, "name": "new"}
    ]
    assert read_state(str(checkpoint), "track", key="5").num_rows == 1
    assert read_state(str(checkpoint), "track", key=0).num_rows == 0
    assert read_state(str(checkpoint), "parse").num_rows == 0


def test_looking_in_the_wrong_place(checkpoint: Path, tmp_path: Path) -> None:
    """Not a checkpoint, no such operator, a key that does not fit: each says what there is."""
    with pytest.raises(CheckpointError, match="expected a checkpoint folder"):
        describe(str(tmp_path / "none"))
    with pytest.raises(CheckpointError, match="no operator 'x'; it has parse, track"):
        read_state(str(checkpoint), "x")
    for key in ("abc", (1, 2), 1.5):
        with pytest.raises(CheckpointError, match=r"key.*got"):
            read_state(str(checkpoint), "track", key=key)
