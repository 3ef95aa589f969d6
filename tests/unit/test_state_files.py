"""Paths, segments, records and the manifest: what is on disk."""

from __future__ import annotations

import dataclasses
import os
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from state_fakes import FS, SCHEMA, StrictMoves

from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import paths
from thalweg.checkpoint import record as records
from thalweg.checkpoint.evolution.changes import StateChange, refusals
from thalweg.checkpoint.evolution.compare import operator_verdict, source_verdict
from thalweg.checkpoint.inspect import read_state
from thalweg.checkpoint.manifest import Manifest, ManifestField, ManifestOperator, ManifestSource
from thalweg.checkpoint.record import ChainPart, CommitRecord, next_record
from thalweg.checkpoint.segments import (
    NewUnit,
    Segment,
    SegmentReader,
    SegmentUnit,
    read_units,
    segment_path,
    write_segment,
)
from thalweg.errors import CheckpointError
from thalweg.flow.records import Schema


def rows(*keys: int, deleted: bool = False) -> pa.RecordBatch:
    columns = [list(keys), [key * 10 for key in keys], ["x"] * len(keys), [deleted] * len(keys)]
    arrays = [pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def put(root: Path, *units: NewUnit, operator: str = "track", attempt: str = "a") -> Segment:
    return write_segment(
        FS,
        str(root),
        batch=3,
        stage=0,
        slot=1,
        attempt=attempt,
        operator=operator,
        metadata={"flow": "cart"},
        units=units,
    )


# -- paths ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a/b%20c/", "/a/b%20c"),
        ("file:/a/b%20c", "/a/b%20c"),
        ("file:///a/b/", "/a/b"),
        ("file://localhost/a", "/a"),
        ("rel", os.path.abspath("rel")),
    ],
)
def test_local_locations(location: str, path: str) -> None:
    """Spark's ways of writing a local folder all mean that folder; only URIs are percent-decoded."""
    fs, found = paths.resolve(location)
    assert (fs.type_name, found) == ("local", path)
    assert paths.is_local(pickle.loads(pickle.dumps(fs)))


def test_s3a_is_s3() -> None:
    """Hadoop's scheme is pyarrow's under another name."""
    fs, path = paths.resolve("s3a://bucket/some/folder/?region=eu-west-1")
    assert (fs.type_name, path) == ("s3", "bucket/some/folder")


def test_unknown_location() -> None:
    """A scheme that pyarrow does not know says what would be known."""
    with pytest.raises(CheckpointError, match=r"ftp://x.*expected a path, file:"):
        paths.resolve("ftp://x/y")


