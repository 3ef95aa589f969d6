"""Generated functions on values of fixed size in memory: load, store, compare.

The layout is that of :mod:`thalweg.checkpoint.state_tables.cells`.
"""

from __future__ import annotations

from thalweg.compiler.code.reasons import NotCompilable
from thalweg.compiler.code.unit import ModuleParts
from thalweg.compiler.kinds import Type

_SCALARS = ("int", "float", "bool", "category", "word")


def words(kind: Type) -> int:
    """The words that a value takes.

    Raises:
        NotCompilable: it has no fixed size.
    """
    if kind.tag in _SCALARS:
        return 1 + kind.optional
    if kind.tag == "text":
        # What owns its bytes outlives the call.
        return 2 + kind.optional
    if kind.tag in ("record", "tuple"):
        return kind.optional + sum(map(words, kind.items))
    raise NotCompilable(f"a {kind} inside of a list, dict, tuple or record of the state")


def load(unit: ModuleParts, kind: Type, place: str) -> str:
    """Code of the value at an address, which is evaluated once."""
    if kind.tag in ("int", "category", "word", "float") and not kind.optional:
        return f"get_{kind.letter}({place})"
    name = unit.helper("load", f"@inner\ndef {{name}}(p):\n    return {_load(kind, 0)}\n")
    return f"{name}({place})"


def _load(kind: Type, at: int) -> str:
    if kind.optional:
        return f"(get_i(p + {at}) != 0, {_load(kind.bare, at + 8)})"
    if kind.tag == "bool":
        return f"(get_i(p + {at}) != 0)"
    if kind.tag == "text":
        return f"(get_i(p + {at}), get_i(p + {at + 8}))"
    if kind.tag in ("record", "tuple"):
        parts = []
        for one in kind.items:
            parts.append(_load(one, at))
            at += 8 * words(one)
        inner = "".join(f"{part}, " for part in parts)
        return f"{kind.label}({inner})" if kind.tag == "record" else f"({inner})"
    return f"get_{kind.letter}(p + {at})"


def store(unit: ModuleParts, kind: Type) -> str:
    """The name of ``store(address, value)``."""
    lines = "".join(f"    {line}\n" for line in _store(kind, 0, "v"))
    return unit.helper("store", f"@inner\ndef {{name}}(p, v):\n{lines}")


def _store(kind: Type, at: int, value: str) -> list[str]:
    if kind.optional:
        return [f"put_i(p + {at}, int64({value}[0]))", *_store(kind.bare, at + 8, f"{value}[1]")]
    if kind.tag == "bool":
        return [f"put_i(p + {at}, int64({value}))"]
    if kind.tag == "text":
        return [f"put_i(p + {at}, {value}[0])", f"put_i(p + {at + 8}, {value}[1])"]
    if kind.tag in ("record", "tuple"):
        lines = []
        for i, one in enumerate(kind.items):
            lines += _store(one, at, f"{value}[{i}]")
            at += 8 * words(one)
        return lines
    return [f"put_{kind.letter}(p + {at}, {value})"]


def equal(unit: ModuleParts, kind: Type) -> str:
    """The name of ``equal(a, b)``; it raises at NaN, of which Python asks whether it is the same object."""
    _refuse_form(kind)
    unit.imports.add("text_equal")
    checks = "".join(
        f"    if {one}:\n        raise ValueError('NaN')\n" for one in _nans(kind, "a", "b")
    )
    return unit.helper(
        "equal", f"@inner\ndef {{name}}(a, b):\n{checks}    return {_equal(kind, 'a', 'b')}\n"
    )


def _refuse_form(kind: Type) -> None:
    """Refuses to compare what Python compares in another way than tuples.

    Raises:
        NotCompilable: there is such a value.
    """
    if kind.tag == "record" and kind.form != "tuple":
        raise NotCompilable(f"compares values of {kind}")
    for one in kind.items:
        _refuse_form(one)


def _nans(kind: Type, *values: str) -> list[str]:
    if kind.optional:
        return [f"{v}[0] and ({one})" for v in values for one in _nans(kind.bare, f"{v}[1]")]
    if kind.tag == "float":
        return [f"{v} != {v}" for v in values]
    return [
        one for i, part in enumerate(kind.items) for v in values for one in _nans(part, f"{v}[{i}]")
    ]


def _equal(kind: Type, a: str, b: str) -> str:
    if kind.optional:
        return f"({a}[0] == {b}[0] and (not {a}[0] or {_equal(kind.bare, f'{a}[1]', f'{b}[1]')}))"
    if kind.tag in ("record", "tuple"):
        return f"({' and '.join(_equal(k, f'{a}[{i}]', f'{b}[{i}]') for i, k in enumerate(kind.items))})"
    return f"text_equal({a}, {b})" if kind.tag == "text" else f"({a} == {b})"


def less(unit: ModuleParts, kind: Type) -> str:
    """The name of ``less(a, b)``, as Python orders numbers and tuples of them.

    Raises:
        NotCompilable: the values have no order here.
    """
    if kind.numeric and not kind.optional:
        return unit.helper("less", "@inner\ndef {name}(a, b):\n    return a < b\n")
    if kind.tag == "text" and not kind.optional:
        unit.imports.add("text_order")
        return unit.helper("less", "@inner\ndef {name}(a, b):\n    return text_order(a, b) < 0\n")
    _refuse_form(kind)
    if kind.tag not in ("record", "tuple") or kind.optional:
        raise NotCompilable(f"orders values of {kind}")
    lines = []
    for i, one in enumerate(kind.items):
        # Within tuples Python asks of NaN whether it is the same object.
        same, smaller = equal(unit, one), less(unit, one)
        lines += [
            f"    if not {same}(a[{i}], b[{i}]):\n",
            f"        return {smaller}(a[{i}], b[{i}])\n",
        ]
    return unit.helper("less", f"@inner\ndef {{name}}(a, b):\n{''.join(lines)}    return False\n")


def strict_less(unit: ModuleParts, kind: Type) -> str:
    """The name of ``less(a, b)`` that raises at NaN: what sorting makes of it depends on the algorithm."""
    if kind.tag != "float":
        return less(unit, kind)
    text = "@inner\ndef {name}(a, b):\n    if a != a or b != b:\n        raise ValueError('NaN')\n"
    return unit.helper("less", text + "    return a < b\n")
