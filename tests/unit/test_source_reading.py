"""Columns of other names and times of other forms: said once at the source, for every input."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from io_kit import source_node

import thalweg as tw
from thalweg.connectors.messages import MessageParser, message_options
from thalweg.spark.reading.inputs import InputOptions
from thalweg.spark.reading.received import source_chunks
from thalweg.time_texts import likely_formats

NAMES = {"station": "start station id", "id": "_id"}


class Trip(NamedTuple):
    id: int
    station: str | None
    ts: tw.Timestamp


ROWS = [
    {"_id": 1, "start station id": "ä", "ts": "2026-01-01T00:00:00Z"},
    {"ts": "2026-01-02", "start station id": None, "_id": 2},
]
TRIPS = [
    Trip(1, "ä", tw.timestamp("2026-01-01T00:00:00Z")),
    Trip(2, None, tw.timestamp("2026-01-02")),
]
TABLE = pa.table(
    {
        "ts": [row.ts for row in TRIPS],
        "start station id": [row.station for row in TRIPS],
        "station": ["other", "other"],
        "_id": [row.id for row in TRIPS],
    }
)


def trips(**options: Any) -> tw.Flow:
    flow = tw.Flow("trips")
    source = flow.source("trips", Trip, names=NAMES, order_by="ts", errors="reject", **options)
    source.map(lambda trip: trip, into=Trip).sink("out")
    source.rejected.sink("bad")
    return flow


def inputs(folder: Path) -> dict[str, Any]:
    """The trips in every form."""
    (folder / "a.csv").write_text('_id,x,"start station id",ts\n1,,ä,2026-01-01\n2,,,2026-01-02\n')
    (folder / "b.csv").write_text("1,ä,2026-01-01\n2,,2026-01-02\n")
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    odd = ' {"_id": 1, "start station id": "\\u00e4", "ts": "2026-01-01"}\n'  # not from brace to brace
    (folder / "d.jsonl").write_text(odd + json.dumps(ROWS[1]) + "\n")
    pq.write_table(TABLE, folder / "e.parquet")
    return {
        "csv": tw.files(folder / "a.csv"),
        "csv by place": tw.files(folder / "b.csv", header=False),
        "json": tw.files(folder / "c.jsonl"),
        "json line by line": tw.files(folder / "d.jsonl"),
        "parquet": tw.files(folder / "e.parquet"),
        "table": TABLE,
        "batches": TABLE.to_reader(),
        "dicts": ROWS,
        "iterator": iter(ROWS),
        "dicts, one of another order": [*ROWS[:1], dict(reversed(ROWS[1].items()))],
        "records": TRIPS,
    }


def test_columns_of_other_names(tmp_path: Path) -> None:
    """Every input is read by the names of its columns; rows that are records by those of their fields."""
    for what, given in inputs(tmp_path).items():
        result = tw.run(trips(), {"trips": given})
        assert result.rows("out") == TRIPS and not result.rows("bad"), what
    for rows in (ROWS, TABLE, TRIPS):
        assert tw.testing.reference(trips(), {"trips": rows}).sinks["out"] == TRIPS


def test_columns_of_messages_and_frames() -> None:
    """Messages have them; a frame of Spark is renamed where it is tagged."""
    source = source_node(Trip, names=NAMES)
    parser = MessageParser(source, message_options("talk", {}), "talk(...)")
    values = [json.dumps(row).encode() for row in ROWS]
    assert parser.parse(values, {}, str)[0].rows() == TRIPS
    by_function = message_options("talk", {}, decode=json.loads, tombstones="null")
    parser = MessageParser(source, by_function, "talk(...)")
    assert parser.parse(values, {}, str)[0].rows() == TRIPS
    frame = TABLE.drop_columns("station").rename_columns(["ts", "station", "id"])
    ((chunk, _),) = source_chunks(source, InputOptions(None), [frame], 10)
    assert chunk.rows() == TRIPS
    again = pickle.loads(pickle.dumps(source))
    assert (again.record.reading, again.out.columns) == (source.record.reading, Trip._fields)


def test_lanes_by_another_name() -> None:
    """A lane is a field; its column may have another name, also where lanes are looked for before the run."""
    flow = tw.Flow("lanes")
    flow.source("trips", Trip, names=NAMES, order_by="ts", lane="station").sink("out")
    for rows in (TABLE, ROWS):
        assert tw.run(flow, {"trips": rows}).rows("out") == TRIPS


def test_a_missing_column_and_one_that_is_like_it(tmp_path: Path) -> None:
    """The message writes down the names= that takes the column that seems to be meant."""
    advice = {
        "start station id": "names={'station': 'start station id'}",
        "Station": "names={'station': 'Station'}",
        "staton": "names={'station': 'staton'}",
        "weather": None,
    }
    for column, said in advice.items():
        flow = tw.Flow("trips")
        source = flow.source("trips", Trip, names={"id": "_id"}, errors="reject")
        source.rejected.sink("bad")
        row = {"_id": 1, column: "x", "ts": 0}
        path = tmp_path / "a.csv"
        path.write_text(f"_id,{column},ts\n1,x,2026-01-01\n")
        for given in (tw.files(path), pa.Table.from_pylist([row])):
            with pytest.raises(
                (tw.DataError, tw.SchemaError), match="column station missing"
            ) as why:
                tw.run(flow, {"trips": given})
            assert (said is None and "names=" not in str(why.value)) or str(said) in str(why.value)
    rows = [{"identity": 1, "ts": 0}]
    bad = tw.run(trips(), {"trips": rows}).rows("bad")
    assert bad[0].reason.startswith("Trip.id is missing: there is no '_id'")
    (tmp_path / "a.jsonl").write_text('{"_Id": 1, "ts": "2026-01-01"}\n')
    bad = tw.run(trips(), {"trips": tw.files(tmp_path / "a.jsonl")}).rows("bad")
    assert bad[0].reason == "_id is missing; names={'id': '_Id'} on the source takes that"


def test_names_that_cannot_be() -> None:
    """They are refused where they are given."""
    refused = {
        "no field 'start'.*it has id, station, ts": {"start": "station"},
        r"write \{'id': '_id'\}": {"_id": "id"},
        "id and station would both be column 'station'": {"id": "station"},
        r"names\['id'\]": {"id": ""},
        "a dict of the record's fields": ["id"],
    }
    for said, names in refused.items():
        with pytest.raises(tw.BuildError, match=said):
            tw.Flow("trips").source("trips", Trip, names=names)  # type: ignore[arg-type]
    times: dict[str, dict[str, Any]] = {
        "not both": {"epoch_unit": "s", "timestamp_formats": ["%Y"]},
        "'s', 'ms', 'us', 'ns' or None": {"epoch_unit": "min"},
        "patterns of strptime": {"timestamp_formats": "%Y"},
    }
    for said, options in times.items():
        with pytest.raises(tw.BuildError, match=said):
            tw.Flow("trips").source("trips", Trip, **options)
    with pytest.raises(tw.BuildError, match="the record has none"):
        tw.Flow("trips").source("trips", NamedTuple("Bare", [("x", int)]), epoch_unit="s")


def test_a_datetime_that_is_too_fine() -> None:
    """What Python's own datetime cannot say is not cut in silence."""

    class Fine(dt.datetime):
        nanosecond = 7

    flow = trips()
    row = {"_id": 1, "ts": Fine(2026, 1, 1, tzinfo=dt.UTC)}
    assert "finer than a microsecond" in tw.run(flow, {"trips": [row]}).rows("bad")[0].reason


def test_guessed_patterns() -> None:
    """The first pattern that is named reads the text."""
    guesses = {
        "31.01.2026 12:30": "%d.%m.%Y %H:%M",
        "1/31/2026": "%m/%d/%Y",
        "31/1/2026 7:05:09": "%d/%m/%Y %H:%M:%S",
        "10/Oct/2026:13:55:36 -0700": "%d/%b/%Y:%H:%M:%S %z",
        "Sat, 31 Jan 2026 12:30:00 GMT": "%a, %d %b %Y %H:%M:%S GMT",
        "2026-01-31 12:30:00,123": "%Y-%m-%d %H:%M:%S,%f",
        "2026/01/31 12:30:00.123456789": "%Y/%m/%d %H:%M:%S.%f",
        "2026-01-31T12:30:00 +01:00": "%Y-%m-%dT%H:%M:%S %z",
        "20260131T123000Z": "%Y%m%dT%H%M%S%z",
        "Jan 31, 2026 1:05 PM": "%b %d, %Y %I:%M %p",
        "31.01.26": "%d.%m.%y",
        "yesterday": None,
        "2026-02-30 1": None,
        "": None,
    }
    for text, pattern in guesses.items():
        assert next(likely_formats(text), None) == pattern, text