def test_probe(tmp_path: Path) -> None:
    """A usable folder is made and left empty; an unusable one says what fails and what to check."""
    paths.probe(f"file:{tmp_path}/new/ckpt")
    assert list((tmp_path / "new/ckpt").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write and rename"):
        paths.probe(f"{tmp_path}/file/ckpt")


def test_atomic_write(tmp_path: Path) -> None:
    """A file is replaced whole, folders are made, nothing temporary stays, missing files are no error."""
    path = f"{tmp_path}/a/b/c.json"
    paths.write_atomic(FS, path, b"one")
    paths.write_atomic(FS, path, b"two")
    assert paths.read_bytes(FS, path) == b"two"
    assert paths.list_files(FS, f"{tmp_path}", recursive=True) == ["a/b/c.json"]
    assert paths.list_folders(FS, f"{tmp_path}") == ["a"]
    assert paths.delete(FS, path)
    assert not paths.delete(FS, path)
    assert not paths.delete_folder(FS, f"{tmp_path}/none")
    assert paths.read_bytes(FS, path) is None
    assert paths.list_files(FS, f"{tmp_path}/none") == []


def test_atomic_write_where_rename_does_not_replace(tmp_path: Path) -> None:
    """HDFS refuses to rename over a file: it steps aside first, and is gone when the new one has its name."""
    fs = StrictMoves()
    path = f"{tmp_path}/c.json"
    for content in (b"one", b"two"):
        paths.write_atomic(fs, path, content)
        assert paths.read_bytes(fs, path) == content
    assert [one.name for one in tmp_path.iterdir()] == ["c.json"]


# -- segments ------------------------------------------------------------------------------------------


def test_segment_round_trip(tmp_path: Path) -> None:
    """Units come back as written, in the order asked; an empty snapshot takes no room."""
    big = rows(*range(20_000))
    segment = put(
        tmp_path,
        NewUnit(0, "delta", rows(1, 2)),
        NewUnit(1, "snapshot", rows()),
        NewUnit(2, "snapshot", big),
        NewUnit(3, "merge", rows(4, deleted=True), start=2),
    )
    assert segment.file == "state/3/0-1-a-track.arrow"
    assert [(u.bucket, u.kind, u.number, u.rows, u.start) for u in segment.units] == [
        (0, "delta", 0, 2, 0),
        (1, "snapshot", -1, 0, 0),
        (2, "snapshot", 1, 20_000, 0),
        (3, "merge", 2, 1, 2),
    ]
    assert segment.tags() == {
        b: f"{segment.file}#{n}" if n >= 0 else "" for b, n in enumerate((0, -1, 1, 2))
    }
    wanted = [(segment.file, 2), (segment.file, 0), (segment.file, 1), (segment.file, 2)]
    found = read_units(FS, str(tmp_path), wanted)
    assert [one.num_rows for one in found] == [1, 2, 20_000, 1]
    assert found[1].to_pydict() == rows(1, 2).to_pydict()
    assert found[2].schema.names == SCHEMA.names
    assert found[2].equals(big.replace_schema_metadata(found[2].schema.metadata))


def test_nothing_to_write(tmp_path: Path) -> None:
    """Without rows there is no file, and no folder either."""
    assert put(tmp_path) == Segment("track", "", ())
    assert put(tmp_path, NewUnit(4, "snapshot", rows())).tags() == {4: ""}
    assert list(tmp_path.iterdir()) == []


def test_segment_tells_what_it_is(tmp_path: Path) -> None:
    """A segment opens in other tools as one table with buckets, and carries flow, operator and batch."""
    segment = put(tmp_path, NewUnit(0, "delta", rows(1, 2)), NewUnit(9, "delta", rows(3)))
    table = feather.read_table(tmp_path / segment.file)
    con = duckdb.connect()
    con.register("segment", table)
    assert table.column("_bucket").to_pylist() == [0, 0, 9]
    assert con.sql("select sum(pages)::int from segment where not _deleted").fetchall() == [(60,)]
    reader = SegmentReader(FS, str(tmp_path), segment.file)
    assert reader.about == {"flow": "cart", "batch": "3", "operator": "track"}
    assert (len(reader), reader.kinds) == (2, ["delta", "delta"])


def test_segment_names_never_meet() -> None:
    """Names with other letters, other case or great length get files of their own."""
    names = ["a", "A", "a/b", "a-b", "a b", "ä", "x" * 300, "X" * 300, "x" * 301]
    files = {segment_path(1, 0, 0, "t", name) for name in names}
    assert len({file.lower() for file in files}) == len(names)
    assert all(len(file) < 120 and file.count("/") == 2 for file in files)


def test_small_units_share_a_record_batch(tmp_path: Path) -> None:
    """128 buckets with few changes cost about their bytes, not a record batch each."""
    segment = put(tmp_path, *(NewUnit(b, "delta", rows(b, b + 1000)) for b in range(128)))
    assert (tmp_path / segment.file).stat().st_size < 8_000


@pytest.mark.parametrize("keep", [0, 10, -20])
def test_torn_segment(tmp_path: Path, keep: int) -> None:
    """A short file or none is a CheckpointError that names the file."""
    segment = put(tmp_path, NewUnit(0, "delta", rows(1, 2)))
    path = tmp_path / segment.file
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"0-1-a-track\.arrow cannot be read"):
        read_units(FS, str(tmp_path), [(segment.file, 0)])
    path.unlink()
    with pytest.raises(CheckpointError, match=r"0-1-a-track\.arrow is missing"):
        read_units(FS, str(tmp_path), [(segment.file, 0)])


def test_changed_segment(tmp_path: Path) -> None:
    """Any byte in front of the footer that is another, and the unit is refused; files without checksums are read."""
    segment = put(tmp_path, *(NewUnit(b, "snapshot", rows(b, b + 1)) for b in range(3)))
    path = tmp_path / segment.file
    whole = path.read_bytes()
    end = SegmentReader(FS, str(tmp_path), segment.file)._sums[-1].end
    assert end > len(whole) // 3
    for at in range(0, end, 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :])
        with pytest.raises(CheckpointError, match=r"cannot be read"):
            read_units(FS, str(tmp_path), [(segment.file, 0)])
    path.write_bytes(whole.replace(b"thalweg.sums", b"thalweg.none"))
    assert read_units(FS, str(tmp_path), [(segment.file, 2)]) == [rows(2, 3)]


