"""Texts in expressions: reading, comparing, joining and indexing them, each a call of a function of ``runtime``.

All of them give exactly what Python gives, for every text, or raise in the machine code, so that Python makes that
call. What would need Python for most texts is refused here.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from thalweg.compiler.code.unit import category_code
from thalweg.compiler.kinds import (
    BOOL,
    CATEGORY,
    INT,
    LITERAL,
    NO_COLUMN_TEXT,
    NONE,
    TEXT,
    Type,
)
from thalweg.compiler.operations import Expr, Operations, an, whole

#: The functions behind ``min`` and ``max``.
EXTREMES: Final = {"min": "lesser", "max": "greater"}
#: Code of the end of a slice that has none.
TO_THE_END: Final = str(2**62)


class Texts(Operations):
    """Typed code of operations on texts; the subclass lowers expressions."""

    def expression(self, node: ast.expr) -> Expr:
        """Typed code of any allowed expression."""
        raise NotImplementedError

    def run(self, function: str, result: Type, *arguments: str) -> Expr:
        """A call of a function of ``runtime``."""
        self.unit.imports.add(function)
        return Expr(f"{function}({', '.join(arguments)})", result)

    def make(self, function: str, result: Type, *arguments: str) -> Expr:
        """A call of a function of ``runtime`` that reserves memory in the arena."""
        return self.run(function, result, "_a", *arguments)

    # -- texts as values -------------------------------------------------------------------------

    def read(self, value: Expr) -> Expr:
        if not value.type.is_column_text:
            return value
        kind = Type("text", value.type.optional)
        suffix = "_or_none" if kind.optional else ""
        self.unit.reads_text = True
        if value.type.names:
            layout = self.unit.constant(value.type.names[0])
            return self.run(f"key_text{suffix}", kind, value.code, layout)
        return self.run(f"column_text{suffix}", kind, value.code, str(self.unit.columns))

    def text(self, value: Expr, what: str = "uses") -> Expr:
        """The value as a text that is there; refused where it is none."""
        value = self.needed(self.read(value))
        if value.type.tag == "category":
            self.refuse(
                f"{what} the letters of a Category, of which compiled functions know the hash;"
                " declare the field str"
            )
        if value.type.tag != "text":
            self.refuse(f"{what} {an(value.type)} as a text")
        return value

    def text_truth(self, value: Expr) -> str:
        if value.type.boxed:
            return self.run("text_true", BOOL, value.code).code
        return f"({value.code}[1] != 0)"

    def equal_text(self, a: Expr, b: Expr) -> str:
        if NONE in (a.type, b.type):
            value = self.read(b if a.type == NONE else a)
            return f"(not {value.code}[0])" if value.type.boxed else "False"
        if "category" in (a.type.tag, b.type.tag):
            return self._equal_category(a, b)
        if not (a.type.is_text and b.type.is_text):
            self.refuse(f"compares {an(a.type)} with {an(b.type)}")
        a, b = self.read(a), self.read(b)
        if a.type.boxed and b.type.boxed:
            return self.run("text_equal_both", BOOL, a.code, b.code).code
        if a.type.boxed or b.type.boxed:
            a, b = (a, b) if a.type.boxed else (b, a)
            return self.run("text_equal_one", BOOL, a.code, b.code).code
        return self.run("text_equal", BOOL, a.code, b.code).code

    def _equal_category(self, a: Expr, b: Expr) -> str:
        category, other = (a, b) if a.type.tag == "category" else (b, a)
        if other.type.label != LITERAL:
            self.refuse(
                "compares a Category with a text that is no literal; declare both str, or both tw.Category"
            )
        return self.equal(category, self._as_category(other))

    def _as_category(self, value: Expr) -> Expr:
        """A text of literals, all of which this process knows as categories."""
        if value.is_const:
            return Expr(f"({category_code(value.const)})", CATEGORY, value.const)
        if value.type.optional:
            return self.run("category_or_none", Type("category", optional=True), value.code)
        return self.run("category_of", CATEGORY, value.code)

    def ordered_text(self, a: Expr, symbol: str, b: Expr) -> str:
        a, b = self.text(a), self.text(b)
        return f"({self.run('text_order', INT, a.code, b.code).code} {symbol} 0)"

    def fit_text(self, value: Expr, target: Type, where: str) -> str:
        kind = value.type
        if target.is_column_text:
            return self._fit_column(value, target, where)
        if target.tag == "category" and kind.label == LITERAL:
            return self.fit(self._as_category(value), target, where)
        if target.tag != "text" or not (kind.is_text or kind == NONE):
            self.refuse(f"{where} is {target}, got {an(kind)}")
        if kind == NONE and not target.optional:
            self.refuse(f"{where} is {target}, got None")
        value = self.read(value)
        if kind == NONE:
            return f"(False, {target.bare.zero})"
        if target.optional:
            return value.code if value.type.optional else f"(True, {value.code})"
        return self.needed(value).code

    def _fit_column(self, value: Expr, target: Type, where: str) -> str:
        """A text that passes through; where it cannot it is noted that the field's texts are made."""
        kind = value.type
        if kind.is_column_text and (target.optional or not kind.optional):
            return value.code
        if kind == NONE and target.optional:
            return NO_COLUMN_TEXT
        if kind.is_text and self.unit.made is not None:
            self.unit.made.add(where)
            return NO_COLUMN_TEXT
        self.refuse(f"{where} is {target}, got {an(kind)}")

    # -- operators -------------------------------------------------------------------------------

    def text_arithmetic(self, a: Expr, symbol: str, b: Expr) -> Expr:
        """``a + b`` and ``a * b`` where one of them is a text."""
        if symbol == "*":
            text, times = (a, b) if a.type.is_text else (b, a)
            count = self.as_int(times)
            return self.make("text_times", TEXT, self.text(text).code, count)
        if symbol == "%" and a.type.is_text:
            self.refuse("formats a text by `%`; write an f-string")
        if symbol != "+" or not (a.type.is_text and b.type.is_text):
            self.refuse(f"uses `{symbol}` on {an(a.type)} and {an(b.type)}")
        return self.joined([self.text(a), self.text(b)])

    def joined(self, parts: Sequence[Expr]) -> Expr:
        """The parts one behind the other; neighbours that are literals become one."""
        merged: list[Expr] = []
        for one in parts:
            if one.is_const and merged and merged[-1].is_const:
                one = self.literal(merged.pop().const + one.const)
            if not (one.is_const and one.const == ""):
                merged.append(one)
        if not merged:
            return self.literal("")
        made = merged[0]
        for one in merged[1:]:
            made = self.make("text_add", TEXT, made.code, one.code)
        return made

    def extreme_text(self, name: str, args: Sequence[Expr]) -> Expr:
        made, *others = (self.text(one) for one in args)
        for one in others:
            made = self.run(f"text_{EXTREMES[name]}", TEXT, made.code, one.code)
        return made

    def as_int(self, value: Expr) -> str:
        value = self.needed(value)
        if value.type.tag not in ("int", "bool"):
            self.refuse(f"uses {an(value.type)} where Python wants an int")
        return whole(value)

    def int_or(self, node: ast.expr | None, default: str) -> str:
        """An int that may be left out or None."""
        if node is None:
            return default
        value = self.expression(node)
        return default if value.type == NONE else self.as_int(value)

    def item_of_text(self, owner: Expr, node: ast.expr) -> Expr:
        """``text[…]`` or ``texts[…]``: an item, or a slice of step 1."""
        many = owner.type.tag == "texts"
        owner = owner if many else self.text(owner)
        if isinstance(node, ast.Slice):
            if node.step is not None and self.expression(node.step).const not in (1, None):
                self.refuse("takes a slice with a step")
            bounds = self.int_or(node.lower, "0"), self.int_or(node.upper, TO_THE_END)
            function = "list_slice" if many else "text_slice"
            return self.run(function, owner.type if many else TEXT, owner.code, *bounds)
        plain = owner.is_const and owner.const.isascii()
        function = "list_item" if many else "byte_item" if plain else "text_item"
        return self.run(function, TEXT, owner.code, self.as_int(self.expression(node)))

    def contained_in_text(self, value: Expr, container: Expr) -> str:
        """``value in container``, a text or a list of texts."""
        wanted = self.text(value)
        if container.type.tag == "texts":
            return self.run("list_has", BOOL, container.code, wanted.code).code
        return self.run("text_in", BOOL, wanted.code, self.text(container).code).code
