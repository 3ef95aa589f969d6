"""Inputs: frames and folders of files as one tagged frame, and back to chunks inside a task.

All inputs of a flow enter as one union: a column says which source a row is of, a struct column a
source holds its fields, and one text column carries control commands. A folder of files enters as *paths*; the
files are parsed in the task, so line numbers and arrival order are exact and the rows skip the JVM.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from thalweg.checkpoint.paths import absolute, resolve
from thalweg.checks import kind_of, path_of, require_flag
from thalweg.connectors.files import FileSource
from thalweg.connectors.logs import Log
from thalweg.connectors.readers import (
    Format,
    ReadOptions,
    list_files,
    read_options,
)
from thalweg.connectors.readers.tables import check_types
from thalweg.errors import BuildError, DataError, SchemaError
from thalweg.flow.operators.lanes import unknown_until_the_end
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import Plan
from thalweg.spark.reading.listing import files_of, is_listed_by_path, listable, listed_by_path
from thalweg.spark.reading.log_stream import SharedLog, log_frame

#: What makes Arrow's times UTC; in Spark 4.1 they are.
_UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)
_EXPECTED: Final = "expected tw.files(...), a log such as tw.kafka(...), or a Spark DataFrame"
#: Options of files that are not about their content.
_OWN_OPTIONS: Final = ("max_files_per_trigger", "recursive", "streaming")
SOURCE: Final = "_source"
CONTROL: Final = "_control"
#: The value of SOURCE in rows of the control folder.
CONTROL_SOURCE: Final = -1

#: Options that bound a batch: maxFilesPerTrigger, maxOffsetsPerTrigger, maxBytesPerTrigger, rowsPerBatch, ...
_BOUND: Final = re.compile(r"\bmax\w+PerTrigger\b|\browsPerBatch\b", re.IGNORECASE)


#: Spark's binaryFile source; we select all but the content, and then it does not open the files.
_BINARY_FILE: Final = "path string, modificationTime timestamp, length long, content binary"


@dataclasses.dataclass(frozen=True, slots=True)
class Files:
    """Files to be read with strict types, in the order of modification time and path.

    Made by :func:`files`; give it as the input of a source.
    """

    path: str
    options: ReadOptions
    streaming: bool
    max_files_per_trigger: int | None
    recursive: bool

    made_by = "tw.spark.files(...)"


def files(
    path: str | os.PathLike[str],
    *,
    format: Format,
    streaming: bool = True,
    max_files_per_trigger: int | None = None,
    recursive: bool = False,
    **options: Any,
) -> Files:
    """Reads files as the input of a source, in arrival order, with strict types and exact line numbers.

    Args:
        path: a folder, a file or a glob, as Spark writes it (plain, ``file:``, ``hdfs:``, ``s3a:``, ...).
        format: ``"csv"``, ``"json"`` (a JSON value a line), ``"text"`` or ``"parquet"``.
        streaming: whether new files are picked up; False reads once what is there, and ends.
        max_files_per_trigger: at most so many files a batch.
        recursive: also files in folders below.
        options: of the format, see :class:`thalweg.connectors.readers.ReadOptions`.

    Raises:
        BuildError: an option does not belong to the format, or no file may come.
    """
    most = max_files_per_trigger
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise BuildError(
            f"files: max_files_per_trigger is a whole number, at least 1, not {most!r}"
        )
    require_flag("files", streaming=streaming, recursive=recursive)
    recursive = recursive or options.get("partitions") is True
    return Files(
        absolute(path_of("files", "path", path)),
        read_options("files", format, options, _OWN_OPTIONS),
        streaming,
        max_files_per_trigger,
        recursive,
    )


def inputs_of(given: Mapping[str, Any], *, follow: bool) -> dict[str, Any]:
    """The inputs by name as this host takes them: frames, files and logs.

    Args:
        given: by source name; also the descriptions that every host takes.
        follow: whether new files are picked up of ``tw.files`` that do not say.

    Raises:
        BuildError: one is none of these; it says what to do.
    """
    return {name: _input(name, one, follow) for name, one in given.items()}


def _input(name: str, given: Any, follow: bool) -> Any:
    if isinstance(given, FileSource):
        if len(given.paths) != 1:
            raise BuildError(
                f"input {name!r}: on Spark files are one folder, file or glob, got {len(given.paths)} paths;"
                " give a glob that fits all, or a source a folder"
            )
        streams = follow if given.follow is None else given.follow
        return Files(
            given.paths[0], given.options, streams, given.max_files_per_trigger, given.recursive
        )
    if isinstance(given, (Files, DataFrame, Log)):
        return given
    if isinstance(given, (str, os.PathLike)):
        raise BuildError(f"input {name!r}: {_EXPECTED}, got a path; write tw.files({str(given)!r})")
    if hasattr(given, "made_by"):
        raise BuildError(
            f"input {name!r}: {kind_of(given)} cannot be read again from where it was, which Spark must be able to do"
            " after a failure; run the flow with tw.run, or put a log such as Kafka in between"
        )
    raise BuildError(f"input {name!r}: {_EXPECTED}, got {kind_of(given)}{_in_memory(given)}")


def _in_memory(given: Any) -> str:
    """What to do with rows that lie in memory."""
    is_table = isinstance(given, pa.Table | pa.RecordBatch) or hasattr(given, "__arrow_c_stream__")
    if not is_table and not isinstance(given, list | tuple):
        return ""
    return "; for rows in memory use tw.run, or spark.createDataFrame(...)"


def is_streaming(inputs: Mapping[str, Any]) -> bool:
    """Whether the inputs stream.

    Raises:
        BuildError: some do and some do not.
    """
    kinds = {name: _streams(name, given) for name, given in inputs.items()}
    if len(set(kinds.values())) > 1:
        raise BuildError(
            f"these inputs are streams: {', '.join(n for n, s in kinds.items() if s)}; and these are not:"
            f" {', '.join(n for n, s in kinds.items() if not s)}; use readStream (or files(streaming=True)) for all"
        )
    return any(kinds.values())


def unbounded(inputs: Mapping[str, Any]) -> Iterator[str]:
    """The streaming inputs of which one batch may take any amount, as far as their options tell."""
    for name, given in inputs.items():
        if isinstance(given, Files):
            if given.max_files_per_trigger is None:
                yield name
        elif isinstance(given, Log):
            if given.max_rows is None:
                yield name
        elif not all(map(_BOUND.search, _source_options(given))):
            yield name


class LiveInput(NamedTuple):
    """An input whose rows come as they come: how much of it a batch takes, in files or in rows."""

    is_files: bool
    most: float


def live_inputs(inputs: Mapping[str, Any]) -> dict[str, LiveInput]:
    """By source how much a batch takes of it; 0 where nobody knows.

    A batch that took less began where there was nothing more.
    """
    free = set(unbounded(inputs))
    found = {}
    for name, given in inputs.items():
        most = given.max_files_per_trigger if isinstance(given, Files) else None
        most = given.max_rows if isinstance(given, Log) else most
        found[name] = LiveInput(isinstance(given, Files), math.inf if name in free else most or 0)
    return found


def _source_options(frame: DataFrame) -> Iterator[str]:
    """The options of each streaming source of a frame, as text."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves().iterator()
    while leaves.hasNext():
        leaf = leaves.next()
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelation":
            yield str(leaf.dataSource().options().toString())
        elif kind == "StreamingRelationV2":
            yield str(leaf.extraOptions().asCaseSensitiveMap().toString())