def test_units_of_one_file_have_one_schema(tmp_path: Path) -> None:
    """Units that differ are refused rather than misread."""
    with pytest.raises(ValueError, match="differ"):
        put(
            tmp_path,
            NewUnit(0, "delta", rows(1)),
            NewUnit(1, "delta", rows(1).drop_columns(["name"])),
        )


# -- records -------------------------------------------------------------------------------------------


def segment(file: str, *units: tuple[int, str, int], start: int = 0) -> Segment:
    made = tuple(SegmentUnit(b, k, n, 5, 100, start) for b, k, n in units)  # type: ignore[arg-type]
    return Segment("track", file, made)


def test_chains_grow_and_start_anew() -> None:
    """A delta goes at the end, a merge takes the place of the last ones, a snapshot of all."""
    one = next_record(
        None, 0, "a", [segment("f0", (0, "snapshot", 0), (1, "snapshot", 1))], {}, slots=1
    )
    two = next_record(one, 1, "a", [segment("f1", (0, "delta", 0))], {}, slots=1)
    three = next_record(
        two, 2, "a", [segment("f2", (0, "delta", 0), (1, "snapshot", -1))], {}, slots=1
    )
    assert [(u.file, u.kind) for u in three.chain("track", 0)] == [
        ("f0", "snapshot"),
        ("f1", "delta"),
        ("f2", "delta"),
    ]
    assert three.chain("track", 1) == ()
    assert three.files == ["f0", "f1", "f2"]
    merged = segment("f3", (0, "merge", 0), start=1)
    four = next_record(three, 3, "a", [merged, segment("f4", (5, "snapshot", 0))], {}, slots=2)
    assert [u.file for u in four.chain("track", 0)] == ["f0", "f3"]
    assert four.chain("track", 0)[-1].same_as == "f2#0"
    five = next_record(four, 4, "a", [], {}, slots=1)
    assert five.chain("track", 0)[-1].same_as == ""
    assert five.files == ["f0", "f3", "f4"]
    assert one.chain("track", 0) == (ChainPart("f0", 0, "snapshot", 100, 5),)


def test_counters_and_clocks() -> None:
    """Counts add up; clocks are replaced; what a batch does not mention stays."""
    one = next_record(
        None, 0, "a", [], {"track": {"in": 5, "late": 1}}, slots=1, clock={"a": 3, "b": 4}
    )
    two = next_record(
        one, 1, "b", [], {"track": {"in": 2}, "x": {"out": 1}}, slots=1, clock={"b": 9}
    )
    assert two.counters == {"track": {"in": 7, "late": 1}, "x": {"out": 1}}
    assert two.clock == {"a": 3, "b": 9}


def test_impossible_records() -> None:
    """What can only come from a mistake is refused."""
    one = next_record(None, 4, "a", [], {}, slots=1)
    with pytest.raises(ValueError, match="cannot follow"):
        next_record(one, 4, "b", [], {}, slots=1)
    with pytest.raises(ValueError, match="no snapshot"):
        next_record(one, 5, "a", [segment("f", (0, "delta", 0))], {}, slots=1)
    twice = [segment("f", (0, "snapshot", 0)), segment("g", (0, "snapshot", 0))]
    with pytest.raises(ValueError, match="two slots saved bucket 0"):
        next_record(one, 5, "a", twice, {}, slots=2)


def test_record_files(tmp_path: Path) -> None:
    """Records come back equal; equal records are equal bytes; the newest and the one before are found."""
    root, last, made = str(tmp_path), None, {}
    for batch in (0, 1, 2, 10):
        new = segment(f"state/{batch}/f", (batch, "snapshot", 0))
        last = next_record(
            last, batch, "a", [new], {"track": {"in": 1}}, slots=1, plan="p", extra={"x": [1]}
        )
        made[batch] = last
        records.write(FS, root, last)
    assert records.batches(FS, root) == [0, 1, 2, 10]
    assert records.read(FS, root, 2) == made[2]
    assert records.latest(FS, root) == last
    assert records.read(FS, root, 7) is None
    assert records.latest(FS, f"{tmp_path}/none") is None
    assert last is not None
    assert CommitRecord.decode(last.encode()).encode() == last.encode()


