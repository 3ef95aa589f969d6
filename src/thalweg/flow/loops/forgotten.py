"""What a driver loop that starts anew at each row would forget, as far as its text shows it for sure.

Such a loop runs from its top at each row. So a local variable that is set before the loop and changed in it by its own
value (``n += 1``) has its first value again at each row, and what stands behind the loop is never run.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from thalweg.syntax import parse

#: Waits of a driver loop, by which its loop is known.
_WAITS = ("wait_for_all", "wait_for_any")


_MAKERS = ("list", "set", "dict", "deque", "defaultdict", "Counter", "bytearray")
#: Methods by which lists, sets and dicts hold more, and those by which they hold less.
_ADDED = ("append", "extend", "add", "update", "appendleft", "insert", "setdefault")
_EMPTIED = ("clear", "pop", "popleft", "popitem", "remove", "discard")


def forgotten(call: Any) -> str:
    """What the loop would forget, in words; empty: nothing is seen, or its text cannot be read."""
    try:
        tree = parse(textwrap.dedent(inspect.getsource(inspect.unwrap(call))))
    except (OSError, TypeError, SyntaxError):
        return ""
    function = tree.body[0]
    if not isinstance(function, ast.AsyncFunctionDef):
        return ""
    return next(_said(function), "")


def _said(function: ast.AsyncFunctionDef) -> Iterator[str]:
    place = next((i for i, one in enumerate(function.body) if _is_loop(one)), None)
    if place is None:
        return
    loop = function.body[place]
    assert isinstance(loop, ast.While)
    before = {name for one in function.body[:place] for name in _set(one) if _is_fresh(one)}
    own = {
        name
        for one in ast.walk(function)
        if isinstance(one, (ast.Global, ast.Nonlocal))
        for name in one.names
    }
    for name in sorted((before & _changed(loop)) - own):
        yield f"its local variable {name!r} is set before the loop and changed in it, and each row begins with it anew"
    if any(isinstance(one, ast.Break) for one in ast.walk(loop)):
        return
    behind = [*loop.orelse, *function.body[place + 1 :]]
    lost = [one for one in behind if not isinstance(one, (ast.Return, ast.Pass))]
    if lost:
        yield f"what stands behind its loop ({ast.unparse(lost[0]).splitlines()[0]}) is never run"


def _is_loop(one: ast.stmt) -> bool:
    """Whether it is ``while await tw.wait_for_...(...)``."""
    if not isinstance(one, ast.While):
        return False
    waits = [x for x in ast.walk(one.test) if isinstance(x, ast.Await)]
    return any(isinstance(x.value, ast.Call) and _name(x.value.func) in _WAITS for x in waits)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _set(one: ast.stmt) -> Iterator[str]:
    """The plain names that an assignment sets."""
    targets = one.targets if isinstance(one, ast.Assign) else []
    if isinstance(one, ast.AnnAssign) and one.value is not None:
        targets = [one.target]
    for target in targets:
        yield from (x.id for x in ast.walk(target) if isinstance(x, ast.Name))


def _is_fresh(one: ast.stmt) -> bool:
    """Whether an assignment makes its values itself, so that nobody else has them."""
    value = getattr(one, "value", None)
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(
        isinstance(part, (ast.Constant, ast.List, ast.Set, ast.Dict, ast.UnaryOp))
        or (isinstance(part, ast.Call) and _name(part.func) in _MAKERS)
        for part in parts
    )


def _changed(loop: ast.While) -> set[str]:
    """The names that are changed by their own value, or added to, and set to nothing else in the loop."""
    changed, anew = set[str](), set[str]()
    for one in ast.walk(loop):
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            changed.add(one.target.id)
        elif isinstance(one, (ast.Assign, ast.AnnAssign)):
            read = {x.id for x in ast.walk(one.value or one) if isinstance(x, ast.Name)}
            for name in _set(one):
                (changed if name in read else anew).add(name)
        elif isinstance(one, (ast.For, ast.AsyncFor, ast.comprehension, ast.NamedExpr)):
            anew |= {x.id for x in ast.walk(one.target) if isinstance(x, ast.Name)}
        elif isinstance(one, (ast.With, ast.AsyncWith, ast.Delete, ast.FunctionDef, ast.Lambda)):
            anew |= {x.id for x in ast.walk(one) if isinstance(x, ast.Name)}
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            if one.attr in _EMPTIED:
                anew.add(one.value.id)
            elif one.attr in _ADDED:
                changed.add(one.value.id)
    return changed - anew
