"""Values of messages and what stands beside them, as rows."""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pytest

import thalweg as tw
from thalweg.connectors.messages import MessageParser, message_options


class Said(NamedTuple):
    part: int
    user: str
    x: int
    y: str | None


def parser(
    record: type = Said,
    *,
    errors: Any = "reject",
    fields: dict[str, str | None] | None = None,
    **options: Any,
) -> MessageParser:
    flow = tw.Flow("said")
    flow.source("said", record, errors=errors).sink("out")
    node: Any = flow.nodes[0]
    given = {"partition": "part", "key": "user", "offset": None} if fields is None else fields
    return MessageParser(node, message_options("talk", given, **options), "talk(...)")


def parsed(
    one: MessageParser, values: list[bytes | None], keys: list[bytes | None] | None = None
) -> tuple[list[Any], list[Any]]:
    beside = {"partition": list(range(len(values))), "key": keys or [b"k"] * len(values)}
    chunk, bad = one.parse(values, beside, lambda row: f"offset {row}")
    return chunk.rows(), [(where, reason) for reason, where, _ in bad]


def test_json_and_what_stands_beside_it() -> None:
    """Each message is a row or named with its place, in order; line ends inside JSON are no ends."""
    values = [
        b'{"x": 1, "y": "a"}',
        b"",
        b'{"x":\r\n 2}',
        b'{"x": "q"}',
        b"nope",
        b'{"x": 7}',
        None,
    ]
    keys = [b"k", b"k", b"\xc3\xa4", b"k", b"k", b"\xff\xfe", b"k"]
    rows, bad = parsed(parser(), values, keys)
    assert rows == [Said(0, "k", 1, "a"), Said(2, "ä", 2, None)]
    assert [where for where, _ in bad] == [f"offset {n}" for n in (1, 3, 4, 5, 6)]
    reasons = [reason for _, reason in bad]
    assert reasons[0] == "an empty message"
    assert reasons[1] == "x: expected int, got 'q'"
    assert reasons[3] == "user is not UTF-8"
    assert "tombstones='skip'" in reasons[4]


def test_json_equals_line_by_line() -> None:
    """Random values, good and bad, together and one by one: the same rows and reasons."""
    draw = np.random.default_rng(7)
    pool = [
        b'{"x": 1}',
        b'{"x": 2, "y": "\xc3\xbc"}',
        b"[]",
        b"{",
        b" ",
        b'{"y": "b"}',
        b'{"x": 3,\n"y": null}',
        b"\xff",
    ]
    one = parser()
    for _ in range(50):
        values = [pool[i] for i in draw.integers(0, len(pool), draw.integers(1, 9))]
        rows, bad = parsed(one, list(values))
        single = [parsed(one, [value]) for value in values]
        assert [row[2:] for row in rows] == [row[2:] for good, _ in single for row in good]
        assert [why for _, why in bad] == [why for _, wrong in single for _, why in wrong]


@pytest.mark.parametrize(
    ("tombstones", "expected"),
    [("skip", [Said(0, "k", 1, None)]), ("null", None), ("reject", [Said(0, "k", 1, None)])],
)
def test_tombstones(tombstones: Any, expected: Any) -> None:
    """Rejected, skipped, or rows of nulls where the record takes them."""
    rows, bad = parsed(parser(tombstones=tombstones), [b'{"x": 1}', None])
    if tombstones == "null":
        assert bad == [("offset 1", "x is missing")]
    else:
        assert rows == expected
        assert len(bad) == (tombstones == "reject")


class Maybe(NamedTuple):
    user: str
    x: int | None


def test_a_tombstone_can_be_a_row() -> None:
    rows, bad = parsed(
        parser(Maybe, fields={"key": "user"}, tombstones="null"), [b'{"x": 1}', None, b"?"]
    )
    assert rows == [Maybe("k", 1), Maybe("k", None)]
    assert [where for where, _ in bad] == ["offset 2"]


class Line(NamedTuple):
    part: int
    text: str


class Raw(NamedTuple):
    value: bytes


def test_text_and_bytes() -> None:
    rows, bad = parsed(
        parser(Line, fields={"partition": "part"}, format="text"), [b"a", b"", b"\xff"]
    )
    assert rows == [Line(0, "a"), Line(1, "")]
    assert bad == [("offset 2", "text is not UTF-8")]
    rows, _ = parsed(parser(Raw, fields={}, format="bytes"), [b"a", b"\xff"])
    assert rows == [Raw(b"a"), Raw(b"\xff")]
    with pytest.raises(tw.BuildError, match="fills one field, of type bytes"):
        parser(format="bytes")


def test_a_function_of_the_users() -> None:
    """Gives mappings, tuples or records without the fields beside; what it raises names the message."""

    def decode(value: bytes) -> Any:
        return {"x": int(value), "y": None}

    rows, bad = parsed(parser(decode=decode), [b"4", b"q"])
    assert rows == [Said(0, "k", 4, None)]
    assert bad == [("offset 1", "ValueError: invalid literal for int() with base 10: b'q'")]


def test_avro_plain_and_framed(tmp_path: pathlib.Path) -> None:
    """With and without the five bytes that name a schema in a registry."""
    schema = {
        "type": "record",
        "name": "S",
        "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": ["null", "string"]}],
    }
    path = tmp_path / "said.avsc"
    path.write_text(json.dumps(schema))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"x": 5, "y": "é"})
    value = stream.getvalue()
    rows, bad = parsed(
        parser(format="avro", schema=path), [value, b"\0\0\0\0\7" + value, value + b"!"]
    )
    assert rows == [Said(0, "k", 5, "é"), Said(1, "k", 5, "é")]
    assert bad == [("offset 2", "ValueError: 1 bytes behind the record")]


def test_errors_fail_names_the_message() -> None:
    with pytest.raises(
        tw.DataError, match="source 'said': offset 1 does not fit Said: x is missing"
    ):
        parsed(parser(errors="fail"), [b'{"x": 1}', b"{}"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "xml"}, "format: expected one of json, text, bytes, avro, got 'xml'"),
        ({"tombstones": "x"}, "tombstones: expected one of"),
        ({"format": "avro"}, "format='avro' and schema="),
        ({"decode": 3}, "decode: expected a function"),
        ({"format": "text", "epoch_unit": "s"}, "epoch_unit: options of JSON, not of text"),
        ({"epoch": "s"}, "there is no option 'epoch'"),
        ({"fields": {"key": "no way"}}, "key: expected the name of a field"),
        ({"fields": {"key": "nobody"}}, "key='nobody': Said.* has no such field"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any], said: str) -> None:
    with pytest.raises(tw.BuildError, match=said):
        parser(**options)
