"""The source of a user's function and the values it captured, as a record that travels to workers.

Workers often lack the file a function came from (a notebook, a script on the driver), so the driver
describes every function once: its text, its place, and what each free name stood for at that moment
(captured values are frozen at start).
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import hashlib
import linecache
import types
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from thalweg.compiler.code.names import KNOWN
from thalweg.errors import SchemaError
from thalweg.flow.fields.hints import is_user_class
from thalweg.flow.fields.user_rows import users_own
from thalweg.flow.records import Schema
from thalweg.syntax import compiled, parse

FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda

#: A captured tuple or frozenset of more values is a table.
_LITERALS: Final = 16
_TWIN: Final = "__thalweg_twin__"
#: Modules whose functions reach everything that others have registered there, which must not travel with a function.
_TOO_WIDE: Final = ("copy", "dataclasses")
_SCALARS: Final = (bool, int, float, str, type(None))


@dataclasses.dataclass(frozen=True, slots=True)
class Const:
    """A captured value that becomes a literal: a number, a text, None, or a tuple or frozenset of these."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """A captured dict, set, list or tuple that becomes a table in memory, which machine code knows by its digest."""

    value: Any = dataclasses.field(repr=False, compare=False)
    digest: str


@dataclasses.dataclass(frozen=True, slots=True)
class RecordClass:
    """A record's class; ``inside`` says that it is that of the rows inside, not the one that users see."""

    schema: Schema
    inside: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """A function or exception class that the compiler knows, by name."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Unusable:
    """A captured value that cannot be compiled, and why."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function as text plus all that its free names stood for.

    ``text`` parses on its own and, with ``line`` added, gives the lines of the user's file.
    ``captured`` maps a name or a dotted path (``tw.minutes``) to its value, ``defaults`` a parameter to its
    default. When ``reason`` is not empty the function can only be interpreted.
    """

    name: str
    text: str
    file: str
    line: int
    captured: tuple[tuple[str, Captured], ...] = ()
    defaults: tuple[tuple[str, Captured], ...] = ()
    reason: str = ""

    @property
    def where(self) -> str:
        """Name, file and line, as errors show them."""
        return f"{self.name} ({self.file}:{self.line})"

    @property
    def yields(self) -> bool:
        """Whether it is a generator."""
        return bool(self.text) and any(
            isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(self.node())
        )

    def node(self) -> FunctionNode:
        """The function's syntax tree with the line numbers of the user's file."""
        return _parse(self.text, self.line)


Captured: TypeAlias = Const | Frozen | RecordClass | Known | Unusable | FunctionSource


@functools.lru_cache(maxsize=1024)
def _parse(text: str, line: int) -> FunctionNode:
    tree = parse(text)
    found = next(n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda)))
    ast.increment_lineno(found, line - found.lineno)
    return found


# -- finding the text --------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _tree(text: str) -> tuple[FunctionNode, ...]:
    found = ast.walk(parse(text))
    return tuple(n for n in found if isinstance(n, (ast.FunctionDef, ast.Lambda)))


def _first_line(node: FunctionNode) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _positions(code: types.CodeType) -> Iterator[tuple[int, int, int, int]]:
    for place in code.co_positions():
        line, end_line, column, end_column = place
        if line is None or end_line is None or column is None or end_column is None:
            continue
        # The first instructions stand for the whole function and carry an empty span.
        if (line, column) < (end_line, end_column):
            yield line, column, end_line, end_column


def _find_lambda(code: types.CodeType, nodes: tuple[FunctionNode, ...]) -> FunctionNode | None:
    """The smallest lambda whose body holds every instruction of the code."""
    spans = list(_positions(code))
    best: ast.Lambda | None = None
    for node in nodes:
        if not isinstance(node, ast.Lambda) or node.lineno != code.co_firstlineno:
            continue
        body = node.body
        start = (body.lineno, body.col_offset)
        stop = (body.end_lineno or 0, body.end_col_offset or 0)
        if not all(start <= s[:2] and s[2:] <= stop for s in spans):
            continue
        if best is None or start >= (best.body.lineno, best.body.col_offset):
            best = node
    return best


def _find_def(code: types.CodeType, nodes: tuple[FunctionNode, ...]) -> FunctionNode | None:
    for node in nodes:
        named = isinstance(node, ast.FunctionDef) and node.name == code.co_name
        if named and _first_line(node) == code.co_firstlineno:
            return node
    return None


def _same_code(code: types.CodeType, node: FunctionNode) -> bool:
    """Whether the text still is that of the running function: the file may have been edited since."""
    plain: ast.stmt
    if isinstance(node, ast.FunctionDef):
        # Under its own name it would be a local of the wrapper, also to itself.
        plain = ast.FunctionDef(_TWIN, node.args, node.body, [], None, None)
    else:
        plain = ast.Expr(node)
    free = [parse(f"{name} = 0").body[0] for name in code.co_freevars]
    empty = ast.arguments([], [], None, [], [], None, [])
    outer = ast.FunctionDef("_", empty, [*free, plain], [], None, None)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    flags = code.co_flags & 0x1000000  # from __future__ import annotations
    made = compiled(module, flags=flags)
    inner = made.co_consts[0].co_consts
    names = (_TWIN, "<lambda>")
    twin = next((c for c in inner if isinstance(c, types.CodeType) and c.co_name in names), None)
    return twin is not None and _shape(twin) == _shape(code)


def _shape(code: types.CodeType) -> tuple[object, ...]:
    """What two compilations of one text share; instructions depend on the imports around it."""
    consts = [repr(one) for one in code.co_consts if not isinstance(one, types.CodeType)]
    return code.co_names, code.co_varnames, code.co_freevars, consts


def _locate(function: types.FunctionType) -> tuple[str, int] | None:
    """The text of the function's own definition and its line; None when there is none."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    return _located(code, "".join(linecache.getlines(code.co_filename, function.__globals__)))


