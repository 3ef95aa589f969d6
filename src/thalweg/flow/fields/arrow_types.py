"""Arrow's many ways to lay out the same values, made plain."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

#: Extension types that say no more about their values than a field of this package does.
_TRANSPARENT: Final = ("arrow.json", "arrow.uuid")


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values that a dictionary, a run-end-encoded array or an extension stands for."""
    while True:
        if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        elif _is_transparent(kind):
            kind = kind.storage_type
        else:
            return kind


def plain(array: pa.Array) -> pa.Array:
    """The values themselves, in an array of :func:`plain_type`; a list's items and a struct's fields stay."""
    while True:
        if pa.types.is_dictionary(array.type):
            # Arrow's own functions for this lack some types; what points at a null is null.
            array = _takeable(array.dictionary).take(array.indices)
        elif pa.types.is_run_end_encoded(array.type):
            array = _takeable(array.values).take(_runs(array))
        elif _is_transparent(array.type):
            array = array.storage
        else:
            return array


def _runs(array: pa.Array) -> pa.Array:
    """The run of each row; of a slice, too."""
    ends = array.run_ends.to_numpy()
    rows = np.arange(array.offset, array.offset + len(array))
    return pa.array(np.searchsorted(ends, rows, side="right"))


def _takeable(array: pa.Array) -> pa.Array:
    array = plain(array)
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_binary_view(array.type) else array


def _is_transparent(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _TRANSPARENT


def is_text(kind: pa.DataType) -> bool:
    """Whether it holds texts."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary_like(kind: pa.DataType) -> bool:
    """Whether it holds bytes."""
    types = pa.types
    views = types.is_binary_view(kind) or types.is_fixed_size_binary(kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or views)


def is_list_like(kind: pa.DataType) -> bool:
    """Whether it holds lists of one type."""
    types = pa.types
    views = types.is_list_view(kind) or types.is_large_list_view(kind)
    sized = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(sized or views)
