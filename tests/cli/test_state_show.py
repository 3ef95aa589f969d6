"""``thalweg state show --key``: keys of one field and of several, with commas, nulls and NaN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from typer.testing import CliRunner

from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.manifest import Manifest, ManifestField, ManifestOperator, ManifestSource
from thalweg.checkpoint.record import next_record
from thalweg.checkpoint.segments import NewUnit, Segment, write_segment
from thalweg.cli import app

TEXT = ManifestField("word", "str | None", "string")
NUMBER = ManifestField("x", "float | None", "double")
ROWS = ManifestField("rows", "int", "int64")
#: By operator, the fields of its key, and the keys whose states are 0, 1, ….
OPERATORS: dict[str, tuple[list[ManifestField], list[tuple[Any, ...]]]] = {
    "by_word": ([TEXT], [("a",), ("a,b",), (None,), ("[1]",), ("[",), ("null",)]),
    "by_both": ([TEXT, NUMBER], [("a", 1.0), ("a,b", None), (None, float("nan")), ("null", -0.5)]),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ckpt")
    root = f"{folder}/thalweg"
    fs = pafs.LocalFileSystem()
    operators = {
        name: ManifestOperator("keyed", tuple(fields), 4, "Count", (ROWS,))
        for name, (fields, _) in OPERATORS.items()
    }
    manifests.write(fs, root, Manifest("words", "0.1", operators, {}))
    segments = [segment(fs, root, name) for name in OPERATORS]
    records.write(fs, root, next_record(None, 0, "a", segments, {}, slots=1))
    return folder


def segment(fs: pafs.FileSystem, root: str, name: str) -> Segment:
    fields, keys = OPERATORS[name]
    types = {"string": pa.string(), "double": pa.float64()}
    columns = [
        pa.array(column, types[field.arrow])
        for field, column in zip(fields, zip(*keys, strict=True), strict=True)
    ]
    columns += [pa.array(range(len(keys)), pa.int64()), pa.array([False] * len(keys))]
    names = [*[field.name for field in fields], "rows", "_deleted"]
    unit = NewUnit(0, "snapshot", pa.record_batch(columns, names=names))
    return write_segment(
        fs, root, batch=0, stage=1, slot=0, attempt="a", operator=name, metadata={}, units=[unit]
    )


def show(checkpoint: Path, operator: str, key: str) -> tuple[int, str]:
    parts = ["state", "show", str(checkpoint), "--operator", operator, "--key", key, "--json"]
    result = CliRunner().invoke(app, parts)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("operator", "key", "rows"),
    [
        ("by_word", "a", 0),
        ("by_word", "a,b", 1),
        ("by_word", '["a,b"]', 1),
        ("by_word", "[null]", 2),
        ("by_word", '["[1]"]', 3),
        ("by_word", "[", 4),
        ("by_word", "null", 5),
        ("by_both", "a,1", 0),
        ("by_both", '["a", 1]', 0),
        ("by_both", '["a,b", null]', 1),
        ("by_both", '[null, "nan"]', 2),
        ("by_both", '["null", -0.5]', 3),
    ],
)
def test_a_key(checkpoint: Path, operator: str, key: str, rows: int) -> None:
    """Each key is found by itself alone, however it is written."""
    code, said = show(checkpoint, operator, key)
    assert code == 0, said
    assert [row["rows"] for row in json.loads(said)["state"][operator]] == [rows]


@pytest.mark.parametrize(
    ("operator", "key", "message"),
    [
        ("by_word", "b", "has no state of the key 'b'"),
        ("by_both", "[1, 2", "--key [1, 2: it is not a JSON array"),
        ("by_both", '["a"]', "expected a key of word, x, got ('a',)"),
        ("by_both", '["a", [2]]', "key x: expected double, got [2]"),
    ],
)
def test_no_such_key(checkpoint: Path, operator: str, key: str, message: str) -> None:
    """A key without state, one that is not JSON, and those that do not fit the operator."""
    code, said = show(checkpoint, operator, key)
    assert code == 1
    assert message in " ".join(said.split())


TIMES = {"Timestamp": "1970-01-01T00:02:05Z", "int": "125000000"}


@pytest.mark.parametrize("kinds", [["Timestamp"], ["int"], ["int", "Timestamp"]])
@pytest.mark.parametrize("inside", [False, True])
def test_clocks_in_their_unit(kinds: list[str], inside: bool, tmp_path: Path) -> None:
    """The time of a flow that counts something else than microseconds is a number, not a day in 1970."""
    fs, root = pafs.LocalFileSystem(), f"{tmp_path}/thalweg"
    sources, operators = {}, {}
    for kind in kinds:
        # Another time among the fields says nothing about the clock.
        fields = (ManifestField("ts", kind, ""), ManifestField("other", "Timestamp", ""))
        if inside:
            operators[kind] = ManifestOperator("stateful", (), 1, "order_by ts", fields)
        sources[f"in{kind}"] = ManifestSource(fields, "" if inside else "ts")
    manifest = Manifest("times", "0.1", operators, sources)
    manifests.write(fs, root, manifest)
    records.write(fs, root, next_record(None, 0, "a", [], {}, slots=1, clock={"1": 125_000_000}))
    output = CliRunner().invoke(app, ["state", "show", str(tmp_path)]).output
    expected = TIMES[kinds[0]] if len(kinds) == 1 else "125000000 (1970-01-01T00:02:05Z where"
    assert f"watermark 1: {expected}" in output
