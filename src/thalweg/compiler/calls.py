"""Calls in expressions: of functions, records' constructors, methods, and what is known of Python and ``math``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from thalweg.compiler.kinds import BOOL, FLOAT, INT, Type
from thalweg.compiler.operations import Expr, real, whole
from thalweg.compiler.source import (
    Captured,
    Const,
    FunctionSource,
    Known,
    RecordClass,
    Unusable,
    dotted,
)
from thalweg.compiler.text.methods import TextMethods
from thalweg.compiler.text.values import EXTREMES

#: calls of one float: the compiled function and the type of the result
_FLOAT_CALLS: Final = {
    "float": ("", FLOAT),
    "math.isnan": ("math.isnan", BOOL),
    "math.isinf": ("math.isinf", BOOL),
    "math.isfinite": ("math.isfinite", BOOL),
    "math.fabs": ("abs", FLOAT),
    "math.sqrt": ("root", FLOAT),
}


#: What a call of a value's method is called.
_METHOD: Final = Known("a method")
#: Functions that take or give a text.
_TEXT_CALLS: Final = ("len", "str", "ord", "chr", "times.text")


class Calls(TextMethods):
    """Lowers calls; the subclass knows variables, callees, and all other expressions."""

    captured: dict[str, Captured]

    # -- for the subclass ------------------------------------------------------------------------

    def variable(self, name: str) -> Expr | None:
        """The local variable of that name; None when it is not local."""
        raise NotImplementedError

    def call_function(self, source: FunctionSource, node: ast.Call) -> Expr:
        """A call of another plain function."""
        raise NotImplementedError

    def truth(self, node: ast.expr) -> str:
        """Code of whether the expression counts as true."""
        raise NotImplementedError

    # -- order of evaluation ---------------------------------------------------------------------

    def repeatable(self, node: ast.expr) -> Expr:
        """An expression whose code may stand twice or elsewhere: it changes no state."""
        before = self.effects
        value = self.expression(node)
        self.check_effects(before)
        return value

    def check_effects(self, before: int) -> None:
        """Refuses calls since ``before`` that may change the state."""
        if self.effects != before:
            self.refuse(
                "calls a function with the state inside an expression; assign its result first"
            )

    # -- calls -----------------------------------------------------------------------------------

    def is_method(self, node: ast.Call) -> bool:
        """Whether a value's method is called, not a function or class from outside."""
        if not isinstance(node.func, ast.Attribute):
            return False
        path = dotted(node.func)
        if path is None or self.variable(path[0]) is not None:
            return True
        known = (self.captured.get(".".join(path[:i])) for i in range(1, len(path)))
        return any(isinstance(one, Const) for one in known)

    def callee(self, node: ast.Call) -> Captured:
        """What is called, resolved."""
        if self.is_method(node):
            return _METHOD
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
        if value == _METHOD:
            return self.method(node)
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
        nodes = self.record_parts(value, node)
        return [self.expression(n) if isinstance(n, ast.expr) else n for n in nodes]

    def record_parts(self, value: RecordClass, node: ast.Call) -> list[ast.expr | Expr]:
        """The syntax of a record's arguments in field order; defaults as literals."""
        names = value.schema.names
        given: dict[str, ast.expr | Expr] = dict(zip(names, node.args, strict=False))
        words = [word.arg for word in node.keywords]
        given |= {word.arg: word.value for word in node.keywords if word.arg is not None}
        for name, default in getattr(value.schema.cls, "_field_defaults", {}).items():
            if name not in given:
                given[name] = self.literal(default)
        if set(given) != set(names) or len(node.args) + len(node.keywords) > len(names):
            self.refuse(f"{value.schema.name} takes {', '.join(names)}")
        if words != [name for name in names if name in words]:
            # Out of order they are evaluated in another order than written.
            for word in node.keywords:
                self.repeatable(word.value)
        return [given[name] for name in names]

    def _known(self, name: str, node: ast.Call) -> Expr:
        if node.keywords:
            self.refuse(f"calls {name} with keywords")
        if name in _TEXT_CALLS:
            return self.text_call(name, node)
        args = [self.needed(self.expression(one)) for one in node.args] if name != "bool" else []
        if name in ("min", "max"):
            return self._extreme(name, args)
        if len(node.args) != 1:
            self.refuse(f"calls {name} with {len(node.args)} arguments")
        if name == "bool":
            return Expr(self.truth(node.args[0]), BOOL)
        if args[0].type.is_text and name in ("int", "float"):
            kind = INT if name == "int" else FLOAT
            return self.run(f"text_{name}", kind, self.text(args[0]).code)
        value = self.number(args[0], name)
        if name == "int" and value.type == FLOAT:
            self.refuse("uses int() of a float, whose compiled result can differ")
        if name in _FLOAT_CALLS:
            function, result = _FLOAT_CALLS[name]
            return Expr(f"{function}({real(value)})", result)
        if name == "int":
            return Expr(whole(value), INT)
        if name == "abs":
            if value.type == FLOAT:
                return Expr(f"abs({value.code})", FLOAT)
            return Expr(f"abs_int({whole(value)})", INT)
        self.refuse(f"calls `{name}` here")

    def _extreme(self, name: str, args: Sequence[Expr]) -> Expr:
        if len(args) < 2:
            self.refuse(f"calls {name} with one argument")
        if all(one.type.is_text for one in args):
            return self.extreme_text(name, args)
        args = [self.number(one, name) for one in args]
        if len({one.type for one in args}) > 1:
            self.refuse(f"calls {name} with different types; make them all int or all float")
        function = EXTREMES[name]
        code = args[0].code
        for one in args[1:]:
            code = f"{function}({code}, {one.code})"
        return Expr(code, args[0].type)
