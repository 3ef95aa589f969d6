"""``tw.nats``: a stream of NATS JetStream as the input of a source, in every host."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, Literal, get_args

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
    Decode,
    MessageOptions,
    MessageParser,
    Missing,
    ValueFormat,
    message_options,
)
from thalweg.connectors.nats.client import NatsServers, library, servers_at
from thalweg.connectors.nats.reader import NatsReader
from thalweg.flow.operators.nodes import Source
from thalweg.times import timestamp as timestamp_of

OnLoss = Literal["fail", "skip"]


@dataclasses.dataclass(frozen=True, slots=True)
class NatsLog:
    """A stream of NATS; made by :func:`nats`."""

    servers: NatsServers
    stream: str
    subject: str | None
    follow: bool
    max_rows: int | None
    #: an end of the stream, a sequence, or a time in microseconds (in a tuple)
    start: str | int | tuple[int]
    on_loss: OnLoss
    options: MessageOptions
    missing: Missing = "warn"

    made_by = "tw.nats(...)"

    def __repr__(self) -> str:
        return f"tw.nats({self.servers.place!r}, {self.stream!r})"

    def check(self, source: Source) -> None:
        MessageParser(source, self.options, self.made_by)

    def open(self) -> LogReader:
        library()
        return NatsReader(self)


@known_keywords_and(*MESSAGE_OPTIONS)
def nats(
    url: str,
    stream: str,
    *,
    subject: str | None = None,
    follow: bool = True,
    max_rows: int | None = None,
    start: str | int | datetime.datetime = "earliest",
    on_loss: OnLoss = "fail",
    missing: Missing = "warn",
    format: ValueFormat = "json",
    decode: Decode | None = None,
    schema: str | None = None,
    subject_field: str | None = None,
    sequence: str | None = None,
    timestamp: str | None = None,
    patience: str | int | datetime.timedelta = "1 minute",
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> NatsLog:
    """Reads a stream of NATS JetStream as the input of a source, in the order of its sequence.

    Needs the package nats-py (``pip install 'thalweg[nats]'``). Nothing is acknowledged: the host remembers the
    sequence, and the server forgets the reader a minute after its last question.

    Args:
        url: ``nats://user:password@host:4222``, or several with commas between; a password is shown nowhere.
        stream: the stream's name.
        subject: only messages of these subjects, ``"orders.*"``.
        follow: whether it is read on as it grows; False reads what is there at the start.
        max_rows: about how many rows a batch on Spark has at most; all subjects are counted.
        start: where a run begins that has no position yet: ``"earliest"``, ``"latest"``, with a sequence (an int), or
            at a time (ISO 8601 text, or a datetime).
        on_loss: messages that were removed before they were read end the run with an error (``"fail"``), or are
            skipped with a warning that counts them (``"skip"``).
        missing: a stream without a message of the subject is said in the log when a run begins and read as an empty one
            (``"warn"``), or ends it (``"fail"``); one without the stream itself always does.
        format: of the values: ``"json"``, ``"text"``, ``"bytes"`` or ``"avro"``.
        decode: a function from the value's bytes to a row, in place of a format.
        schema: the path of an Avro schema.
        subject_field: the record's field for the message's subject, a str.
        sequence: the field for its sequence, an int.
        timestamp: the field for the time at which the server took it, a Timestamp.
        patience: how long a server that does not answer is waited for.
        config: options of ``nats.connect``, such as ``user_credentials``; never shown.
        options: of JSON, as for files: ``epoch_unit``, ``timestamp_formats``, ``nanoseconds``.

    Raises:
        BuildError: an option is not known, or they do not go together.
    """
    require_text("nats", stream=stream)
    require_optional_text("nats", subject=subject)
    require_flag("nats", follow=follow)
    if max_rows is not None:
        require_rows("nats", max_rows=max_rows)
    on_loss = one_of("nats", "on_loss", on_loss, get_args(OnLoss))
    missing = one_of("nats", "missing", missing, get_args(Missing))
    beside = {"subject_field": subject_field, "sequence": sequence, "timestamp": timestamp}
    made = message_options("nats", beside, format=format, decode=decode, schema=schema, **options)
    servers = servers_at("nats", url, config, patience)
    return NatsLog(
        servers, stream, subject, follow, max_rows, _start(start), on_loss, made, missing
    )


def _start(given: Any) -> str | int | tuple[int]:
    if given in ("earliest", "latest") or is_int_from(given, 1):
        return given  # type: ignore[no-any-return]
    try:
        return (timestamp_of(given),)
    except (ValueError, OverflowError, TypeError):
        expected = "'earliest', 'latest', a sequence from 1 on, or a time"
        raise refuse("nats", "start", expected, given) from None
