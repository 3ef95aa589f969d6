"""Calls in expressions: of functions, records' constructors, methods, and what is known of Python and ``math``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from thalweg.compiler.code.source import (
    Captured,
    Const,
    FunctionSource,
    Known,
    RecordClass,
    Unusable,
    dotted,
)
from thalweg.compiler.kinds import BOOL, FLOAT, INT, Type
from thalweg.compiler.operations import Expr, real, whole
from thalweg.compiler.text.methods import TextMethods
from thalweg.compiler.text.values import EXTREMES
from thalweg.flow.records import MISSING

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
            return self._replaced(node) if self.is_replaced(node) else self.method(node)
        if isinstance(value, FunctionSource):
            return self.call_function(value, node)
        if isinstance(value, RecordClass):
            parts = self.record_arguments(value, node)
            label = self.unit.class_of(value.schema)
            return self._made_record(label, value.schema.names, parts)
        if value == Known("replace"):
            return self._replaced(node)
        if isinstance(value, Known):
            return self._known(value.name, node)
        self.refuse(f"calls `{ast.unparse(node.func)}`")

    def _made_record(self, label: str, names: Sequence[str], parts: Sequence[Expr]) -> Expr:
        kind = Type("record", label=label, items=tuple(p.type for p in parts), names=tuple(names))
        if any(one.type.tag == "none" for one in parts):
            self.refuse(f"puts None into a {kind} that it does not return at once")
        return Expr(f"{label}({', '.join(p.code for p in parts)})", kind)

    # -- records with other values -----------------------------------------------------------------

    def is_replaced(self, node: ast.Call) -> bool:
        """Whether it is ``row._replace(...)`` or ``dataclasses.replace(row, ...)``."""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "_replace":
            return self.is_method(node)
        path = dotted(node.func)
        return path is not None and self.captured.get(".".join(path)) == Known("replace")

    def _replaced(self, node: ast.Call) -> Expr:
        owner, parts = self.replaced_parts(node)
        made = [self.expression(one) if isinstance(one, ast.expr) else one for one in parts]
        if any(new.type != old for new, old in zip(made, owner.items, strict=True)):
            self.refuse(
                "makes a record with values of other types, that it does not return at once"
            )
        return self._made_record(owner.label, owner.names, made)

    def replaced_parts(self, node: ast.Call) -> tuple[Type, list[ast.expr | Expr]]:
        """The type of a record of which some fields get other values, and all values in field order."""
        method = isinstance(node.func, ast.Attribute) and node.func.attr == "_replace"
        given = [node.func.value] if method else node.args  # type: ignore[attr-defined]
        form = "tuple" if method else "object"
        if len(given) != 1 or (method and node.args) or not isinstance(given[0], ast.Name):
            self.refuse(f"calls `{ast.unparse(node.func)}` with something else than a variable")
        owner = self.expression(given[0])
        if owner.type.tag != "record" or owner.type.optional or owner.type.form != form:
            self.refuse(f"calls `{ast.unparse(node.func)}` of {owner.type}")
        new = {word.arg: word.value for word in node.keywords if word.arg is not None}
        if len(new) < len(node.keywords) or not {*new} <= {*owner.type.names}:
            self.refuse(f"replaces other fields than {', '.join(owner.type.names)}")
        self._check_order(list(new), owner.type.names, list(new.values()))
        parts = [new.get(name) or self.field(owner, name) for name in owner.type.names]
        return owner.type, parts

    def _check_order(
        self, words: Sequence[str | None], names: Sequence[str], values: Sequence[ast.expr]
    ) -> None:
        """Refuses calls that may change the state where values are evaluated in another order than written."""
        if [*words] != [name for name in names if name in words]:
            for value in values:
                self.repeatable(value)

    def display_parts(self, node: ast.Dict, target: Type) -> list[ast.expr | Expr]:
        """The values of ``{"a": 1, ...}`` or ``{**row, "a": 1}`` in the order of the fields of a TypedDict."""
        keys = [one.value if isinstance(one, ast.Constant) else None for one in node.keys]
        found: dict[str, ast.expr | Expr] = {}
        for place, (key, value) in enumerate(zip(keys, node.values, strict=True)):
            if isinstance(key, str) and key not in found:
                found[key] = value
            elif node.keys[place] is None and not place and isinstance(value, ast.Name):
                owner = self.expression(value)
                if owner.type.tag != "record" or owner.type.form != "dict" or owner.type.optional:
                    self.refuse(f"unpacks {owner.type}")
                found |= {name: self.field(owner, name, by_key=True) for name in owner.type.names}
            elif not isinstance(key, str) or isinstance(found[key], ast.expr):
                self.refuse("makes a dict with keys that are not texts, or twice the same")
            else:
                found[key] = value
        if set(found) != set(target.names):
            self.refuse(f"gives other keys than {', '.join(target.names)}")
        words = [key for key in keys if isinstance(key, str)]
        values = [one for key, one in zip(keys, node.values, strict=True) if key is not None]
        self._check_order(words, target.names, values)
        return [found[name] for name in target.names]

    def record_arguments(self, value: RecordClass, node: ast.Call) -> list[Expr]:
        """The arguments of a record's constructor in field order, defaults filled in."""
        nodes = self.record_parts(value, node)
        return [self.expression(n) if isinstance(n, ast.expr) else n for n in nodes]

    def record_parts(self, value: RecordClass, node: ast.Call) -> list[ast.expr | Expr]:
        """The syntax of a record's arguments in field order; defaults as literals."""
        names, user = value.schema.names, value.schema.user
        if node.args and user is not None and user.by_name and not value.inside:
            self.refuse(f"{value.schema.name} is made by keywords")
        given: dict[str, ast.expr | Expr] = dict(zip(names, node.args, strict=False))
        words = [word.arg for word in node.keywords]
        given |= {word.arg: word.value for word in node.keywords if word.arg is not None}
        for field in value.schema.fields:
            if field.name not in given and field.default is not MISSING and not value.inside:
                given[field.name] = self.literal(field.default)
        if set(given) != set(names) or len(node.args) + len(node.keywords) > len(names):
            self.refuse(f"{value.schema.name} takes {', '.join(names)}")
        self._check_order(words, names, [word.value for word in node.keywords])
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
