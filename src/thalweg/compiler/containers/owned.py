"""Generated functions for items with texts, which a container of the state owns (``runtime.kept_items``).

Items without texts have none of them: what is generated for those stays as it is.
"""

from __future__ import annotations

from thalweg.compiler.code import cell_code
from thalweg.compiler.code.unit import ModuleParts
from thalweg.compiler.kinds import Type


def text_places(kind: Type, at: int = 0) -> list[int]:
    """Where the texts of a value stand in its cell, bytes."""
    if kind.tag == "text":
        return [at + 8 * kind.optional]
    at += 8 * kind.optional
    places = []
    for one in kind.items if kind.tag in ("record", "tuple") else ():
        places += text_places(one, at)
        at += 8 * cell_code.words(one)
    return places


def has_text_key(kind: Type) -> bool:
    """Whether a dict is by text: behind the code of the text, which is its key, stands the text."""
    return "texts" in kind.names


def entry_places(kind: Type, *, key: bool = True, value: bool = True) -> list[int]:
    """Where the texts of an item of a list, or of an entry of a dict with its mark, stand."""
    if kind.label != "dict":
        return text_places(kind.items[0])
    size = 8 * cell_code.words(kind.items[0])
    behind = 16 if has_text_key(kind) else 0
    places = [8 + size] if behind and key else []
    return places + (text_places(kind.items[1], 8 + size + behind) if value else [])


def keeper(unit: ModuleParts, places: list[int]) -> str:
    """The name of ``keep(log, p)``: texts that were just stored become the container's own."""
    unit.imports.add("own_text")
    lines = "".join(f"        own_text(log, p + {at})\n" for at in places)
    return unit.helper("keep", f"@inner\ndef {{name}}(log, p):\n    if log & 1 == 0:\n{lines}")


def dropper(unit: ModuleParts, places: list[int]) -> str:
    """The name of ``drop(log, p)``: what an item owns goes when the call is done."""
    unit.imports.add("disown_text")
    lines = "".join(f"        disown_text(log, p + {at})\n" for at in places)
    return unit.helper("drop", f"@inner\ndef {{name}}(log, p):\n    if log & 1 == 0:\n{lines}")


def put(unit: ModuleParts, kind: Type) -> str:
    """The name of ``put(log, p, v)``: stores an item of a container."""
    store, places = cell_code.store(unit, kind), text_places(kind)
    text = f"@inner\ndef {{name}}(log, p, v):\n    {store}(p, v)\n"
    return unit.helper("put", text + (f"    {keeper(unit, places)}(log, p)\n" if places else ""))


def each(unit: ModuleParts, kind: Type, base: str, line: str) -> str:
    """The name of ``each(log, h, i, j)``: a line of code for the items (or entries) from i to j, at ``p``."""
    if kind.label == "dict":
        size = entry_size(kind)
        turn = f"p = entry_of(h, k, {size})\n        if get_i(p) != 0:\n            {line}"
    else:
        size = 8 * cell_code.words(kind.items[0])
        turn = f"p = item_at(h, k, {size})\n        {line}"
    return unit.helper(
        base, f"@called\ndef {{name}}(log, h, i, j):\n    for k in range(i, j):\n        {turn}\n"
    )


def entry_size(kind: Type) -> int:
    """Bytes of key and value of a dict, without the mark."""
    words = sum(map(cell_code.words, kind.items))
    return 8 * words + (16 if has_text_key(kind) else 0)


def keep_each(unit: ModuleParts, kind: Type) -> str:
    """The name of ``keep_each(log, h, i, j)``."""
    keep = keeper(unit, entry_places(kind))
    return each(unit, kind, "keep_each", f"{keep}(log, p)")


def drop_each(unit: ModuleParts, kind: Type) -> str:
    """The name of ``drop_each(log, h, i, j)``."""
    drop = dropper(unit, entry_places(kind))
    return each(unit, kind, "drop_each", f"{drop}(log, p)")


def used(kind: Type, h: str) -> str:
    """Code of how many items or entries, deleted ones included, stand behind a header."""
    return f"get_i({h} + {16 if kind.label == 'dict' else 24})"


def packer(unit: ModuleParts, kind: Type) -> str:
    """The name of ``packed(arena, l)``: a copy of a list in the arena, its address and number of items."""
    unit.imports |= {"packed_items", "text_in_arena"}
    size = 8 * cell_code.words(kind.items[0])
    lines = "".join(
        f"        text_in_arena(a, p + {size} * k + {at})\n" for at in text_places(kind.items[0])
    )
    turns = f"    for k in range(length(l[0])):\n{lines}" if lines else ""
    return unit.helper("packed", (
        f"@called\ndef {{name}}(a, l):\n    p = packed_items(a, l[0], {size})\n{turns}"
        "    return p, length(l[0])\n"
    ))  # fmt: skip


def free_lines(unit: ModuleParts, kind: Type, place: str) -> list[str]:
    """Lines that give back what a field of a dead row owns."""
    lines = [f"free(get_i({place}))"]
    if kind.tag != "list" or not (places := entry_places(kind)):
        return lines
    unit.imports.add("free_text")
    code = "; ".join(f"free_text(p + {at})" for at in places)
    freed = each(unit, kind, "free_each", code)
    return [f"{freed}(0, {place}, 0, {used(kind, place)})", *lines]
