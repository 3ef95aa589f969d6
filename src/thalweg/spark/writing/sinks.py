"""Where sinks write: files by batch, tables in memory, the terminal, or a function of the user's.

Every sink is given the batch id and may be called again for a batch that it has seen: a crash between its write
and the commit repeats the batch with the same rows. File sinks overwrite ``batch=<n>/``, so a reader of the
folder finds each row once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from thalweg.brief import counted
from thalweg.checkpoint.paths import absolute, delete_folder, resolve
from thalweg.checks import kind_of, known_keywords, path_of, require_function, require_rows
from thalweg.connectors import RowSink
from thalweg.connectors.shown import shown_table
from thalweg.connectors.target_writes import OnDriver
from thalweg.connectors.targets import Target
from thalweg.connectors.written.batch_files import refuse_used
from thalweg.connectors.written.batch_folders import batch_folder
from thalweg.connectors.written.file_sink import FileSink
from thalweg.connectors.written.spark_options import FileFormat, writer_options
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.operators.functions import Function, check_parameters
from thalweg.flow.operators.nodes import Sink as SinkNode
from thalweg.flow.records import Field, Schema
from thalweg.printing import Terminal


@dataclasses.dataclass(frozen=True, slots=True)
class FolderSink:
    """A folder that gets ``batch=<n>/`` a batch, written by Spark."""

    path: str
    format: FileFormat
    options: dict[str, Any]

    made_by = "tw.spark.parquet(...), json or csv"

    def write(self, frame: DataFrame, batch: int) -> None:
        """Writes a batch, in place of an earlier try's files."""
        options = dict(self.options)
        if self.format == "csv" and len(frame.columns) == 1:
            options = {"quoteAll": True, **options}  # an empty line would be no row
        with _micros_in_parquet(frame.sparkSession):
            writer = frame.write.mode("overwrite").options(**options)
            writer.format(self.format).save(self._folder(batch))

    def clear(self, batch: int) -> None:
        """The batch has no rows: an earlier try's files, made by another version of the flow, must go."""
        fs, path = resolve(self._folder(batch))
        delete_folder(fs, path)

    def _folder(self, batch: int) -> str:
        return batch_folder(self.path, batch)