@functools.lru_cache(maxsize=1024)
def _located(code: types.CodeType, text: str) -> tuple[str, int] | None:
    """The code's definition within the text of its file; parsing a large file takes milliseconds."""
    try:
        nodes = _tree(text)
        find = _find_lambda if code.co_name == "<lambda>" else _find_def
        node = find(code, nodes)
        if node is None or not _same_code(code, node):
            return None
        own = _own_text(text, node)
        if type(_parse(own, node.lineno)) is not type(node):
            return None
    except (SyntaxError, ValueError, RecursionError, MemoryError, StopIteration):
        return None
    return own, node.lineno


def _own_text(text: str, node: FunctionNode) -> str:
    """The definition as a text that parses on its own."""
    segment = ast.get_source_segment(text, node, padded=True) or ""
    if isinstance(node, ast.Lambda):
        return f"({segment.strip()})"
    if not node.col_offset:
        return segment
    # What stands on one line comes without the space before it.
    return f"if 1:\n{segment}" if segment[:1].isspace() else f"if 1:\n {segment}"


# -- captured values ---------------------------------------------------------------------------------


def describe(function: Any) -> FunctionSource:
    """The source of a function with its captured values as they are now.

    Never raises: what cannot be compiled carries the reason.
    """
    return _describe(function, ())


def _describe(function: Any, outer: tuple[Any, ...]) -> FunctionSource:
    function = users_own(function)
    name = getattr(function, "__name__", None) or type(function).__name__
    if not isinstance(function, types.FunctionType):
        reason = f"{name} is a {type(function).__name__}, not a plain function"
        return FunctionSource(name, "", "?", 0, reason=reason)
    code = function.__code__
    found = _locate(function)
    if found is None:
        reason = f"source not found of {name} ({code.co_filename}:{code.co_firstlineno})"
        return FunctionSource(name, "", code.co_filename, code.co_firstlineno, reason=reason)
    text, line = found
    bare = FunctionSource(name, text, code.co_filename, line)
    seen = (*outer, code)
    captured = tuple(sorted(_captured(function, bare.node(), seen), key=lambda pair: pair[0]))
    return dataclasses.replace(bare, captured=captured, defaults=tuple(_defaults(function, seen)))


def _defaults(
    function: types.FunctionType, outer: tuple[Any, ...]
) -> Iterator[tuple[str, Captured]]:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    for name, value in zip(names[len(names) - len(values) :], values, strict=True):
        yield name, _value(name, value, outer)
    for name, value in (function.__kwdefaults__ or {}).items():
        yield name, _value(name, value, outer)