def test_a_batch_that_runs_again_replaces_its_record(tmp_path: Path) -> None:
    """It starts from the record before, so what its first try did is gone."""
    root = str(tmp_path)
    one = next_record(None, 0, "a", [segment("f0", (0, "snapshot", 0))], {"t": {"in": 1}}, slots=1)
    records.write(FS, root, one)
    records.write(
        FS,
        root,
        next_record(one, 1, "a", [segment("f1", (0, "delta", 0))], {"t": {"in": 1}}, slots=1),
    )
    before = records.read(FS, root, 0)
    again = next_record(before, 1, "b", [segment("g1", (0, "delta", 0))], {"t": {"in": 1}}, slots=2)
    records.write(FS, root, again)
    found = records.latest(FS, root)
    assert found is not None
    assert (found.attempt, found.files, found.counters) == ("b", ["f0", "g1"], {"t": {"in": 2}})


def test_torn_record(tmp_path: Path) -> None:
    """Cut anywhere, or of another batch or format, a record is refused by name."""
    root = str(tmp_path)
    record = next_record(
        None, 3, "a", [segment("f0", (0, "snapshot", 0))], {"t": {"in": 1}}, slots=1
    )
    whole = record.encode()
    other = dataclasses.replace(record, batch=4).encode()
    newer = whole.replace(b'"format":1', b'"format":99')
    for content in [
        *(whole[:n] for n in range(0, len(whole), 7)),
        other,
        newer,
        b"[]",
        b"null",
        b"{}",
    ]:
        paths.write_atomic(FS, f"{root}/commits/3.json", content)
        with pytest.raises(CheckpointError, match=r"commits/3\.json .*cannot be read"):
            records.latest(FS, root)


# -- manifest ------------------------------------------------------------------------------------------


def field(name: str, kind: str = "int", arrow: str = "int64", default: Any = 0) -> ManifestField:
    return ManifestField(name, kind, arrow, default)


TRACK = ManifestOperator(
    "keyed", (field("user"),), 128, "Open", (field("pages"), field("timer")), "timer"
)
CLICKS = ManifestSource(
    (field("ts", "Timestamp", "timestamp[us, tz=UTC]"), field("user")), "ts", 120
)
BASE = Manifest(
    "cart", "0.1", {"parse": ManifestOperator("stateless"), "track": TRACK}, {"clicks": CLICKS}
)


def with_track(**changes: Any) -> Manifest:
    return dataclasses.replace(BASE, operators={"track": dataclasses.replace(TRACK, **changes)})


def with_clicks(**changes: Any) -> Manifest:
    return dataclasses.replace(BASE, sources={"clicks": dataclasses.replace(CLICKS, **changes)})


MORE = (*TRACK.fields, field("name", "str", "string", "?"))


ACCEPTED = [
    (with_track(fields=MORE), "appended"),
    (with_track(fields=(field("pages", default=7), field("timer"))), "same"),
    (with_track(fields=MORE[::-1]), "converted"),
    (with_track(fields=(field("pages", "float", "double"), field("timer"))), "converted"),
    (with_track(fields=(field("pages", "int | None"), field("timer"))), "converted"),
]
REFUSED = [
    (with_track(kind="stateful"), "has a keyed operator, the flow has a stateful operator"),
    (with_track(buckets=64), ", buckets: the checkpoint has 128, the flow has 64"),
    (with_track(state="Shut"), "state class: the checkpoint has Open, the flow has Shut"),
    (
        with_track(keys=(field("user", "str", "string"),)),
        "key field 1: the checkpoint has user: int, the flow has user: str",
    ),
    (with_track(keys=()), "key field 1: the checkpoint has user: int, the flow has none"),
    (with_track(fields=MORE[:1]), "state field timer: int would be lost"),
    (
        with_track(fields=(field("pages", "Page", "struct<a: int64>"), field("timer"))),
        "state field pages: the checkpoint has int, the flow has Page",
    ),
    (with_clicks(order_by=""), ", order_by: the checkpoint has ts, the flow has none"),
    (with_clicks(lateness=5), "lateness: the checkpoint has 120, the flow has 5"),
    (with_clicks(lane="p"), "lane: the checkpoint has none, the flow has p"),
    (with_clicks(order="key"), "order: the checkpoint has total, the flow has key"),
    (
        with_clicks(record=(field("ts", "int"), CLICKS.record[1])),
        "field ts: the checkpoint has Timestamp, the flow has int",
    ),
    (
        with_clicks(record=(*CLICKS.record, field("more"))),
        "field more: int: rows that wait do not have it",
    ),
]


