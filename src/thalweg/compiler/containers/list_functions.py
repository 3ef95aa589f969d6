"""Functions of lists: ``len``, ``sum``, ``sorted``, ``min``, ``max``, ``heapq`` and ``bisect``."""

from __future__ import annotations

import ast

from thalweg.compiler.code import cell_code
from thalweg.compiler.containers.expressions import Containers
from thalweg.compiler.containers.values import VARIABLE, held_type
from thalweg.compiler.kinds import FLOAT, INT, NONE, Type
from thalweg.compiler.operations import Expr, an


class ListFunctions(Containers):
    """Lowers calls of functions whose argument is a list."""

    # -- functions of lists -----------------------------------------------------------------------------------

    def _len(self, name: str, node: ast.Call) -> Expr | None:
        self.keyword_arguments(node, 1, 1)
        value = self.looked_at(node.args[0])
        if value.type.tag == "list":
            return Expr(f"length({value.code}[0])", INT)
        if value.type.tag in ("tuple", "record") and not value.type.optional:
            if value.type.tag == "record" and value.type.form == "object":
                self.refuse(f"takes the length of a {value.type}")
            return self.literal(len(value.type.items))
        return None

    def _sum(self, name: str, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 1, 2)
        start = self.expression(node.args[1]) if len(node.args) > 1 else None
        display = node.args[0]
        if isinstance(display, (ast.Tuple, ast.List)) and is_plain_display(display):
            parts = [self.number(self.expression(one), "sum") for one in display.elts]
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
        if set(VARIABLE.findall(value.code)) - {f"v_{name}"}:
            self.refuse("passes a key that reads other variables")
        made = self._inline("key", f"v_{name}", f"return {value.code}")
        less = cell_code.strict_less(self.unit, value.type)
        return self._inline("by", "a, b", f"return {less}({made}(a), {made}(b))")

    def _sorted(self, name: str, node: ast.Call) -> Expr:
        words = self.keyword_arguments(node, 1, 1, ("reverse", "key"))
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
        display = node.args[0]
        if (
            isinstance(display, (ast.Tuple, ast.List))
            and is_plain_display(display)
            and len(display.elts) > 1
            and not node.keywords
        ):
            return self._extreme(name, [self.needed(self.expression(one)) for one in display.elts])
        words = self.keyword_arguments(node, 1, 1, ("default", "key"))
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
        self.keyword_arguments(node, 1 + (name not in ("heappop", "heapify")), 2)
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
        words = self.keyword_arguments(node, 2, 2, ("key",))
        count, value = self.expression(node.args[0]), self.listed(node.args[1])
        if value is None or count.type != INT:
            self.refuse(f"calls {name} with something else than an int and a list")
        if name == "heapq.nlargest":
            words["reverse"] = ast.Constant(True)
        ordered = self._sorted_copy(value, words)
        return self.sliced(ordered, "0", "bound(max(n, 0), length(a[0]))", ", n", f", {count.code}")

    def _bisect(self, name: str, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 2, 2)
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
        store = code.storing(f"insert_item(l[0], l[1], {code.size}, {find}(l, v))")
        made = self._inline("insort", "l, v", store)
        return Expr(f"{made}({given})", NONE)

    def _only_statement(self, node: ast.Call) -> None:
        if node is not self.statement_call:
            self.refuse(f"uses the value of `{ast.unparse(node.func)}`, which is None")

    def learned(self, node: ast.expr, owner: Expr, item: Type) -> Expr:
        """An empty list of the function's own, of which the first item says what it holds."""
        if not isinstance(node, ast.Name):
            self.refuse("uses an empty list of which nothing says what it holds")
        items = (held_type(item),)
        kind = Type("list", label=owner.type.label, items=items, offsets=owner.type.offsets)
        self.types[node.id] = kind
        return Expr(owner.code, kind)


def is_plain_display(node: ast.Tuple | ast.List) -> bool:
    """Whether a tuple or list is written item by item, of one at least."""
    return bool(node.elts) and not any(isinstance(one, ast.Starred) for one in node.elts)
