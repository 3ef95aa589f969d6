"""``thalweg.json``: what a checkpoint's state means, by the names of operators and sources.

Written when a checkpoint is new, and again when a start changes what the state is
(:mod:`thalweg.checkpoint.evolution`). State that was rewritten counts from the moment at which its commit record does,
so that record says itself what it means; the file follows.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from thalweg.checkpoint.paths import FileSystem, join, read_bytes, stems, write_atomic
from thalweg.checkpoint.segments import DELETED
from thalweg.errors import CheckpointError
from thalweg.flow.records import Field, Missing

FORMAT: Final = 2
FILE: Final = "thalweg.json"
STATELESS: Final = "stateless"
#: The name of an order_by's state begins like this; the field follows.
ORDER_BY: Final = "order_by "
#: Where a commit record whose state was rewritten says what it means.
MEANING: Final = "meaning"


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestField:
    """A field of a key, a state or a record.

    Attributes:
        type: its type as the user writes it.
        arrow: its type in files, which also says what a nested record holds.
        default: a state field's default when it came into the checkpoint; rows written before have this value.
    """

    name: str
    type: str
    arrow: str
    default: Any = None

    @classmethod
    def of(cls, field: Field) -> ManifestField:
        """The description of a field; its default as plain JSON values."""
        default = None if isinstance(field.default, Missing) else to_json(field.default)
        return cls(field.name, str(field.type), str(field.type.arrow), default)


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestOperator:
    """An operator.

    Attributes:
        kind: ``STATELESS``, or the kind of state: "keyed", "stateful", "coroutine".
        keys: the key fields; rows of state are in their order.
        state: the name of the state class.
        fields: the state fields.
        timer: the field that holds the timer, "" if none.
        asked: of the library's operators, what was asked for that their state depends on; of coroutine operators also
            the names of their inputs. Checkpoints of before this was written say nothing.
    """

    kind: str
    keys: tuple[ManifestField, ...] = ()
    buckets: int = 1
    state: str = ""
    fields: tuple[ManifestField, ...] = ()
    timer: str = ""
    asked: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether its state are rows that wait for their time, all of which count."""
        return self.state.startswith(ORDER_BY)


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestSource:
    """A source; its waiting rows are state, so its record and order are part of the checkpoint."""

    record: tuple[ManifestField, ...]
    order_by: str = ""
    lateness: int = 0
    lane: str = ""
    order: str = "total"
    #: what is said of the lanes; a checkpoint that lacks it has those that count from their first row
    lanes: str = "arrival"

    def __post_init__(self) -> None:
        if not self.lane:
            object.__setattr__(self, "lanes", "")


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """What a flow's state means, by names of operators and sources."""

    flow: str
    version: str
    operators: Mapping[str, ManifestOperator]
    sources: Mapping[str, ManifestSource] = dataclasses.field(default_factory=dict)

    @property
    def instants(self) -> bool | None:
        """Whether the times of its clocks and timers are Timestamps; None: of some they are, of others numbers."""
        fields = [(one.order_by, one.record) for one in self.sources.values()]
        fields += [
            (one.state.removeprefix(ORDER_BY), one.fields)
            for one in self.operators.values()
            if one.state.startswith(ORDER_BY)
        ]
        found = {
            one.type in ("Timestamp", "datetime")
            for name, among in fields
            for one in among
            if one.name == name
        }
        return None if len(found) > 1 else found == {True}

    def encode(self) -> bytes:
        """Indented JSON, operators in the flow's order: people read it."""
        plain = {"format": FORMAT, **dataclasses.asdict(self)}
        return orjson.dumps(plain, option=orjson.OPT_INDENT_2) + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Manifest:
        """The manifest of :meth:`encode`.

        Raises:
            ValueError, TypeError, LookupError: the bytes are torn or not a manifest.
        """
        plain = orjson.loads(content)
        if plain["format"] > FORMAT:
            raise ValueError(
                f"it was written by Thalweg {plain['version']}; use that version or a newer one"
            )
        operators = {
            name: ManifestOperator(
                **{**one, "keys": _fields(one["keys"]), "fields": _fields(one["fields"])}
            )
            for name, one in plain["operators"].items()
        }
        sources = {
            name: ManifestSource(**{**one, "record": _fields(one["record"])})
            for name, one in plain["sources"].items()
        }
        return cls(plain["flow"], plain["version"], operators, sources)

    def defaults(self, operator: str) -> dict[str, Any]:
        """For :func:`migrate_batch`: the value that rows written before a field existed have in it."""
        return {field.name: from_json(field.default) for field in self.operators[operator].fields}


