"""A file that changes while it is read is an error that says how; what is compressed or no text is known."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from io_kit import Pair, bad_of, rows_of, source_node
from pyarrow import fs as pafs

import thalweg as tw
from thalweg.connectors import never
from thalweg.connectors.readers import Parsed, ReadOptions, inspect_file, read_file
from thalweg.errors import BuildError, DataError
from thalweg.flow.records import Schema
from thalweg.spark.reading.inputs import InputOptions
from thalweg.spark.reading.received import source_chunks

LOCAL = pafs.LocalFileSystem()
#: Enough that a reader has not read all of it when it gives its first rows.
ROWS = 200_000


class Line(NamedTuple):
    line: str


ENDS = {"csv": "csv", "json": "jsonl", "text": "txt", "parquet": "parquet"}
RECORDS: dict[str, type] = {"csv": Pair, "json": Pair, "text": Line, "parquet": Pair}


def content(form: str, rows: int, *, first: int = 100_000) -> bytes:
    """So many rows, all of the same length."""
    numbers = range(first, first + rows)
    if form == "csv":
        return b"a,b\n" + "".join(f"{n},x\n" for n in numbers).encode()
    if form == "json":
        return "".join(f'{{"a": {n}, "b": "x"}}\n' for n in numbers).encode()
    if form == "text":
        return "".join(f"{n} x\n" for n in numbers).encode()
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": list(numbers), "b": ["x"] * rows}), out, row_group_size=10_000)
    return bytes(out.getvalue())


def write(folder: Path, form: str, rows: int = ROWS) -> Path:
    path = folder / f"x.{ENDS[form]}"
    path.write_bytes(content(form, rows))
    return path


def begun(path: Path, form: str, **options: Any) -> Iterator[Parsed]:
    """The parts of the file behind the first one."""
    made = ReadOptions(format=form, **options)  # type: ignore[arg-type]
    parts = read_file(LOCAL, str(path), Schema.of(RECORDS[form]), made, batch_rows=1000)
    next(parts)
    return parts


def later(path: Path) -> None:
    """The time of change moves on, however coarse it is."""
    now = os.stat(path).st_mtime_ns
    os.utime(path, ns=(now, now + 1_000_000))


def shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def nothing_left(path: Path) -> None:
    os.truncate(path, 0)


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"1,x\n")


def same_length(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data)
    later(path)


def replaced(path: Path) -> None:
    other = path.with_name("y")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(0, path.stat().st_mtime_ns + 1_000_000))
    os.replace(other, path)


def removed(path: Path) -> None:
    path.unlink()


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "shorter": (
        shorter,
        r"the file got shorter .* it had [0-9,]+ bytes when it was opened, now [0-9,]+, so rows",
    ),
    "empty": (
        nothing_left,
        r"the file got shorter .* now 0, so rows are missing; write it under another name",
    ),
    "longer": (
        longer,
        r"the file grew while it was read: it had [0-9,]+ bytes when it was opened, now [0-9,]+;",
    ),
    "other bytes": (same_length, "the file changed while it was read"),
    "another file": (replaced, "it was replaced while it was read"),
    "removed": (removed, "the file was removed while it was read"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", ENDS)
def test_a_change_while_it_is_read(form: str, change: str, tmp_path: Path) -> None:
    """It is an error that names the file, what was expected and what came; never fewer rows."""
    path = write(tmp_path, form)
    parts = begun(path, form)
    act, said = CHANGES[change]
    act(path)
    with pytest.raises(DataError, match=f"x.{ENDS[form]}: {said}"):
        list(parts)


@pytest.mark.parametrize("form", ENDS)
def test_a_change_tells_itself_also_where_rows_are_rejected(form: str, tmp_path: Path) -> None:
    """Half a row at a new end is no bad row: the change is the cause."""
    path = write(tmp_path, form)
    parts = begun(path, form)
    os.truncate(path, path.stat().st_size - 3)
    with pytest.raises(DataError, match="the file got shorter"):
        list(parts)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", ENDS)
def test_a_change_before_it_is_read(form: str, change: str, tmp_path: Path) -> None:
    """What the folder's list said of a file must hold when its turn comes."""
    first, second = tmp_path / f"a.{ENDS[form]}", tmp_path / f"x.{ENDS[form]}"
    for path in (first, second):
        path.write_bytes(content(form, 10))
        os.utime(path, ns=(0, 10**18))
    feed = tw.files([first, second]).rows(source_node(RECORDS[form]), 100, never())
    assert len(next(feed)[0]) == 10
    CHANGES[change][0](second)
    said = CHANGES[change][1].partition(".*")[0].replace("opened", "listed")
    if change == "another file":  # the list does not say which file it was: what is there is read
        later(second)
        said = "the file changed while"
    with pytest.raises(DataError, match=said):
        list(feed)


