"""Lists, deques, dicts and sets in expressions: those of the state, those that a call makes, those captured.

Such a value is a pair of addresses, of its header and of the log of the call
(:mod:`thalweg.compiler.runtime.undo`). So a variable stands for the same list as the field that it was read from, as
in Python; where Python's variable would keep an old list, the function is refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from thalweg.compiler import cell_code
from thalweg.compiler.expressions import Expressions
from thalweg.compiler.kinds import BOOL, FLOAT, INT, NONE, Type
from thalweg.compiler.list_code import ListCode
from thalweg.compiler.operations import Expr, an
from thalweg.compiler.source import Captured, Frozen, dotted
from thalweg.compiler.tables import table_of
from thalweg.errors import SchemaError

#: Calls of functions that may be about lists, and the method of the class that writes them.
_FUNCTIONS: Final = {
    "len": "_len", "sum": "_sum", "sorted": "_sorted", "list": "_copied", "min": "_least", "max": "_greatest",
    "any": "_any", "all": "_all", "deque": "_deque", "dict": "_new_dict",
    "heapq.heappush": "_heap", "heapq.heappop": "_heap", "heapq.heapreplace": "_heap",
    "heapq.heappushpop": "_heap", "heapq.heapify": "_heap", "heapq.nlargest": "_best", "heapq.nsmallest": "_best",
    "bisect.bisect_left": "_bisect", "bisect.bisect_right": "_bisect", "bisect.insort_left": "_bisect",
    "bisect.insort_right": "_bisect",
}  # fmt: skip
_VARIABLE: Final = re.compile(r"\b[vt]_\w+")
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
                owner = self.expression(node.func.value)
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
            assert table.kind.item is not None
            item = self.unit.value_type(table.kind.item)
        except (SchemaError, TypeError) as error:
            self.refuse(f"reads `{path}`, a captured {type(value.value).__name__} that {error}")
        items = (item,) if table.form == "list" else item.items
        kind = Type("list", label=table.form, items=items, names=("frozen",), offsets=(-1,))
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
            left = self.expression(node.left)
            if left.type.tag == "list" and left.type.label == "list":
                return self._joined(left, self.expression(node.right))
        return super()._binop(node)

    def resolved(self, node: ast.Call) -> Captured | None:
        """What is called; None for a method of a value."""
        path = dotted(node.func)
        if path is None or self.variable(path[0]) is not None:
            return None
        return self.captured.get(".".join(path))

    # -- what all need ----------------------------------------------------------------------------------------

    def log(self) -> str:
        """Code of the log of the call."""
        for name, kind in self.parameters.items():
            if kind.tag == "state" and len(kind.offsets) > len(kind.items) + 1:
                return f"get_i(v_{name} + {kind.offsets[-2]})"
        for name, kind in self.parameters.items():
            if kind.tag == "list" and not kind.names:
                return f"(v_{name}[1] & -2)"
        self.refuse(
            "makes a list; compiled functions do where the key's state has lists, deques or dicts"
        )

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
        if value.type == kind:
            return value.code
        if kind.optional and value.type in (NONE, kind.bare):
            return self.fit(value, kind, what)
        hint = " (write 0.0 instead of 0)" if {value.type.tag, kind.tag} == {"int", "float"} else ""
        self.refuse(f"puts {an(value.type)} into a {what} of {kind}{hint}")

    def code_of(self, kind: Type, order: str = "") -> ListCode:
        """The generated functions of a type of list."""
        if not kind.items:
            self.refuse("uses an empty list of which nothing says what it holds")
        return ListCode(self.unit, kind, order)

    def listed(self, node: ast.expr) -> Expr | None:
        """The expression if it is a list or deque, or the list that a generator or dict gives; None for all else."""
        if isinstance(node, ast.GeneratorExp):
            return self._comprehension(node)
        value = self.expression(node)
        if value.type.tag == "list" and value.type.label in ("dict", "set"):
            return self._keys(value)
        return value if value.type.tag == "list" else None

    def _call_arguments(
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
            part = self.expression(one.value if isinstance(one, ast.Starred) else one)
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
        self._call_arguments(node, 1, 1)
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
        words = self._call_arguments(node, 0, 2, ("maxlen",))
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
        self._call_arguments(node, 0, 0)
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
        free = sorted(set(_VARIABLE.findall(text)) - inside)
        name = self.unit.helper(base, f"@inner\ndef {{name}}({', '.join(free)}):\n{text}\n")
        return f"{name}({', '.join(free)})", result

    def _each_of(
        self, node: ast.ListComp | ast.GeneratorExp, body: Callable[[ast.expr], None]
    ) -> None:
        if len(node.generators) != 1 or node.generators[0].is_async:
            self.refuse("uses a comprehension with several `for`")
        part = node.generators[0]

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
                value = self.expression(item)
                kinds.append(Type("list", label="list", items=(value.type,), offsets=(-1,)))
                self.put(f"{self._appender(kinds[0])}({made}, {value.code})")

            self._each_of(node, body)
            self.put(f"return {made}")
            return kinds[0]

        code, kind = self.detached("comprehension", write)
        return Expr(code, kind)

    def _any(self, name: str, node: ast.Call) -> Expr:
        self._call_arguments(node, 1, 1)
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

    # -- functions of lists -----------------------------------------------------------------------------------

    def _len(self, name: str, node: ast.Call) -> Expr | None:
        self._call_arguments(node, 1, 1)
        value = self.expression(node.args[0])
        if value.type.tag == "list":
            return Expr(f"length({value.code}[0])", INT)
        if value.type.tag in ("tuple", "record") and not value.type.optional:
            return self.literal(len(value.type.items))
        return None

    def _sum(self, name: str, node: ast.Call) -> Expr:
        self._call_arguments(node, 1, 2)
        start = self.expression(node.args[1]) if len(node.args) > 1 else None
        if isinstance(node.args[0], ast.Tuple):
            parts = [self.number(self.expression(one), "sum") for one in node.args[0].elts]
            total = start or self.literal(0)
            for one in parts:
                total = self.operate(total, "+", one)
            return total
        value = self.listed(node.args[0])
        if value is None:
            self.refuse("calls sum with something else than a list or tuple")
        code, item = self.code_of(value.type), value.type.items[0]
        if not item.numeric or item.optional:
            self.refuse(f"calls sum with {an(value.type)}")
        kind = FLOAT if item == FLOAT else INT
        if start is not None and start.type == kind:
            return Expr(f"{code.total()}({value.code}, {start.code})", kind)
        if start is not None:
            self.refuse(f"calls sum with {an(value.type)} and {an(start.type)} as its start")
        if kind == INT:
            return Expr(f"{code.total()}({value.code}, 0)", INT)
        # Of no floats Python gives the int 0.
        check = self._inline("total", "l", (
            f"if length(l[0]) == 0:\n        raise ValueError('no floats')\n    return {code.total()}(l, 0.0)"
        ))  # fmt: skip
        return Expr(f"{check}({value.code})", FLOAT)

    def _order(self, words: dict[str, ast.expr], kind: Type) -> str:
        """The function that compares items by ``key=``; empty without."""
        key = words.get("key")
        if key is None:
            return ""
        if not isinstance(key, ast.Lambda) or len(key.args.args) != 1 or not kind.items:
            self.refuse("passes a key that is not a lambda of one argument")
        name = key.args.args[0].arg
        before = dict(self.types), self.bound
        self.types[name] = kind.items[0]
        self.bound = {*(self.bound or ()), name}
        value = self.expression(key.body)
        self.types.clear()
        self.types.update(before[0])
        self.bound = before[1]
        if set(_VARIABLE.findall(value.code)) - {f"v_{name}"}:
            self.refuse("passes a key that reads other variables")
        made = self._inline("key", f"v_{name}", f"return {value.code}")
        less = cell_code.strict_less(self.unit, value.type)
        return self._inline("by", "a, b", f"return {less}({made}(a), {made}(b))")

    def _sorted(self, name: str, node: ast.Call) -> Expr:
        words = self._call_arguments(node, 1, 1, ("reverse", "key"))
        value = self.listed(node.args[0])
        if value is None:
            self.refuse("calls sorted with something else than a list")
        return self._sorted_copy(value, words)

    def _sorted_copy(self, value: Expr, words: dict[str, ast.expr]) -> Expr:
        down = self.truth(words["reverse"]) if "reverse" in words else "False"
        copied = self.sliced(value, "0", "length(a[0])")
        sort = self.code_of(value.type, self._order(words, value.type)).function("sort")
        made = self._inline("sorted", "l, down", f"{sort}(l, down)\n    return l")
        return Expr(f"{made}({copied.code}, {down})", copied.type)

    def _least(self, name: str, node: ast.Call) -> Expr | None:
        if len(node.args) != 1:
            return None
        words = self._call_arguments(node, 1, 1, ("default", "key"))
        value = self.listed(node.args[0])
        if value is None:
            return None
        code, item = self.code_of(value.type, self._order(words, value.type)), value.type.items[0]
        if "default" not in words:
            return Expr(f"{code.extreme(name, default=False)}({value.code})", item)
        default = self.item_of(self.expression(words["default"]), item, "list")
        return Expr(f"{code.extreme(name, default=True)}({value.code}, {default})", item)

    _greatest = _least

    def _heap(self, name: str, node: ast.Call) -> Expr:
        name = name.partition(".")[2]
        self._call_arguments(node, 1 + (name not in ("heappop", "heapify")), 2)
        heap = self.expression(node.args[0])
        if heap.type.tag != "list" or heap.type.label != "list":
            self.refuse(f"calls {name} with something else than a list")
        value = [self.expression(one) for one in node.args[1:]]
        if not heap.type.items and value:
            heap = self.learned(node.args[0], heap, value[0].type)
        self.change(heap)
        item = heap.type.items[0]
        codes = [heap.code, *(self.item_of(one, item, "list") for one in value)]
        if name in ("heappush", "heapify"):
            self._only_statement(node)
        result = NONE if name in ("heappush", "heapify") else item
        return Expr(f"{self.code_of(heap.type).function(name)}({', '.join(codes)})", result)

    def _best(self, name: str, node: ast.Call) -> Expr:
        words = self._call_arguments(node, 2, 2, ("key",))
        count, value = self.expression(node.args[0]), self.listed(node.args[1])
        if value is None or count.type != INT:
            self.refuse(f"calls {name} with something else than an int and a list")
        if name == "heapq.nlargest":
            words["reverse"] = ast.Constant(True)
        ordered = self._sorted_copy(value, words)
        return self.sliced(ordered, "0", "bound(max(n, 0), length(a[0]))", ", n", f", {count.code}")

    def _bisect(self, name: str, node: ast.Call) -> Expr:
        self._call_arguments(node, 2, 2)
        owner, value = self.expression(node.args[0]), self.expression(node.args[1])
        if owner.type.tag != "list" or owner.type.label != "list":
            self.refuse(f"calls {name} with something else than a list")
        if not owner.type.items:
            owner = self.learned(node.args[0], owner, value.type)
        code = self.code_of(owner.type)
        find = code.bisect(left=name.endswith("left"))
        given = f"{owner.code}, {self.item_of(value, owner.type.items[0], 'list')}"
        if "insort" not in name:
            return Expr(f"{find}({given})", INT)
        self.change(owner)
        self._only_statement(node)
        store = cell_code.store(self.unit, owner.type.items[0])
        made = self._inline(
            "insort", "l, v", f"{store}(insert_item(l[0], l[1], {code.size}, {find}(l, v)), v)"
        )
        return Expr(f"{made}({given})", NONE)

    def _only_statement(self, node: ast.Call) -> None:
        if node is not self.statement_call:
            self.refuse(f"uses the value of `{ast.unparse(node.func)}`, which is None")

    def learned(self, node: ast.expr, owner: Expr, item: Type) -> Expr:
        """An empty list of the function's own, of which the first item says what it holds."""
        if not isinstance(node, ast.Name):
            self.refuse("uses an empty list of which nothing says what it holds")
        kind = Type("list", label=owner.type.label, items=(item,), offsets=owner.type.offsets)
        self.types[node.id] = kind
        return Expr(owner.code, kind)