@contextlib.contextmanager
def _micros_in_parquet(session: SparkSession) -> Iterator[None]:
    """Spark's default for times in Parquet, INT96, reads as nanoseconds, of which 64 bits hold 584 years."""
    name = "spark.sql.parquet.outputTimestampType"
    if session.conf.get(name) != "INT96":
        yield
        return
    session.conf.set(name, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        session.conf.set(name, "INT96")


#: Times as they are: Spark's writers cut them to milliseconds.
_TIMES: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"}
#: CSV as RFC 4180 has it and as our reader reads it, with all spaces.
_CSV: Final = {
    "header": True,
    "escape": '"',
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
    **_TIMES,
}
_JSON: Final = {"ignoreNullFields": False, **_TIMES}


@dataclasses.dataclass(frozen=True, slots=True)
class FrameSink:
    """A function that gets each batch as a DataFrame."""

    function: Callable[[DataFrame, int], Any]

    made_by = "tw.spark.foreach_batch(...)"


@dataclasses.dataclass(frozen=True, slots=True)
class TableSink:
    """A function that gets each batch as a pyarrow table on the driver."""

    function: Callable[[pa.Table, int], Any]

    made_by = "tw.spark.foreach_table(...)"


class MemorySink:
    """Keeps the output in the driver, by batch; for looking and for tests."""

    made_by = "tw.spark.memory()"

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self._batches: dict[int, pa.Table] = {}
        self._schema: Schema | None = None

    def __repr__(self) -> str:
        return (
            f"<memory sink, {counted(len(self), 'row')} of {counted(len(self._batches), 'batch')}>"
        )

    def put(self, schema: Schema, table: pa.Table, batch: int) -> None:
        """Stores a batch, in place of an earlier try's."""
        self._schema = schema
        self._batches[batch] = table

    @property
    def table(self) -> pa.Table:
        """All batches so far as one table, in order."""
        tables = [self._batches[batch] for batch in sorted(self._batches)]
        return pa.concat_tables(tables) if tables else pa.table({})

    @property
    def rows(self) -> list[Any]:
        """All rows so far as records."""
        from thalweg.columns.chunks import Chunk

        if self._schema is None:
            return []
        return Chunk.from_arrow(self._schema, self.table).rows()

    def __len__(self) -> int:
        return sum(table.num_rows for table in self._batches.values())


@dataclasses.dataclass(frozen=True, slots=True)
class ConsoleSink:
    """Prints each batch as a table."""

    max_rows: int

    made_by = "tw.spark.console()"

    def show(self, name: str, schema: Schema, table: pa.Table, batch: int) -> None:
        """Prints a batch; an empty one is not worth a line."""
        if not table.num_rows:
            return
        title = f"{name}, batch {batch}: {counted(table.num_rows, 'row')}"
        rows = table.slice(0, self.max_rows)
        Terminal().print(shown_table(title, schema, rows, table.num_rows))


Sink = FolderSink | FrameSink | TableSink | MemorySink | ConsoleSink | Target


def parquet(path: str | os.PathLike[str], **options: Any) -> FolderSink:
    """Writes Parquet files to ``path/batch=<n>/``.

    Args:
        path: the folder.
        options: those of Spark's writer, ``compression`` and ``maxRecordsPerFile``; names with a dot, such as
            ``parquet.block.size``, are passed on to the Parquet library. Folders are by batch, so partitionBy and mode
            are none.

    Raises:
        BuildError: there is no such option.
    """
    return _file_sink("parquet", path, options, {})


def json(path: str | os.PathLike[str], **options: Any) -> FolderSink:
    """Writes JSON lines to ``path/batch=<n>/``; options as for :func:`parquet`.

    Times have microseconds and UTC, nulls are written. Spark writes bytes as Base64, NaN and infinities as text.
    """
    return _file_sink("json", path, options, _JSON)


def csv(path: str | os.PathLike[str], **options: Any) -> FolderSink:
    """Writes CSV files with a header to ``path/batch=<n>/``; options as for :func:`parquet`.

    Texts are quoted as in RFC 4180 and keep their spaces, times have microseconds and UTC. A null is an empty cell,
    an empty text two quotes; to read them apart, set ``nullValue="NULL"`` here and ``null_values=("NULL",)`` there.
    Bytes do not survive: Spark writes them for people to read.
    """
    return _file_sink("csv", path, options, _CSV)


def _file_sink(
    format: FileFormat, path: Any, options: Mapping[str, Any], usual: Mapping[str, Any]
) -> FolderSink:
    place = absolute(path_of(format, "path", path))
    return FolderSink(place, format, {**usual, **writer_options(format, options)})


@known_keywords
def console(max_rows: int = 20) -> ConsoleSink:
    """Prints each batch as a table of at most ``max_rows`` rows."""
    require_rows("console", max_rows=max_rows)
    return ConsoleSink(max_rows)


@known_keywords
def memory() -> MemorySink:
    """Keeps the output on the driver: ``sink.rows``, ``sink.table``."""
    return MemorySink()


@known_keywords
def foreach_batch(function: Callable[[DataFrame, int], Any]) -> FrameSink:
    """Calls ``function(frame, batch_id)``: for Kafka, JDBC, Delta and whatever else Spark writes.

    It can be called again with the same batch id and the same rows; make it idempotent by the id.
    """
    return FrameSink(_of_two("foreach_batch", function, "frame"))


@known_keywords
def foreach_table(function: Callable[[pa.Table, int], Any]) -> TableSink:
    """Calls ``function(table, batch_id)`` on the driver with a pyarrow table; repeats as for foreach_batch."""
    return TableSink(_of_two("foreach_table", function, "table"))


def _of_two(where: str, function: Any, first: str) -> Callable[[Any, int], Any]:
    require_function(where, function=function)
    check_parameters(Function.of(function, where), where, [first, "batch_id"])
    checked: Callable[[Any, int], Any] = function
    return checked


def as_sink(name: str, given: Any) -> Sink:
    """What was given for a sink; a function of two arguments is a foreach_batch.

    Raises:
        BuildError: it is none of the kinds.
    """
    if isinstance(given, (FolderSink, FrameSink, TableSink, MemorySink, ConsoleSink, Target)):
        return given
    if isinstance(given, FileSink):
        return {"parquet": parquet, "json": json, "csv": csv}[given.format](given.path)
    if isinstance(given, RowSink):
        return OnDriver(given)
    if isinstance(given, (str, os.PathLike)):
        raise BuildError(f"sink {name!r}: got a path; write tw.to_files({os.fspath(given)!r})")
    makers = (parquet, json, csv, console, memory, foreach_batch, foreach_table)
    if any(given is one for one in makers):
        raise BuildError(
            f"sink {name!r}: tw.spark.{given.__name__} is to be called: {given.__name__}(…)"
        )
    if callable(given):
        return FrameSink(_of_two(f"sink {name!r}", given, "frame"))
    raise BuildError(
        f"sink {name!r}: expected tw.to_files(...), tw.to_delta(...) or another target, tw.spark.parquet(...), json,"
        f" csv, console(), memory() or a function (frame, batch_id), got {kind_of(given)}"
    )


def sinks_of(given: Mapping[str, Any]) -> dict[str, Sink]:
    """What was given for the sinks, by name.

    Raises:
        BuildError: something is no sink, or two of them would write over each other.
    """
    sinks = {name: as_sink(name, one) for name, one in given.items()}
    taken: dict[Any, str] = {}
    for name, sink in sinks.items():
        target: Any = None
        if isinstance(sink, MemorySink):
            target = id(sink)
        elif isinstance(sink, FolderSink):
            fs, path = resolve(sink.path)
            target = fs.type_name, path.rstrip("/")
        elif isinstance(sink, Target):
            target = sink.place
        if target is not None and (other := taken.setdefault(target, name)) != name:
            what = _shared(sink)
            raise BuildError(
                f"sinks {other!r} and {name!r} would overwrite each other in {what}; give each its own"
            )
    return sinks


def check_targets(nodes: Sequence[SinkNode], sinks: Mapping[str, Sink]) -> None:
    """Refuses records that a target cannot take.

    Raises:
        BuildError: naming sink and field.
    """
    for node in nodes:
        sink = sinks.get(node.name)
        if isinstance(sink, Target):
            sink.check(node)


def _shared(sink: Sink) -> str:
    if isinstance(sink, FolderSink):
        return sink.path
    return sink.place if isinstance(sink, Target) else "one memory()"


def refuse_inside(sinks: Mapping[str, Any], **folders: str | os.PathLike[str] | None) -> None:
    """Refuses a sink in a folder of the checkpoint, whose files come and go.

    Raises:
        BuildError: naming both.
    """
    for what, folder in folders.items():
        if folder is None:
            continue
        fs, outer = resolve(absolute(os.fspath(folder)))
        for name, sink in sinks.items():
            if not isinstance(sink, FolderSink):
                continue
            other, path = resolve(sink.path)
            if other.equals(fs) and f"{path.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/"):
                raise BuildError(
                    f"sink {name!r}: {sink.path} lies in the folder of {what}={os.fspath(folder)!r}, which has files of"
                    " its own; give the sink a folder elsewhere"
                )