def test_a_file_of_spark_that_is_shorter_than_listed(tmp_path: Path) -> None:
    """A task of the Spark host compares with the length in its list of files."""
    path = write(tmp_path, "csv", 10)
    paths = pa.table({"path": [str(path)], "mtime": [0], "length": [path.stat().st_size]})
    shorter(path)
    feed = source_chunks(source_node(), InputOptions(ReadOptions(format="csv")), [paths], 100)
    with pytest.raises(DataError, match=r"x\.csv: the file got shorter .* when it was listed"):
        list(feed)


def test_a_compressed_file_that_changes(tmp_path: Path) -> None:
    """The damage that the decompressor sees is told as the change that it is."""
    path = tmp_path / "x.csv.gz"
    noise = [f"{n},{n * 2654435761 % 2**32}" for n in range(400_000)]
    path.write_bytes(gzip.compress("\n".join(["a,b", *noise]).encode(), 1))
    parts = begun(path, "csv")
    shorter(path)
    with pytest.raises(DataError, match=r"x\.csv\.gz: the file got shorter"):
        list(parts)


@pytest.mark.parametrize("form", ["csv", "json", "text"])
def test_a_file_that_may_grow(form: str, tmp_path: Path) -> None:
    """Its whole lines when it is opened are read, and no others; a line without an end does not fit."""
    path = write(tmp_path, form)
    path.write_bytes(path.read_bytes() + content(form, 1)[-9:-1])
    feed = tw.files(path, growing=True).rows(
        source_node(RECORDS[form], errors="reject"), 1000, never()
    )
    fed = [next(feed)]
    with path.open("ab") as file:
        file.write(content(form, 5))
    fed += feed
    assert sum(len(chunk) for chunk, _ in fed) == ROWS
    lines = ROWS + 1 + (form == "csv")
    assert [(reason[:37], place) for _, bad in fed for reason, place, _ in bad] == [
        ("cut off: the line had no end yet when", f"{path.name} line {lines}")
    ]
    parts = begun(path, form, growing=True)
    shorter(path)
    with pytest.raises(DataError, match="the file got shorter"):
        list(parts)


def test_a_file_that_may_grow_and_is_packed(tmp_path: Path) -> None:
    """A member that is appended meanwhile is not read."""
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(content("csv", ROWS)))
    parts = begun(path, "csv", growing=True)
    with path.open("ab") as file:
        file.write(gzip.compress(b"1,x\n"))
    assert 1000 + sum(part.table.num_rows for part in parts) == ROWS


def test_growing_is_for_files_of_lines(tmp_path: Path) -> None:
    """Parquet has its end in its end; a connection is no file."""
    with pytest.raises(
        BuildError, match="growing is an option of csv and json and text, not of parquet"
    ):
        tw.files(tmp_path / "x.parquet", growing=True)
    with pytest.raises(BuildError, match="growing is an option of files"):
        tw.tcp_lines("localhost", 1, "json", growing=True)


# -- compression --------------------------------------------------------------------------------------