def _fields(plain: Sequence[Mapping[str, Any]]) -> tuple[ManifestField, ...]:
    return tuple(ManifestField(**one) for one in plain)


def to_json(value: Any) -> Any:
    """A field's value as JSON holds it; bytes and what JSON has no number for become a dict of one."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: to_json(one) for name, one in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [to_json(one) for one in value]
    return value


def from_json(value: Any) -> Any:
    """The value of :func:`to_json`, records as dicts (which is what Arrow builds structs from)."""
    if isinstance(value, dict):
        if value.keys() == {"$bytes"}:
            return base64.b64decode(value["$bytes"])
        if value.keys() == {"$float"}:
            return float(value["$float"])
        return {name: from_json(one) for name, one in value.items()}
    return [from_json(one) for one in value] if isinstance(value, list) else value


# -- going on ------------------------------------------------------------------------------------------


def carry(old: Manifest, new: Manifest) -> Manifest:
    """The manifest to write for a flow that goes on: fields keep the default they came with."""
    operators = {
        name: dataclasses.replace(one, fields=_carry_fields(old.operators[name].fields, one.fields))
        if name in old.operators
        else one
        for name, one in new.operators.items()
    }
    return dataclasses.replace(new, operators=operators)


def _carry_fields(
    old: Sequence[ManifestField], new: Sequence[ManifestField]
) -> tuple[ManifestField, ...]:
    known = {field.name: field for field in old}
    return tuple(
        dataclasses.replace(field, default=known[field.name].default)
        if field.name in known
        else field
        for field in new
    )


# -- files ---------------------------------------------------------------------------------------------


def read(fs: FileSystem, root: str) -> Manifest | None:
    """The manifest of a checkpoint; None when it is new.

    Raises:
        CheckpointError: it is torn, or newer than this library.
    """
    path = join(root, FILE)
    content = read_bytes(fs, path)
    if content is None:
        return None
    try:
        return Manifest.decode(content)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise CheckpointError(
            f"{path} cannot be read: {type(error).__name__}: {str(error)[:200]}\n"
            "It says what the state files mean; bring it back from a copy of the checkpoint."
        ) from error


def require_new(fs: FileSystem, root: str) -> None:
    """Refuses a checkpoint without a manifest that has commit records.

    Raises:
        CheckpointError: the manifest is missing.
    """
    if stems(fs, join(root, "commits"), ".json"):
        raise CheckpointError(
            f"{join(root, FILE)} is missing, though there are commit records: it says what the state files mean.\n"
            "Bring it back from a copy of the checkpoint."
        )


def write(fs: FileSystem, root: str, manifest: Manifest) -> None:
    """Writes what the state means, unless the file says so already."""
    content = manifest.encode()
    if read_bytes(fs, join(root, FILE)) != content:
        write_atomic(fs, join(root, FILE), content)


def in_force(written: Manifest | None, extra: Mapping[str, Any]) -> Manifest | None:
    """What the state of a record means: what the record says itself, where its state was migrated, else the file."""
    said = extra.get(MEANING)
    return written if said is None else Manifest.decode(orjson.dumps(said))


def migrate_batch(
    batch: pa.RecordBatch, schema: pa.Schema, defaults: Mapping[str, Any]
) -> pa.RecordBatch:
    """State rows in today's Arrow form: fields that were added since get the default they came with.

    Args:
        schema: keys, state fields, ``_deleted``; new fields stand last among the state fields.
        defaults: of :meth:`Manifest.defaults`.

    Raises:
        CheckpointError: the columns of ``batch`` are not the first of ``schema``, and ``_deleted``.
    """
    if batch.schema.names == schema.names and batch.schema.types == schema.types:
        return batch
    *fields, deleted = schema
    *kept, mark = batch.schema
    added = fields[len(kept) :]
    expected = [(f.name, f.type) for f in (*fields[: len(kept)], deleted)]
    if expected != [(f.name, f.type) for f in (*kept, mark)] or any(
        field.name not in defaults for field in added
    ):
        raise CheckpointError(
            f"state rows: expected the columns {_columns(schema)}, or the first of them and {DELETED};"
            f" the file has {_columns(batch.schema)}"
        )
    *columns, tombstones = batch.columns
    columns += [pa.array([defaults[f.name]] * batch.num_rows, f.type) for f in added]
    return pa.RecordBatch.from_arrays([*columns, tombstones], schema=schema)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
