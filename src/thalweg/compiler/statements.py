"""Statements: assignments and control flow, and which variables surely have a value where."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Sequence

from thalweg.compiler import cell_code
from thalweg.compiler.container_calls import ContainerCalls
from thalweg.compiler.kinds import INT, NONE, TEXT, TEXTS, Type, join
from thalweg.compiler.math_calls import MathCalls
from thalweg.compiler.operations import Expr, an
from thalweg.compiler.source import Known
from thalweg.syntax import parse_expression


@dataclasses.dataclass(frozen=True, slots=True)
class Turns:
    """A loop as code: its head, the first lines of each turn, the value of the turn.

    ``fixed``: the containers that no turn may change, since Python would raise or go on elsewhere.
    """

    head: str
    lines: list[str]
    value: Expr
    fixed: Sequence[str] = ()


class Statements(ContainerCalls, MathCalls):
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
        if value.type.tag == "none" and not kind.optional:
            self.refuse(f"assigns None to {owner.type}.{name}; a timer is disarmed by tw.NEVER")
        if kind.tag == "list":
            self._store_list(owner, name, kind, value)
            return
        if kind.tag == "float" and value.type.tag not in ("float", "none"):
            self.unit.widened.setdefault((owner.type.label, name), self.place)
        code = self.fit(value, kind, f"{owner.type}.{name}")
        place = f"{owner.code} + {owner.type.offsets[at]}"
        if kind.optional or kind.tag in ("tuple", "record"):
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

    def loop(self, target: ast.expr, iterable: ast.expr, body: Callable[[], None]) -> None:
        turns = self._turns(iterable)
        before = set(self.bound or ())
        self.put(turns.head)
        self.depth += 1
        for line in turns.lines:
            self.put(line)
        self._bind_turn(target, turns.value)
        changes = dict(self.changes)
        body()
        self.depth -= 1
        self.bound = before
        for label in turns.fixed:
            if self.changes.get(label, 0) != changes.get(label, 0):
                self.refuse(f"changes a {label} in a loop over one; loop over list(...) of it")

    def _bind_turn(self, target: ast.expr, value: Expr) -> None:
        if isinstance(target, ast.Tuple):
            self._unpack(target, value)
            return
        if not isinstance(target, ast.Name):
            self.refuse("loops over something else than a variable or a tuple of them")
        name = target.id
        known = self.types.get(name, value.type)
        if known != value.type or name in self.parameters:
            self.refuse(
                f"`{name}` is {known} and becomes {value.type}; a compiled variable has one type"
            )
        self.types[name] = value.type
        if value.code != f"v_{name}":
            self.put(f"v_{name} = {value.code}")
        if self.bound is not None:
            self.bound.add(name)

    def _turns(self, node: ast.expr) -> Turns:
        """What a loop runs over."""
        if isinstance(node, ast.Call):
            called = self._turns_of_call(node)
            if called is not None:
                return called
        value = self.expression(node)
        if value.type.tag == "list":
            return self._turns_of_list(value)
        if value.type.is_text or value.type.tag == "texts":
            return self._characters(value)
        kinds = set(value.type.items)
        if value.type.tag != "tuple" or len(kinds) != 1 or value.type.items[0].tag == "tuple":
            self.refuse("loops over something else than range, a list, or a tuple of one type")
        one = self.fresh()
        return Turns(f"for {one} in {value.code}:", [], Expr(one, value.type.items[0]))

    def _turns_of_call(self, node: ast.Call) -> Turns | None:
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("items", "keys", "values")
            and not node.args
        ):
            owner = self.expression(node.func.value)
            if owner.type.tag == "list" and owner.type.label == "dict":
                return self._turns_of_dict(owner, node.func.attr)
            self.refuse(f"calls `.{node.func.attr}` of {an(owner.type)}")
        callee = self.resolved(node)
        if callee == Known("range"):
            args = [self.expression(one) for one in node.args]
            if node.keywords or not 1 <= len(args) <= 3 or any(one.type != INT for one in args):
                self.refuse("calls range with something else than one to three ints")
            if len(args) == 3 and (not args[2].is_const or args[2].const == 0):
                self.refuse("calls range with a step that is not a literal")
            return self._range(args)
        if (
            callee in (Known("enumerate"), Known("reversed"))
            and len(node.args) == 1
            and not node.keywords
        ):
            value = self.listed(node.args[0])
            if value is None:
                self.refuse(f"calls {ast.unparse(node.func)} with something else than a list")
            return self._turns_of_list(value, ast.unparse(node.func))
        return None

    def _characters(self, value: Expr) -> Turns:
        """The characters of a text, or the texts of a list."""
        many = value.type.tag == "texts"
        whole = self.temporary(value if many else self.text(value))
        count, item = self.fresh(), self.fresh()
        if many:
            code = self.run("list_get", TEXT, whole.code, count).code
            return Turns(
                f"for {count} in range({whole.code}[1]):", [f"{item} = {code}"], Expr(item, TEXT)
            )
        at = self.fresh()
        self.put(f"{at} = int64(0)")
        code = self.run("char_at", TEXT, whole.code, at).code
        turns = self.run("text_len", INT, whole.code).code
        lines = [f"{item} = {code}", f"{at} += {item}[1]"]
        return Turns(f"for {count} in range({turns}):", lines, Expr(item, TEXT))

    def _turns_of_list(self, value: Expr, how: str = "") -> Turns:
        if value.type.label in ("dict", "set"):
            return self._turns_of_dict(value, "keys")
        code, whole = self.code_of(value.type), self.temporary(value)
        at, count = self.fresh(), f"length({whole.code}[0])"
        fixed = (
            ["any", value.type.label]
            if value.type.label == "deque" or how == "reversed"
            else ["any"]
        )
        place = at if how != "reversed" else f"{count} - 1 - {at}"
        self.put(f"{at} = 0")
        item = self.fresh()
        lines = [
            f"{item} = {code.load_at}(item_at({whole.code}[0], {place}, {code.size}))",
            f"{at} += 1",
        ]
        made = Expr(item, value.type.items[0])
        if how == "enumerate":
            made = Expr(f"({at} - 1, {item})", Type("tuple", items=(INT, made.type)))
        return Turns(f"while {at} < {count}:", lines, made, fixed)

    def _turns_of_dict(self, value: Expr, what: str) -> Turns:
        size, whole_size = self.sizes(value.type)
        whole = self.temporary(value)
        at, entry = self.fresh(), self.fresh()
        self.put(f"{at} = 0")
        lines = [
            f"{entry} = entry_of({whole.code}[0], {at}, {whole_size})", f"{at} += 1",
            f"if get_i({entry}) == 0:", "    continue",
        ]  # fmt: skip
        key = cell_code.load(self.unit, value.type.items[0], f"{entry} + 8")
        made = Expr(key, value.type.items[0])
        if what != "keys":
            held = Expr(
                cell_code.load(self.unit, value.type.items[1], f"{entry} + {8 + size}"),
                value.type.items[1],
            )
            pair = Type("tuple", items=value.type.items)
            made = held if what == "values" else Expr(f"({key}, {held.code})", pair)
        return Turns(f"while {at} < get_i({whole.code}[0] + 16):", lines, made, ["any", "dict"])

    def _range(self, args: Sequence[Expr]) -> Turns:
        count = self.fresh()
        if len(args) == 1:
            return Turns(f"for {count} in range({args[0].code}):", [], Expr(count, INT))
        # Numba takes the distance of two ints to fit 64 bits.
        start, stop = self.temporary(args[0]), self.temporary(args[1])
        step = args[2].code if len(args) == 3 else "1"
        head = f"for {count} in range(turns({start.code}, {stop.code}, {step})):"
        return Turns(head, [], Expr(f"turn({start.code}, {step}, {count})", INT))

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
