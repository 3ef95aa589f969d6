"""Methods, subscripts and membership of containers."""

from __future__ import annotations

import ast
from typing import Final

from thalweg.compiler.code import cell_code
from thalweg.compiler.containers import owned
from thalweg.compiler.containers.dict_calls import DictCalls
from thalweg.compiler.containers.list_code import ListCode
from thalweg.compiler.kinds import INT, NONE, Type
from thalweg.compiler.operations import Expr, an, whole

#: The methods of each container that are compiled.
_METHODS: Final = {
    "list": "append pop insert extend clear remove index count reverse sort copy",
    "deque": "append appendleft pop popleft extend clear index count copy",
    "dict": "get setdefault pop clear copy",
    "set": "",
}


class ContainerCalls(DictCalls):
    """Lowers what a container is asked to do."""

    def _method(self, owner: Expr, name: str, node: ast.Call) -> Expr:
        kind = owner.type
        if name not in _METHODS[kind.label].split():
            self.refuse(
                f"calls `.{name}` of {an(kind)}, which is not on the list of compiled calls"
            )
        if any(isinstance(one, ast.Starred) for one in node.args):
            self.refuse("passes arguments by * or **")
        if not kind.items and name not in ("append", "appendleft", "clear"):
            owner = self._first_use(owner, name, node)
        prefix = "_dict_" if kind.label == "dict" else "_list_"
        made: Expr = getattr(self, prefix + name)(owner, node)
        if made.type == NONE:
            self._only_statement(node)
        return made

    def _first_use(self, owner: Expr, name: str, node: ast.Call) -> Expr:
        """An empty container of the function's own, of which this call says what it holds."""
        assert isinstance(node.func, ast.Attribute)
        target, kinds = node.func.value, [self.expression(one).type for one in node.args]
        if name in ("get", "setdefault") and len(kinds) == 2 and NONE not in kinds:
            return self._learned_dict(target, owner, kinds[0], kinds[1])
        if name == "extend" and len(kinds) == 1 and kinds[0].items[:1]:
            return self.learned(target, owner, kinds[0].items[0])
        if name == "insert" and len(kinds) == 2:
            return self.learned(target, owner, kinds[1])
        self.refuse("uses an empty list or dict of which nothing says what it holds")

    # -- lists and deques -------------------------------------------------------------------------------------

    def _appender(self, kind: Type, base: str = "append") -> str:
        """The name of ``append(l, value)``."""
        size, most = 8 * cell_code.words(kind.items[0]), kind.offsets[0]
        push = "push_front" if base == "appendleft" else "push_back"
        store = cell_code.store(self.unit, kind.items[0])
        if not owned.text_places(kind.items[0]):
            return self._inline(base, "l, v", f"{store}({push}(l[0], l[1], {size}, {most}), v)")
        lines, put = "", owned.put(self.unit, kind.items[0])
        if most >= 0:
            # A full deque loses the item at its other end.
            at = "length(l[0]) - 1" if base == "appendleft" else "0"
            drop = owned.dropper(self.unit, owned.text_places(kind.items[0]))
            lines = f"if length(l[0]) == {most}:\n        {drop}(l[1], item_at(l[0], {at}, {size}))\n    "
        return self._inline(
            base, "l, v", f"{lines}{put}(l[1], {push}(l[0], l[1], {size}, {most}), v)"
        )

    def _dropping(self, kind: Type, place: str) -> str:
        """Code before an item goes that stands at a place: what it owns goes with it."""
        if not (places := owned.text_places(kind.items[0])):
            return ""
        return f"{owned.dropper(self.unit, places)}(l[1], {place})\n    "

    def dropping_all(self, kind: Type, start: str = "0", stop: str = "") -> str:
        """Code before all items (or those from start to stop) of a container go."""
        if not kind.items or not owned.entry_places(kind):
            return ""
        stop = stop or owned.used(kind, "l[0]")
        return f"{owned.drop_each(self.unit, kind)}(l[1], l[0], {start}, {stop})\n    "

    def keeping_all(self, kind: Type, start: str = "0") -> str:
        """Code behind copying items into a container: their texts become its own."""
        if not kind.items or not owned.entry_places(kind):
            return ""
        stop = owned.used(kind, "l[0]")
        return f"\n    if l[1] & 1 == 0:\n        {owned.keep_each(self.unit, kind)}(l[1], l[0], {start}, {stop})"

    def _one(self, node: ast.Call) -> ast.expr:
        self.keyword_arguments(node, 1, 1)
        return node.args[0]

    def _list_append(self, owner: Expr, node: ast.Call) -> Expr:
        value = self.expression(self._one(node))
        assert isinstance(node.func, ast.Attribute)
        if not owner.type.items:
            owner = self.learned(node.func.value, owner, value.type)
        self.change(owner)
        name = self._appender(owner.type, node.func.attr)
        code = self.item_of(value, owner.type.items[0], owner.type.label)
        return Expr(f"{name}({owner.code}, {code})", NONE)

    _list_appendleft = _list_append

    def _list_pop(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 0, int(owner.type.label == "list"))
        self.change(owner)
        code, item = self.code_of(owner.type), owner.type.items[0]
        if not node.args:
            name = self._taking("pop", code, owner.type, "pop_back")
            return Expr(f"{name}({owner.code})", item)
        at = self.index(node.args[0])
        place = f"item(l[0], i, {code.size})"
        gone = f"{self._dropping(owner.type, place)}delete_item(l[0], l[1], {code.size}, i)"
        name = self._inline("pop", "l, i", (
            f"v = {code.load_at}({place})\n    {gone}\n    return v"
        ))  # fmt: skip
        return Expr(f"{name}({owner.code}, {at})", item)

    def _taking(self, base: str, code: ListCode, kind: Type, pop: str) -> str:
        """A function that takes an item off an end; its texts can be read until the call is done."""
        if not owned.text_places(kind.items[0]):
            return self._inline(base, "l", f"return {code.load_at}({pop}(l[0], {code.size}))")
        return self._inline(base, "l", (
            f"p = {pop}(l[0], {code.size})\n    v = {code.load_at}(p)\n"
            f"    {self._dropping(kind, 'p')}return v"
        ))  # fmt: skip

    def _list_popleft(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 0, 0)
        self.change(owner)
        code = self.code_of(owner.type)
        name = self._taking("popleft", code, owner.type, "pop_front")
        return Expr(f"{name}({owner.code})", owner.type.items[0])

    def _list_insert(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 2, 2)
        at, value = self.index(node.args[0]), self.expression(node.args[1])
        self.change(owner)
        code, item = self.code_of(owner.type), owner.type.items[0]
        place = f"insert_item(l[0], l[1], {code.size}, i)"
        name = self._inline("insert", "l, i, v", code.storing(place))
        return Expr(f"{name}({owner.code}, {at}, {self.item_of(value, item, 'list')})", NONE)

    def _list_extend(self, owner: Expr, node: ast.Call) -> Expr:
        other = self.listed(self._one(node))
        if other is None or other.type.items[:1] != owner.type.items:
            self.refuse(f"extends {an(owner.type)} by something else than a list of the same items")
        self.change(owner)
        size, most = self.code_of(owner.type).size, owner.type.offsets[0]
        body = f"extend(l[0], l[1], {size}, {most}, a[0])"
        if owned.text_places(owner.type.items[0]):
            # One by one: a full deque loses items on the way.
            code, append = self.code_of(owner.type), self._appender(owner.type)
            itself = "if l[0] == a[0]:\n        raise ValueError('extends a deque by itself')\n    "
            body = (itself if most >= 0 else "") + (
                f"for k in range(length(a[0])):\n"
                f"        {append}(l, {code.load_at}(item_at(a[0], k, {size})))"
            )
        name = self._inline("extend", "l, a", body)
        return Expr(f"{name}({owner.code}, {other.code})", NONE)

    def _list_clear(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 0, 0)
        self.change(owner)
        if not owned.entry_places(owner.type):
            return Expr(f"clear({owner.code}[0])", NONE)
        name = self._inline("clear", "l", f"{self.dropping_all(owner.type)}clear(l[0])")
        return Expr(f"{name}({owner.code})", NONE)

    def _list_remove(self, owner: Expr, node: ast.Call) -> Expr:
        value = self.expression(self._one(node))
        self.change(owner)
        code = self.code_of(owner.type)
        name = self._inline(
            "remove",
            "l, v",
            f"i = {code.function('index')}(l, v)\n    "
            + self._dropping(owner.type, f"item_at(l[0], i, {code.size})")
            + f"delete_item(l[0], l[1], {code.size}, i)",
        )
        return Expr(
            f"{name}({owner.code}, {self.item_of(value, owner.type.items[0], 'list')})", NONE
        )

    def _list_index(self, owner: Expr, node: ast.Call) -> Expr:
        assert isinstance(node.func, ast.Attribute)
        value = self.expression(self._one(node))
        name = self.code_of(owner.type).function(node.func.attr)
        code = self.item_of(value, owner.type.items[0], owner.type.label)
        return Expr(f"{name}({owner.code}, {code})", INT)

    _list_count = _list_index

    def _list_reverse(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 0, 0)
        self.change(owner)
        name = self._inline("reverse", "l", f"reverse(l[0], l[1], {self.code_of(owner.type).size})")
        return Expr(f"{name}({owner.code})", NONE)

    def _list_sort(self, owner: Expr, node: ast.Call) -> Expr:
        words = self.keyword_arguments(node, 0, 0, ("reverse", "key"))
        self.change(owner)
        down = self.truth(words["reverse"]) if "reverse" in words else "False"
        sort = self.code_of(owner.type, self._order(words, owner.type)).function("sort")
        return Expr(f"{sort}({owner.code}, {down})", NONE)

    def _list_copy(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 0, 0)
        made = self.sliced(owner, "0", "length(a[0])")
        return Expr(
            made.code,
            Type("list", label=owner.type.label, items=made.type.items, offsets=owner.type.offsets),
        )

    # -- subscripts -------------------------------------------------------------------------------------------

    def index(self, node: ast.expr) -> str:
        """Code of an index."""
        value = self.needed(self.expression(node))
        if value.type.tag not in ("int", "bool"):
            self.refuse(f"uses [] with {an(value.type)}")
        return whole(value)

    def _subscript(self, node: ast.Subscript) -> Expr:
        if isinstance(
            node.value,
            (ast.Attribute, ast.Name, ast.Call, ast.Subscript, ast.List, ast.ListComp, ast.BinOp),
        ):
            owner = self.looked_at(node.value)
            if owner.type.tag == "list":
                return self.item_at(owner, node.slice)
        return super()._subscript(node)

    def item_at(self, owner: Expr, at: ast.expr) -> Expr:
        """``owner[at]``."""
        if owner.type.label in ("dict", "set"):
            return self._dict_item(owner, at)
        if isinstance(at, ast.Slice):
            return self._slice(owner, at)
        code = self.code_of(owner.type)
        name = self._inline("get", "l, i", f"return {code.load_at}(item(l[0], i, {code.size}))")
        return Expr(f"{name}({owner.code}, {self.index(at)})", owner.type.items[0])

    def _slice(self, owner: Expr, at: ast.Slice) -> Expr:
        start, stop, more, codes = self._ends(owner, at, "a")
        return self.sliced(owner, start, stop, more, codes)

    def _ends(self, owner: Expr, at: ast.Slice, name: str) -> tuple[str, str, str, str]:
        """Start and stop of a slice of the list ``name``, more parameters and their code."""
        if owner.type.label != "list" or at.step is not None:
            self.refuse(f"takes a slice of {an(owner.type)}, or one with a step")
        ends, more, codes = [], "", ""
        for one, other, letter in ((at.lower, "0", "i"), (at.upper, f"length({name}[0])", "j")):
            if one is None or (isinstance(one, ast.Constant) and one.value is None):
                ends.append(other)
                continue
            ends.append(f"bound({letter}, length({name}[0]))")
            more += f", {letter}"
            codes += f", {self.index(one)}"
        return ends[0], ends[1], more, codes

    def store_item(self, target: ast.Subscript, value: Expr) -> None:
        """``target = value``."""
        owner = self.expression(target.value)
        if owner.type.tag != "list":
            self.refuse(f"assigns to `{ast.unparse(target)}`")
        if isinstance(target.slice, ast.Slice):
            self.refuse("assigns to a slice")
        if owner.type.label == "dict":
            if not owner.type.items:
                key = self.expression(target.slice)
                owner = self._learned_dict(target.value, owner, key.type, value.type)
            self.change(owner)
            self._dict_store(owner, target.slice, value)
            return
        self.change(owner)
        code, item = self.code_of(owner.type), owner.type.items[0]
        place = f"item_to_set(l[0], l[1], i, {code.size})"
        before = self._dropping(owner.type, f"item(l[0], i, {code.size})")
        name = self._inline("set", "l, i, v", before + code.storing(place))
        self.put(
            f"{name}({owner.code}, {self.index(target.slice)}, {self.item_of(value, item, owner.type.label)})"
        )

    def delete(self, target: ast.expr) -> None:
        """``del target``."""
        if not isinstance(target, ast.Subscript):
            self.refuse(f"deletes `{ast.unparse(target)}`")
        owner = self.expression(target.value)
        if owner.type.tag != "list":
            self.refuse(f"deletes `{ast.unparse(target)}`")
        self.change(owner)
        if owner.type.label == "dict":
            name, key = self._with_key(owner, target.slice, "delete", "", (
                f"if e == 0:\n        raise KeyError('missing')\n    {self._entry_going(owner.type)}"
            ))  # fmt: skip
            self.put(f"{name}({owner.code}, {key})")
            return
        size = self.code_of(owner.type).size
        if isinstance(target.slice, ast.Slice):
            start, stop, more, codes = self._ends(owner, target.slice, "l")
            gone = self.dropping_all(owner.type, start, stop)
            name = self._inline(
                "delete", f"l{more}", f"{gone}delete_items(l[0], l[1], {size}, {start}, {stop})"
            )
            self.put(f"{name}({owner.code}{codes})")
            return
        name = self._inline("delete", "l, i", (
            f"p = item(l[0], i, {size})\n    {self._dropping(owner.type, 'p')}delete_item(l[0], l[1], {size}, i)"
        ))  # fmt: skip
        self.put(f"{name}({owner.code}, {self.index(target.slice)})")

    def _contained(self, value: Expr, container: ast.expr) -> str:
        if isinstance(container, (ast.Attribute, ast.Name, ast.Call, ast.Subscript, ast.ListComp)):
            owner = self.looked_at(container)
            if owner.type.tag == "list":
                return self._held(value, owner)
        return super()._contained(value, container)

    def _held(self, value: Expr, owner: Expr) -> str:
        if not owner.type.items:
            return "False"
        item = owner.type.items[0]
        if value.type.optional and value.type.bare == item:
            # None is in no container of values that are not None.
            inner = self._held(Expr("v[1]", item), Expr("l", owner.type))
            name = self._inline("held", "l, v", f"return v[0] and {inner}")
            return f"{name}({owner.code}, {value.code})"
        if owner.type.label in ("dict", "set"):
            name, key = self._with_key(owner, value, "has", "", "return e != 0")
            return f"{name}({owner.code}, {key})"
        code = self.item_of(value, item, owner.type.label)
        return f"{self.code_of(owner.type).function('contains')}({owner.code}, {code})"
