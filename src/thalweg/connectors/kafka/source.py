"""``tw.kafka``: topics of Kafka as the input of a source, in every host."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from thalweg.checks import (
    is_int_from,
    known_keywords_and,
    one_of,
    refuse,
    require_flag,
    require_rows,
    shown,
)
from thalweg.connectors.kafka.client import Brokers, brokers_of, library
from thalweg.connectors.kafka.reader import HEADER, KafkaReader
from thalweg.connectors.logs import LogReader
from thalweg.connectors.messages import (
    MESSAGE_OPTIONS,
    Decode,
    MessageOptions,
    MessageParser,
    Tombstones,
    ValueFormat,
    message_options,
)
from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Source
from thalweg.times import timestamp as timestamp_of

OnLoss = Literal["fail", "skip"]
#: Where reading begins: at an end of the log, at a time in microseconds, or at offsets by lane.
Start: TypeAlias = Literal["earliest", "latest"] | int | tuple[tuple[str, int], ...]
#: As users give it.
GivenStart: TypeAlias = str | int | datetime.datetime | Mapping[Any, int]

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclasses.dataclass(frozen=True, slots=True)
class KafkaLog:
    """Topics of Kafka; made by :func:`kafka`."""

    brokers: Brokers
    #: their names; one that begins with ``^`` is a pattern
    topics: tuple[str, ...]
    follow: bool
    max_rows: int | None
    start: Start
    on_loss: OnLoss
    options: MessageOptions

    made_by = "tw.kafka(...)"

    def __repr__(self) -> str:
        return f"tw.kafka({self.brokers.servers!r}, {', '.join(map(repr, self.topics))})"

    def check(self, source: Source) -> None:
        MessageParser(source, self.options, self.made_by)

    def open(self) -> LogReader:
        library()
        return KafkaReader(self)


@known_keywords_and(*MESSAGE_OPTIONS)
def kafka(
    servers: str,
    topic: str | Sequence[str],
    *,
    follow: bool = True,
    max_rows: int | None = None,
    start: GivenStart = "earliest",
    on_loss: OnLoss = "fail",
    format: ValueFormat = "json",
    decode: Decode | None = None,
    schema: str | None = None,
    tombstones: Tombstones = "reject",
    topic_field: str | None = None,
    partition: str | None = None,
    offset: str | None = None,
    timestamp: str | None = None,
    key: str | None = None,
    headers: str | Mapping[str, str] | None = None,
    patience: str | int | datetime.timedelta = "1 minute",
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    **options: Any,
) -> KafkaLog:
    """Reads topics of Kafka as the input of a source.

    The rows of a partition come in its order. Those of several come by the time of the message, as far as that
    ascends in each partition; docs/order.md says more.

    Args:
        servers: ``"host:port"`` of a broker, or several with commas between.
        topic: the topic, several, or a pattern that begins with ``^``; topics that come to fit it are read, too.
        follow: whether it is read on as it grows; False reads what is there at the start.
        max_rows: about how many rows a batch on Spark has at most.
        start: where a run begins that has no positions yet: ``"earliest"``, ``"latest"``, a time (ISO 8601 text, a
            datetime, or a Timestamp), or offsets by partition, ``{0: 1200}``, with several topics
            ``{"orders/0": 1200}``; partitions that are not named begin with their first message.
        on_loss: messages that are not there any more, as retention has overtaken the run or a topic was deleted,
            end it with an error (``"fail"``), or are skipped with a warning that counts them (``"skip"``).
        format: of the values: ``"json"``, ``"text"``, ``"bytes"`` or ``"avro"``.
        decode: a function from the value's bytes to a row, in place of a format.
        schema: the path of an Avro schema.
        tombstones: messages without a value are rows that do not fit (``"reject"``), are left out (``"skip"``), or
            have None in all fields of the value (``"null"``).
        topic_field: the field for the message's topic, a str.
        partition: the field for its partition, an int.
        offset: the field for its offset, an int.
        timestamp: the field for its time, a Timestamp.
        key: the field for its key, bytes or str.
        headers: the field for its headers, a list of records with the fields ``name`` and ``value``; or fields by the
            name of a header: ``{"trace-id": "trace"}``.
        patience: how long a broker that does not answer is waited for.
        config: settings of librdkafka, such as those of security, or the path of a file with lines ``NAME=VALUE``.
            They are never shown.
        options: of JSON, as for files: ``epoch_unit``, ``timestamp_formats``, ``nanoseconds``.

    Raises:
        BuildError: an option is not known, or they do not go together.
    """
    require_flag("kafka", follow=follow)
    if max_rows is not None:
        require_rows("kafka", max_rows=max_rows)
    on_loss = one_of("kafka", "on_loss", on_loss, get_args(OnLoss))
    topics = _topics(topic)
    beside = {
        "topic_field": topic_field,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "key": key,
    }
    return KafkaLog(
        brokers_of("kafka", servers, config, patience),
        topics,
        follow,
        max_rows,
        _start(start, topics),
        on_loss,
        message_options(
            "kafka",
            beside | _header_fields(headers),
            format=format,
            decode=decode,
            schema=schema,
            tombstones=tombstones,
            **options,
        ),
    )


def _topics(given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    expected = "the name of a topic, several, or a pattern that begins with ^"
    if not isinstance(names, Sequence) or not names:
        raise refuse("kafka", "topic", expected, given)
    for name in names:
        if not isinstance(name, str) or not (name.startswith("^") or _TOPIC.fullmatch(name)):
            raise refuse("kafka", "topic", expected, name)
        if name.startswith("^"):
            try:
                re.compile(name)
            except re.error as error:
                raise BuildError(f"kafka: topic: {name!r} is no pattern: {error}") from None
    return tuple(dict.fromkeys(names))


def _header_fields(given: Any) -> dict[str, str | None]:
    if isinstance(given, Mapping):
        for name in given:
            if not isinstance(name, str):
                raise refuse("kafka", "headers", "names of headers", name)
        return {f"{HEADER}{name}": field for name, field in given.items()}
    return {"headers": given}


def _start(given: Any, topics: tuple[str, ...]) -> Start:
    if given in ("earliest", "latest"):
        return "latest" if given == "latest" else "earliest"
    if is_int_from(given, 0):
        return int(given)
    if isinstance(given, Mapping):
        return tuple(sorted(_lane_start(lane, offset, topics) for lane, offset in given.items()))
    try:
        return timestamp_of(given)
    except (ValueError, OverflowError):
        raise refuse(
            "kafka",
            "start",
            "'earliest', 'latest', a time, or offsets by partition such as {0: 1200}",
            given,
        ) from None


def _lane_start(lane: Any, offset: Any, topics: tuple[str, ...]) -> tuple[str, int]:
    if not is_int_from(offset, 0):
        raise refuse("kafka", f"start[{lane!r}]", "an offset", offset)
    if isinstance(lane, str) and re.fullmatch(r"[^/]+/\d+", lane):
        return lane, int(offset)
    if is_int_from(lane, 0) and len(topics) == 1 and not topics[0].startswith("^"):
        return f"{topics[0]}/{lane}", int(offset)
    raise BuildError(
        f"kafka: start: {shown(lane)} is no partition; name those of one topic by number, else 'TOPIC/NUMBER'"
    )
