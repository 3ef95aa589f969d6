"""New states by a function of the user's: what it is given, what it may give, and which keys it fails on."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from thalweg.checkpoint.evolution.changes import differs
from thalweg.checkpoint.evolution.rows import Bucket, python_fields
from thalweg.checkpoint.manifest import ManifestField
from thalweg.columns.chunks import Column
from thalweg.columns.keys import KeySpec
from thalweg.errors import SchemaError
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import StateSpec, state_spec

#: Keys whose failure is shown.
_SHOWN: Final = 3


class MigrationFailed(Exception):
    """A function could not make all states of a bucket."""

    def __init__(self, keys: list[str]) -> None:
        super().__init__(keys)
        #: each key with its old state, and why
        self.keys = keys


def told(failed: Sequence[str]) -> str:
    """Some of the keys that a function failed on, and how many more there are."""
    more = f"; and {len(failed) - _SHOWN} more" if failed[_SHOWN:] else ""
    return "; ".join(failed[:_SHOWN]) + more


class OldClass(NamedTuple):
    """The class of old states that a function asks for; None: it takes a mapping."""

    cls: type | None
    fields: tuple[Field, ...] = ()

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> OldClass:
        """What the annotation of a function's parameter says.

        Raises:
            SchemaError: it is a class without fields.
        """
        hint = _hint(function)
        if not isinstance(hint, type) or hint in (Any, object) or issubclass(hint, Mapping):
            return cls(None)
        try:
            return cls(hint, state_spec(hint).schema.fields)
        except SchemaError:
            return cls(hint, Schema.of(hint).fields)

    def difference(self, fields: Sequence[ManifestField]) -> str:
        """Why a checkpoint's states are none of the class; "" where they are."""
        if self.cls is None:
            return ""
        wanted = {field.name: str(field.type) for field in self.fields}
        there = {field.name: field.type for field in fields}
        if wanted == there:
            return ""
        texts = [", ".join(f"{n}: {t}" for n, t in one.items()) for one in (there, wanted)]
        return f"{differs('its state', texts[0], 'a migrate of ' + self.cls.__name__)} ({texts[1]})"


def _hint(function: Callable[[Any], Any]) -> Any:
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
        if first is None:
            return None
        return typing.get_type_hints(function).get(first.name)
    except (TypeError, ValueError, NameError):
        return None


class Migration(NamedTuple):
    """How the states of an operator are made.

    Attributes:
        function: the user's.
        old: what it takes.
        fields: of the old states.
        spec: of the new ones.
    """

    function: Callable[[Any], Any]
    old: OldClass
    fields: tuple[ManifestField, ...]
    spec: StateSpec

    def columns(self, bucket: Bucket, keys: Sequence[Field]) -> tuple[list[pa.Array], list[int]]:
        """The new fields of a bucket's rows, and the places of the rows that stay: those that it did not drop.

        Raises:
            MigrationFailed: it raised, or gave what is no state, for some keys.
        """
        olds = python_fields(bucket, self.fields)
        made: list[tuple[Any, ...]] = []
        stay: list[int] = []
        failed: list[str] = []
        for row in range(bucket.rows):
            values = {name: column[row] for name, column in olds.items()}
            try:
                state = self._made(values)
            except Exception as error:
                failed.append(f"{key_text(bucket, keys, row)}, {values}: {_reason(error)}")
                continue
            if state is not None:
                made.append(state)
                stay.append(row)
        if failed:
            raise MigrationFailed(failed)
        fields = self.spec.schema.fields
        columns = [
            Column.from_python(field.type, [one[i] for one in made]).to_arrow()
            for i, field in enumerate(fields)
        ]
        return columns, stay

    def _made(self, values: dict[str, Any]) -> tuple[Any, ...] | None:
        """The values of a new state; None where the function dropped it."""
        given: Any = values if self.old.cls is None else self.old.cls(**values)
        found = self.function(given)
        if isinstance(found, Mapping):
            found = self.spec.cls(**found)
        if not isinstance(found, self.spec.cls):
            raise TypeError(
                f"expected a {self.spec.name} or a mapping of its fields, got {type(found).__name__} {found!r:.60}"
            )
        return None if getattr(found, "_drop", False) else self.spec.values(found)


def key_text(bucket: Bucket, keys: Sequence[Field], row: int) -> str:
    """A row's key, as messages show it."""
    if not keys:
        return "its state"
    spec = KeySpec(tuple(keys))
    columns = [
        Column.from_arrow(field.type, column.slice(row, 1))
        for field, column in zip(keys, bucket.keys, strict=True)
    ]
    return f"key {spec.python_keys(columns, 1)[0]!r}"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"
