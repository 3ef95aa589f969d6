"""Generated functions on lists, deques and dicts of one type of item: what needs to know how items are compared.

Each takes the list as ``l``, the addresses of its header and log. The texts are Python's algorithms; the results
are the same where the order of comparisons shows in them (heaps, bisection, the first of equal items).
"""

from __future__ import annotations

import sys
from typing import Final

from thalweg.compiler.code import cell_code
from thalweg.compiler.code.unit import ModuleParts
from thalweg.compiler.containers import owned
from thalweg.compiler.kinds import Type

#: Since 3.12 Python's sum() of floats makes up for what rounding loses.
_COMPENSATED: Final = sys.version_info >= (3, 12)

_CONTAINS: Final = """@inner
def {{name}}(l, v):
    for i in range(length(l[0])):
        if {equal}({load}, v):
            return True
    return False
"""
_INDEX: Final = """@inner
def {{name}}(l, v):
    for i in range(length(l[0])):
        if {equal}({load}, v):
            return i
    raise ValueError("not in the list")
"""
_COUNT: Final = """@inner
def {{name}}(l, v):
    n = 0
    for i in range(length(l[0])):
        if {equal}({load}, v):
            n += 1
    return n
"""
_EXTREME: Final = """@inner
def {{name}}(l{more}):
    n = length(l[0])
    if n == 0:
        {empty}
    i = 0
    best = {load}
    for i in range(1, n):
        v = {load}
        if {better}:
            best = v
    return best
"""
_SUM: Final = """@inner
def {{name}}(l, total):
    for i in range(length(l[0])):
        total = {add}
    return total
"""
_COMPENSATED_SUM: Final = """@inner
def {{name}}(l, total):
    rest = 0.0
    for i in range(length(l[0])):
        v = {load}
        t = total + v
        if abs(total) >= abs(v):
            rest += (total - t) + v
        else:
            rest += (v - t) + total
        total = t
    if rest != 0.0 and math.isfinite(rest):
        total += rest
    return total
"""
_SORT: Final = """@called
def {{name}}(l, down):
    h, log = l[0], l[1]
    n = length(h)
    if n < 2:
        return
    data = own(h, log, {size})
    if down:
        reverse(h, log | 1, {size})
    if n <= 24:
        for i in range(1, n):
            v = {load_at}(data + {size} * i)
            j = i
            while j > 0 and {less}(v, {load_at}(data + {size} * (j - 1))):
                copy_bytes(data + {size} * j, data + {size} * (j - 1), {size})
                j -= 1
            {store}(data + {size} * j, v)
    else:
        origin, target, width = data, take(log | 1, {size} * n), 1
        while width < n:
            for low in range(0, n, 2 * width):
                middle, high = min(low + width, n), min(low + 2 * width, n)
                i, j = low, middle
                for k in range(low, high):
                    if j < high and (
                        i >= middle
                        or {less}({load_at}(origin + {size} * j), {load_at}(origin + {size} * i))
                    ):
                        copy_bytes(target + {size} * k, origin + {size} * j, {size})
                        j += 1
                    else:
                        copy_bytes(target + {size} * k, origin + {size} * i, {size})
                        i += 1
            origin, target = target, origin
            width *= 2
        if origin != data:
            copy_bytes(data, origin, {size} * n)
    if down:
        reverse(h, log | 1, {size})
"""
_DOWN: Final = """@called
def {{name}}(l, start, pos):
    v = {load_at}(item_at(l[0], pos, {size}))
    while pos > start:
        up = (pos - 1) >> 1
        other = {load_at}(item_at(l[0], up, {size}))
        if not {less}(v, other):
            break
        {store}(item_to_set(l[0], l[1], pos, {size}), other)
        pos = up
    {store}(item_to_set(l[0], l[1], pos, {size}), v)
"""
_UP: Final = """@called
def {{name}}(l, start):
    n, pos = length(l[0]), start
    v = {load_at}(item_at(l[0], pos, {size}))
    while pos < n >> 1:
        child = 2 * pos + 1
        if child + 1 < n:
            one = {load_at}(item_at(l[0], child, {size}))
            if not {less}(one, {load_at}(item_at(l[0], child + 1, {size}))):
                child += 1
        {store}(item_to_set(l[0], l[1], pos, {size}), {load_at}(item_at(l[0], child, {size})))
        pos = child
    {store}(item_to_set(l[0], l[1], pos, {size}), v)
    {down}(l, start, pos)
"""
_HEAPPUSH: Final = """@inner
def {{name}}(l, v):
    {store}(push_back(l[0], l[1], {size}, -1), v)
    {down}(l, 0, length(l[0]) - 1)
"""
_HEAPPOP: Final = """@inner
def {{name}}(l):
    last = {load_at}(pop_back(l[0], {size}))
    if length(l[0]) == 0:
        return last
    first = {load_at}(item_at(l[0], 0, {size}))
    {store}(item_to_set(l[0], l[1], 0, {size}), last)
    {up}(l, 0)
    return first
"""
_HEAPREPLACE: Final = """@inner
def {{name}}(l, v):
    first = {load_at}(item(l[0], 0, {size}))
    {store}(item_to_set(l[0], l[1], 0, {size}), v)
    {up}(l, 0)
    return first
"""
_HEAPPUSHPOP: Final = """@inner
def {{name}}(l, v):
    if length(l[0]) == 0:
        return v
    first = {load_at}(item_at(l[0], 0, {size}))
    if not {less}(first, v):
        return v
    {store}(item_to_set(l[0], l[1], 0, {size}), v)
    {up}(l, 0)
    return first
"""
_HEAPIFY: Final = """@inner
def {{name}}(l):
    for i in range((length(l[0]) >> 1) - 1, -1, -1):
        {up}(l, i)
"""
_BISECT: Final = """@inner
def {{name}}(l, v):
    low, high = 0, length(l[0])
    while low < high:
        middle = (low + high) // 2
        other = {load_at}(item_at(l[0], middle, {size}))
        if {goes_left}:
            high = middle
        else:
            low = middle + 1
    return low
"""
_TEXTS: Final = {
    "contains": _CONTAINS, "index": _INDEX, "count": _COUNT, "sort": _SORT, "heappush": _HEAPPUSH,
    "heappop": _HEAPPOP, "heapreplace": _HEAPREPLACE, "heappushpop": _HEAPPUSHPOP, "heapify": _HEAPIFY,
}  # fmt: skip


