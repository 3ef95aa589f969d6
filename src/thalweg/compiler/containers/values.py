"""Lists, deques, dicts and sets as values of generated code.

Such a value is a pair of addresses, of its header and of the log of the call
(:mod:`thalweg.compiler.runtime.undo`). So a variable stands for the same list as the field that it was read from, as
in Python; where Python's variable would keep an old list, the function is refused.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from thalweg.compiler.code.source import Captured
from thalweg.compiler.containers import owned
from thalweg.compiler.containers.list_code import ListCode
from thalweg.compiler.expressions import Expressions
from thalweg.compiler.kinds import LITERAL, NONE, Type
from thalweg.compiler.operations import Expr, an
from thalweg.compiler.runtime.arena import SCRATCH
from thalweg.compiler.runtime.undo import IN_SCRATCH

#: The variables of generated code.
VARIABLE: Final = re.compile(r"\b(?:[vt]_\w+|_a\b)")
_ASSIGNED: Final = re.compile(r"^\s*(?:for )?([vt]_\w+(?:, [vt]_\w+)*) (?:=|in) ", re.MULTILINE)


class ContainerValues(Expressions):
    """What all code about containers needs: new ones, their items, changes, generated functions."""

    parameters: dict[str, Type]
    types: dict[str, Type]
    bound: set[str] | None
    lines: list[str]
    depth: int
    temporaries: int
    #: the call that stands as a statement: alone such a one may have no value
    statement_call: ast.expr | None = None
    #: which containers ("list", "deque", "dict", or "any") were changed so far, and how often
    changes: dict[str, int]

    def _method(self, owner: Expr, name: str, node: ast.Call) -> Expr:
        """A call of a container's method; given by the subclass."""
        raise NotImplementedError

    def _appender(self, kind: Type, base: str = "append") -> str:
        """The name of ``append(l, value)``; given by the subclass."""
        raise NotImplementedError

    def _keys(self, owner: Expr) -> Expr:
        """The keys of a dict as a list; given by the subclass."""
        raise NotImplementedError

    def resolved(self, node: ast.Call) -> Captured | None:
        """What is called; given by the subclass."""
        raise NotImplementedError

    def loop(self, target: ast.expr, iterable: ast.expr, body: Callable[[], None]) -> None:
        """A loop; given by the subclass."""
        raise NotImplementedError

    # -- values ----------------------------------------------------------------------------------------------

    def as_item(self, value: Expr) -> Expr:
        """The value as a list that the call makes holds it: a text is looked at."""
        kind = held_type(value.type)
        if kind == value.type:
            return value
        if not value.type.is_text:
            return Expr(self._fit_items(value, kind, "an item"), kind)
        read = self.read(value)
        return Expr(read.code, kind, read.const)

    def code_of(self, kind: Type, order: str = "") -> ListCode:
        """The generated functions of a type of list."""
        if not kind.items:
            self.refuse("uses an empty list of which nothing says what it holds")
        return ListCode(self.unit, kind, order)

    def looked_at(self, node: ast.expr) -> Expr:
        """The expression; where it is no container, somebody else lowers it once more."""
        before = len(self.unit.sensitive), self.effects, dict(self.changes)
        value = self.expression(node)
        if value.type.tag != "list":
            del self.unit.sensitive[before[0] :]
            self.effects, self.changes = before[1:]
        return value

    def log(self) -> str:
        """Code of the log of the call."""
        for name, kind in self.parameters.items():
            if kind.tag == "state" and len(kind.offsets) > len(kind.items) + 1:
                return f"get_i(v_{name} + {kind.offsets[-2]})"
        for name, kind in self.parameters.items():
            if kind.tag == "list" and not kind.is_frozen:
                return f"(v_{name}[1] & -2)"
        self.unit.uses_scratch = True
        return f"(_a + {SCRATCH} | {IN_SCRATCH})"

    def new(
        self, label: str, items: tuple[Type, ...], most: int = -1, *, by_text: bool = False
    ) -> Expr:
        """An empty container that the call makes."""
        name = self.unit.helper(
            "new", "@inner\ndef {name}(log):\n    return new_list(log), log | 1\n"
        )
        names = ("texts",) if by_text else ()
        return Expr(f"{name}({self.log()})", Type("list", False, label, items, names, (most,)))

    def change(self, owner: Expr) -> None:
        """To be called where a container is changed."""
        if owner.type.is_frozen:
            self.refuse("changes a captured value; those are frozen when the flow starts")
        self.effects += 1
        self.changes[owner.type.label] = self.changes.get(owner.type.label, 0) + 1

    def item_of(self, value: Expr, kind: Type, what: str) -> str:
        """Code of a value that becomes an item: of its very type, since Python keeps what it is given."""
        value = self.as_item(value) if value.type.items else value
        if value.type == kind:
            return value.code
        if kind.tag == "category" and value.type.label == LITERAL:
            return self.fit(value, kind, what)
        if kind.tag == "text" and value.type.is_text:
            return self.fit(value, kind, what)
        if kind.optional and value.type in (NONE, kind.bare):
            return self.fit(value, kind, what)
        if value.type.optional and value.type.bare == kind:
            # None is no item: the call fails when it ends.
            return self.needed(value).code
        if value.type.items and _fits_in(value.type, kind):
            return self._fit_items(value, kind, what)
        hint = " (write 0.0 instead of 0)" if {value.type.tag, kind.tag} == {"int", "float"} else ""
        self.refuse(f"puts {an(value.type)} into a {what} of {kind}{hint}")

    def fit_list(self, value: Expr, target: Type, where: str) -> str:
        """A copy of a list in the arena, as address and number of items, of which a column is built."""
        kind, known = value.type, self.unit.list_fields[target.label]
        if kind.tag != "list" or kind.label != "list" or kind.items not in ((), known.items):
            self.refuse(f"{where} is {target.label}, got {an(kind)}")
        if self.unit.made is not None:
            self.unit.made.add(where)
        elif target.tag != "text":
            self.refuse(
                f"{where} is {target.label}, got {an(kind)}; compiled functions only pass on"
            )
        code = f"{owned.packer(self.unit, known)}(_a, {value.code})"
        return f"(True, {code})" if target.optional and target.tag == "text" else code

    def keyword_arguments(
        self, node: ast.Call, least: int, most: int, words: Sequence[str] = ()
    ) -> dict[str, ast.expr]:
        """The keyword arguments of a call with so many others."""
        given = {word.arg: word.value for word in node.keywords if word.arg in words}
        if not least <= len(node.args) <= most or len(given) < len(node.keywords):
            self.refuse(
                f"calls `{ast.unparse(node.func)}` with other arguments than compiled ones take"
            )
        return given  # type: ignore[return-value]

    def _inline(self, base: str, arguments: str, body: str) -> str:
        return self.unit.helper(base, f"@inner\ndef {{name}}({arguments}):\n    {body}\n")

    # -- lines -----------------------------------------------------------------------------------------------

    def detached(self, base: str, write: Callable[[], Any]) -> tuple[str, Any]:
        """Code of a call of a generated function whose lines ``write`` puts, and what ``write`` gives.

        The variables that it reads are its arguments. So it stands within an expression, and is evaluated where and
        as often as that is.
        """
        outer = self.lines, self.depth, dict(self.types), self.bound
        self.lines, self.depth, self.bound = [], 1, set(self.bound or ())
        result = write()
        text = "\n".join(self.lines)
        self.lines, self.depth, types, self.bound = outer
        self.types.clear()
        self.types.update(types)
        inside = {n for found in _ASSIGNED.findall(text) for n in found.split(", ")}
        free = sorted(set(VARIABLE.findall(text)) - inside)
        name = self.unit.helper(base, f"@inner\ndef {{name}}({', '.join(free)}):\n{text}\n")
        return f"{name}({', '.join(free)})", result

    def put(self, line: str) -> None:
        """Adds a line at the present indentation."""
        self.lines.append("    " * self.depth + line)

    def fresh(self) -> str:
        """A variable that nothing else is called."""
        self.temporaries += 1
        return f"t_{self.temporaries}"


def _fits_in(given: Type, kind: Type) -> bool:
    """Whether a tuple or record may become another whose items are Optional, or are not."""
    if given.tag != kind.tag or given.label != kind.label or given.optional or kind.optional:
        return False
    return len(given.items) == len(kind.items) and all(
        one == other
        or (other.optional and one in (NONE, other.bare))
        or (one.optional and one.bare == other)
        for one, other in zip(given.items, kind.items, strict=True)
    )


def held_type(kind: Type) -> Type:
    """The type that a list holds for a value: texts of columns are looked at, those of literals no others."""
    if kind.is_text:
        return Type("text", kind.optional)
    if kind.tag in ("record", "tuple") and kind.items:
        return dataclasses.replace(kind, items=tuple(map(held_type, kind.items)))
    return kind