BODY = b"a,b\n1,x\n2,y\n"
PACKED = {
    "gzip": gzip.compress(BODY[:8]) + gzip.compress(BODY[8:]),
    "bz2": bz2.compress(BODY),
    "xz": lzma.compress(BODY[:8]) + lzma.compress(BODY[8:]),
    "zstd": pa.compress(BODY, "zstd", asbytes=True),
}
NAMES = {"gzip": ".gz", "bz2": ".bz2", "xz": ".xz", "zstd": ".zst"}


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("named", [True, False])
def test_compression_is_known(codec: str, named: bool, tmp_path: Path) -> None:
    """By the end of the name, and without one by the first bytes."""
    path = tmp_path / f"x.csv{NAMES[codec] if named else ''}"
    path.write_bytes(PACKED[codec])
    assert rows_of(tw.files(path).rows(source_node(), 10, never())) == [(1, "x"), (2, "y")]
    report = inspect_file(LOCAL, str(path), Schema.of(Pair), ReadOptions(format="csv"))
    assert (report.compression, report.columns) == (codec, ("a", "b"))


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("named", [True, False])
def test_a_compressed_file_that_is_cut_off(codec: str, named: bool, tmp_path: Path) -> None:
    """It is damaged, however its compression was known."""
    path = tmp_path / f"x.csv{NAMES[codec] if named else ''}"
    path.write_bytes(PACKED[codec][:-5])
    with pytest.raises(DataError, match=r"x\.csv.*: cannot be read: .*cut off or damaged"):
        list(tw.files(path).rows(source_node(), 10, never()))


def test_a_name_that_tells_another_compression(tmp_path: Path) -> None:
    """The name is not believed, and the file not either."""
    path = tmp_path / "x.csv.gz"
    for data, said in ((BODY, "but it is not"), (PACKED["xz"], "but it is compressed by xz")):
        path.write_bytes(data)
        with pytest.raises(
            DataError, match=f"x.csv.gz: by its name it is compressed by gzip, {said}"
        ):
            list(tw.files(path).rows(source_node(), 10, never()))


def zipped(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.csv", BODY)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "a zip archive"),
        (b"7z\xbc\xaf\x27\x1c" + BODY, "a 7z archive"),
        (b"\x1f\x9d" + BODY, "compressed by compress"),
        (b"\x04\x22\x4d\x18" + BODY, "compressed by lz4"),
        (content("parquet", 3), "Parquet; read it with format='parquet'"),
        (b"ARROW1\0\0" + BODY, "an Arrow file"),
        (b"Obj\x01" + BODY, "Avro"),
        (BODY.decode().encode("utf-16"), "UTF-16 text; convert it to UTF-8"),
        (BODY.decode().encode("utf-16-le"), "UTF-16 text"),
        (BODY.decode().encode("utf-32"), "UTF-32 text"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_is_no_text(form: str, data: bytes | None, said: str, tmp_path: Path) -> None:
    """It is named, with what to do about it; not many rows that do not fit."""
    path = tmp_path / f"x.{ENDS[form]}"
    path.write_bytes(zipped(tmp_path / "z") if data is None else data)
    with pytest.raises(DataError, match=f"x.{ENDS[form]}: the file is {said}"):
        list(tw.files(path).rows(source_node(errors="reject"), 10, never()))


class Raw(NamedTuple):
    line: bytes


def test_lines_of_bytes_are_of_any_encoding(tmp_path: Path) -> None:
    """Only text is refused in other encodings."""
    path = tmp_path / "x.txt"
    data = "a\nb".encode("utf-16-be")
    path.write_bytes(data)
    assert rows_of(tw.files(path).rows(source_node(Raw), 10, never())) == [(b"\0a\0",), (b"\0b",)]


def test_parquet_that_is_none(tmp_path: Path) -> None:
    """A compressed Parquet file, and a file of something else, are named."""
    path = tmp_path / "x.parquet"
    for data, said in (
        (
            gzip.compress(content("parquet", 3)),
            "the file is compressed by gzip; Parquet is compressed inside",
        ),
        (b"Obj\x01" + BODY, "the file is Avro"),
        (BODY, "not Parquet, or damaged"),
    ):
        path.write_bytes(data)
        with pytest.raises(DataError, match=f"x.parquet: {said}"):
            list(tw.files(path).rows(source_node(), 10, never()))


def test_a_sink_that_writes_xz(tmp_path: Path) -> None:
    """What a sink's name promises is what it writes."""
    path = tmp_path / "x.jsonl.xz"
    flow = tw.Flow("test")
    flow.source("in", Pair).sink("out")
    tw.run(flow, {"in": [Pair(1, "x")]}, {"out": tw.to_files(path)})
    assert lzma.decompress(path.read_bytes()) == b'{"a":1,"b":"x"}\n'
    assert not bad_of(tw.files(path).rows(source_node(), 10, never()))
