"""Routing tables as text: JSON that people can read, and that says when it is torn.

An object with a member a line: ``epoch``, ``slots``, ``groups`` (the owner of each pin group), and by operator the key
types, the owner of each bucket, and by pin group the keys pinned there, sorted. A key of one field is that field, a
key of several a list; bytes are ``{"$bytes": "…"}`` in base64, NaN and infinities ``{"$float": "nan"}``.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from thalweg.errors import BuildError, CheckpointError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.locality.key_hash import canonical_key
from thalweg.locality.routing import Routes, RoutingTable
from thalweg.locality.statistics import Key

FORMAT: Final = 1

_FIELDS: Final = {"epoch": int, "slots": int, "groups": list, "operators": dict, "checksum": str}
_ROUTES: Final = {"key": list, "buckets": list, "pins": dict}
#: What JSON's values are called.
_NAMES: Final = {
    dict: "an object", list: "an array", str: "a text", int: "a whole number", float: "a number",
    bool: "true or false", type(None): "null",
}  # fmt: skip


def encode_table(table: RoutingTable) -> bytes:
    """The table as text, the same for equal tables."""
    plain = _plain(table)
    return "".join(_text({**plain, "checksum": _checksum(plain)})).encode() + b"\n"


def decode_table(content: bytes, where: str = "the routing table") -> RoutingTable:
    """The table of :func:`encode_table`.

    Args:
        content: the text.
        where: what the text is, for the error.

    Raises:
        CheckpointError: it is torn, was changed by hand, or is of a newer version.
    """
    try:
        return _table(_whole(content))
    except (ValueError, BuildError) as error:
        raise CheckpointError(
            f"{where} ({len(content)} bytes) cannot be read: {str(error)[:300]}\n"
            "Make it anew, or bring it back from a copy."
        ) from error


def _whole(content: bytes) -> dict[str, Any]:
    """The text's object, as it was written.

    Raises:
        ValueError: it is no table, is of a newer version, or is not as it was written.
    """
    try:
        plain: dict[str, Any] = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    _require("it", plain, {"format": int})
    if plain["format"] > FORMAT:
        raise ValueError("it was written by a newer version of Thalweg; use that version")
    _require("it", plain, _FIELDS)
    if plain.pop("checksum") != _checksum(plain):
        raise ValueError("its checksum is not that of its content: it was torn or changed by hand")
    return plain


def _require(what: str, plain: Any, fields: Mapping[str, type]) -> None:
    """Refuses what lacks a field, or has one of another type."""
    if not isinstance(plain, dict):
        raise ValueError(
            f"{what} is no routing table: expected an object, got {_NAMES[type(plain)]}"
        )
    missing = [name for name in fields if name not in plain]
    if missing:
        raise ValueError(f"{what} is no routing table: it lacks {', '.join(missing)}")
    for name, kind in fields.items():
        value = plain[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(
                f"{what} is no routing table: expected {name} to be {_NAMES[kind]}, got"
                f" {_NAMES[type(value)]}"
            )


def _table(plain: Mapping[str, Any]) -> RoutingTable:
    return RoutingTable(
        epoch=plain["epoch"],
        slots=plain["slots"],
        groups=_slots("groups", plain["groups"]),
        operators={name: _routes(name, one) for name, one in plain["operators"].items()},
    )


def _slots(what: str, values: list[Any]) -> tuple[int, ...]:
    if not all(type(one) is int for one in values):
        raise ValueError(f"expected {what} to be numbers of slots")
    return tuple(values)


def _plain(table: RoutingTable) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "epoch": table.epoch,
        "slots": table.slots,
        "groups": list(table.groups),
        "operators": {
            name: {
                "key": list(map(str, routes.types)),
                "buckets": list(routes.buckets),
                "pins": _by_group(routes.pins),
            }
            for name, routes in table.operators.items()
        },
    }


def _by_group(pins: Mapping[Key, int]) -> dict[str, list[Any]]:
    found: dict[int, list[Any]] = {}
    for key, group in pins.items():
        found.setdefault(group, []).append(_key_json(key))
    return {str(group): sorted(keys, key=orjson.dumps) for group, keys in sorted(found.items())}


def _routes(operator: str, plain: Any) -> Routes:
    _require(f"operator {operator!r}", plain, _ROUTES)
    if not all(isinstance(one, str) for one in plain["key"]):
        raise ValueError(f"expected the key of {operator!r} to be names of types")
    types = tuple(map(_type, plain["key"]))
    pins = {}
    for group, keys in plain["pins"].items():
        if not isinstance(keys, list):
            raise ValueError(f"expected the keys in group {group!r} of {operator!r} to be an array")
        for key in keys:
            try:
                pins[canonical_key(types, _key_of(key))] = int(group)
            except (ValueError, TypeError, LookupError, BuildError) as error:
                raise ValueError(
                    f"operator {operator!r} cannot have the key {key!r} in group {group!r}: {error}"
                ) from error
    return Routes(types, _slots(f"the buckets of {operator!r}", plain["buckets"]), pins)


def _type(text: str) -> FieldType:
    name, optional, _ = text.partition(" | None")
    return FieldType(Kind(name), bool(optional))


def _checksum(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _text(plain: Any, depth: int = 0) -> Iterator[str]:
    """Objects with a member a line; arrays of whole lines are in one."""
    if not isinstance(plain, dict) or not plain or plain.keys() & {"$bytes", "$float"}:
        yield orjson.dumps(plain).decode()
        return
    lead = "\n" + "  " * (depth + 1)
    for place, (name, value) in enumerate(plain.items()):
        yield f"{',' if place else '{'}{lead}{orjson.dumps(name).decode()}: "
        yield from _text(value, depth + 1)
    yield "\n" + "  " * depth + "}"


def _key_json(key: Key) -> Any:
    if isinstance(key, tuple):
        return [_key_json(one) for one in key]
    if isinstance(key, bytes):
        return {"$bytes": base64.b64encode(key).decode()}
    if isinstance(key, float) and not math.isfinite(key):
        return {"$float": str(key)}
    return key


def _key_of(value: Any) -> Key:
    if isinstance(value, list):
        return tuple(map(_key_of, value))
    if isinstance(value, dict):
        return base64.b64decode(value["$bytes"]) if "$bytes" in value else float(value["$float"])
    return value
