"""Messages of a broker as rows: the record's fields from the message's value, and from what stands beside it.

A value is JSON, text, bytes, Avro, or what a function of the user's makes of it. A key, a partition, a time or other
things that the broker says of a message fill the fields that the options name for them.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from thalweg.checks import one_of, path_of, refuse, require_function
from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import Fed
from thalweg.connectors.fitting import part_chunk
from thalweg.connectors.readers import BadRow, Parsed, ReadOptions, read_options
from thalweg.connectors.readers.json_lines import parse_json, record_parser
from thalweg.connectors.readers.parsed import Int64s, bad_row
from thalweg.connectors.readers.streams import Lines
from thalweg.connectors.readers.tables import fit_table
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Source
from thalweg.flow.records import Field, Schema

ValueFormat = Literal["json", "text", "bytes", "avro"]
Tombstones = Literal["reject", "skip", "null"]
#: What becomes of a log that is not there, or has nothing of what is asked for.
Missing = Literal["warn", "fail"]
Decode = Callable[[bytes], Any]

_LOG: Final = logging.getLogger("thalweg")
#: JSON has line ends only between its tokens.
_ONE_LINE: Final = bytes.maketrans(b"\n\r", b"  ")
#: Confluent's framing of Avro: a zero byte and the number of a schema.
_FRAME_BYTES: Final = 5
#: The options of JSON that make sense of a message.
MESSAGE_OPTIONS: Final = ("epoch_unit", "timestamp_formats", "nanoseconds")

_JSON: Final = ReadOptions(format="json")


@dataclasses.dataclass(frozen=True, slots=True)
class MessageOptions:
    """How the values of messages are read; made by :func:`message_options`."""

    format: ValueFormat = "json"
    #: makes a row of a value, in place of the format
    decode: Decode | None = None
    #: the file of the schema, of Avro
    schema: str | None = None
    #: what becomes of a message without a value
    tombstones: Tombstones = "reject"
    #: of JSON
    read: ReadOptions = _JSON
    #: the record's fields by what the broker says of a message: ``("key", "user")``
    fields: tuple[tuple[str, str], ...] = ()


def message_options(
    verb: str,
    fields: Mapping[str, str | None],
    *,
    format: ValueFormat = "json",
    decode: Decode | None = None,
    schema: Any = None,
    tombstones: Tombstones = "reject",
    **options: Any,
) -> MessageOptions:
    """The options of a verb that reads messages, checked.

    Args:
        verb: the function that has them, for messages.
        fields: by what the broker says of a message, the record's field for it, or None.
        format: of the values.
        decode: a function from the value's bytes to a row; then there is no format.
        schema: the path of an Avro schema.
        tombstones: a message without a value is a row that does not fit, is skipped, or has None in all fields of
            the value.
        options: of JSON, as for files: ``epoch_unit``, ``timestamp_formats``, ``nanoseconds``.

    Raises:
        BuildError: one is not known, or they do not go together.
    """
    format = one_of(verb, "format", format, get_args(ValueFormat))
    tombstones = one_of(verb, "tombstones", tombstones, get_args(Tombstones))
    if decode is not None:
        require_function(verb, decode=decode)
    if (schema is not None) != (format == "avro"):
        raise BuildError(f"{verb}: format='avro' and schema=, the path of its schema, go together")
    if options and format != "json":
        raise BuildError(f"{verb}: {', '.join(options)}: options of JSON, not of {format}")
    named = {what: field for what, field in fields.items() if field is not None}
    for what, field in named.items():
        if not isinstance(field, str) or not field.isidentifier():
            raise refuse(verb, what, "the name of a field", field)
    return MessageOptions(
        format,
        decode,
        None if schema is None else path_of(verb, "schema", schema),
        tombstones,
        read_options(verb, "json", options, tuple(fields), MESSAGE_OPTIONS),
        tuple(named.items()),
    )


def told_missing(told: str, missing: Missing) -> None:
    """Says that there is nothing to read yet, where a wrong name looks the same.

    Raises:
        EnvironmentProblem: that is to end the run.
    """
    if missing == "fail":
        raise EnvironmentProblem(
            f"{told}\n  to begin with nothing all the same, set missing='warn'"
        )
    _LOG.warning("%s; it is read as empty (missing='fail' refuses that)", told)


class MessageContent(NamedTuple):
    """What the values gave: rows by their number among the messages, and those that do not fit."""

    table: pa.Table
    rows: Int64s
    bad: list[BadRow]


class MessageParser:
    """Batches of messages as chunks of a source's record.

    Args:
        source: whose rows they are.
        options: how values are read.
        made_by: how users made the input, for messages.

    Raises:
        BuildError: the record does not fit the options.
        EnvironmentProblem: a package that the format needs is not installed.
    """

    def __init__(self, source: Source, options: MessageOptions, made_by: str) -> None:
        self._source, self._options = source, options
        record, fields = source.record, dict(options.fields)
        for what, field in fields.items():
            if field not in record.names:
                raise BuildError(
                    f"input {source.name!r}: {made_by}: {what}={field!r}: {record} has no such field"
                )
        self.read = options.read.of_source(record)
        inside = [one for one in record.fields if one.name not in fields.values()]
        self.value = Schema.make_record(record.name, inside).read_as(record.reading)
        beside = [Field(name, record.field(name).type) for name in fields.values()]
        self._beside = Schema.make_record(record.name, beside)
        self._decode = self.decoder(made_by)

    def parse(
        self,
        values: Sequence[bytes | None],
        beside: Mapping[str, Any],
        place: Callable[[int], str],
    ) -> Fed:
        """The messages as a chunk, with those that do not fit.

        Args:
            values: of the messages.
            beside: what the broker says of each, by the names of the options; Arrow arrays or lists. Bytes fit text.
            place: where the message of a number is, for messages.

        Raises:
            DataError: one does not fit, under ``errors="fail"``.
        """
        if not values:
            return Chunk.empty(self._source.record), []
        rows = np.arange(len(values))
        bad: list[BadRow] = []
        if None in values:
            rows, bad = self._without_tombstones(values)
        given = [values[row] for row in rows.tolist()] if len(rows) < len(values) else values
        content = self._decode(given)
        rows, bad = (
            rows[content.rows],
            bad
            + [dataclasses.replace(one, position=int(rows[one.position])) for one in content.bad],
        )
        part = Parsed(content.table, rows, bad)
        if self._beside.fields:
            part = self._with_beside(part, beside)
        bad = sorted(part.bad, key=lambda one: one.position)
        part = Parsed(
            part.table, part.positions, [dataclasses.replace(one, unit="row") for one in bad]
        )
        return part_chunk(self._source, part, place=lambda one: place(one.position))

    def _without_tombstones(self, values: Sequence[bytes | None]) -> tuple[Int64s, list[BadRow]]:
        """The numbers of the messages that are rows, and those that were to be and are not."""
        if self._options.tombstones == "null":
            return np.arange(len(values)), []
        kept = [row for row, value in enumerate(values) if value is not None]
        bad = []
        if self._options.tombstones == "reject":
            why = "a message without a value; tombstones='skip' leaves such out, 'null' gives rows of them"
            bad = [bad_row(row, why, "") for row, value in enumerate(values) if value is None]
        return np.array(kept, np.int64), bad

    def _with_beside(self, part: Parsed, beside: Mapping[str, Any]) -> Parsed:
        """The part with the fields that are not in the value, without rows whose fields do not fit."""
        columns, bad = {}, list(part.bad)
        for what, field in self._options.fields:
            column = beside[what]
            array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
            columns[field] = _as_text_where_asked(
                array.take(pa.array(part.positions)), self._beside, field
            )
        fitted = fit_table(pa.table(columns), self._beside, self._source.name, 0)
        bad += [
            dataclasses.replace(one, position=int(part.positions[one.position]))
            for one in fitted.bad
        ]
        value = part.table
        if len(fitted.positions) < value.num_rows:
            value = value.take(pa.array(fitted.positions))
        where = {name: value for name in value.column_names} | {
            name: fitted.table for name in columns
        }
        record = self._source.record
        table = pa.table(
            [where[name].column(name) for name in record.names], names=list(record.names)
        )
        return Parsed(table, part.positions[fitted.positions], bad)

    # -- values ----------------------------------------------------------------------------------------

    def decoder(self, made_by: str) -> Callable[[Sequence[bytes | None]], MessageContent]:
        options, where = self._options, f"input {self._source.name!r}: {made_by}"
        if options.decode is not None:
            return functools.partial(self._by_function, options.decode)
        if options.format == "json":
            parse = record_parser(self.value, self.read)
            return functools.partial(self._json, parse)
        if options.format == "avro":
            return functools.partial(self._by_function, _avro_decoder(str(options.schema)))
        kind = Kind.STR if options.format == "text" else Kind.BYTES
        kinds = (kind, Kind.CATEGORY) if kind is Kind.STR else (kind,)
        fields = self.value.fields
        if len(fields) != 1 or fields[0].type.kind not in kinds:
            wanted = "str" if kind is Kind.STR else "bytes"
            raise BuildError(
                f"{where}: format={options.format!r} fills one field, of type {wanted}; {self._source.record} has"
                f" {', '.join(f'{one.name}: {one.type}' for one in fields) or 'none'} beside those named by options"
            )
        return self._plain

    def _json(self, parse: Callable[[Any], Any], values: Sequence[bytes | None]) -> MessageContent:
        # A message without a value, where such are rows, has null in all fields.
        texts = [b"{}" if one is None else one for one in values]
        empty = {row for row, text in enumerate(texts) if not text or text.isspace()}
        for row in empty:
            texts[row] = b"null"  # a blank line would be no row
        data = b"\n".join(texts)
        if data.count(b"\n") != len(texts) - 1 or b"\r" in data:
            data = b"\n".join([one.translate(_ONE_LINE) for one in texts])
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1) - 1
        lines = Lines(data + b"\n", ends, 0)
        parts = list(parse_json(lines, self.value, self.read, parse)) if texts else []
        bad = [
            dataclasses.replace(one, reason="an empty message", text="")
            if one.position in empty
            else one
            for part in parts
            for one in part.bad
        ]
        tables = [part.table for part in parts]
        table = pa.concat_tables(tables) if tables else self.value.arrow.empty_table()
        rows = (
            np.concatenate([part.positions for part in parts]) if parts else np.zeros(0, np.int64)
        )
        return MessageContent(table, rows, bad)

    def _plain(self, values: Sequence[bytes | None]) -> MessageContent:
        field = self.value.fields[0]
        array = _as_text_where_asked(pa.array(values, pa.binary()), self.value, field.name)
        fitted = fit_table(pa.table({field.name: array}), self.value, self._source.name, 0)
        return MessageContent(fitted.table, fitted.positions, fitted.bad)

    def _by_function(self, decode: Decode, values: Sequence[bytes | None]) -> MessageContent:
        good: list[Any] = []
        rows: list[int] = []
        bad: list[BadRow] = []
        nothing = dict.fromkeys(self.value.columns)
        for row, value in enumerate(values):
            try:
                good.append(self.value.take(nothing if value is None else decode(value)))
                rows.append(row)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                bad.append(bad_row(row, reason, b"" if value is None else value))
        table = pa.Table.from_batches([Chunk.from_rows(self.value, good).to_arrow()])
        return MessageContent(table, np.array(rows, np.int64), bad)


def _as_text_where_asked(array: Any, record: Schema, name: str) -> Any:
    """Bytes as text for a field of text; those that are no UTF-8 are found where the table is fitted, and nulls."""
    if pa.types.is_null(array.type):
        return array.cast(record.arrow.field(name).type)
    if record.field(name).type.kind in (Kind.STR, Kind.CATEGORY) and pa.types.is_binary(array.type):
        return (
            pa.chunked_array([one.view(pa.string()) for one in array.chunks], pa.string())
            if isinstance(array, pa.ChunkedArray)
            else array.view(pa.string())
        )
    return array


def _avro_decoder(path: str) -> Decode:
    try:
        import fastavro
    except ImportError:
        raise EnvironmentProblem(
            "format='avro' needs the package fastavro: pip install fastavro"
        ) from None
    try:
        schema = fastavro.schema.load_schema(path)
    except Exception as error:
        raise BuildError(f"{path}: no Avro schema: {error}") from error

    def decode(value: bytes) -> Any:
        framed = value[:1] == b"\0" and len(value) >= _FRAME_BYTES
        tries = [value[_FRAME_BYTES:], value] if framed else [value]
        for number, data in enumerate(tries, 1):
            stream = io.BytesIO(data)
            try:
                row = fastavro.schemaless_reader(stream, schema, None)
                if stream.tell() != len(data):
                    raise ValueError(f"{len(data) - stream.tell()} bytes behind the record")
                return row
            except Exception:
                if number == len(tries):
                    raise
        raise AssertionError("unreachable")

    return decode
