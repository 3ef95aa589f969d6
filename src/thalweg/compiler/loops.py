"""Loops: over ranges, containers, texts and tuples; those of statements and of comprehensions."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from thalweg.compiler.code import cell_code
from thalweg.compiler.code.source import Captured, Known
from thalweg.compiler.containers.calls import ContainerCalls
from thalweg.compiler.containers.list_functions import is_plain_display
from thalweg.compiler.kinds import INT, TEXT, Type
from thalweg.compiler.math_calls import MathCalls
from thalweg.compiler.operations import Expr, an
from thalweg.compiler.time_calls import TimeCalls

#: enumerate() may start so far from 0: a sum with the length of a list fits 64 bits.
_MOST_START: Final = 2**62


@dataclasses.dataclass(frozen=True, slots=True)
class Turns:
    """A loop as code: its head, the first lines of each turn, the value of the turn.

    ``fixed``: the containers that no turn may change, since Python would raise or go on elsewhere.
    """

    head: str
    lines: list[str]
    value: Expr
    fixed: Sequence[str] = ()


class Loops(ContainerCalls, MathCalls, TimeCalls):
    """Lowers loops; the subclass lowers their statements."""

    def temporary(self, value: Expr) -> Expr:
        """The value in a variable of its own, so that its parts can be taken; given by the subclass."""
        raise NotImplementedError

    def _unpack(self, target: ast.Tuple, value: Expr) -> None:
        """Assigns the items of a tuple; given by the subclass."""
        raise NotImplementedError

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
        if isinstance(node, ast.List) and is_plain_display(node):
            # Nobody else sees this list.
            node = ast.copy_location(ast.Tuple(node.elts, ast.Load()), node)
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

    def _characters(self, value: Expr) -> Turns:
        """The characters of a text, or the texts of a list."""
        many = value.type.tag == "texts"
        whole, count = self.temporary(value if many else self.text(value)), self.fresh()
        item = self.fresh()
        if many:
            code = self.run("list_get", TEXT, whole.code, count).code
            head = f"for {count} in range({whole.code}[1]):"
            return Turns(head, [f"{item} = {code}"], Expr(item, TEXT))
        at = self.fresh()
        self.put(f"{at} = int64(0)")
        code = self.run("char_at", TEXT, whole.code, at).code
        turns = self.run("text_len", INT, whole.code).code
        lines = [f"{item} = {code}", f"{at} += {item}[1]"]
        return Turns(f"for {count} in range({turns}):", lines, Expr(item, TEXT))

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
        if callee in (Known("enumerate"), Known("reversed")):
            return self._turns_in_order(node, callee)
        return None

    def _turns_in_order(self, node: ast.Call, callee: Captured | None) -> Turns:
        """``enumerate``, ``reversed`` and the one of the other."""
        name, start, downward = ast.unparse(node.func), None, callee == Known("reversed")
        words = self.keyword_arguments(
            node, 1, 1 if downward else 2, () if downward else ("start",)
        )
        if not downward:
            given = node.args[1] if len(node.args) > 1 else words.get("start", ast.Constant(0))
            start = self.expression(given).const
            if type(start) is not int or abs(start) > _MOST_START:
                self.refuse(f"calls {name} with a start that is not a literal")
        inner = node.args[0]
        if (
            not downward
            and isinstance(inner, ast.Call)
            and self.resolved(inner) == Known("reversed")
        ):
            self.keyword_arguments(inner, 1, 1)
            inner, downward = inner.args[0], True
        value = self.listed(inner)
        if value is None:
            self.refuse(f"calls {name} with something else than a list")
        return self._turns_of_list(value, start=start, downward=downward)

    def _turns_of_list(
        self, value: Expr, *, start: int | None = None, downward: bool = False
    ) -> Turns:
        """The items; with ``start``, numbered from there."""
        if value.type.label in ("dict", "set"):
            return self._turns_of_dict(value, "keys")
        code, whole = self.code_of(value.type), self.temporary(value)
        at, count = self.fresh(), f"length({whole.code}[0])"
        fixed = ["any", value.type.label] if value.type.label == "deque" or downward else ["any"]
        place = f"{count} - 1 - {at}" if downward else at
        self.put(f"{at} = 0")
        item = self.fresh()
        lines = [
            f"{item} = {code.load_at}(item_at({whole.code}[0], {place}, {code.size}))",
            f"{at} += 1",
        ]
        made = Expr(item, value.type.items[0])
        if start is not None:
            made = Expr(f"({at} + {start - 1}, {item})", Type("tuple", items=(INT, made.type)))
        return Turns(f"while {at} < {count}:", lines, made, fixed)

    def _turns_of_dict(self, value: Expr, what: str) -> Turns:
        whole_size = self.sizes(value.type)[1]
        whole = self.temporary(value)
        at, entry = self.fresh(), self.fresh()
        self.put(f"{at} = 0")
        lines = [
            f"{entry} = entry_of({whole.code}[0], {at}, {whole_size})", f"{at} += 1",
            f"if get_i({entry}) == 0:", "    continue",
        ]  # fmt: skip
        kind = self.key_type(value.type)
        made = Expr(self.key_at(value.type, entry), kind)
        if what != "keys":
            place = f"{entry} + {self.value_place(value.type)}"
            held = Expr(cell_code.load(self.unit, value.type.items[1], place), value.type.items[1])
            pair = Type("tuple", items=(kind, held.type))
            made = held if what == "values" else Expr(f"({made.code}, {held.code})", pair)
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