def refuse_embedded_only(plan: Plan) -> None:
    """Refuses what only the embedded host can do: operators without inputs, and feedback.

    Raises:
        BuildError: there is some; it says what to do instead.
    """
    for edge in (edge for edges in plan.feedback.values() for edge in edges):
        raise BuildError(
            f"operator {plan.node(edge.node).name!r} reads a feedback: its loop runs a row at a time, which Spark's"
            " batches between slots cannot; run this flow with tw.run, or write what is sent back to a topic or folder"
            " and read that as a source, so that it holds from the next batch on"
        )
    for source in plan.sources:
        if source.made_by is not None:
            raise BuildError(
                f"operator {source.name!r}: {source.made_by.function.where} has no tw.Input: it makes its rows itself,"
                " and Spark must be able to read a batch again after a failure; run this flow with tw.run, or begin it"
                f" with flow.source({source.name!r}, ...) and give that what Spark can read again: tw.spark.files,"
                " Kafka, or spark.readStream.format('rate')"
            )


def refuse_unknown_lanes(plan: Plan, *, drains: bool) -> None:
    """Refuses streams for sources whose lanes are those of the whole input, unless the query drains it.

    Raises:
        BuildError: there is one; it names the choices.
    """
    for source in plan.sources:
        if source.keeps_lanes and source.lanes is None and not drains:
            why = "a streaming query has one only with trigger='available_now', end='drain'"
            raise unknown_until_the_end(source.name, str(source.lane), why)


def _streams(name: str, given: Any) -> bool:
    if isinstance(given, Files):
        return given.streaming
    return given.follow if isinstance(given, Log) else bool(given.isStreaming)


