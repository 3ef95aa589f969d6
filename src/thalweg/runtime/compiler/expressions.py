"""Expressions: from the user's syntax tree to typed code that Numba compiles as Python evaluates it.

An allow-list: what no method here names is refused with its line. Operands may be evaluated twice in the
generated code, since nothing allowed here has side effects.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from thalweg.runtime.compiler.kinds import BOOL, CATEGORY, FLOAT, INT, NO_VALUE, NONE, Type, join
from thalweg.runtime.compiler.reasons import NotCompilable
from thalweg.runtime.compiler.source import (
    Captured,
    Const,
    FunctionSource,
    Known,
    RecordClass,
    Unusable,
    dotted,
)
from thalweg.runtime.compiler.unit import Unit, category_code

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


_REFUSED: Final[dict[type[ast.AST], str]] = {
    ast.Pow: "uses `**`, whose compiled result can differ",
    ast.LShift: "uses `<<`, whose compiled result can differ",
    ast.RShift: "uses `>>`, whose compiled result can differ",
    ast.Invert: "uses `~`, whose compiled result can differ",
    ast.MatMult: "uses `@`",
    ast.NamedExpr: "uses `:=`",
    ast.JoinedStr: "builds a text with an f-string; compiled functions cannot make texts",
    ast.Lambda: "makes a lambda",
    ast.ListComp: "uses a comprehension",
    ast.GeneratorExp: "uses a generator expression",
    ast.Dict: "makes a dict",
    ast.Await: "uses `await`",
    ast.YieldFrom: "uses `yield from`; write a loop that yields",
    ast.Yield: "uses the value of a `yield`",
}
_SYMBOLS: Final[dict[type[ast.AST], str]] = {
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
_WHOLE: Final[dict[type[ast.AST], str]] = {ast.FloorDiv: "floor_int", ast.Mod: "mod_int"}
#: the signature of what lowers an expression whose type the target dictates
Lower = Callable[[ast.expr], Expr]


class Expressions:
    """Lowers the expressions of one function; the subclass knows variables and callees."""

    unit: Unit
    source: FunctionSource
    captured: dict[str, Captured]
    line: int

    # -- for the subclass ------------------------------------------------------------------------

    def variable(self, name: str) -> Expr | None:
        """The local variable of that name; None when it is not local."""
        raise NotImplementedError

    def call_function(self, source: FunctionSource, node: ast.Call) -> Expr:
        """A call of another plain function."""
        raise NotImplementedError

    def refuse(self, text: str) -> NoReturn:
        """Gives up with the line at hand."""
        raise NotCompilable(f"{self.place}: {text}")

    @property
    def place(self) -> str:
        return f"{self.source.name}, line {self.line}"

    # -- dispatch --------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Expr:
        """Typed code of any allowed expression."""
        outer, self.line = self.line, getattr(node, "lineno", self.line)
        kind = type(node)
        if kind in _REFUSED:
            self.refuse(_REFUSED[kind])
        method = getattr(self, f"_{kind.__name__.lower()}", None)
        if method is None:
            self.refuse(f"uses {kind.__name__}, which is not on the list of compiled syntax")
        result: Expr = method(node)
        self.line = outer
        return result

    def _constant(self, node: ast.Constant) -> Expr:
        return self.literal(node.value)

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
            return Expr(f"({category_code(value)})", CATEGORY, value)
        if isinstance(value, tuple):
            parts = [self.literal(one) for one in value]
            types = tuple(one.type for one in parts)
            return Expr(_tuple_code(parts), Type("tuple", items=types), value)
        if isinstance(value, frozenset):
            return Expr("None", Type("tuple"), tuple(sorted(value, key=repr)))
        self.refuse(f"uses a {type(value).__name__} literal")

    def _name(self, node: ast.Name) -> Expr:
        return self.variable(node.id) or self._outside(node.id)

    def _outside(self, path: str) -> Expr:
        value = self.captured.get(path)
        if isinstance(value, Const):
            return self.literal(value.value)
        if isinstance(value, Unusable):
            self.refuse(value.reason)
        self.refuse(f"`{path}` cannot be used as a value")

    def _attribute(self, node: ast.Attribute) -> Expr:
        path = dotted(node)
        if path is not None and self.variable(path[0]) is None:
            for stop in range(len(path), 0, -1):
                name = ".".join(path[:stop])
                if name in self.captured:
                    if stop < len(path):
                        self.refuse(f"reads `.{path[stop]}` of the captured `{name}`")
                    return self._outside(name)
        owner = self.expression(node.value)
        return self.field(owner, node.attr)

    def field(self, owner: Expr, name: str) -> Expr:
        """A field of a record or state."""
        if owner.type.tag not in ("record", "state"):
            self.refuse(f"reads `.{name}` of a {owner.type}")
        if owner.type.boxed:
            owner = Expr(f"need({owner.code})", owner.type.bare)
        if name not in owner.type.names:
            self.refuse(f"{owner.type} has no field `{name}`")
        at = owner.type.names.index(name)
        kind = owner.type.items[at]
        if owner.type.tag == "record":
            return Expr(f"{owner.code}.f_{name}", kind)
        if kind.tag == "float":
            self.unit.sensitive.append((owner.type.label, name))
        return Expr(f"get_{kind.letter}({owner.code} + {owner.type.offsets[at]})", kind)

    # -- numbers ---------------------------------------------------------------------------------

    def needed(self, value: Expr) -> Expr:
        """The value without None; compiled code raises where Python would."""
        if value.type.boxed:
            return Expr(f"need({value.code})", value.type.bare)
        return value

    def _number(self, value: Expr, symbol: str) -> Expr:
        value = self.needed(value)
        if not value.type.numeric:
            what = "a str or bytes field" if value.type.tag == "handle" else f"a {value.type}"
            self.refuse(f"uses `{symbol}` on {what}")
        return value

    def _binop(self, node: ast.BinOp) -> Expr:
        return self.arithmetic(node.left, node.op, node.right)

    def arithmetic(self, left: ast.expr, operator: ast.operator, right: ast.expr) -> Expr:
        """``left operator right``."""
        if type(operator) in _REFUSED:
            self.refuse(_REFUSED[type(operator)])
        symbol = _SYMBOLS[type(operator)]
        a, seen_a = self._watched(left)
        b, seen_b = self._watched(right)
        a, b = self._number(a, symbol), self._number(b, symbol)
        if symbol in "+-*" and a.type == b.type == FLOAT:
            # An int in a float field becomes the same float here as the compiled code has.
            for one, other in ((seen_a, b), (seen_b, a)):
                if one is not None and not self._is_widened_field(other):
                    self.unit.sensitive.remove(one)
        return self._operate(a, symbol, operator, b)

    def _watched(self, node: ast.expr) -> tuple[Expr, tuple[str, str] | None]:
        """The expression, and the state's float field when it is nothing but that."""
        before = len(self.unit.sensitive)
        value = self.expression(node)
        bare = isinstance(node, ast.Attribute) and len(self.unit.sensitive) == before + 1
        return value, self.unit.sensitive[-1] if bare else None

    def _is_widened_field(self, value: Expr) -> bool:
        return value.code.startswith("get_f(")

    def _operate(self, a: Expr, symbol: str, operator: ast.operator, b: Expr) -> Expr:
        if symbol in "&|^":
            if FLOAT in (a.type, b.type):
                self.refuse(f"uses `{symbol}` on a float")
            if a.type == b.type == BOOL:
                return Expr(f"({a.code} {symbol} {b.code})", BOOL)
            return Expr(f"({_whole(a)} {symbol} {_whole(b)})", INT)
        if FLOAT in (a.type, b.type):
            left, right = _real(a), _real(b)
            if symbol == "//":
                self.refuse("uses `//` on floats, whose compiled result can differ")
            if symbol == "%":
                return Expr(f"mod_float({left}, {right})", FLOAT)
            return Expr(f"({left} {symbol} {right})", FLOAT)
        left, right = _whole(a), _whole(b)
        if symbol == "/":
            return Expr(f"divide_int({left}, {right})", FLOAT)
        if type(operator) in _WHOLE:
            if b.is_const and b.const not in (0, -1):
                return Expr(f"({left} {symbol} {right})", INT)
            return Expr(f"{_WHOLE[type(operator)]}({left}, {right})", INT)
        if a.is_const and b.is_const:
            values = {"+": a.const + b.const, "-": a.const - b.const, "*": a.const * b.const}
            return self.literal(int(values[symbol]))
        return Expr(f"({left} {symbol} {right})", INT)

    def _unaryop(self, node: ast.UnaryOp) -> Expr:
        if type(node.op) in _REFUSED:
            self.refuse(_REFUSED[type(node.op)])
        if isinstance(node.op, ast.Not):
            return Expr(f"(not {self.truth(node.operand)})", BOOL)
        symbol = "-" if isinstance(node.op, ast.USub) else "+"
        value = self._number(self.expression(node.operand), symbol)
        if value.is_const:
            return self.literal(-value.const if symbol == "-" else +value.const)
        if value.type == FLOAT:
            return Expr(f"({symbol}{value.code})", FLOAT)
        return Expr(f"({symbol}{_whole(value)})", INT)

    # -- truth and comparison --------------------------------------------------------------------

    def truth(self, node: ast.expr) -> str:
        """Code of whether the expression counts as true."""
        if isinstance(node, ast.BoolOp):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return f"({word.join(self.truth(one) for one in node.values)})"
        return self.truth_of(self.expression(node))

    def truth_of(self, value: Expr) -> str:
        """Code of whether a value counts as true."""
        kind = value.type
        if kind.tag == "none":
            return "False"
        if kind.tag == "category":
            if kind.boxed:
                self.refuse("tests a Category | None for truth; compare it with None or a text")
            return f"({value.code} != {category_code('')})"
        if not kind.numeric:
            self.refuse(f"tests a {kind} for truth")
        if kind.boxed:
            return f"truth_of({value.code})"
        return value.code if kind.tag == "bool" else f"({value.code} != 0)"

    def _boolop(self, node: ast.BoolOp) -> Expr:
        word = " and " if isinstance(node.op, ast.And) else " or "
        values = [self.expression(one) for one in node.values]
        if all(one.type == BOOL for one in values):
            return Expr(f"({word.join(one.code for one in values)})", BOOL)
        result = values[-1]
        for one in reversed(values[:-1]):
            test = self.truth_of(one)
            if word == " or " and one.type.boxed:
                # What `or` lets through is true, so not None.
                one = Expr(f"{one.code}[1]", one.type.bare)
            kind = join(one.type, result.type)
            if kind is None or not kind.numeric:
                self.refuse(f"`{word.strip()}` gives {_article(one.type)} or {_article(result.type)}")
            taken, other = self.fit(one, kind, "value"), self.fit(result, kind, "value")
            first, second = (other, taken) if word == " and " else (taken, other)
            result = Expr(f"({first} if {test} else {second})", kind)
        return result

    def _ifexp(self, node: ast.IfExp) -> Expr:
        test = self.truth(node.test)
        a, b = self.expression(node.body), self.expression(node.orelse)
        kind = join(a.type, b.type)
        if kind is None:
            self.refuse(
                f"`if else` gives {_article(a.type)} or {_article(b.type)}; make both the same type"
            )
        return Expr(f"({self.fit(a, kind, 'v')} if {test} else {self.fit(b, kind, 'v')})", kind)

    def _compare(self, node: ast.Compare) -> Expr:
        operands = [node.left, *node.comparators]
        parts = [
            self._comparison(operands[i], operator, operands[i + 1])
            for i, operator in enumerate(node.ops)
        ]
        return parts[0] if len(parts) == 1 else Expr(f"({' and '.join(p.code for p in parts)})", BOOL)

    def _comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Expr:
        negated = isinstance(operator, (ast.NotEq, ast.IsNot, ast.NotIn))
        if isinstance(operator, (ast.In, ast.NotIn)):
            code = self._contained(self.expression(left), right)
        else:
            a, b = self.expression(left), self.expression(right)
            if isinstance(operator, (ast.Is, ast.IsNot)):
                if NONE not in (a.type, b.type):
                    self.refuse("uses `is`; compiled functions know it only with None")
                code = self._equal(a, b)
            elif isinstance(operator, (ast.Eq, ast.NotEq)):
                code = self._equal(a, b)
            else:
                return Expr(self._ordered(a, _SYMBOLS[type(operator)], b), BOOL)
        return Expr(f"(not {code})" if negated else code, BOOL)

    def _contained(self, value: Expr, container: ast.expr) -> str:
        if isinstance(container, (ast.Tuple, ast.List, ast.Set)):
            items = [self.expression(one) for one in container.elts]
        else:
            found = self.expression(container)
            if found.type.tag != "tuple" or not found.is_const:
                self.refuse("uses `in` with something else than literals")
            items = [self.literal(one) for one in found.const]
        if any(one.is_const and one.const != one.const for one in items):
            self.refuse("uses `in` with NaN")
        if not all(one.is_const for one in items):
            self.refuse("uses `in` with something else than literals")
        return f"({' or '.join(self._equal(value, one) for one in items)})" if items else "False"

    def _equal(self, a: Expr, b: Expr) -> str:
        if a.type.tag == "none":
            a, b = b, a
        if b.type.tag == "none":
            if a.type.tag == "handle" and a.type.optional:
                self.refuse(f"compares a {a.type} with None; compiled functions only pass it on")
            return f"(not {a.code}[0])" if a.type.boxed else str(a.type.tag == "none")
        categories = a.type.tag == b.type.tag == "category"
        if not categories and not (a.type.numeric and b.type.numeric):
            if "handle" in (a.type.tag, b.type.tag):
                self.refuse("compares a str, bytes or list field; declare it tw.Category to compare it")
            self.refuse(f"compares {_article(a.type)} with {_article(b.type)}")
        mixed = (a.type.tag == "float") != (b.type.tag == "float")
        if a.type.boxed or b.type.boxed:
            if mixed:
                self.refuse(f"compares {_article(a.type)} with {_article(b.type)}")
            if a.type.boxed and b.type.boxed:
                return f"equal_both({a.code}, {b.code})"
            a, b = (a, b) if a.type.boxed else (b, a)
            return f"equal_one({a.code}, {b.code})"
        return self._numbers(a, "==", b)

    def _ordered(self, a: Expr, symbol: str, b: Expr) -> str:
        if "category" in (a.type.tag, b.type.tag):
            self.refuse(f"uses `{symbol}` on a Category, which compares only by ==, != and in")
        return self._numbers(self._number(a, symbol), symbol, self._number(b, symbol))

    def _numbers(self, a: Expr, symbol: str, b: Expr) -> str:
        """Compares numbers exactly as Python does, an int with a float too."""
        if (a.type.tag == "float") == (b.type.tag == "float"):
            return f"({a.code} {symbol} {b.code})"
        if _is_small(a) or _is_small(b):
            return f"({_real(a)} {symbol} {_real(b)})"
        if b.type.tag != "float":
            a, b, symbol = b, a, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(symbol, symbol)
        sign = f"compare({_whole(a)}, {b.code})"
        if symbol in _COMPARED:
            return f"({sign} {_COMPARED[symbol]})"
        return f"({sign} <= 0)" if symbol == "<=" else f"({sign} in (0, 1))"

    # -- tuples ----------------------------------------------------------------------------------

    def _tuple(self, node: ast.Tuple) -> Expr:
        parts = [self.expression(one) for one in node.elts]
        if not parts or NONE in [one.type for one in parts]:
            self.refuse("makes an empty tuple or one with None")
        return Expr(_tuple_code(parts), Type("tuple", items=tuple(p.type for p in parts)))

    def _subscript(self, node: ast.Subscript) -> Expr:
        owner = self.expression(node.value)
        index = self.expression(node.slice) if not isinstance(node.slice, ast.Slice) else None
        size = len(owner.type.items)
        if owner.type.tag not in ("tuple", "record") or index is None or owner.type.optional:
            self.refuse(f"uses [] on a {owner.type}")
        if type(index.const) is not int or not -size <= index.const < size:
            self.refuse("uses [] with an index that is not a literal")
        at = index.const % size
        if owner.type.tag == "record":
            return self.field(owner, owner.type.names[at])
        return Expr(f"{owner.code}[{at}]", owner.type.items[at])

    # -- calls -----------------------------------------------------------------------------------

    def callee(self, node: ast.Call) -> Captured:
        """What is called, resolved."""
        path = dotted(node.func)
        if path is None or self.variable(path[0]) is not None:
            self.refuse(f"calls `{ast.unparse(node.func)}`")
        value = self.captured.get(".".join(path))
        if value is None:
            self.refuse(f"calls `{'.'.join(path)}`")
        if isinstance(value, Unusable):
            self.refuse(value.reason)
        return value

    def _call(self, node: ast.Call) -> Expr:
        value = self.callee(node)
        if any(isinstance(one, ast.Starred) for one in node.args) or any(
            one.arg is None for one in node.keywords
        ):
            self.refuse("passes arguments by * or **")
        if isinstance(value, FunctionSource):
            return self.call_function(value, node)
        if isinstance(value, RecordClass):
            parts = self.record_arguments(value, node)
            label = self.unit.record_class(value.schema.name, value.schema.names)
            kind = Type(
                "record", label=label, items=tuple(p.type for p in parts), names=value.schema.names
            )
            if any(one.type.tag == "none" for one in parts):
                self.refuse(f"puts None into a {value.schema.name} that it does not return at once")
            return Expr(f"{label}({', '.join(p.code for p in parts)})", kind)
        if isinstance(value, Known):
            return self._known(value.name, node)
        self.refuse(f"calls `{ast.unparse(node.func)}`")

    def record_arguments(self, value: RecordClass, node: ast.Call) -> list[Expr]:
        """The arguments of a record's constructor in field order, defaults filled in."""
        names = value.schema.names
        given: dict[str, Expr] = {}
        for name, one in zip(names, node.args, strict=False):
            given[name] = self.expression(one)
        for word in node.keywords:
            if word.arg is not None:
                given[word.arg] = self.expression(word.value)
        defaults = getattr(value.schema.cls, "_field_defaults", {})
        for name in names:
            if name not in given and name in defaults:
                given[name] = self.literal(defaults[name])
        if set(given) != set(names) or len(node.args) + len(node.keywords) > len(names):
            self.refuse(f"{value.schema.name} takes {', '.join(names)}")
        return [given[name] for name in names]

    def _known(self, name: str, node: ast.Call) -> Expr:
        if node.keywords:
            self.refuse(f"calls {name} with keywords")
        args = [self.needed(self.expression(one)) for one in node.args] if name != "bool" else []
        if name in ("min", "max"):
            return self._extreme(name, args)
        if len(node.args) != 1:
            self.refuse(f"calls {name} with {len(node.args)} arguments")
        if name == "bool":
            return Expr(self.truth(node.args[0]), BOOL)
        value = self._number(args[0], name)
        if name == "float":
            return Expr(_real(value), FLOAT)
        if name == "int":
            if value.type == FLOAT:
                self.refuse("uses int() of a float, whose compiled result can differ")
            return Expr(_whole(value), INT)
        if name == "abs":
            if value.type == FLOAT:
                return Expr(f"abs({value.code})", FLOAT)
            return Expr(f"abs({_whole(value)})", INT)
        tests = {"math.isnan": "isnan", "math.isinf": "isinf", "math.isfinite": "isfinite"}
        if name in tests:
            return Expr(f"math.{tests[name]}({_real(value)})", BOOL)
        if name in ("math.fabs", "math.sqrt"):
            return Expr(f"{'abs' if name == 'math.fabs' else 'root'}({_real(value)})", FLOAT)
        self.refuse(f"calls `{name}` here")

    def _extreme(self, name: str, args: Sequence[Expr]) -> Expr:
        if len(args) < 2:
            self.refuse(f"calls {name} with one argument")
        args = [self._number(one, name) for one in args]
        if len({one.type for one in args}) > 1:
            self.refuse(f"calls {name} with different types; make them all int or all float")
        function = "lesser" if name == "min" else "greater"
        code = args[0].code
        for one in args[1:]:
            code = f"{function}({code}, {one.code})"
        return Expr(code, args[0].type)

    # -- fitting into a declared type ------------------------------------------------------------

    def fitted(self, node: ast.expr, target: Type, where: str) -> str:
        """Code of the expression as a value of the target type, ``a if c else b`` branch by branch."""
        if isinstance(node, ast.IfExp):
            test = self.truth(node.test)
            a, b = self.fitted(node.body, target, where), self.fitted(node.orelse, target, where)
            return f"({a} if {test} else {b})"
        return self.fit(self.expression(node), target, where)

    def fit(self, value: Expr, target: Type, where: str) -> str:
        """Code of a value as the target type; numbers widen, nothing narrows."""
        kind = value.type
        if kind == target:
            return value.code
        if kind.tag == "handle" or target.tag == "handle":
            if kind.tag == target.tag and kind.label == target.label and target.optional:
                return value.code
            if kind.tag == "none" and target.optional:
                return str(NO_VALUE)
            self.refuse(f"{where} is {target}, got {_article(kind)}; compiled functions only pass on")
        if target.boxed:
            if kind.tag == "none":
                return f"(False, {target.bare.zero})"
            if kind.boxed:
                self.refuse(f"{where} is {target}, got {_article(kind)}")
            return f"(True, {self.fit(value, target.bare, where)})"
        value = self.needed(value)
        if value.type == target:
            return value.code
        if target == INT and value.type == BOOL:
            return _whole(value)
        if target == FLOAT and value.type in (INT, BOOL):
            return _real(value)
        self.refuse(f"{where} is {target}, got {_article(kind)}")


def _article(kind: Type) -> str:
    return f"an {kind}" if kind.tag == "int" else f"a {kind}"


def _tuple_code(parts: Sequence[Expr]) -> str:
    return f"({''.join(f'{one.code}, ' for one in parts)})"


def _is_small(value: Expr) -> bool:
    """Whether it is an int literal that is exactly a float."""
    return value.is_const and value.type.tag != "float" and abs(value.const) <= _EXACT


def _whole(value: Expr) -> str:
    return f"int64({value.code})" if value.type.tag == "bool" else value.code


def _real(value: Expr) -> str:
    return value.code if value.type.tag == "float" else f"float64({value.code})"
