"""What a dict or set is asked to do."""

from __future__ import annotations

import ast

from thalweg.compiler.code import cell_code
from thalweg.compiler.containers import owned
from thalweg.compiler.containers.list_functions import ListFunctions
from thalweg.compiler.containers.values import held_type
from thalweg.compiler.kinds import CATEGORY, INT, LITERAL, NONE, TEXT, Type
from thalweg.compiler.operations import Expr, an, whole
from thalweg.compiler.runtime.dicts import MOST_KEY_WORDS


class DictCalls(ListFunctions):
    """Lowers the methods and subscripts of dicts."""

    def dropping_all(self, kind: Type, start: str = "0", stop: str = "") -> str:
        """Code before the items of a container go; given by the subclass."""
        raise NotImplementedError

    # -- dicts ------------------------------------------------------------------------------------------------

    def sizes(self, kind: Type) -> tuple[int, int]:
        """Bytes of a key, and of key and value."""
        if not kind.items:
            self.refuse("uses an empty dict of which nothing says what it holds")
        key = 8 * cell_code.words(kind.items[0])
        if key > 8 * MOST_KEY_WORDS or not _is_key(kind.items[0]):
            self.refuse(
                f"uses {an(kind)}; keys are int, bool, str, Category or tuples of a few of these but for str"
            )
        return key, key + _behind(kind) + sum(8 * cell_code.words(one) for one in kind.items[1:])

    def _with_key(
        self, owner: Expr, key: ast.expr | Expr, base: str, more: str, body: str
    ) -> tuple[str, str]:
        """A function of dict and key in which ``e`` is the entry (0: none) and ``p`` where the key stands; the key."""
        value = key if isinstance(key, Expr) else self.expression(key)
        kind = owner.type.items[0]
        size, whole_size = self.sizes(owner.type)
        by_text = owned.has_text_key(owner.type)
        if by_text and not owner.type.is_frozen and not value.type.is_text:
            self.refuse(f"uses {an(value.type)} as a key of {an(owner.type)}")
        if (
            by_text
            and value.type.is_text
            and (value.type.label != LITERAL or not owner.type.is_frozen)
        ):
            code = self.text(value).code
            self.unit.imports |= {"category_of", "text_equal"}
            lines = "put_i(p, category_of(k))"
            check = (
                "    if e != 0 and not text_equal(k, (get_i(e + 16), get_i(e + 24))):\n"
                "        raise ValueError('two texts of one hash')\n"
            )
        else:
            if kind.tag == "int" and value.type.tag == "bool":
                value = Expr(whole(value), INT)
            code = self.item_of(value, kind, owner.type.label)
            lines, check = f"{cell_code.store(self.unit, kind)}(p, k)", ""
        name = self._inline(base, f"l, k{more}", (
            f"p = key_place()\n    {lines}\n"
            f"    e = find(l[0], {size}, {whole_size}, p)\n{check}    {body}"
        ))  # fmt: skip
        return name, code

    def _value_at(self, owner: Expr) -> str:
        """Code of the value of the entry ``e``."""
        return cell_code.load(self.unit, owner.type.items[1], f"e + {self.value_place(owner.type)}")

    def value_place(self, kind: Type) -> int:
        """Where the value stands in an entry."""
        return 8 + self.sizes(kind)[0] + _behind(kind)

    def _entry_going(self, kind: Type) -> str:
        """Code that deletes the entry ``e``, and what it owns."""
        if not (places := owned.entry_places(kind)):
            return "remove(l[0], l[1], e)"
        return f"{owned.dropper(self.unit, places)}(l[1], e)\n    remove(l[0], l[1], e)"

    def _new_entry(self, kind: Type, indent: str) -> str:
        """Code that makes the entry ``e`` of the key ``k`` at ``p``, without its value."""
        size, whole_size = self.sizes(kind)
        code = f"{indent}e = insert(l[0], l[1], {size}, {whole_size}, p)\n"
        if _behind(kind):
            keep = owned.keeper(self.unit, owned.entry_places(kind, value=False))
            code += f"{indent}put_i(e + 16, k[0])\n{indent}put_i(e + 24, k[1])\n{indent}{keep}(l[1], e)\n"
        return code

    def _value_stored(self, kind: Type) -> str:
        """Code that stores the value ``v`` of the entry ``e``."""
        place = f"e + {self.value_place(kind)}"
        if owned.text_places(kind.items[1]):
            return f"{owned.put(self.unit, kind.items[1])}(l[1], {place}, v)"
        return f"{cell_code.store(self.unit, kind.items[1])}({place}, v)"

    def key_type(self, kind: Type) -> Type:
        """What a loop over a dict or set gives."""
        return TEXT if _behind(kind) else kind.items[0]

    def key_at(self, kind: Type, entry: str) -> str:
        """Code of the key of an entry."""
        return cell_code.load(
            self.unit, self.key_type(kind), f"{entry} + {16 if _behind(kind) else 8}"
        )

    def _dict_item(self, owner: Expr, at: ast.expr) -> Expr:
        if owner.type.label == "set":
            self.refuse("uses [] on a set")
        body = f"if e == 0:\n        raise KeyError('missing')\n    return {self._value_at(owner)}"
        name, key = self._with_key(owner, at, "get", "", body)
        return Expr(f"{name}({owner.code}, {key})", owner.type.items[1])

    def _dict_get(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 1, 2)
        kind = owner.type.items[1] if owner.type.items else NONE
        key = self.expression(node.args[0])
        default = self.expression(node.args[1]) if len(node.args) > 1 else Expr("None", NONE, None)
        if default.type == NONE:
            if kind.optional:
                self.refuse(f"calls .get of {an(owner.type)} without a default")
            body = f"if e == 0:\n        return False, {kind.zero}\n    return True, {self._value_at(owner)}"
            name, code = self._with_key(owner, key, "get", "", body)
            return Expr(
                f"{name}({owner.code}, {code})",
                Type(kind.tag, True, kind.label, kind.items, kind.names),
            )
        body = f"if e == 0:\n        return d\n    return {self._value_at(owner)}"
        name, code = self._with_key(owner, key, "get", ", d", body)
        given = self.item_of(default, kind, "dict")
        return Expr(f"{name}({owner.code}, {code}, {given})", kind)

    def _dict_pop(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 1, 2)
        key = self.expression(node.args[0])
        more, given, missing = "", "", "raise KeyError('missing')"
        if len(node.args) > 1:
            value = self.expression(node.args[1])
            if value.type == NONE:
                self.refuse("calls .pop with the default None")
            more, missing = ", d", "return d"
            given = f", {self.item_of(value, owner.type.items[1], 'dict')}"
        self.change(owner)
        body = (
            f"if e == 0:\n        {missing}\n    v = {self._value_at(owner)}\n"
            f"    {self._entry_going(owner.type)}\n    return v"
        )
        name, code = self._with_key(owner, key, "pop", more, body)
        return Expr(f"{name}({owner.code}, {code}{given})", owner.type.items[1])

    def _dict_setdefault(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 2, 2)
        key, value = self.expression(node.args[0]), self.expression(node.args[1])
        self.change(owner)
        body = (
            f"if e == 0:\n{self._new_entry(owner.type, 8 * ' ')}"
            f"        {self._value_stored(owner.type)}\n"
            f"    return {self._value_at(owner)}"
        )
        name, code = self._with_key(owner, key, "setdefault", ", v", body)
        given = self.item_of(value, owner.type.items[1], "dict")
        return Expr(f"{name}({owner.code}, {code}, {given})", owner.type.items[1])

    def _dict_store(self, owner: Expr, at: ast.expr, value: Expr) -> None:
        whole_size = self.sizes(owner.type)[1]
        place, places = self.value_place(owner.type), owned.entry_places(owner.type, key=False)
        drop = f"\n        {owned.dropper(self.unit, places)}(l[1], e)" if places else ""
        body = (
            f"if e == 0:\n{self._new_entry(owner.type, 8 * ' ')}"
            f"    else:\n        note(l[1], e + {place}, {whole_size + 8 - place}){drop}\n"
            f"    {self._value_stored(owner.type)}"
        )
        name, code = self._with_key(owner, at, "put", ", v", body)
        self.put(
            f"{name}({owner.code}, {code}, {self.item_of(value, owner.type.items[1], 'dict')})"
        )

    def _dict_clear(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 0, 0)
        self.change(owner)
        name = self._inline("empty", "l", f"{self.dropping_all(owner.type)}empty(l[0], l[1])")
        return Expr(f"{name}({owner.code})", NONE)

    def _dict_copy(self, owner: Expr, node: ast.Call) -> Expr:
        self.keyword_arguments(node, 0, 0)
        made = self.new("dict", owner.type.items, by_text=owned.has_text_key(owner.type))
        name = self._inline(
            "copy",
            "l, a",
            f"assign_dict(l[0], l[1], {self.sizes(owner.type)[1]}, a[0])\n    return l",
        )
        return Expr(f"{name}({made.code}, {owner.code})", made.type)

    def _keys(self, owner: Expr) -> Expr:
        """The keys of a dict, or items of a set, as a list that the call makes."""
        whole_size = self.sizes(owner.type)[1]
        kind = Type("list", label="list", items=(self.key_type(owner.type),), offsets=(-1,))
        size, at = 8 * cell_code.words(kind.items[0]), 16 if _behind(owner.type) else 8
        name = self._inline("keys", "log, a", (
            "l = new_list(log), log | 1\n    for k in range(get_i(a[0] + 16)):\n"
            f"        e = entry_of(a[0], k, {whole_size})\n        if get_i(e) != 0:\n"
            f"            copy_bytes(push_back(l[0], l[1], {size}, -1), e + {at}, {size})\n    return l"
        ))  # fmt: skip
        return Expr(f"{name}({self.log()}, {owner.code})", kind)

    def _learned_dict(self, node: ast.expr, owner: Expr, key: Type, value: Type) -> Expr:
        made = self.learned(node, owner, key)
        assert isinstance(node, ast.Name)
        items = (held_type(key), held_type(value))
        names: tuple[str, ...] = ()
        if key.is_text and not key.optional:
            items, names = (CATEGORY, items[1]), ("texts",)
        kind = Type("list", False, "dict", items, names, made.type.offsets)
        self.types[node.id] = kind
        return Expr(owner.code, kind)


def _behind(kind: Type) -> int:
    """Bytes between key and value: the text whose code the key is."""
    return 16 if "texts" in kind.names else 0


def _is_key(kind: Type) -> bool:
    if kind.tag in ("tuple", "record"):
        return (
            (kind.tag == "tuple" or kind.form == "tuple")
            and not kind.optional
            and all(map(_is_key, kind.items))
        )
    return kind.tag in ("int", "bool", "category") and not kind.optional
