"""Statements: assignments and control flow, and which variables surely have a value where."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from thalweg.compiler.code import cell_code
from thalweg.compiler.code.source import Known
from thalweg.compiler.kinds import NONE, TEXT, TEXTS, Type, join
from thalweg.compiler.loops import Loops
from thalweg.compiler.operations import Expr, an
from thalweg.syntax import parse_expression


class Statements(Loops):
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
    #: loops around the statement at hand
    loops: int

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
        if known.tag == value.type.tag == "list" and known.label == value.type.label:
            # An empty list holds whatever the others do.
            kind = known if not value.type.items else value.type if not known.items else kind
            value = Expr(value.code, kind or value.type)
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
        name = self.fresh()
        self.put(f"{name} = {value.code}")
        return Expr(name, value.type)

    def _assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        if len(node.targets) > 1:
            self.refuse("assigns to several targets at once")
        self._store_value(node.targets[0], value, node.value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.refuse("declares a variable without a value")
        self._store_value(node.target, self.expression(node.value), node.value)

    def _store_value(self, target: ast.expr, value: Expr, node: ast.expr) -> None:
        """Stores what ``node`` gave; a list must be nobody else's, or be known to be somebody else's."""
        if value.type == NONE and value.code != "None":
            self.refuse("uses the value of a call that has none")
        if value.type.tag == "list":
            if isinstance(target, ast.Name):
                self._name_list(node)
            elif not self._is_new(node):
                self.refuse(
                    f"assigns the list `{ast.unparse(node)}`, which would be two names' list; copy it by list(...)"
                )
        self._store(target, value)

    def _name_list(self, node: ast.expr) -> None:
        if isinstance(node, ast.Attribute):
            self.unit.named_lists.add(node.attr)
        elif not self._is_fresh(node) and not isinstance(node, ast.Name):
            self.refuse(f"gives the list `{ast.unparse(node)}` a name")

    def _is_new(self, node: ast.expr) -> bool:
        """Whether the list is nobody else's from here on."""
        if isinstance(node, ast.IfExp):
            return self._is_new(node.body) and self._is_new(node.orelse)
        if not isinstance(node, ast.Name):
            return self._is_fresh(node)
        end = (node.end_lineno or 0, node.end_col_offset or 0)
        later = (
            one
            for one in ast.walk(self.node)
            if isinstance(one, ast.Name)
            and one.id == node.id
            and (one.lineno, one.col_offset) > end
        )
        return node.id not in self.parameters and not self.loops and next(later, None) is None

    def _is_fresh(self, node: ast.expr) -> bool:
        return isinstance(
            node, (ast.Call, ast.List, ast.ListComp, ast.Subscript, ast.BinOp, ast.Dict)
        )

    def _augassign(self, node: ast.AugAssign) -> None:
        load = ast.copy_location(parse_expression(ast.unparse(node.target)), node.target)
        ast.fix_missing_locations(load)
        before = self.effects
        value = self.arithmetic(load, node.op, node.value)
        if isinstance(node.target, ast.Subscript):
            # Its index stands twice in the code.
            self.check_effects(before)
        self._store(node.target, value)

    def _store(self, target: ast.expr, value: Expr) -> None:
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
        elif isinstance(target, ast.Tuple):
            self._unpack(target, value)
        elif isinstance(target, ast.Attribute):
            self._store_field(target, value)
        elif isinstance(target, ast.Subscript):
            self.store_item(target, value if value.is_const else self.temporary(value))
        else:
            self.refuse(f"assigns to `{ast.unparse(target)}`")

    def _unpack(self, target: ast.Tuple, value: Expr) -> None:
        if value.type.tag == "texts":
            self._unpack_texts(target, value)
            return
        odd = value.type.form != "tuple" and value.type.tag == "record" and not self.is_library
        if value.type.tag not in ("tuple", "record") or value.type.optional or odd:
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
        if value.type.tag == "none" and not kind.optional:
            self.refuse(f"assigns None to {owner.type}.{name}; a timer is disarmed by tw.NEVER")
        if kind.tag == "list":
            self._store_list(owner, name, kind, value)
            return
        if kind.tag == "float" and value.type.tag not in ("float", "none"):
            self.unit.widened.setdefault((owner.type.label, name), self.place)
        if kind.items and value.type.items:
            # Python keeps the very items that it is given.
            code = self.item_of(value, kind, f"{owner.type}.{name}")
        else:
            code = self.fit(value, kind, f"{owner.type}.{name}")
        place = f"{owner.code} + {owner.type.offsets[at]}"
        if kind.tag == "text":
            name = "put_text_or_none" if kind.optional else "put_text"
            self.put(f"{name}({place}, get_i({owner.code} + {owner.type.offsets[-2]}), {code})")
        elif kind.optional or kind.tag in ("tuple", "record"):
            cell_code.words(kind)
            self.put(f"{cell_code.store(self.unit, kind)}({place}, {code})")
        else:
            self.put(f"put_{kind.letter}({place}, {code})")

    def _store_list(self, owner: Expr, name: str, kind: Type, value: Expr) -> None:
        """A field gets another list: a copy, of which the one that was made knows nothing."""
        fits = value.type.tag == "list" and value.type.label == kind.label
        if (
            not fits
            or (value.type.items and value.type != kind)
            or value.type.offsets != kind.offsets
        ):
            self.refuse(f"{owner.type}.{name} is {kind}, got {an(value.type)}")
        self.unit.replaced_lists.setdefault(name, self.place)
        target = self.field(owner, name)
        self.change(target)
        if kind.label == "dict":
            code = f"assign_dict(l[0], l[1], {self.sizes(kind)[1]}, a[0])"
        else:
            code = f"assign(l[0], l[1], {self.code_of(kind).size}, {kind.offsets[0]}, a[0])"
        code = f"{self.dropping_all(kind)}{code}{self.keeping_all(kind)}"
        self.put(f"{self._inline('assign', 'l, a', code)}({target.code}, {value.code})")

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.delete(target)

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
        before = set(self.bound or ())
        self.loops += 1
        self.nested(node.body)
        self.loops -= 1
        self.bound = before

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            self.refuse("uses `else` after a loop")
        self.loops += 1
        self.loop(node.target, node.iter, lambda: self.block(node.body))
        self.loops -= 1

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