#: The same for items with texts, which the list owns: an item that goes is dropped, one that comes is kept.
_OWNING: Final = {
    "heappush": """@inner
def {{name}}(l, v):
    {put}(l[1], push_back(l[0], l[1], {size}, -1), v)
    {down}(l, 0, length(l[0]) - 1)
""",
    "heappop": """@inner
def {{name}}(l):
    p = pop_back(l[0], {size})
    last = {load_at}(p)
    if length(l[0]) == 0:
        {drop}(l[1], p)
        return last
    p = item_at(l[0], 0, {size})
    first = {load_at}(p)
    {drop}(l[1], p)
    {store}(item_to_set(l[0], l[1], 0, {size}), last)
    {up}(l, 0)
    return first
""",
    "heapreplace": """@inner
def {{name}}(l, v):
    p = item(l[0], 0, {size})
    first = {load_at}(p)
    {drop}(l[1], p)
    {put}(l[1], item_to_set(l[0], l[1], 0, {size}), v)
    {up}(l, 0)
    return first
""",
    "heappushpop": """@inner
def {{name}}(l, v):
    if length(l[0]) == 0:
        return v
    p = item_at(l[0], 0, {size})
    first = {load_at}(p)
    if not {less}(first, v):
        return v
    {drop}(l[1], p)
    {put}(l[1], item_to_set(l[0], l[1], 0, {size}), v)
    {up}(l, 0)
    return first
""",
}  # fmt: skip


class ListCode:
    """The generated functions of one type of list; ``order`` is a function that compares items by a key."""

    def __init__(self, unit: ModuleParts, kind: Type, order: str = "") -> None:
        self.unit, self.item, self.order = unit, kind.items[0], order
        self.size = 8 * cell_code.words(self.item)

    def _load(self, place: str) -> str:
        return cell_code.load(self.unit, self.item, place)

    @property
    def load_at(self) -> str:
        return self.unit.helper("at", f"@inner\ndef {{name}}(p):\n    return {self._load('p')}\n")

    @property
    def _each(self) -> str:
        return self._load(f"item_at(l[0], i, {self.size})")

    def _made(self, base: str, text: str, **words: str) -> str:
        return self.unit.helper(base, text.format(size=self.size, **words))

    def function(self, name: str) -> str:
        """The name of the function ``name`` for these lists."""
        words = {
            "load": self._each,
            "load_at": self.load_at,
            "store": cell_code.store(self.unit, self.item),
        }
        if name in ("contains", "index", "count"):
            words["equal"] = cell_code.equal(self.unit, self.item)
        elif name == "sort":
            words["less"] = self.order or cell_code.strict_less(self.unit, self.item)
        else:
            words |= {"less": cell_code.less(self.unit, self.item)}
            words["down"] = self._made("down", _DOWN, **words)
            words["up"] = self._made("up", _UP, **words)
        if name not in _OWNING or not (places := owned.text_places(self.item)):
            return self._made(name, _TEXTS[name], **words)
        words |= {
            "put": owned.put(self.unit, self.item),
            "drop": owned.dropper(self.unit, places),
        }
        return self._made(name, _OWNING[name], **words)

    def storing(self, place: str) -> str:
        """Code that stores the new item ``v`` of the list ``l`` at a place."""
        if owned.text_places(self.item):
            return f"{owned.put(self.unit, self.item)}(l[1], {place}, v)"
        return f"{cell_code.store(self.unit, self.item)}({place}, v)"

    def extreme(self, name: str, *, default: bool) -> str:
        """``min`` or ``max``; with ``default`` it takes what an empty list gives."""
        less = self.order or cell_code.less(self.unit, self.item)
        better = f"{less}(v, best)" if name == "min" else f"{less}(best, v)"
        empty = "return d" if default else 'raise ValueError("an empty list")'
        return self._made(
            name,
            _EXTREME,
            load=self._each,
            better=better,
            empty=empty,
            more=", d" if default else "",
        )

    def total(self) -> str:
        """``sum``: takes the list and the start."""
        if self.item.tag == "float":
            text = _COMPENSATED_SUM if _COMPENSATED else _SUM
            return self._made("sum", text, load=self._each, add=f"total + {self._each}")
        return self._made("sum", _SUM, add=f"add_int(total, int64({self._each}))")

    def bisect(self, *, left: bool) -> str:
        """Where an item goes in a sorted list."""
        less = cell_code.less(self.unit, self.item)
        goes_left = f"not {less}(other, v)" if left else f"{less}(v, other)"
        return self._made("bisect", _BISECT, load_at=self.load_at, goes_left=goes_left)
