"""Statements: assignments and control flow, and which variables surely have a value where."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeAlias

from thalweg.compiler.expressions import Expressions
from thalweg.compiler.kinds import INT, TEXT, TEXTS, Type, join
from thalweg.compiler.operations import Expr
from thalweg.compiler.source import Known
from thalweg.syntax import parse_expression

#: The variable that counts a loop's turns, and the lines with which each begins.
_Turns: TypeAlias = tuple[str, Sequence[str]]


class Statements(Expressions):
    """Lowers statements to lines of code; the subclass knows results and calls."""

    node: ast.FunctionDef | ast.Lambda
    #: the parameters' types
    parameters: dict[str, Type]
    #: the type of every local variable, as far as it is known
    types: dict[str, Type]
    #: variables that have a value on every way to this statement; None where nothing arrives
    bound: set[str] | None
    lines: list[str]
    depth: int
    temporaries: int
    #: names that the function assigns to somewhere
    stored: set[str]

    def put(self, line: str) -> None:
        """Adds a line at the present indentation."""
        self.lines.append("    " * self.depth + line)

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Statements one level deeper where called for it; what cannot be reached is left out."""
        start = len(self.lines)
        for statement in body:
            if self.bound is None:
                break
            self.statement(statement)
        if len(self.lines) == start:
            self.put("pass")

    def nested(self, body: Sequence[ast.stmt]) -> None:
        """A block one level deeper."""
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def statement(self, node: ast.stmt) -> None:
        """One statement; refused when no method is named after it."""
        self.line = node.lineno
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            self.refuse(
                f"uses {type(node).__name__.lower()}, which is not on the list of compiled syntax"
            )
        method(node)

    # -- variables -------------------------------------------------------------------------------

    def variable(self, name: str) -> Expr | None:
        if name not in self.types and name not in self.stored:
            return None
        if self.bound is not None and name not in self.bound:
            self.refuse(f"`{name}` may have no value here")
        return Expr(f"v_{name}", self.types[name])

    def assign(self, name: str, value: Expr) -> None:
        """``name = value``; all values of a variable must share one type."""
        known = self.types.get(name, value.type)
        kind = join(known, value.type)
        if kind is None or (name in self.parameters and kind != self.parameters[name]):
            self.refuse(
                f"`{name}` is {known} and becomes {value.type}; a compiled variable has one type"
                + (
                    " (write 0.0 instead of 0)"
                    if {known.tag, value.type.tag} == {"int", "float"}
                    else ""
                )
            )
        self.types[name] = kind
        self.put(f"v_{name} = {self.fit(value, kind, f'`{name}`')}")
        if self.bound is not None:
            self.bound.add(name)

    def temporary(self, value: Expr) -> Expr:
        """The value in a variable of its own, so that its parts can be taken."""
        self.temporaries += 1
        self.put(f"t_{self.temporaries} = {value.code}")
        return Expr(f"t_{self.temporaries}", value.type)

    def _assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        if len(node.targets) > 1:
            self.refuse("assigns to several targets at once")
        self._store(node.targets[0], value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.refuse("declares a variable without a value")
        self._store(node.target, self.expression(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        load = ast.copy_location(parse_expression(ast.unparse(node.target)), node.target)
        ast.fix_missing_locations(load)
        self._store(node.target, self.arithmetic(load, node.op, node.value))

    def _store(self, target: ast.expr, value: Expr) -> None:
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
        elif isinstance(target, ast.Tuple):
            self._unpack(target, value)
        elif isinstance(target, ast.Attribute):
            self._store_field(target, value)
        else:
            self.refuse(f"assigns to `{ast.unparse(target)}`")

    def _unpack(self, target: ast.Tuple, value: Expr) -> None:
        if value.type.tag == "texts":
            self._unpack_texts(target, value)
            return
        if value.type.tag not in ("tuple", "record") or value.type.optional:
            self.refuse(f"unpacks a {value.type}")
        if len(target.elts) != len(value.type.items):
            self.refuse(f"unpacks {len(value.type.items)} values into {len(target.elts)}")
        whole = self.temporary(value)
        for i, one in enumerate(target.elts):
            self._store(one, Expr(f"{whole.code}[{i}]", value.type.items[i]))

    def _unpack_texts(self, target: ast.Tuple, value: Expr) -> None:
        texts = self.temporary(self.run("list_of", TEXTS, value.code, str(len(target.elts))))
        for i, one in enumerate(target.elts):
            self._store(one, self.run("list_get", TEXT, texts.code, str(i)))

    def _store_field(self, target: ast.Attribute, value: Expr) -> None:
        owner = self.expression(target.value)
        name = target.attr
        if owner.type.tag != "state" or name not in owner.type.names:
            self.refuse(
                f"assigns to `{ast.unparse(target)}`; only fields of the state can be assigned"
            )
        at = owner.type.names.index(name)
        kind = owner.type.items[at]
        if value.type.tag == "none":
            self.refuse(f"assigns None to {owner.type}.{name}; a timer is disarmed by tw.NEVER")
        if kind.tag == "float" and value.type.tag != "float":
            self.unit.widened.setdefault((owner.type.label, name), self.place)
        code = self.fit(value, kind, f"{owner.type}.{name}")
        self.put(f"put_{kind.letter}({owner.code} + {owner.type.offsets[at]}, {code})")

    # -- control flow ----------------------------------------------------------------------------

    def _pass(self, node: ast.Pass) -> None:
        self.put("pass")

    def _if(self, node: ast.If) -> None:
        self.put(f"if {self.truth(node.test)}:")
        before = None if self.bound is None else set(self.bound)
        self.nested(node.body)
        after, self.bound = self.bound, before
        if node.orelse:
            self.put("else:")
            self.nested(node.orelse)
        if after is None or self.bound is None:
            self.bound = after if self.bound is None else self.bound
        else:
            self.bound = after & self.bound

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            self.refuse("uses `else` after a loop")
        self.put(f"while {self.truth(node.test)}:")
        self._loop(node.body)

    def _loop(self, body: Sequence[ast.stmt]) -> None:
        before = set(self.bound or ())
        self.nested(body)
        self.bound = before

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            self.refuse("uses `else` after a loop")
        if not isinstance(node.target, ast.Name):
            self.refuse("unpacks in a `for`")
        name = node.target.id
        kind, code, first = self._iterable(node.iter, f"v_{name}")
        known = self.types.get(name, kind)
        if known != kind or name in self.parameters:
            self.refuse(f"`{name}` is {known} and becomes {kind}; a compiled variable has one type")
        self.types[name] = kind
        if first is None:
            self.put(f"for v_{name} in {code}:")
        else:
            self.put(f"for {first[0]} in {code}:")
            for line in first[1]:
                self.put(f"    {line}")
        before = set(self.bound or ())
        self.bound = {*before, name}
        self.nested(node.body)
        self.bound = before

    def _iterable(self, node: ast.expr, name: str) -> tuple[Type, str, _Turns | None]:
        """What a loop runs over: the type of its variable, code, and for a count of turns how each begins."""
        if isinstance(node, ast.Call) and self.callee(node) == Known("range"):
            args = [self.expression(one) for one in node.args]
            if node.keywords or not 1 <= len(args) <= 3 or any(one.type != INT for one in args):
                self.refuse("calls range with something else than one to three ints")
            if len(args) == 3 and (not args[2].is_const or args[2].const == 0):
                self.refuse("calls range with a step that is not a literal")
            return (INT, *self._range(args, name))
        value = self.expression(node)
        if value.type.is_text or value.type.tag == "texts":
            return (TEXT, *self._characters(value, name))
        kinds = set(value.type.items)
        if value.type.tag != "tuple" or len(kinds) != 1 or value.type.items[0].tag == "tuple":
            self.refuse("loops over something else than range or a tuple of one type")
        return value.type.items[0], value.code, None

    def _characters(self, value: Expr, name: str) -> tuple[str, _Turns]:
        """The characters of a text, or the texts of a list."""
        many = value.type.tag == "texts"
        whole = self.temporary(value if many else self.text(value))
        self.temporaries += 1
        count = f"t_{self.temporaries}"
        if many:
            item = self.run("list_get", TEXT, whole.code, count).code
            return f"range({whole.code}[1])", (count, [f"{name} = {item}"])
        self.temporaries += 1
        at = f"t_{self.temporaries}"
        self.put(f"{at} = int64(0)")
        item = self.run("char_at", TEXT, whole.code, at).code
        turns = self.run("text_len", INT, whole.code).code
        return f"range({turns})", (count, [f"{name} = {item}", f"{at} += {name}[1]"])

    def _range(self, args: Sequence[Expr], name: str) -> tuple[str, _Turns | None]:
        if len(args) == 1:
            return f"range({args[0].code})", None
        # Numba takes the distance of two ints to fit 64 bits.
        start, stop = self.temporary(args[0]), self.temporary(args[1])
        step = args[2].code if len(args) == 3 else "1"
        self.temporaries += 1
        count = f"t_{self.temporaries}"
        return (
            f"range(turns({start.code}, {stop.code}, {step}))",
            (count, [f"{name} = turn({start.code}, {step}, {count})"]),
        )

    def _break(self, node: ast.Break) -> None:
        self.put("break")
        self.bound = None

    def _continue(self, node: ast.Continue) -> None:
        self.put("continue")
        self.bound = None

    def _raise(self, node: ast.Raise) -> None:
        # The text is Python's: an error is told after running the row again, interpreted.
        target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        value = self.captured.get(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(value, Known) or not value.name.startswith("raise ") or node.cause:
            self.refuse("raises something else than a built-in exception")
        self.put(f'raise {value.name[6:]}("raised")')
        self.bound = None

    def _assert(self, node: ast.Assert) -> None:
        self.put(f"if not {self.truth(node.test)}:")
        self.put('    raise AssertionError("raised")')
