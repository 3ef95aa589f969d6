"""What the file sinks write, the readers read back as it was."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import thalweg as tw
from thalweg.flow.records import Schema

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


class Row(NamedTuple):
    n: int
    text: str
    at: tw.Timestamp
    maybe: str | None
    when: tw.Timestamp | None
    number: float


class Only(NamedTuple):
    maybe: str | None


TEXTS = [
    *(
        "plain",
        "  spaces  ",
        "\ttab\t",
        'a "quote"',
        '"',
        '""',
        "\\",
        '\\"',
        "a,b",
        "'",
        "#",
        " ",
        "",
    ),
    *("line\nbreak", "cr\rhere", "crlf\r\n", "\n", "π 😀", "\u00a0", "\x00", "null", "NaN", "{}"),
]
TIMES = [
    *(0, -1, 1, -999_999, -1_000_001, 1_767_225_600_123_456, -62_135_596_800_000_000),
    253_402_300_799_999_999,
]
ROWS = [
    Row(
        n,
        text,
        TIMES[n % len(TIMES)],
        None if n % 3 else text or "some",
        None if n % 2 else TIMES[-1 - n % len(TIMES)],
        [0.1, -0.0, 1e300, 5e-324][n % 4],
    )
    for n, text in enumerate(TEXTS)
]


def through(record: Any, frame: Any, sink: Any, tmp_path: Path, name: str) -> Any:
    """The rows of the input as they went through a flow into a sink."""
    flow = tw.Flow(name)
    flow.source("rows", record).sink("out")
    made = tw.spark.start(
        flow,
        {"rows": frame},
        {"out": sink},
        checkpoint=str(tmp_path / f"{name}-checkpoint"),
        end="drain",
        trigger="available_now",
    )
    made.await_termination()
    return sink


def back_and_forth(
    spark: SparkSession, rows: list[Any], sink: Any, tmp_path: Path, **reading: Any
) -> list[Any]:
    record = type(rows[0])
    schema = Schema.of(record)
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, schema.arrow, strict=True)
    ]
    frame = spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema.arrow))
    through(record, frame, sink, tmp_path, "there")
    files = tw.spark.files(f"{sink.path}/batch=0", format=sink.format, streaming=False, **reading)
    found: list[Any] = through(record, files, tw.spark.memory(), tmp_path, "back").rows
    return found


@pytest.mark.short
@pytest.mark.parametrize("name", ["csv", "json", "parquet"])
def test_odd_values_come_back(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Spaces, quotes, line ends, microseconds from year 1 to 9999 and nulls are what they were."""
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    sink = getattr(tw.spark, name)(f"{tmp_path}/out")
    found = back_and_forth(spark, ROWS, sink, tmp_path)
    assert sorted(map(repr, found)) == sorted(map(repr, ROWS))
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before


def test_nulls_and_empty_texts(spark: SparkSession, tmp_path: Path) -> None:
    """A record of one Optional field loses no row; with a word for null, empty texts stay empty."""
    rows = [Only(None), Only(""), Only(" x"), Only('"')]
    found = back_and_forth(spark, rows, tw.spark.csv(f"{tmp_path}/out"), tmp_path)
    assert sorted(map(repr, found)) == sorted(map(repr, [Only(None), Only(None), *rows[2:]]))
    other = tw.spark.csv(f"{tmp_path}/more/out", nullValue="NULL", header=False)
    found = back_and_forth(
        spark, rows, other, tmp_path / "more", null_values=("NULL",), header=False
    )
    assert sorted(map(repr, found)) == sorted(map(repr, rows))
    [file] = (tmp_path / "more" / "out" / "batch=0").glob("*.csv")
    with file.open(newline="") as lines:
        assert sorted(csv.reader(lines)) == [[""], [" x"], ['"'], ["NULL"]]
