"""Lists, deques, dicts and sets in expressions: those of the state, those that a call makes, those captured.

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

from thalweg.compiler.expressions import Expressions
from thalweg.compiler.kinds import BOOL, LITERAL, NONE, Type
from thalweg.compiler.list_code import ListCode
from thalweg.compiler.operations import Expr, an
from thalweg.compiler.runtime.arena import SCRATCH
from thalweg.compiler.runtime.undo import IN_SCRATCH
from thalweg.compiler.source import Captured, Frozen, dotted
from thalweg.compiler.tables import table_of
from thalweg.errors import SchemaError
from thalweg.flow.field_types import FieldType, Kind

#: Calls of functions that may be about lists, and the method of the class that writes them.
_FUNCTIONS: Final = {
    "len": "_len", "sum": "_sum", "sorted": "_sorted", "list": "_copied", "min": "_least", "max": "_greatest",
    "any": "_any", "all": "_all", "deque": "_deque", "dict": "_new_dict",
    "heapq.heappush": "_heap", "heapq.heappop": "_heap", "heapq.heapreplace": "_heap",
    "heapq.heappushpop": "_heap", "heapq.heapify": "_heap", "heapq.nlargest": "_best", "heapq.nsmallest": "_best",
    "bisect.bisect_left": "_bisect", "bisect.bisect_right": "_bisect", "bisect.insort_left": "_bisect",
    "bisect.insort_right": "_bisect",
}  # fmt: skip
#: The variables of generated code.
VARIABLE: Final = re.compile(r"\b(?:[vt]_\w+|_a\b)")
_ASSIGNED: Final = re.compile(r"^\s*(?:for )?([vt]_\w+(?:, [vt]_\w+)*) (?:=|in) ", re.MULTILINE)


class Containers(Expressions):
    """Lowers what concerns containers; the rest is left to the class above."""

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

    def _method(self, owner: Expr, name: str, node: ast.Call) -> Expr:
        """A call of a container's method; given by the subclass."""
        raise NotImplementedError

    def _appender(self, kind: Type, base: str = "append") -> str:
        """The name of ``append(l, value)``; given by the subclass."""
        raise NotImplementedError

    def _keys(self, owner: Expr) -> Expr:
        """The keys of a dict as a list; given by the subclass."""
        raise NotImplementedError

    def loop(self, target: ast.expr, iterable: ast.expr, body: Callable[[], None]) -> None:
        """A loop; given by the subclass."""
        raise NotImplementedError

    # -- dispatch ---------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Expr:
        if isinstance(node, (ast.ListComp, ast.List)) or (
            isinstance(node, ast.Dict) and not node.keys
        ):
            self.line = node.lineno
            if isinstance(node, ast.ListComp):
                return self._comprehension(node)
            return self._display(node) if isinstance(node, ast.List) else self.new("dict", ())
        return super().expression(node)

    def _call(self, node: ast.Call) -> Expr:
        if isinstance(node.func, ast.Attribute):
            path = dotted(node.func)
            if path is None or self.variable(path[0]) is not None or self.is_frozen(path[:-1]):
                owner = self.looked_at(node.func.value)
                if owner.type.tag == "list":
                    return self._method(owner, node.func.attr, node)
        return super()._call(node)

    def is_frozen(self, path: Sequence[str]) -> bool:
        """Whether a captured container has this path."""
        return isinstance(self.captured.get(".".join(path)), Frozen)

    def _outside(self, path: str) -> Expr:
        value = self.captured.get(path)
        return self.table(path, value) if isinstance(value, Frozen) else super()._outside(path)

    def table(self, path: str, value: Frozen) -> Expr:
        """A captured container."""
        try:
            table = table_of(value)
        except (SchemaError, TypeError) as error:
            self.refuse(f"reads `{path}`, a captured {type(value.value).__name__} that {error}")
        items = tuple(self._table_item(one) for one in table.items)
        names = ("frozen", "texts") if table.by_text else ("frozen",)
        kind = Type("list", label=table.form, items=items, names=names, offsets=(-1,))
        return Expr(f"({self.unit.table(table.symbol)}(), 0)", kind)

    def _known(self, name: str, node: ast.Call) -> Expr:
        method = _FUNCTIONS.get(name)
        made = getattr(self, method)(name, node) if method is not None else None
        return made if made is not None else super()._known(name, node)

    def truth_of(self, value: Expr) -> str:
        if value.type.tag == "list":
            return f"(length({value.code}[0]) != 0)"
        return super().truth_of(value)

    def _tuple(self, node: ast.Tuple) -> Expr:
        made = super()._tuple(node)
        if any(one.tag == "list" for one in made.type.items):
            self.refuse("puts a list into a tuple")
        return made

    def _binop(self, node: ast.BinOp) -> Expr:
        if isinstance(node.op, ast.Add) and isinstance(
            node.left, (ast.Attribute, ast.Name, ast.List)
        ):
            left = self.looked_at(node.left)
            if left.type.tag == "list" and left.type.label == "list":
                return self._joined(left, self.expression(node.right))
        return super()._binop(node)

    def looked_at(self, node: ast.expr) -> Expr:
        """The expression; where it is no container, somebody else lowers it once more."""
        before = len(self.unit.sensitive), self.effects, dict(self.changes)
        value = self.expression(node)
        if value.type.tag != "list":
            del self.unit.sensitive[before[0] :]
            self.effects, self.changes = before[1:]
        return value

    def resolved(self, node: ast.Call) -> Captured | None:
        """What is called; None for a method of a value."""
        path = dotted(node.func)
        if path is None or self.variable(path[0]) is not None:
            return None
        return self.captured.get(".".join(path))

    def _table_item(self, kind: FieldType) -> Type:
        if kind.record is None or kind.kind is not Kind.RECORD:
            return self.unit.value_type(kind)
        items = tuple(self._table_item(field.type) for field in kind.record.fields)
        if kind.form == "tuple":
            return Type("tuple", kind.optional, items=items)
        label = self.unit.record_class(kind.record.name, kind.record.names)
        return Type("record", kind.optional, label, items, kind.record.names)

    # -- what all need ----------------------------------------------------------------------------------------

    def log(self) -> str:
        """Code of the log of the call."""
        for name, kind in self.parameters.items():
            if kind.tag == "state" and len(kind.offsets) > len(kind.items) + 1:
                return f"get_i(v_{name} + {kind.offsets[-2]})"
        for name, kind in self.parameters.items():
            if kind.tag == "list" and not kind.names:
                return f"(v_{name}[1] & -2)"
        self.unit.uses_scratch = True
        return f"(_a + {SCRATCH} | {IN_SCRATCH})"

    def new(self, label: str, items: tuple[Type, ...], most: int = -1) -> Expr:
        """An empty container that the call makes."""
        name = self.unit.helper(
            "new", "@inner\ndef {name}(log):\n    return new_list(log), log | 1\n"
        )
        return Expr(
            f"{name}({self.log()})", Type("list", label=label, items=items, offsets=(most,))
        )

    def change(self, owner: Expr) -> None:
        """To be called where a container is changed."""
        if owner.type.names:
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
        value = self.looked_at(node)
        if value.type.tag == "texts":
            return self._listed_each(node)
        if value.type.tag == "list" and value.type.label in ("dict", "set"):
            return self._keys(value)
        return value if value.type.tag == "list" else None

    def _listed_each(self, node: ast.expr) -> Expr:
        each = ast.copy_location(ast.Name("each", ast.Load()), node)
        part = ast.comprehension(ast.Name("each", ast.Store()), node, [], 0)
        return self._comprehension(ast.copy_location(ast.ListComp(each, [part]), node))

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

    # -- making -----------------------------------------------------------------------------------------------

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

    def put(self, line: str) -> None:
        """Adds a line at the present indentation."""
        self.lines.append("    " * self.depth + line)

    def fresh(self) -> str:
        """A variable that nothing else is called."""
        self.temporaries += 1
        return f"t_{self.temporaries}"

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
            self.refuse(f"calls {name} with something else than a generator expression")

        def write() -> None:
            def body(item: ast.expr) -> None:
                test = self.truth(item)
                self.put(f"if {test if name == 'any' else f'not {test}'}:")
                self.put(f"    return {name == 'any'}")

            self._each_of(argument, body)
            self.put(f"return {name == 'all'}")

        return Expr(self.detached(name, write)[0], BOOL)

    _all = _any


def held_type(kind: Type) -> Type:
    """The type that a list holds for a value: texts of columns are looked at, those of literals no others."""
    if kind.is_text:
        return Type("text", kind.optional)
    if kind.tag in ("record", "tuple") and kind.items:
        return dataclasses.replace(kind, items=tuple(map(held_type, kind.items)))
    return kind


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