def _captured(
    function: types.FunctionType, node: FunctionNode, outer: tuple[Any, ...]
) -> Iterator[tuple[str, Captured]]:
    local = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
    body = node.body if isinstance(node.body, list) else [node.body]
    inside = [one for statement in body for one in ast.walk(statement)]
    local |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names = free_values(function)
    done: set[str] = set()
    for part in inside:
        path = dotted(part)
        if path is None or path[0] in local or path[0] not in names:
            continue
        key, value = _follow(path, names[path[0]])
        if key not in done:
            done.add(key)
            yield key, _value(key, value, outer)


def dotted(node: ast.AST) -> list[str] | None:
    """``a.b.c`` as its parts; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [*parts, node.id][::-1] if isinstance(node, ast.Name) else None


def free_values(function: types.FunctionType) -> dict[str, Any]:
    """Name to value of everything a function can reach from outside: builtins, globals, cells."""
    names = {**vars(builtins), **function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            names.pop(name, None)
    return names


def _follow(path: list[str], value: Any) -> tuple[str, Any]:
    """Goes down a dotted path as long as it passes modules, classes and NamedTuple values."""
    used = path[:1]
    for part in path[1:]:
        through = isinstance(value, (types.ModuleType, type)) or hasattr(value, "_fields")
        if not through or not hasattr(value, part):
            break
        value = getattr(value, part)
        used.append(part)
    return ".".join(used), value


def _value(name: str, value: Any, outer: tuple[Any, ...]) -> Captured:
    if _is_const(value):
        return Const(value)
    if type(value) in (tuple, frozenset) and len(value) <= _LITERALS and all(map(_is_const, value)):
        return Const(value)
    if type(value) in (dict, set, frozenset, list, tuple):
        return Frozen(
            value.copy() if type(value) in (dict, set, list) else value, table_digest(value)
        )
    try:
        if value in KNOWN:
            return Known(KNOWN[value])
    except TypeError:
        pass
    if isinstance(value, type):
        return _class(name, value)
    if isinstance(value, types.FunctionType):
        if value.__module__ in _TOO_WIDE:
            return Unusable(f"`{name}` is not on the list of calls that agree with Python")
        if users_own(value).__code__ in outer:
            return Unusable(f"`{name}` calls itself")
        return _describe(value, outer)
    if isinstance(value, types.ModuleType):
        return Unusable(f"`{name}` is a module, used as a value")
    if callable(value):
        return Unusable(f"`{name}` is not on the list of calls that agree with Python")
    return Unusable(f"`{name}` is a captured {type(value).__name__}")


def table_digest(value: Any) -> str:
    """The name of a container's contents; two that are equal but for types or order differ."""
    items = value.items() if isinstance(value, dict) else value
    texts = map(repr, items)
    ordered = sorted(texts) if isinstance(value, (set, frozenset)) else texts
    digest = hashlib.sha256(f"{type(value).__name__} {len(value)}\n".encode())
    for text in ordered:
        digest.update(text.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()[:24]


def _is_const(value: Any) -> bool:
    if type(value) not in _SCALARS:
        return False
    return type(value) is not int or -(2**63) <= value < 2**63


def _class(name: str, value: type) -> Captured:
    if getattr(builtins, value.__name__, None) is value and issubclass(value, Exception):
        return Known(f"raise {value.__name__}")
    is_record = issubclass(value, tuple) and hasattr(value, "_fields")
    if is_user_class(value):
        try:
            return RecordClass(Schema.of(value))
        except SchemaError as error:
            return Unusable(f"`{name}`: {error}")
    if is_record:
        if value.__new__.__module__ != f"namedtuple_{value.__name__}":
            return Unusable(f"`{name}` is a NamedTuple with a constructor of its own")
        try:
            schema = Schema.of(value)
            return RecordClass(schema, inside=schema.user is not None and schema.cls is value)
        except SchemaError as error:
            return Unusable(f"`{name}`: {error}")
    return Unusable(f"`{name}` is a class that is not a record")


def stored_names(node: FunctionNode) -> set[str]:
    """The names that a function assigns to."""
    body = node.body if isinstance(node.body, list) else []
    return {
        one.id
        for part in body
        for one in ast.walk(part)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
