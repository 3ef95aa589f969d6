"""Which functions of a flow may give something else in the next run: those whose code names a clock or a dice.

Best effort: it reads the code of the function, of those that stand in it, and of those of the same package that it
calls. What a library does inside is not seen.
"""

from __future__ import annotations

import datetime
import dis
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any, Final

from thalweg.flow.fields.user_rows import users_own
from thalweg.flow.loops.nodes import LoopByKey, StatelessLoop
from thalweg.flow.operators.asynchronous import MapAsync
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.nodes import Batches, Coroutine, Keyed, Node, Source, Stateless
from thalweg.plan.plan import Plan

#: By module its functions that give something else each time.
_FUNCTIONS: Final = {
    "time": "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns"
    " thread_time thread_time_ns localtime gmtime ctime asctime",
    "uuid": "uuid1 uuid4 uuid6 uuid7",
    "posix": "urandom getrandom getpid",
    "nt": "urandom getpid",
}
#: Modules of which all functions do; their classes are made of seeds.
_DICE: Final = ("random", "secrets", "numpy.random")
_NOW: Final = frozenset({"now", "utcnow", "today"})
#: How many functions that call each other are looked into.
_DEPTH: Final = 4


def varying_parts(plan: Plan) -> Iterator[str]:
    """The operators whose functions do so, each with what is named there."""
    for node in plan.nodes:
        for function in _functions(node):
            named = varying(function.call)
            if named:
                yield f"{node.name} ({function.where} calls {named})"


def _functions(node: Node) -> Iterator[Function]:
    """The user's functions of an operator."""
    if isinstance(node, (LoopByKey, StatelessLoop)):
        yield node.loop.told
    elif isinstance(node, Coroutine):
        yield node.told
    elif isinstance(node, Source):
        yield from () if node.made_by is None else [node.made_by.function]
    elif isinstance(node, Keyed):
        made = (node.process, node.on_timer, node.key.function, getattr(node, "user", None))
        yield from (one for one in made if one is not None)
    elif isinstance(node, (Stateless, Batches, MapAsync)):
        yield node.function


def varying(call: Any) -> str:
    """What a function's code names that gives something else in each run; empty: nothing, as far as can be seen."""
    return next(_varying(_plain(users_own(call)), _DEPTH, set()), "")


def _plain(call: Any) -> Any:
    """The function under decorators, partials, methods and objects that can be called."""
    call = inspect.unwrap(call)
    while hasattr(call, "func") or hasattr(call, "__func__"):
        call = getattr(call, "func", None) or call.__func__
    return call if hasattr(call, "__code__") else getattr(type(call), "__call__", call)  # noqa: B004


def _varying(function: Any, depth: int, seen: set[int]) -> Iterator[str]:
    if not isinstance(function, types.FunctionType) or id(function) in seen or not depth:
        return
    seen.add(id(function))
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for code in _codes(function.__code__):
        for text, value in _named(code, scope):
            if _is_of_chance(value):
                yield text
            elif _package(value) == _package(function):
                yield from _varying(_plain(value), depth - 1, seen)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of the functions which stand in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _named(code: types.CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the code names, with the dots behind it, and what that is: globals, closed-over variables, imports."""
    text, value, module, local = "", None, None, dict[str, Any]()
    for step in dis.get_instructions(code):
        name = step.argval if isinstance(step.argval, str) else ""
        match step.opname:
            case "LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_DEREF":
                text, value = name, scope.get(name)
            case "LOAD_FAST" | "LOAD_FAST_CHECK" | "LOAD_FAST_BORROW":
                text, value = name, local.get(name)
            case "LOAD_ATTR" | "LOAD_METHOD":
                text, value = f"{text}.{name}", _inside(value, name)
            case "IMPORT_NAME":
                text, value, module = name, sys.modules.get(name), sys.modules.get(name)
            case "IMPORT_FROM":
                value = _inside(module, name)
                continue
            case "STORE_FAST":
                local[name] = value
                continue
            case "PUSH_NULL" | "CACHE" | "PRECALL":
                continue
            case _:
                value = None
        if value is not None:
            yield text, value


def _inside(value: Any, name: str) -> Any:
    """What a module or a class of times has under a name."""
    if isinstance(value, types.ModuleType):
        return vars(value).get(name)
    is_time = isinstance(value, type) and issubclass(value, datetime.date)
    return getattr(value, name, None) if is_time else None


def _is_of_chance(value: Any) -> bool:
    if isinstance(value, (type, types.ModuleType)) or not callable(value):
        return False
    name, owner = getattr(value, "__name__", ""), getattr(value, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        return name in _NOW
    home = getattr(value, "__module__", None) or type(owner).__module__
    if any(home == one or home.startswith(f"{one}.") for one in _DICE):
        return name not in ("seed", "default_rng")
    return name in _FUNCTIONS.get(home, "").split()


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", "") or "").partition(".")[0]
