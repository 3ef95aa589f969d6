"""The plain stable hash of a key is the one that the runtime computes by column."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from test_keys import QUICK, keyed

from thalweg.columns.chunks import Column
from thalweg.columns.keys import KeySpec
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.locality.key_hash import canonical_key, hash_key, require_hashable

TEXT, FLOAT, WHOLE = FieldType(Kind.STR), FieldType(Kind.FLOAT), FieldType(Kind.INT)


@given(keyed())
@QUICK
def test_hashes_are_those_of_columns(drawn: tuple[KeySpec, list[Column], int]) -> None:
    """Every key of up to three fields of all types, nulls included, has the hash of its row in columns."""
    spec, columns, length = drawn
    types = tuple(field.type for field in spec.fields)
    found = [hash_key(types, canonical_key(types, k)) for k in spec.python_keys(columns, length)]
    assert found == spec.hashes(columns, length).tolist()


def test_canonical_keys_group_as_dicts_do() -> None:
    """All NaNs are one key, -0.0 is 0.0, an int in a float field is a float."""
    keys = [float("nan"), -float("nan"), 0.0, -0.0, 1, 1.0]
    assert len({canonical_key((FLOAT,), key) for key in keys}) == 3
    assert canonical_key((FLOAT, TEXT), (-math.nan, "a")) == (math.nan, "a")


@pytest.mark.parametrize("key", ["a", ("a",), ("a", "b"), (1, "a", 2), [1, "a"]])
def test_keys_of_other_types_are_refused(key: object) -> None:
    """A key must have as many fields as its operator, each of its type."""
    with pytest.raises(TypeError, match="expected"):
        canonical_key((WHOLE, TEXT), key)


def test_types_without_a_hash_are_refused() -> None:
    """Lists have no stable hash; the error names operator, field and what would do."""
    with pytest.raises(SchemaError, match=r"'tags': field 2 of its key is list\[str\]"):
        require_hashable((TEXT, FieldType(Kind.LIST, item=TEXT)), "tags")
