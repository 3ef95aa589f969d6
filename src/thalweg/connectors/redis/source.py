"""``tw.redis_stream``: a stream of Redis or Valkey as the input of a source, in every host."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import Any, Final, Literal, get_args

from thalweg.checks import (
    is_int_from,
    known_keywords_and,
    one_of,
    refuse,
    require_flag,
    require_optional_text,
    require_rows,
    require_text,
)
from thalweg.connectors.logs import LogReader
from thalweg.connectors.messages import (
    MESSAGE_OPTIONS,
    MessageOptions,
    MessageParser,
    Missing,
    ValueFormat,
    message_options,
)
from thalweg.connectors.redis.client import RedisServer, library, server_at
from thalweg.connectors.redis.entries import EntryParser
from thalweg.connectors.redis.reader import RedisReader
from thalweg.flow.operators.nodes import Source
from thalweg.times import timestamp as timestamp_of

OnLoss = Literal["fail", "skip"]

_ID: Final = re.compile(r"\d{1,20}-\d{1,20}")


@dataclasses.dataclass(frozen=True, slots=True)
class RedisLog:
    """A stream of Redis; made by :func:`redis_stream`."""

    server: RedisServer
    stream: str
    #: the field of an entry that has the row; None: all of them are the record's fields
    value: str | None
    follow: bool
    max_rows: int | None
    #: an end of the log, the id of an entry behind which reading begins, or a time in microseconds
    start: str | int
    on_loss: OnLoss
    options: MessageOptions
    missing: Missing = "warn"

    made_by = "tw.redis_stream(...)"

    def __repr__(self) -> str:
        return f"tw.redis_stream({self.server.place!r}, {self.stream!r})"

    def check(self, source: Source) -> None:
        self.parser(source)

    def parser(self, source: Source) -> MessageParser:
        """What makes rows of entries.

        Raises:
            BuildError: the record does not fit the options.
        """
        made = EntryParser if self.value is None else MessageParser
        return made(source, self.options, self.made_by)

    def open(self) -> LogReader:
        library()
        return RedisReader(self)


@known_keywords_and(*MESSAGE_OPTIONS)
def redis_stream(
    url: str,
    stream: str,
    *,
    value: str | None = None,
    format: ValueFormat = "json",
    follow: bool = True,
    max_rows: int | None = None,
    start: str | int | datetime.datetime = "earliest",
    on_loss: OnLoss = "fail",
    missing: Missing = "warn",
    entry_id: str | None = None,
    timestamp: str | None = None,
    patience: str | int | datetime.timedelta = "1 minute",
    **options: Any,
) -> RedisLog:
    """Reads a stream of Redis or Valkey as the input of a source, in the order of its entries.

    Needs Redis 7 or Valkey, and the package redis (``pip install 'thalweg[redis]'``). No consumer group takes part:
    the host remembers the id of the last entry.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://…`` or ``unix://…``; a password is shown nowhere.
        stream: the stream's key.
        value: the field of an entry that holds the whole row; None: the fields of an entry are those of the record,
            as text, where one that is missing is null. Lists and records are JSON.
        format: of that one field: ``"json"``, ``"text"`` or ``"bytes"``.
        follow: whether it is read on as it grows; False reads what is there at the start.
        max_rows: about how many rows a batch on Spark has at most.
        start: where a run begins that has no position yet: ``"earliest"``, ``"latest"``, behind an entry
            (``"1700000000000-0"``), or at a time (ISO 8601 text, a datetime, or a Timestamp).
        on_loss: entries that were trimmed before they were read end the run with an error (``"fail"``), or are
            skipped with a warning that counts them (``"skip"``).
        missing: a stream that is not there when a run begins is said in the log and read as an empty one (``"warn"``),
            or ends it (``"fail"``).
        entry_id: the record's field for the entry's id, a str.
        timestamp: the field for the time in it, a Timestamp.
        patience: how long a server that does not answer is waited for.
        options: how text and JSON are read, as for files: ``epoch_unit``, ``timestamp_formats``, ``nanoseconds``.

    Raises:
        BuildError: an option is not known, or they do not go together.
    """
    verb = "redis_stream"
    require_text(verb, stream=stream)
    require_optional_text(verb, value=value)
    require_flag(verb, follow=follow)
    if max_rows is not None:
        require_rows(verb, max_rows=max_rows)
    on_loss = one_of(verb, "on_loss", on_loss, get_args(OnLoss))
    missing = one_of(verb, "missing", missing, get_args(Missing))
    if value is None and format != "json":
        raise refuse(verb, "format", "'json' where value= does not name a field", format)
    if format == "avro":
        raise refuse(verb, "format", "one of json, text, bytes", format)
    beside = {"entry_id": entry_id, "timestamp": timestamp}
    made = message_options(verb, beside, format=format, **options)
    server = server_at(verb, url, patience)
    return RedisLog(server, stream, value, follow, max_rows, _start(start), on_loss, made, missing)


def _start(given: Any) -> str | int:
    if isinstance(given, str) and (given in ("earliest", "latest") or _ID.fullmatch(given)):
        return given
    if is_int_from(given, 0):
        return int(given)
    try:
        return timestamp_of(given)
    except (ValueError, OverflowError, TypeError):
        expected = "'earliest', 'latest', the id of an entry, or a time"
        raise refuse("redis_stream", "start", expected, given) from None