def verdict(new: Manifest) -> StateChange:
    """What becomes of the operator or the source."""
    if new.sources != BASE.sources:
        return source_verdict("clicks", CLICKS, new.sources["clicks"], held=True).change
    return operator_verdict(
        "track", TRACK, new.operators["track"], held=True, migrates=False
    ).change


def test_changes() -> None:
    """What loses or misreads nothing is accepted; of all else it is said what differs."""
    for new, kind in ACCEPTED:
        assert verdict(new).kind == kind, new
    for new, says in REFUSED:
        assert verdict(new).is_refused, new
        assert says in verdict(new).why, verdict(new)


def test_many_differences_stay_short() -> None:
    """Eight lines at most, however much differs."""
    changes = [StateChange(f"o{i}", "operator", "refused", ": it is gone") for i in range(30)]
    assert len(refusals(changes).splitlines()) == 8


def test_fields_keep_the_default_they_came_with(tmp_path: Path) -> None:
    """Rows older than a field have its first default, also after the default in the code changed."""
    root = str(tmp_path)
    grown = manifests.carry(BASE, with_track(fields=MORE))
    later = with_track(fields=(*TRACK.fields, field("name", "str", "string", "changed")))
    manifests.write(FS, root, manifests.carry(grown, later))
    found = manifests.read(FS, root)
    assert found is not None
    assert found.defaults("track") == {"pages": 0, "timer": 0, "name": "?"}
    schema = pa.schema(
        [*SCHEMA][:1] + [*SCHEMA][1:2] + [pa.field("name", pa.string()), SCHEMA.field(3)]
    )
    old = rows(1, 2).drop_columns(["name"])
    new = manifests.migrate_batch(old, schema, found.defaults("track"))
    assert new.schema.names == schema.names
    assert new.column("name").to_pylist() == ["?", "?"]
    assert manifests.migrate_batch(new, schema, {}) is new


def test_migration_refuses_what_it_cannot_fill() -> None:
    """A missing key column or another type is an error, not a guess."""
    with pytest.raises(
        CheckpointError, match=r"expected the columns user: int64, .*the file has pages"
    ):
        manifests.migrate_batch(rows(1).drop_columns(["user"]), SCHEMA, {"pages": 0})
    other = SCHEMA.set(1, pa.field("pages", pa.string()))
    with pytest.raises(CheckpointError, match="expected the columns user: int64, pages: string"):
        manifests.migrate_batch(rows(1), other, {"pages": 0})


class Point(NamedTuple):
    x: float
    tag: bytes


def test_defaults_of_every_type() -> None:
    """Values that JSON lacks come back, nested ones as Arrow takes them."""
    values = [
        1,
        2.5,
        float("inf"),
        True,
        "é",
        b"\xff",
        None,
        [1.0, 2.0],
        Point(0.5, b"a"),
        [Point(1.0, b"")],
    ]
    back = [manifests.from_json(manifests.to_json(one)) for one in values]
    assert back == [*values[:8], {"x": 0.5, "tag": b"a"}, [{"x": 1.0, "tag": b""}]]
    made = [ManifestField.of(one) for one in Schema.of(Point).fields]
    assert made == [ManifestField("x", "float", "double"), ManifestField("tag", "bytes", "binary")]


def test_torn_manifest(tmp_path: Path) -> None:
    """A manifest that cannot be read is named."""
    whole = BASE.encode()
    for content in (b"", whole[:40], b"[]", whole.replace(b'"format": 2', b'"format": 9')):
        (tmp_path / "thalweg.json").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"thalweg\.json cannot be read"):
            manifests.read(FS, str(tmp_path))


def test_rows_that_were_released_do_not_wait(tmp_path: Path) -> None:
    """Looking at a source shows the rows that still wait, though the files hold those that have gone, too."""
    root = f"{tmp_path}/thalweg"
    manifests.write(FS, root, BASE)
    names = ("ts", "user", "_time", "_seq", "_deleted")
    columns = [*([pa.array([1, 2, 3])] * 4), pa.array([False] * 3)]
    held = pa.RecordBatch.from_arrays(columns, names=names)
    made = put(Path(root), NewUnit(0, "snapshot", held), operator="clicks")
    for released, waiting in ((-(2**63), [1, 2, 3]), (1, [2, 3]), (3, [])):
        gates = {"clicks": {"released": released}}
        record = next_record(None, 3, "a", [made], {}, slots=1, plan="p", extra={"gates": gates})
        records.write(FS, root, record)
        assert read_state(str(tmp_path), "clicks").column("ts").to_pylist() == waiting
