"""Calls of ``math``, rounding, powers and shifts: what CPython computes by C's functions, compiled to call the same."""

from __future__ import annotations

import ast
from typing import Final

from thalweg.compiler.code.names import ONE_FLOAT
from thalweg.compiler.containers.expressions import Containers
from thalweg.compiler.kinds import FLOAT, INT, Type
from thalweg.compiler.operations import Expr, an, real, whole

_TWO_FLOATS: Final = {
    "math.pow": "m_pow",
    "math.atan2": "m_atan2",
    "math.fmod": "m_fmod",
    "math.copysign": "copysign",
}
_TO_INT: Final = {
    "int": "trunc_float", "math.floor": "floor_float", "math.ceil": "ceil_float", "math.trunc": "trunc_float",
    "round": "round_float",
}  # fmt: skip
_ONE: Final = {f"math.{name}": f"m_{name}" for name in (*ONE_FLOAT, "degrees", "radians")}


class MathCalls(Containers):
    """Lowers the calls of numbers."""

    def _known(self, name: str, node: ast.Call) -> Expr:
        known = (
            name in _ONE or name in _TWO_FLOATS or name in _TO_INT or name in ("divmod", "math.gcd")
        )
        if not known or node.keywords or not node.args:
            return super()._known(name, node)
        if not self.needed(self.looked_at(node.args[0])).type.numeric:
            return super()._known(name, node)
        values = [self.needed(self.expression(one)) for one in node.args]
        args = [self.number(one, name) for one in values]
        made = self._of_numbers(name, args)
        if made is None:
            self.refuse(f"calls {name} with {len(args)} arguments of these types")
        return made

    def _of_numbers(self, name: str, args: list[Expr]) -> Expr | None:
        first, count = args[0], len(args)
        if name in _TO_INT and count == 1:
            if first.type == FLOAT:
                return Expr(f"{_TO_INT[name]}({first.code})", INT)
            return Expr(whole(first), INT)
        if name == "round" and count == 2 and first.type == FLOAT and args[1].type == INT:
            return Expr(f"round_digits({first.code}, {args[1].code})", FLOAT)
        if name in _ONE and count == 1:
            return Expr(f"{_ONE[name]}({real(first)})", FLOAT)
        if name == "math.log" and count == 2:
            return Expr(f"(m_log({real(first)}) / m_log({real(args[1])}))", FLOAT)
        if name in _TWO_FLOATS and count == 2:
            return Expr(f"{_TWO_FLOATS[name]}({real(first)}, {real(args[1])})", FLOAT)
        if name == "math.gcd" and count == 2 and FLOAT not in (first.type, args[1].type):
            return Expr(f"gcd({whole(first)}, {whole(args[1])})", INT)
        if name == "divmod" and count == 2:
            return self._divided(first, args[1])
        return None

    def _divided(self, a: Expr, b: Expr) -> Expr:
        x = Expr("x", FLOAT if a.type == FLOAT else INT)
        y = Expr("y", FLOAT if b.type == FLOAT else INT)
        quotient, rest = self.operate(x, "//", y), self.operate(x, "%", y)
        name = self._inline("divmod", "x, y", f"return {quotient.code}, {rest.code}")
        given = ", ".join(one.code if one.type == FLOAT else whole(one) for one in (a, b))
        return Expr(f"{name}({given})", Type("tuple", items=(quotient.type, rest.type)))

    def _unaryop(self, node: ast.UnaryOp) -> Expr:
        if isinstance(node.op, ast.Invert):
            value = self.number(self.expression(node.operand), "~")
            if value.type != FLOAT:
                return Expr(f"({whole(value)} ^ -1)", INT)
            self.refuse("uses `~` on a float")
        return super()._unaryop(node)

    def operate(self, a: Expr, symbol: str, b: Expr) -> Expr:
        if symbol == "//" and FLOAT in (a.type, b.type):
            return Expr(f"floor_div_float({real(a)}, {real(b)})", FLOAT)
        return super().operate(a, symbol, b)

    def _power(self, left: ast.expr, operator: ast.operator, right: ast.expr) -> Expr:
        if isinstance(operator, (ast.Pow, ast.LShift, ast.RShift)):
            a, b = (
                self.number(self.expression(left), "**"),
                self.number(self.expression(right), "**"),
            )
            if not type(a.const) is type(b.const) is int:
                return self._raised(a, operator, b)
        return super()._power(left, operator, right)

    def _raised(self, a: Expr, operator: ast.operator, b: Expr) -> Expr:
        if isinstance(operator, ast.Pow):
            if FLOAT in (a.type, b.type):
                return Expr(f"m_pow({real(a)}, {real(b)})", FLOAT)
            if type(b.const) is not int or b.const < 0:
                self.refuse(
                    "uses `**` of ints with an exponent that is not a literal; Python's may be a float"
                )
            return Expr(f"power_int({whole(a)}, {whole(b)})", INT)
        if FLOAT in (a.type, b.type):
            self.refuse(f"shifts {an(a.type)} by {an(b.type)}")
        function = "shift_left" if isinstance(operator, ast.LShift) else "shift_right"
        return Expr(f"{function}({whole(a)}, {whole(b)})", INT)
