"""Exact checks as Python text: whether a value surely is what its field holds, without a call for most values.

What these texts say yes to, :meth:`FieldType.coerce` gives back as it is; for all else it is asked. So they never
decide what an error says, or how a value is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from thalweg.flow.fields.field_types import INT_MAX, INT_MIN, FieldType, Kind, encodes

_WHOLE: Final = "(type({0}) is int and %d <= {0} <= %d)" % (INT_MIN, INT_MAX)  # noqa: UP031
_TEXT: Final = "(type({0}) is str and ({0}.isascii() or encodes({0})))"
#: The items of lists that are looked at by their types alone, ints also by their range.
_SIMPLE: Final[dict[Kind, type]] = {
    Kind.INT: int,
    Kind.TIMESTAMP: int,
    Kind.FLOAT: float,
    Kind.BOOL: bool,
}
_FITS: Final = {
    Kind.INT: _WHOLE,
    Kind.TIMESTAMP: _WHOLE,
    Kind.TIMER: _WHOLE,
    Kind.FLOAT: "type({0}) is float",
    Kind.BOOL: "type({0}) is bool",
    Kind.STR: _TEXT,
    Kind.CATEGORY: _TEXT,
    Kind.BYTES: "type({0}) is bytes",
}


def is_plain(kind: FieldType) -> bool:
    """Whether its values cannot be changed in place, and have a check of one line."""
    return kind.kind in _FITS


def fits(kind: FieldType, name: str) -> str:
    """The check of the value that ``name`` stands for; of plain types only. It may name ``encodes``."""
    text = _FITS[kind.kind].format(name)
    return f"({name} is None or {text})" if kind.optional else text


def coercer(kind: FieldType) -> Callable[[Any], Any]:
    """:meth:`FieldType.coerce`; of lists of plain values one that copies most of them after one look."""
    if kind.item is None or kind.item.kind not in _SIMPLE:
        return kind.coerce
    slowly, types = kind.coerce, {_SIMPLE[kind.item.kind]}
    whole = int in types

    def copied(value: Any) -> Any:
        if (
            type(value) is list
            and set(map(type, value)) == types
            and (not whole or (min(value) >= INT_MIN and max(value) <= INT_MAX))
        ):
            return value.copy()
        return slowly(value)

    return copied


def fitting(
    record: type, kinds: Sequence[FieldType], slowly: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """A function of what a user's function gave: the record where all fields fit, else what ``slowly`` says.

    ``kinds`` are the types of the record's fields.

    Lists and nested records are coerced at once, since they may be changed after the call.
    """
    if not kinds:
        return slowly
    names = [f"v{i}" for i in range(len(kinds))]
    checks = [fits(kind, name) for kind, name in zip(kinds, names, strict=True) if is_plain(kind)]
    nested = [i for i, kind in enumerate(kinds) if not is_plain(kind)]
    whole = ", ".join(f"COERCE{i}(v{i})" if i in nested else f"v{i}" for i in range(len(kinds)))
    plain = "tuple.__new__(RECORD, row)" if not nested else f"tuple.__new__(RECORD, ({whole},))"
    same = "row" if not nested else plain
    text = (
        "def fit(row):\n"
        "    kind = type(row)\n"
        "    if kind is RECORD or kind is tuple:\n"
        "        try:\n"
        f"            {', '.join(names)}, = row\n"
        f"            if {' and '.join(checks) or 'True'}:\n"
        f"                return {same} if kind is RECORD else {plain}\n"
        "        except (ValueError, TypeError):\n"
        "            pass\n"
        "    return SLOWLY(row)\n"
    )
    scope: dict[str, Any] = {"RECORD": record, "SLOWLY": slowly, "encodes": encodes}
    scope |= {f"COERCE{i}": coercer(kinds[i]) for i in nested}
    exec(compile(text, f"{__file__}<fit>", "exec"), scope)
    made: Callable[[Any], Any] = scope["fit"]
    return made