def refuse_used_folders(sinks: dict[str, Sink]) -> None:
    """Refuses a new checkpoint over an output folder that already has batches.

    Raises:
        CheckpointError: old and new batches would mix.
    """
    for name, sink in sinks.items():
        if isinstance(sink, FolderSink):
            refuse_used(name, sink.path)


def decode_frame(frame: DataFrame, schema: Schema, sink: int) -> DataFrame:
    """The rows of one sink out of the blob frame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from thalweg.spark.tasks.map_in_arrow import map_in_arrow
    from thalweg.spark.tasks.transport import decode, from_batch

    plain = _without_classes(schema)

    def body(batches: Any) -> Any:
        for batch in batches:
            for blob in from_batch(batch):
                yield decode(blob.data, plain, ()).to_arrow()

    mine = frame.filter((frame["kind"] == "sink") & (frame["node"] == sink))
    return map_in_arrow(mine, body, from_arrow_schema(schema.arrow))


def _without_classes(schema: Schema) -> Schema:
    """The same fields without the user's classes, whose modules the workers may not be able to import."""
    fields = [Field(field.name, _plain_type(field.type)) for field in schema.fields]
    return Schema.make_record(schema.name, fields)


def _plain_type(kind: FieldType) -> FieldType:
    return dataclasses.replace(
        kind,
        item=kind.item and _plain_type(kind.item),
        record=kind.record and _without_classes(kind.record),
    )
