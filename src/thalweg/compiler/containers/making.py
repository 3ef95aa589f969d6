"""Containers that a call makes: displays, copies, deques, comprehensions, and what generators give."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from thalweg.compiler.code.source import Known
from thalweg.compiler.containers.values import ContainerValues
from thalweg.compiler.kinds import BOOL, Type
from thalweg.compiler.operations import Expr, an

#: What one loops over, and lists.
_TURNS: Final = (Known("enumerate"), Known("reversed"))


class MadeContainers(ContainerValues):
    """Lowers the expressions that make containers."""

    def _display(self, node: ast.List) -> Expr:
        parts: list[Expr] = []
        for one in node.elts:
            part = self.as_item(self.expression(one.value if isinstance(one, ast.Starred) else one))
            if isinstance(one, ast.Starred) and part.type.tag != "list":
                self.refuse("passes something else than a list by *")
            parts.append(part)
        starred = [isinstance(one, ast.Starred) for one in node.elts]
        kinds = [p.type.items[0] if s else p.type for p, s in zip(parts, starred, strict=True)]
        if not parts:
            return self.new("list", ())
        made = self.new("list", (kinds[0],))
        lines = [
            f"def {{name}}(log, {', '.join(f'_{i}' for i in range(len(parts)))}):",
            "    l = new_list(log), log | 1",
        ]
        size = self.code_of(made.type).size
        for i, (kind, star) in enumerate(zip(kinds, starred, strict=True)):
            if kind != kinds[0]:
                self.refuse(f"makes a list of {kinds[0]} and {kind}")
            if star:
                lines.append(f"    extend(l[0], l[1], {size}, -1, _{i}[0])")
            else:
                lines.append(f"    {self._appender(made.type)}(l, _{i})")
        name = self.unit.helper("display", "\n".join(["@inner", *lines, "    return l"]) + "\n")
        return Expr(f"{name}({self.log()}, {', '.join(p.code for p in parts)})", made.type)

    def _joined(self, left: Expr, right: Expr) -> Expr:
        if right.type != left.type and right.type.items:
            self.refuse(f"adds {an(left.type)} and {an(right.type)}")
        size = self.code_of(left.type).size
        name = self._inline("joined", "log, a, b", (
            f"l = slice_list(a[0], log, {size}, 0, length(a[0])), log | 1\n"
            f"    extend(l[0], l[1], {size}, -1, b[0])\n    return l"
        ))  # fmt: skip
        made = Type("list", label="list", items=left.type.items, offsets=(-1,))
        return Expr(f"{name}({self.log()}, {left.code}, {right.code})", made)

    def _copied(self, name: str, node: ast.Call) -> Expr | None:
        if not node.args:
            return self.new("list", ())
        self.keyword_arguments(node, 1, 1)
        value = self.listed(node.args[0])
        return None if value is None else self.sliced(value, "0", "length(a[0])")

    def sliced(self, value: Expr, start: str, stop: str, more: str = "", codes: str = "") -> Expr:
        """A copy of the items from ``start`` to ``stop``, code in which ``a`` is the list."""
        size = self.code_of(value.type).size
        name = self._inline(
            "part",
            f"log, a{more}",
            f"return slice_list(a[0], log, {size}, {start}, {stop}), log | 1",
        )
        made = Type("list", label="list", items=value.type.items, offsets=(-1,))
        return Expr(f"{name}({self.log()}, {value.code}{codes})", made)

    def _deque(self, name: str, node: ast.Call) -> Expr:
        words = self.keyword_arguments(node, 0, 2, ("maxlen",))
        limit = node.args[1] if len(node.args) > 1 else words.get("maxlen")
        most = -1 if limit is None else self.expression(limit).const
        if type(most) is not int or most == 0:
            self.refuse("makes a deque whose maxlen is not a literal above zero")
        if not node.args:
            return self.new("deque", (), most)
        value = self.listed(node.args[0])
        if value is None:
            self.refuse("makes a deque of something else than a list")
        size = self.code_of(value.type).size
        made = self._inline("deque", "log, a", (
            f"l = new_list(log), log | 1\n    assign(l[0], l[1], {size}, {most}, a[0])\n    return l"
        ))  # fmt: skip
        kind = Type("list", label="deque", items=value.type.items, offsets=(most,))
        return Expr(f"{made}({self.log()}, {value.code})", kind)

    def _new_dict(self, name: str, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 0, 0)
        return self.new("dict", ())

    # -- comprehensions ---------------------------------------------------------------------------------------

    def listed(self, node: ast.expr) -> Expr | None:
        """The expression if it is a list or deque, or the list that a generator or dict gives; None for all else."""
        if isinstance(node, ast.GeneratorExp):
            return self._comprehension(node)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("keys", "values", "items")
            and not node.args
        ):
            return self._listed_each(node)
        if isinstance(node, ast.Call) and self.resolved(node) in _TURNS:
            return self._listed_each(node)
        value = self.looked_at(node)
        if value.type.tag == "texts":
            return self._listed_each(node)
        if value.type.tag == "list" and value.type.label in ("dict", "set"):
            return self._keys(value)
        return value if value.type.tag == "list" else None

    def _listed_each(self, node: ast.expr) -> Expr:
        return self._comprehension(each_of(node))

    def _each_of(
        self, node: ast.ListComp | ast.GeneratorExp, body: Callable[[ast.expr], None]
    ) -> None:
        if len(node.generators) != 1 or node.generators[0].is_async:
            self.refuse("uses a comprehension with several `for`")
        part = node.generators[0]
        for name in ast.walk(part.target):
            if isinstance(name, ast.Name):
                # Its variables are its own, whatever the function calls so.
                self.types.pop(name.id, None)

        def inner() -> None:
            for test in part.ifs:
                self.put(f"if {self.truth(test)}:")
                self.depth += 1
            body(node.elt)
            self.depth -= len(part.ifs)

        self.loop(part.target, part.iter, inner)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Expr:
        def write() -> Type:
            made, kinds = self.fresh(), []
            self.put(f"{made} = {self.new('list', ()).code}")

            def body(item: ast.expr) -> None:
                value = self.as_item(self.expression(item))
                kinds.append(Type("list", label="list", items=(value.type,), offsets=(-1,)))
                self.put(f"{self._appender(kinds[0])}({made}, {value.code})")

            self._each_of(node, body)
            self.put(f"return {made}")
            return kinds[0]

        code, kind = self.detached("comprehension", write)
        return Expr(code, kind)

    def _any(self, name: str, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 1, 1)
        argument = node.args[0]
        if not isinstance(argument, ast.GeneratorExp):
            argument = each_of(argument)

        def write() -> None:
            def body(item: ast.expr) -> None:
                test = self.truth(item)
                self.put(f"if {test if name == 'any' else f'not {test}'}:")
                self.put(f"    return {name == 'any'}")

            self._each_of(argument, body)
            self.put(f"return {name == 'all'}")

        return Expr(self.detached(name, write)[0], BOOL)

    _all = _any


def each_of(node: ast.expr) -> ast.GeneratorExp:
    """``(each for each in node)``, by a name that no function is likely to use."""
    name = "each_of_these"
    each, part = (
        ast.Name(name, ast.Load()),
        ast.comprehension(ast.Name(name, ast.Store()), node, [], 0),
    )
    for one in (each, part.target, made := ast.GeneratorExp(each, [part])):
        ast.copy_location(one, node)
    return made
