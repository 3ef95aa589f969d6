"""The reader-level facts of the written cases under tests/cases."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyarrow import fs as pafs

import thalweg.flow.records as tw
from thalweg.connectors.readers import Parsed, ReadOptions, describe_bad, inspect_file, read_file
from thalweg.errors import DataError
from thalweg.flow.records import Schema

CASES = Path(__file__).parent.parent / "cases"
LOCAL = pafs.LocalFileSystem()


def expected(case: str) -> Any:
    return json.loads((CASES / case / "expected.json").read_text())


def read(case: str, name: str, record: type, options: ReadOptions) -> list[Parsed]:
    path = CASES / case / "input" / name
    return list(read_file(LOCAL, str(path), Schema.of(record), options))


def rows(parts: list[Parsed]) -> list[dict[str, Any]]:
    return [row for part in parts for row in part.table.to_pylist()]


def bad(parts: list[Parsed]) -> dict[int, str]:
    return {one.position: one.reason for part in parts for one in part.bad}


JSON = ReadOptions(format="json")
CSV = ReadOptions(format="csv")


class Event(NamedTuple):
    id: int
    user: str
    v: int


def test_corrupt_json() -> None:
    """09: good rows go on, each bad line has its number and reason, and all lines are accounted for."""
    want = expected("09_corrupt_json")
    parts = read("09_corrupt_json", "events.jsonl", Event, JSON)
    found = rows(parts)
    # The case lists 12 good ids by line; by id these are 1, 4, 7 (doubled field), 8, 9, 10 and 12.
    assert {row["id"] for row in found} == {*want["good_ids"], 7}
    assert [row["v"] for row in found if row["id"] in (9, 10)] == [1000, 9007199254740993]
    positions = [int(at) for part in parts for at in part.positions]
    problems = bad(parts)
    assert sorted([*positions, *problems, *want["blank_lines"]]) == list(range(1, 17))
    assert problems[2].startswith("not JSON")
    assert problems[3] == "not JSON: Expecting value at column 1"
    assert problems[4] == "v: expected int, got 'x'"
    assert problems[7] == "expected an object, got [1, 2]"
    assert problems[8] == "expected an object, got None"
    assert problems[9] == "not JSON: Extra data at column 29"
    assert problems[15].startswith("not UTF-8")
    assert describe_bad("events.jsonl", parts[0].bad[1]).startswith("events.jsonl line 3: not JSON")


class Sale(NamedTuple):
    id: int
    user: str
    amount: int


def test_schema_drift() -> None:
    """10: columns by name; what is missing or retyped is told, never null."""
    want = expected("10_schema_drift")
    found = [
        row for n in (1, 2, 3) for row in rows(read("10_schema_drift", f"part-{n}.csv", Sale, CSV))
    ]
    assert {str(r["id"]): [r["user"], r["amount"]] for r in found} == want["rows"]
    for name, extra in want["extra_columns"].items():
        parts = read("10_schema_drift", name, Sale, CSV)
        assert parts[0].extra_columns == tuple(extra)
        path = str(CASES / "10_schema_drift" / "input" / name)
        assert inspect_file(LOCAL, path, Schema.of(Sale), CSV).extra_columns == tuple(extra)
    with pytest.raises(DataError, match=r"part-4.csv: column user missing \(found customer\)"):
        read("10_schema_drift", "part-4.csv", Sale, CSV)
    parts = read("10_schema_drift", "part-5.csv", Sale, CSV)
    assert not rows(parts)
    assert bad(parts) == {
        2: "amount: expected int, got '60.5' (not an integer)",
        3: "amount: expected int, got '1,000' (not an integer)",
    }


class Keyed(NamedTuple):
    user: str | None
    n: int


class Strict(NamedTuple):
    user: str
    n: int


def test_null_keys() -> None:
    """03: null and missing are null; "", " ", "null" and "NA" are texts; not Optional: bad, with a reason."""
    want = expected("03_null_keys")
    sums: dict[str | None, int] = {}
    for row in rows(read("03_null_keys", "events.jsonl", Keyed, JSON)):
        sums[row["user"]] = sums.get(row["user"], 0) + row["n"]
    assert sums.pop(None) == want["no_key"]["sum"]
    assert sums == want["groups"]
    problems = bad(read("03_null_keys", "events.jsonl", Strict, JSON))
    assert problems == {2: "user is null", 4: "user is missing", 7: "user is null"}


class Number(NamedTuple):
    k: float | None
    n: int


class Bits(NamedTuple):
    row: int
    double_bits_hex: str


def test_nan_keys() -> None:
    """05: NaN, infinities, -0.0 and null arrive as what they are."""
    groups: dict[str, int] = {}
    for row in rows(read("05_nan_keys", "events.jsonl", Number, JSON)):
        key = "null" if row["k"] is None else "NaN" if row["k"] != row["k"] else str(row["k"] + 0.0)
        groups[key] = groups.get(key, 0) + row["n"]
    assert groups == expected("05_nan_keys")["events_groups"]
    bits = [row["double_bits_hex"] for row in rows(read("05_nan_keys", "bits.csv", Bits, CSV))]
    assert len(bits) == 9
    assert struct.unpack(">d", bytes.fromhex(bits[5]))[0] == 1.0


class Moment(NamedTuple):
    id: int
    epoch_s: tw.Timestamp


def test_times_before_1970() -> None:
    """06: epoch seconds from year 1 to 9999 are exact, and windows by floor division come out right."""
    want = expected("06_negative_ts")
    options = ReadOptions(format="csv", epoch_unit="s")
    parts = read("06_negative_ts", "events.csv", Moment, options)
    times = [t for part in parts for t in part.table["epoch_s"].cast("int64").to_pylist()]
    seconds = [t // 1_000_000 for t in times]
    assert all(t % 1_000_000 == 0 for t in times)
    assert [[s // 10 * 10, s // 10 * 10 + 10] for s in seconds] == want["window10"]


class Line(NamedTuple):
    line: str
    number: int


def test_syslog() -> None:
    """16: every line comes as it is, with its number."""
    found = rows(read("16_syslog_ssh", "messages.log", Line, ReadOptions(format="text")))
    text = (CASES / "16_syslog_ssh" / "input" / "messages.log").read_text()
    assert [row["line"] for row in found] == text.splitlines()
    assert [row["number"] for row in found] == list(range(1, 11))


class Click(NamedTuple):
    user: str
    ts: int
    page: str
    seq: int


def test_session_ties() -> None:
    """18: rows come in file order, the same row twice comes twice."""
    parts = read("18_session_ties", "clicks.jsonl", Click, JSON)
    assert [row["seq"] for row in rows(parts)] == list(range(9))
    assert parts[0].positions.tolist() == list(range(1, 10))