def tagged_frame(
    spark: SparkSession, plan: Plan, inputs: Mapping[str, Any], control: str | None
) -> DataFrame:
    """The union of all inputs, and of the control folder where there is one."""
    frames = [
        _frame(spark, source.given, inputs[source.name], control is not None)
        for source in plan.sources
    ]
    types = [frame.schema for frame in frames]
    wide = []
    for place, frame in enumerate(frames):
        columns = [f.lit(place).cast("int").alias(SOURCE)]
        for other, kind in enumerate(types):
            value = (
                f.struct(*[frame[name] for name in frame.columns])
                if other == place
                else f.lit(None)
            )
            columns.append(value.cast(kind).alias(f"s{other}"))
        columns.append(f.lit(None).cast("string").alias(CONTROL))
        wide.append(frame.select(*columns))
    if control is not None:
        # Not the temporary name that a command has until it is whole: it would be gone when it is read.
        reader = spark.readStream.format("text").option("pathGlobFilter", "*.json")
        # As for files: a clock that was set back must not make commands look old.
        reader = reader.option("maxFileAge", "36500d")
        commands = reader.load(control)
        columns = [f.lit(CONTROL_SOURCE).cast("int").alias(SOURCE)]
        columns += [f.lit(None).cast(kind).alias(f"s{other}") for other, kind in enumerate(types)]
        wide.append(commands.select(*columns, commands["value"].alias(CONTROL)))
    out = wide[0]
    for frame in wide[1:]:
        out = out.unionByName(frame)
    return out


def _frame(spark: SparkSession, source: Source, given: Any, streaming: bool) -> DataFrame:
    if isinstance(given, Files):
        return _paths(spark, source, given, streaming)
    if isinstance(given, Log):
        given.check(source)
        return log_frame(spark, given, streaming=streaming)
    check_frame(source, given)
    pairs = zip(source.record.columns, source.record.names, strict=True)
    frame: DataFrame = given.select(*[given[f"`{column}`"].alias(name) for column, name in pairs])
    return frame


def check_frame(source: Source, frame: DataFrame) -> None:
    """Refuses a frame whose columns do not fit the source's record, before anything runs.

    Raises:
        SchemaError: naming column, found and expected type.
    """
    try:
        check_types(
            to_arrow_schema(frame.schema, **_UTC),
            source.record,
            f"the input of source {source.name!r}",
        )
    except DataError as error:
        raise SchemaError(str(error)) from None


def _paths(spark: SparkSession, source: Source, given: Files, streaming: bool) -> DataFrame:
    if not streaming:
        fs, path = resolve(given.path)
        found = list_files(fs, path, recursive=given.recursive)
        if not found:
            raise BuildError(f"input {source.name!r}: there are no files at {given.path}")
        rows = [(one.path, one.mtime_us, one.length) for one in found]
        return spark.createDataFrame(rows, "path string, mtime long, length long")
    reader = spark.readStream.format("binaryFile").schema(_BINARY_FILE)
    reader = reader.option("recursiveFileLookup", str(given.recursive).lower())
    if given.max_files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", given.max_files_per_trigger)
    # Spark would leave out, in silence, files that are a week older than the newest it has seen.
    reader = reader.option("maxFileAge", "36500d")
    by_path = is_listed_by_path(given)
    try:
        frame = reader.load(listed_by_path(given.path) if by_path else listable(given.path))
    except AnalysisException as error:
        raise BuildError(
            f"input {source.name!r}: {given.path}: {str(error).splitlines()[0]}\n"
            "A folder that is to be watched must exist; it may be empty."
        ) from None
    if by_path:
        frame = files_of(frame, given.path)
    return frame.select(
        frame["path"], f.unix_micros(frame["modificationTime"]).alias("mtime"), frame["length"]
    )


@dataclasses.dataclass(frozen=True, slots=True)
class InputOptions:
    """What a task must know of an input: how its files are read, or None for rows of a frame."""

    read: ReadOptions | None
    base: str = ""
    log: SharedLog | None = None

    @property
    def is_one(self) -> bool:
        """Whether Spark has one place for it in its log of offsets; behind a frame there may be several."""
        return self.read is not None or self.log is not None


def input_options(inputs: Mapping[str, Any]) -> dict[str, InputOptions]:
    """The options of all inputs, by source name."""
    return {name: _options(given) for name, given in inputs.items()}


def _options(given: Any) -> InputOptions:
    if isinstance(given, Files):
        return InputOptions(given.options, given.path)
    if isinstance(given, Log):
        return InputOptions(None, log=SharedLog.of(given))
    return InputOptions(None)
