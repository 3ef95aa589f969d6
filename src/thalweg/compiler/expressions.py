"""Expressions: from the user's syntax tree to typed code that Numba compiles as Python evaluates it.

An allow-list: what no method here names is refused with its line. The only side effect an expression can
have is that of a function given the state; such calls are refused where their place in the order of
evaluation would change, or where the generated code says an operand twice.
"""

from __future__ import annotations

import ast
import operator as operator_functions
from collections.abc import Callable
from typing import Final

from thalweg.compiler.calls import Calls
from thalweg.compiler.code.source import Const, Unusable, dotted
from thalweg.compiler.kinds import BOOL, FLOAT, INT, NONE, Type, join
from thalweg.compiler.operations import REFUSED, SYMBOLS, Expr, an, tuple_code, whole

#: Operators that are computed for literals only, with so large a second operand.
_OF_LITERALS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Pow: operator_functions.pow,
    ast.LShift: operator_functions.lshift,
    ast.RShift: operator_functions.rshift,
}
_LONGEST_POWER: Final = 64


class Expressions(Calls):
    """Lowers the expressions of one function; the subclass knows variables and callees."""

    # -- dispatch --------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Expr:
        """Typed code of any allowed expression."""
        outer, self.line = self.line, getattr(node, "lineno", self.line)
        kind = type(node)
        if kind in REFUSED:
            self.refuse(REFUSED[kind])
        method = getattr(self, f"_{kind.__name__.lower()}", None)
        if method is None:
            self.refuse(f"uses {kind.__name__}, which is not on the list of compiled syntax")
        result: Expr = method(node)
        self.line = outer
        return result

    def _constant(self, node: ast.Constant) -> Expr:
        return self.literal(node.value)

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

    # -- numbers ---------------------------------------------------------------------------------

    def _binop(self, node: ast.BinOp) -> Expr:
        return self.arithmetic(node.left, node.op, node.right)

    def arithmetic(self, left: ast.expr, operator: ast.operator, right: ast.expr) -> Expr:
        """``left operator right``."""
        if type(operator) in REFUSED:
            return self._power(left, operator, right)
        symbol = SYMBOLS[type(operator)]
        a, seen_a = self._watched(left)
        b, seen_b = self._watched(right)
        if a.type.is_text or b.type.is_text:
            return self.text_arithmetic(a, symbol, b)
        a, b = self.number(a, symbol), self.number(b, symbol)
        if symbol in "+-*" and a.type == b.type == FLOAT:
            # An int in a float field becomes the same float here as the compiled code has.
            for one, other in ((seen_a, b), (seen_b, a)):
                if one is not None and not self._is_widened_field(other):
                    self.unit.sensitive.remove(one)
        return self.operate(a, symbol, b)

    def _power(self, left: ast.expr, operator: ast.operator, right: ast.expr) -> Expr:
        """``2**53`` and ``1 << 20`` as the numbers that they are; refused where they are not of literals."""
        if isinstance(operator, (ast.Pow, ast.LShift, ast.RShift)):
            values = [self.expression(one) for one in (left, right)]
            base, power = (one.const for one in values)
            if type(base) is type(power) is int and 0 <= power <= _LONGEST_POWER:
                return self.literal(_OF_LITERALS[type(operator)](base, power))
        self.refuse(REFUSED[type(operator)])

    def _watched(self, node: ast.expr) -> tuple[Expr, tuple[str, str] | None]:
        """The expression, and the state's float field when it is nothing but that."""
        before = len(self.unit.sensitive)
        value = self.expression(node)
        bare = isinstance(node, ast.Attribute) and len(self.unit.sensitive) == before + 1
        return value, self.unit.sensitive[-1] if bare else None

    def _is_widened_field(self, value: Expr) -> bool:
        return value.code.startswith("get_f(")

    def _unaryop(self, node: ast.UnaryOp) -> Expr:
        if type(node.op) in REFUSED:
            self.refuse(REFUSED[type(node.op)])
        if isinstance(node.op, ast.Not):
            return Expr(f"(not {self.truth(node.operand)})", BOOL)
        symbol = "-" if isinstance(node.op, ast.USub) else "+"
        if isinstance(node.operand, ast.Constant) and type(node.operand.value) is int:
            # The least int64 is written as the negative of an int that does not fit.
            return self.literal(-node.operand.value if symbol == "-" else node.operand.value)
        value = self.number(self.expression(node.operand), symbol)
        if value.is_const:
            return self.literal(-value.const if symbol == "-" else +value.const)
        if value.type == FLOAT:
            return Expr(f"({symbol}{value.code})", FLOAT)
        return Expr(f"neg_int({whole(value)})" if symbol == "-" else whole(value), INT)

    # -- truth and comparison --------------------------------------------------------------------

    def truth(self, node: ast.expr) -> str:
        """Code of whether the expression counts as true."""
        if isinstance(node, ast.BoolOp):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return f"({word.join(self.truth(one) for one in node.values)})"
        return self.truth_of(self.expression(node))

    def _boolop(self, node: ast.BoolOp) -> Expr:
        word = " and " if isinstance(node.op, ast.And) else " or "
        before = self.effects
        values = [self.expression(one) for one in node.values]
        if all(one.type == BOOL for one in values):
            return Expr(f"({word.join(one.code for one in values)})", BOOL)
        self.check_effects(before)
        result = values[-1]
        for one in reversed(values[:-1]):
            test = self.truth_of(one)
            if word == " or " and one.type.optional:
                # What `or` lets through is true, so not None.
                code = f"{one.code}[1]" if one.type.boxed else one.code
                one = Expr(code, one.type.bare)
            kind = join(one.type, result.type)
            if kind is None or not (kind.numeric or kind.is_text):
                self.refuse(f"`{word.strip()}` gives {an(one.type)} or {an(result.type)}")
            taken, other = self.fit(one, kind, "value"), self.fit(result, kind, "value")
            first, second = (other, taken) if word == " and " else (taken, other)
            result = Expr(f"({first} if {test} else {second})", kind)
        return result

    def _ifexp(self, node: ast.IfExp) -> Expr:
        test = self.truth(node.test)
        a, b = self.expression(node.body), self.expression(node.orelse)
        kind = join(a.type, b.type)
        if kind is None:
            self.refuse(f"`if else` gives {an(a.type)} or {an(b.type)}; make both the same type")
        return Expr(f"({self.fit(a, kind, 'v')} if {test} else {self.fit(b, kind, 'v')})", kind)

    def _compare(self, node: ast.Compare) -> Expr:
        before = self.effects
        operands = [node.left, *node.comparators]
        parts = [
            self._comparison(operands[i], operator, operands[i + 1])
            for i, operator in enumerate(node.ops)
        ]
        if len(parts) == 1:
            return parts[0]
        self.check_effects(before)
        return Expr(f"({' and '.join(p.code for p in parts)})", BOOL)

    def _comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Expr:
        before = self.effects
        negated = isinstance(operator, (ast.NotEq, ast.IsNot, ast.NotIn))
        if isinstance(operator, (ast.In, ast.NotIn)):
            code = self._contained(self.repeatable(left), right)
            return Expr(f"(not {code})" if negated else code, BOOL)
        a, b = self.expression(left), self.expression(right)
        if a.type != b.type or a.type.optional:
            self.check_effects(before)
        if isinstance(operator, (ast.Is, ast.IsNot)) and NONE not in (a.type, b.type):
            self.refuse("uses `is`; compiled functions know it only with None")
        if isinstance(operator, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
            code = self.equal(a, b)
            return Expr(f"(not {code})" if negated else code, BOOL)
        return Expr(self.ordered(a, SYMBOLS[type(operator)], b), BOOL)

    def _contained(self, value: Expr, container: ast.expr) -> str:
        if isinstance(container, (ast.Tuple, ast.List, ast.Set)):
            items = [self.expression(one) for one in container.elts]
        else:
            found = self.expression(container)
            if found.type.is_text or found.type.tag == "texts":
                return self.contained_in_text(value, found)
            if found.type.tag != "tuple" or not found.is_const:
                self.refuse("uses `in` with something else than literals")
            items = [self.literal(one) for one in found.const]
        if any(one.is_const and one.const != one.const for one in items):
            self.refuse("uses `in` with NaN")
        if not all(one.is_const for one in items):
            self.refuse("uses `in` with something else than literals")
        return f"({' or '.join(self.equal(value, one) for one in items)})" if items else "False"

    # -- tuples ----------------------------------------------------------------------------------

    def _tuple(self, node: ast.Tuple) -> Expr:
        parts = [self.expression(one) for one in node.elts]
        if not parts or NONE in [one.type for one in parts]:
            self.refuse("makes an empty tuple or one with None")
        return Expr(tuple_code(parts), Type("tuple", items=tuple(p.type for p in parts)))

    def _subscript(self, node: ast.Subscript) -> Expr:
        known = self.split_item(node)
        if known is not None:
            return known
        owner = self.expression(node.value)
        if owner.type.is_text or owner.type.tag == "texts":
            return self.item_of_text(owner, node.slice)
        index = self.expression(node.slice) if not isinstance(node.slice, ast.Slice) else None
        size = len(owner.type.items)
        if owner.type.tag not in ("tuple", "record") or index is None or owner.type.optional:
            self.refuse(f"uses [] on a {owner.type}")
        if owner.type.tag == "record" and not self.is_library and owner.type.form != "tuple":
            if owner.type.form != "dict" or type(index.const) is not str:
                self.refuse(
                    f"uses [] on a {owner.type} with something else than a key as a literal"
                )
            return self.field(owner, index.const, by_key=True)
        if type(index.const) is not int or not -size <= index.const < size:
            self.refuse("uses [] with an index that is not a literal")
        at = index.const % size
        if owner.type.tag == "record":
            return self.field(owner, owner.type.names[at])
        return Expr(f"{owner.code}[{at}]", owner.type.items[at])

    # -- fitting into a declared type ------------------------------------------------------------

    def fitted(self, node: ast.expr, target: Type, where: str) -> str:
        """Code of the expression as a value of the target type, ``a if c else b`` branch by branch."""
        if isinstance(node, ast.IfExp):
            test = self.truth(node.test)
            a, b = self.fitted(node.body, target, where), self.fitted(node.orelse, target, where)
            return f"({a} if {test} else {b})"
        return self.fit(self.expression(node), target, where)
