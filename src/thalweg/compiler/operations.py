"""Operations on typed expressions: each gives what Python gives, or is refused with its reason.

Operands may stand twice in the code that is returned, so the caller sees to it that they have no side
effects (:meth:`~thalweg.compiler.expressions.Expressions.repeatable`).
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from thalweg.compiler.code.cell_code import load
from thalweg.compiler.code.reasons import NotCompilable
from thalweg.compiler.code.source import FunctionSource
from thalweg.compiler.code.unit import ModuleParts, category_code
from thalweg.compiler.kinds import BOOL, FLOAT, INT, LITERAL, NO_VALUE, NONE, Type

_MISSING: Final = object()
_EXACT: Final = 2**53


class Expr(NamedTuple):
    """Code of an expression, its type, and its value when that is a literal."""

    code: str
    type: Type
    const: Any = _MISSING

    @property
    def is_const(self) -> bool:
        return self.const is not _MISSING


REFUSED: Final[dict[type[ast.AST], str]] = {
    ast.Pow: "uses `**`, whose compiled result can differ",
    ast.LShift: "uses `<<`, whose compiled result can differ",
    ast.RShift: "uses `>>`, whose compiled result can differ",
    ast.Invert: "uses `~`, whose compiled result can differ",
    ast.MatMult: "uses `@`",
    ast.NamedExpr: "uses `:=`",
    ast.Lambda: "makes a lambda",
    ast.ListComp: "uses a comprehension",
    ast.GeneratorExp: "uses a generator expression",
    ast.Dict: "makes a dict",
    ast.Await: "uses `await`",
    ast.YieldFrom: "uses `yield from`; write a loop that yields",
    ast.Yield: "uses the value of a `yield`",
}
SYMBOLS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_COMPARED: Final = {"==": "== 0", "!=": "!= 0", "<": "== -1", ">": "== 1"}
#: Functions of two ints; each raises where Python's int would need more than 64 bits.
_WHOLE: Final = {
    "+": "add_int",
    "-": "sub_int",
    "*": "mul_int",
    "/": "divide_int",
    "//": "floor_int",
    "%": "mod_int",
}


class Operations:
    """Typed code of operations on typed code."""

    unit: ModuleParts
    source: FunctionSource
    line: int
    #: calls so far that may change the state
    effects: int = 0

    # -- for the subclass that knows texts -------------------------------------------------------

    def read(self, value: Expr) -> Expr:
        """A text of a column as a text; anything else as it is."""
        raise NotImplementedError

    def text_truth(self, value: Expr) -> str:
        """Code of whether a text counts as true."""
        raise NotImplementedError

    def equal_text(self, a: Expr, b: Expr) -> str:
        """Code of ``a == b`` where one of them is a text."""
        raise NotImplementedError

    def ordered_text(self, a: Expr, symbol: str, b: Expr) -> str:
        """Code of ``a < b`` and the like of two texts."""
        raise NotImplementedError

    def fit_text(self, value: Expr, target: Type, where: str) -> str:
        """As :meth:`fit` where one of the types is a text."""
        raise NotImplementedError

    # -- literals --------------------------------------------------------------------------------

    def refuse(self, text: str) -> NoReturn:
        """Gives up with the line at hand."""
        raise NotCompilable(f"{self.place}: {text}")

    @property
    def place(self) -> str:
        return f"{self.source.name}, line {self.line}"

    def literal(self, value: Any) -> Expr:
        """A constant as code."""
        if value is None:
            return Expr("None", NONE, None)
        if isinstance(value, bool):
            return Expr(str(value), BOOL, value)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                self.refuse(f"the number {value} does not fit 64 bits")
            # The least int64 has no literal: Python negates a number that does not fit.
            code = f"({value})" if value > -(2**63) else f"({value + 1} - 1)"
            return Expr(code, INT, value)
        if isinstance(value, float):
            if math.isfinite(value):
                return Expr(f"({value!r})", FLOAT, value)
            return Expr("NAN" if value != value else "INF" if value > 0 else "(-INF)", FLOAT, value)
        if isinstance(value, str):
            try:
                # Compared with a Category it is one: the process then knows its text.
                category_code(value)
            except UnicodeEncodeError:
                self.refuse(f"uses the text {value!r} with half of a surrogate pair")
            return Expr(self.unit.constant(value), Type("text", label=LITERAL), value)
        if isinstance(value, tuple):
            parts = [self.literal(one) for one in value]
            types = tuple(one.type for one in parts)
            return Expr(tuple_code(parts), Type("tuple", items=types), value)
        if isinstance(value, frozenset):
            return Expr("None", Type("tuple"), tuple(sorted(value, key=repr)))
        self.refuse(f"uses a {type(value).__name__} literal")

    # -- numbers ---------------------------------------------------------------------------------

    def needed(self, value: Expr) -> Expr:
        """The value without None; compiled code raises where Python would."""
        if value.type.is_column_text and value.type.optional:
            value = self.read(value)
        if value.type.boxed:
            return Expr(f"need({value.code})", value.type.bare)
        return value

    def number(self, value: Expr, symbol: str) -> Expr:
        value = self.needed(value)
        if not value.type.numeric:
            self.refuse(f"uses `{symbol}` on a {value.type}")
        return value

    def operate(self, a: Expr, symbol: str, b: Expr) -> Expr:
        if symbol in "&|^":
            if FLOAT in (a.type, b.type):
                self.refuse(f"uses `{symbol}` on a float")
            if a.type == b.type == BOOL:
                return Expr(f"({a.code} {symbol} {b.code})", BOOL)
            return Expr(f"({whole(a)} {symbol} {whole(b)})", INT)
        if FLOAT in (a.type, b.type):
            left, right = real(a), real(b)
            if symbol == "//":
                self.refuse("uses `//` on floats, whose compiled result can differ")
            if symbol == "%":
                return Expr(f"mod_float({left}, {right})", FLOAT)
            return Expr(f"({left} {symbol} {right})", FLOAT)
        left, right = whole(a), whole(b)
        if symbol in ("//", "%") and b.is_const and b.const not in (0, -1):
            return Expr(f"({left} {symbol} {right})", INT)
        if symbol in "+-*" and a.is_const and b.is_const:
            values = {"+": a.const + b.const, "-": a.const - b.const, "*": a.const * b.const}
            return self.literal(int(values[symbol]))
        return Expr(f"{_WHOLE[symbol]}({left}, {right})", FLOAT if symbol == "/" else INT)

    def truth_of(self, value: Expr) -> str:
        """Code of whether a value counts as true."""
        kind = value.type
        if kind.tag == "none":
            return "False"
        if kind.tag == "category":
            if kind.boxed:
                self.refuse("tests a Category | None for truth; compare it with None or a text")
            return f"({value.code} != {category_code('')})"
        if kind.is_text:
            return self.text_truth(self.read(value))
        if kind.tag == "texts":
            return f"({value.code}[1] != 0)"
        if not kind.numeric:
            self.refuse(f"tests a {kind} for truth")
        if kind.boxed:
            return f"truth_of({value.code})"
        return value.code if kind.tag == "bool" else f"({value.code} != 0)"

    # -- comparison ------------------------------------------------------------------------------

    def equal(self, a: Expr, b: Expr) -> str:
        if a.type.is_text or b.type.is_text:
            return self.equal_text(a, b)
        if a.type.tag == "none":
            a, b = b, a
        if b.type.tag == "none":
            if a.type.tag == "handle" and a.type.optional:
                self.refuse(f"compares a {a.type} with None; compiled functions only pass it on")
            return f"(not {a.code}[0])" if a.type.boxed else str(a.type.tag == "none")
        same = a.type.tag == b.type.tag and a.type.tag in ("category", "word")
        if same and a.type.label != b.type.label:
            self.refuse(f"compares {an(a.type)} with {an(b.type)}")
        if not same and not (a.type.numeric and b.type.numeric):
            if "handle" in (a.type.tag, b.type.tag):
                self.refuse("compares a bytes or list field, which compiled functions only pass on")
            self.refuse(f"compares {an(a.type)} with {an(b.type)}")
        mixed = (a.type.tag == "float") != (b.type.tag == "float")
        if a.type.boxed or b.type.boxed:
            if mixed:
                self.refuse(f"compares {an(a.type)} with {an(b.type)}")
            if a.type.boxed and b.type.boxed:
                return f"equal_both({a.code}, {b.code})"
            a, b = (a, b) if a.type.boxed else (b, a)
            return f"equal_one({a.code}, {b.code})"
        return self._numbers(a, "==", b)

    def ordered(self, a: Expr, symbol: str, b: Expr) -> str:
        if "category" in (a.type.tag, b.type.tag):
            self.refuse(f"uses `{symbol}` on a Category, which compares only by ==, != and in")
        if a.type.is_text and b.type.is_text:
            return self.ordered_text(a, symbol, b)
        if a.type.tag == "word" and a.type == b.type and not a.type.optional:
            return f"({a.code} {symbol} {b.code})"
        return self._numbers(self.number(a, symbol), symbol, self.number(b, symbol))

    def _numbers(self, a: Expr, symbol: str, b: Expr) -> str:
        """Compares numbers exactly as Python does, an int with a float too."""
        if (a.type.tag == "float") == (b.type.tag == "float"):
            return f"({a.code} {symbol} {b.code})"
        if _is_small(a) or _is_small(b):
            return f"({real(a)} {symbol} {real(b)})"
        if b.type.tag != "float":
            a, b, symbol = b, a, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(symbol, symbol)
        sign = f"compare({whole(a)}, {b.code})"
        if symbol in _COMPARED:
            return f"({sign} {_COMPARED[symbol]})"
        return f"({sign} <= 0)" if symbol == "<=" else f"({sign} in (0, 1))"

    # -- fields and declared types ---------------------------------------------------------------

    @property
    def is_library(self) -> bool:
        """Whether the function was generated by the library, which sees rows as they are inside."""
        return self.source.file.startswith("<thalweg ")

    def field(self, owner: Expr, name: str, *, by_key: bool = False) -> Expr:
        """A field of a record or state; ``by_key`` as of a dict."""
        found = self._field(owner, name, by_key)
        if found.type.tag == "word" and self.is_library:
            return Expr(found.code, dataclasses.replace(INT, optional=found.type.optional))
        return found

    def _field(self, owner: Expr, name: str, by_key: bool) -> Expr:
        if owner.type.tag not in ("record", "state"):
            self.refuse(f"reads `.{name}` of a {owner.type}")
        if owner.type.boxed:
            owner = Expr(f"need({owner.code})", owner.type.bare)
        if (
            owner.type.tag == "record"
            and (owner.type.form == "dict") != by_key
            and not self.is_library
        ):
            self.refuse(f"reads `{name}` of a {owner.type} in another way than Python can")
        if name not in owner.type.names:
            self.refuse(f"{owner.type} has no field `{name}`")
        at = owner.type.names.index(name)
        kind = owner.type.items[at]
        if owner.type.tag == "record":
            return Expr(f"{owner.code}.f_{name}", kind)
        if kind.tag == "float":
            self.unit.sensitive.append((owner.type.label, name))
        place = f"{owner.code} + {owner.type.offsets[at]}"
        if kind.tag == "text":
            return Expr(f"text_{'or_none_' if kind.optional else ''}at({place})", kind)
        if kind.tag == "list":
            return Expr(f"({place}, get_i({owner.code} + {owner.type.offsets[-2]}))", kind)
        return (
            Expr(load(self.unit, kind, place), kind)
            if kind.optional or kind.items
            else Expr(f"get_{kind.letter}({place})", kind)
        )

    def fit(self, value: Expr, target: Type, where: str) -> str:
        """Code of a value as the target type; numbers widen, nothing narrows."""
        kind = value.type
        if kind == target:
            return value.code if kind.tag != "none" else "None"
        if target.label in self.unit.list_fields and (
            kind.tag == "list" or (target.tag == "text" and kind.tag != "none")
        ):
            return self.fit_list(value, target, where)
        if kind.is_text or target.is_text:
            return self.fit_text(value, target, where)
        if kind.items and kind.tag == target.tag and not (kind.optional or target.optional):
            return self._fit_items(value, target, where)
        if target.tag == "word" and kind.bare == INT and self.is_library:
            kind = dataclasses.replace(target, optional=kind.optional)
            return self.fit(Expr(value.code, kind), target, where)
        if kind.tag == "handle" or target.tag == "handle":
            if kind.tag == target.tag and kind.label == target.label and target.optional:
                return value.code
            if kind.tag == "none" and target.optional:
                return str(NO_VALUE)
            self.refuse(f"{where} is {target}, got {an(kind)}; compiled functions only pass on")
        if target.boxed:
            if kind.tag == "none":
                return f"(False, {target.bare.zero})"
            if kind.boxed:
                self.refuse(f"{where} is {target}, got {an(kind)}")
            return f"(True, {self.fit(value, target.bare, where)})"
        value = self.needed(value)
        if value.type == target:
            return value.code
        if target == INT and value.type == BOOL:
            return whole(value)
        if target == FLOAT and value.type in (INT, BOOL):
            return real(value)
        self.refuse(f"{where} is {target}, got {an(kind)}")

    def fit_list(self, value: Expr, target: Type, where: str) -> str:
        """A list as a field of an output; given by the subclass."""
        raise NotImplementedError

    def _fit_items(self, value: Expr, target: Type, where: str) -> str:
        """A tuple or record whose items are to be of other types."""
        if len(value.type.items) != len(target.items) or value.type.label != target.label:
            self.refuse(f"{where} is {target}, got {an(value.type)}")
        name = self.unit.name("fitted")
        pairs = enumerate(zip(value.type.items, target.items, strict=True))
        codes = [self.fit(Expr(f"x[{i}]", a), b, where) for i, (a, b) in pairs]
        made = f"{target.label}({''.join(f'{one}, ' for one in codes)})"
        self.unit.parts.append(f"@inner\ndef {name}(x):\n    return {made}\n")
        return f"{name}({value.code})"


def an(kind: Type) -> str:
    return f"an {kind}" if kind.tag == "int" else f"a {kind}"


def tuple_code(parts: Sequence[Expr]) -> str:
    return f"({''.join(f'{one.code}, ' for one in parts)})"


def _is_small(value: Expr) -> bool:
    """Whether it is an int literal that is exactly a float."""
    return value.is_const and value.type.tag != "float" and abs(value.const) <= _EXACT


def whole(value: Expr) -> str:
    return f"int64({value.code})" if value.type.tag == "bool" else value.code


def real(value: Expr) -> str:
    return value.code if value.type.tag == "float" else f"float64({value.code})"
