"""Functions: the statements of a user's function as a generated one, its outputs as calls.

A function is written again and again until the type of every local variable is settled (two passes
nearly always). A result leaves by a call of an *emit* function that takes the record's fields and
returns the new number of outputs; so ``return R(...)``, ``return None`` and ``yield`` are all one thing,
and a chain of operators is a chain of calls that LLVM inlines.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence

from thalweg.runtime.compiler.expressions import Expr, Expressions
from thalweg.runtime.compiler.kinds import INT, NONE, Type, join
from thalweg.runtime.compiler.reasons import NotCompilable
from thalweg.runtime.compiler.source import Const, FunctionSource, Known, RecordClass
from thalweg.runtime.compiler.unit import Unit

_PASSES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Emit:
    """Where a function's results go: ``function(_x, _n, field, …)`` gives the new number of outputs.

    ``lists``: a returned list display is several results (flat_map).
    """

    function: str
    target: Type
    lists: bool = False


def write_function(
    unit: Unit, source: FunctionSource, arguments: Sequence[Type], emit: Emit | None, purpose: str
) -> tuple[str, Type]:
    """Writes the function for these argument types into the unit.

    Args:
        emit: where results go; None for a function whose value is used.
        purpose: "emit", "truth" (a filter) or "value" (called by another function).

    Returns:
        The generated function's name and, for purpose "value", the type of its result.

    Raises:
        NotCompilable: with the line and the construct.
    """
    key = (source, tuple(arguments), f"{purpose} {emit}")
    if key not in unit.functions:
        if source.reason:
            raise NotCompilable(source.reason)
        unit.functions[key] = Function(unit, source, arguments, emit, purpose).write()
    return unit.functions[key]


class Function(Expressions):
    """One function on its way into the module."""

    def __init__(
        self,
        unit: Unit,
        source: FunctionSource,
        arguments: Sequence[Type],
        emit: Emit | None,
        purpose: str,
    ) -> None:
        self.unit, self.source, self.emit, self.purpose = unit, source, emit, purpose
        self.captured = dict(source.captured)
        self.node = source.node()
        self.line = self.node.lineno
        body = self.node.body
        self.is_generator = isinstance(body, list) and any(
            isinstance(one, (ast.Yield, ast.YieldFrom)) for part in body for one in ast.walk(part)
        )
        self.parameters = self._bind(arguments)
        #: the type of every local variable, as far as it is known
        self.types = dict(self.parameters)
        self.result: Type | None = None
        #: variables that have a value on every way to this statement; None where nothing arrives
        self.bound: set[str] | None = set()
        self.lines: list[str] = []
        self.depth = 1
        self.temporaries = 0

    def _bind(self, arguments: Sequence[Type]) -> dict[str, Type]:
        spec = self.node.args
        if spec.vararg or spec.kwarg:
            self.refuse("takes * or ** arguments")
        names = [one.arg for one in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        given = dict(zip(names, arguments, strict=False))
        for name, value in self.source.defaults:
            if name not in given:
                if not isinstance(value, Const):
                    self.refuse(f"the default of `{name}` is not a number or text")
                given[name] = self.literal(value.value).type
        if len(arguments) > len(names) or set(names) != set(given):
            self.refuse(f"takes {len(names)} arguments ({', '.join(names)}), not {len(arguments)}")
        return given

    # -- the whole -------------------------------------------------------------------------------

    def write(self) -> tuple[str, Type]:
        """Repeats until no type changes, then adds the text to the unit."""
        for _ in range(_PASSES):
            before = (dict(self.types), self.result)
            self.lines, self.bound = [], set(self.parameters)
            self._body()
            if before == (self.types, self.result):
                break
        else:
            self.refuse("the types of its variables do not settle")
        name = self.unit.name(self.source.name)
        words = [f"v_{one}" for one in self.parameters]
        if self.purpose == "emit":
            words += ["_x", "_n"]
        head = f"# {self.source.name}, line {self.node.lineno}\n@inner\ndef {name}({', '.join(words)}):\n"
        self.unit.parts.append(head + "\n".join(self.lines) + "\n")
        return name, self.result or NONE

    def _body(self) -> None:
        if isinstance(self.node, ast.Lambda):
            self._result(self.node.body)
            if self.purpose == "emit":
                self.put("return _n")
            return
        self.block(self.node.body)
        if self.bound is not None:
            self._end()

    def _end(self) -> None:
        """What happens where the function falls off its end or returns nothing."""
        if self.purpose == "emit":
            self.put("return _n")
        elif self.purpose == "truth":
            self.put("return False")
        else:
            self._return_value(Expr("None", NONE, None))

    def put(self, line: str) -> None:
        """Adds a line at the present indentation."""
        self.lines.append("    " * self.depth + line)

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Statements one level deeper where called for it; what cannot be reached is left out."""
        start = len(self.lines)
        for statement in body:
            if self.bound is None:
                break
            self.statement(statement)
        if len(self.lines) == start:
            self.put("pass")

    def nested(self, body: Sequence[ast.stmt]) -> None:
        """A block one level deeper."""
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def statement(self, node: ast.stmt) -> None:
        """One statement; refused when no method is named after it."""
        self.line = node.lineno
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            self.refuse(f"uses {type(node).__name__.lower()}, which is not on the list of compiled syntax")
        method(node)

    # -- variables -------------------------------------------------------------------------------

    def variable(self, name: str) -> Expr | None:
        if name not in self.types and name not in self._stored():
            return None
        if self.bound is not None and name not in self.bound:
            self.refuse(f"`{name}` may have no value here")
        return Expr(f"v_{name}", self.types[name])

    def _stored(self) -> set[str]:
        body = self.node.body if isinstance(self.node.body, list) else []
        return {
            one.id
            for part in body
            for one in ast.walk(part)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }

    def assign(self, name: str, value: Expr) -> None:
        """``name = value``; all values of a variable must share one type."""
        known = self.types.get(name, value.type)
        kind = join(known, value.type)
        if kind is None or (name in self.parameters and kind != self.parameters[name]):
            self.refuse(
                f"`{name}` is {known} and becomes {value.type}; a compiled variable has one type"
                + (" (write 0.0 instead of 0)" if {known.tag, value.type.tag} == {"int", "float"} else "")
            )
        self.types[name] = kind
        self.put(f"v_{name} = {self.fit(value, kind, f'`{name}`')}")
        if self.bound is not None:
            self.bound.add(name)

    def temporary(self, value: Expr) -> Expr:
        """The value in a variable of its own, so that its parts can be taken."""
        self.temporaries += 1
        self.put(f"t_{self.temporaries} = {value.code}")
        return Expr(f"t_{self.temporaries}", value.type)

    def _assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        if len(node.targets) > 1:
            self.refuse("assigns to several targets at once")
        self._store(node.targets[0], value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.refuse("declares a variable without a value")
        self._store(node.target, self.expression(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        load = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node.target)
        ast.fix_missing_locations(load)
        self._store(node.target, self.arithmetic(load, node.op, node.value))

    def _store(self, target: ast.expr, value: Expr) -> None:
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
        elif isinstance(target, ast.Tuple):
            self._unpack(target, value)
        elif isinstance(target, ast.Attribute):
            self._store_field(target, value)
        else:
            self.refuse(f"assigns to `{ast.unparse(target)}`")

    def _unpack(self, target: ast.Tuple, value: Expr) -> None:
        if value.type.tag not in ("tuple", "record") or value.type.optional:
            self.refuse(f"unpacks a {value.type}")
        if len(target.elts) != len(value.type.items):
            self.refuse(f"unpacks {len(value.type.items)} values into {len(target.elts)}")
        whole = self.temporary(value)
        for i, one in enumerate(target.elts):
            self._store(one, Expr(f"{whole.code}[{i}]", value.type.items[i]))

    def _store_field(self, target: ast.Attribute, value: Expr) -> None:
        owner = self.expression(target.value)
        name = target.attr
        if owner.type.tag != "state" or name not in owner.type.names:
            self.refuse(f"assigns to `{ast.unparse(target)}`; only fields of the state can be assigned")
        at = owner.type.names.index(name)
        kind = owner.type.items[at]
        if value.type.tag == "none":
            self.refuse(f"assigns None to {owner.type}.{name}; a timer is disarmed by tw.NEVER")
        if kind.tag == "float" and value.type.tag != "float":
            self.unit.widened.setdefault((owner.type.label, name), self.place)
        code = self.fit(value, kind, f"{owner.type}.{name}")
        self.put(f"put_{kind.letter}({owner.code} + {owner.type.offsets[at]}, {code})")

    # -- control flow ----------------------------------------------------------------------------

    def _pass(self, node: ast.Pass) -> None:
        self.put("pass")

    def _if(self, node: ast.If) -> None:
        self.put(f"if {self.truth(node.test)}:")
        before = None if self.bound is None else set(self.bound)
        self.nested(node.body)
        after, self.bound = self.bound, before
        if node.orelse:
            self.put("else:")
            self.nested(node.orelse)
        if after is None or self.bound is None:
            self.bound = after if self.bound is None else self.bound
        else:
            self.bound = after & self.bound

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            self.refuse("uses `else` after a loop")
        self.put(f"while {self.truth(node.test)}:")
        self._loop(node.body)

    def _loop(self, body: Sequence[ast.stmt]) -> None:
        before = set(self.bound or ())
        self.nested(body)
        self.bound = before

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            self.refuse("uses `else` after a loop")
        if not isinstance(node.target, ast.Name):
            self.refuse("unpacks in a `for`")
        kind, code = self._iterable(node.iter)
        name = node.target.id
        known = self.types.get(name, kind)
        if known != kind or name in self.parameters:
            self.refuse(f"`{name}` is {known} and becomes {kind}; a compiled variable has one type")
        self.types[name] = kind
        self.put(f"for v_{name} in {code}:")
        before = set(self.bound or ())
        self.bound = {*before, name}
        self.nested(node.body)
        self.bound = before

    def _iterable(self, node: ast.expr) -> tuple[Type, str]:
        if isinstance(node, ast.Call) and self.callee(node) == Known("range"):
            args = [self.expression(one) for one in node.args]
            if node.keywords or not 1 <= len(args) <= 3 or any(one.type != INT for one in args):
                self.refuse("calls range with something else than one to three ints")
            if len(args) == 3 and (not args[2].is_const or args[2].const == 0):
                self.refuse("calls range with a step that is not a literal")
            return INT, f"range({', '.join(one.code for one in args)})"
        value = self.expression(node)
        kinds = set(value.type.items)
        if value.type.tag != "tuple" or len(kinds) != 1 or value.type.items[0].tag == "tuple":
            self.refuse("loops over something else than range or a tuple of one type")
        return value.type.items[0], value.code

    def _break(self, node: ast.Break) -> None:
        self.put("break")
        self.bound = None

    def _continue(self, node: ast.Continue) -> None:
        self.put("continue")
        self.bound = None

    def _raise(self, node: ast.Raise) -> None:
        # The text is Python's: an error is told after running the row again, interpreted.
        target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        value = self.captured.get(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(value, Known) or not value.name.startswith("raise ") or node.cause:
            self.refuse("raises something else than a built-in exception")
        self.put(f'raise {value.name[6:]}("raised")')
        self.bound = None

    def _assert(self, node: ast.Assert) -> None:
        self.put(f"if not {self.truth(node.test)}:")
        self.put('    raise AssertionError("raised")')

    # -- results ---------------------------------------------------------------------------------

    def _return(self, node: ast.Return) -> None:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._end()
        elif self.is_generator:
            self.refuse("returns a value from a generator")
        else:
            self._result(node.value)
            if self.purpose == "emit":
                self.put("return _n")
        self.bound = None

    def _result(self, node: ast.expr) -> None:
        if self.purpose == "truth":
            self.put(f"return {self.truth(node)}")
        elif self.purpose == "value":
            self._return_value(self.expression(node))
        elif self.emit is not None and self.emit.lists:
            if not isinstance(node, (ast.List, ast.Tuple)):
                self.refuse("returns something else than a list display; write a generator")
            for one in node.elts:
                self.emit_value(one)
        else:
            self.emit_value(node)

    def _return_value(self, value: Expr) -> None:
        kind = value.type if self.result is None else join(self.result, value.type)
        if kind is None:
            self.refuse(f"returns {self.result} or {value.type}; make both the same type")
        if kind.tag == "state":
            self.refuse("returns the state")
        self.result = kind
        code = self.fit(value, kind, "the result") if kind.tag != "none" else "False"
        self.put(f"return {code}")

    def _expr(self, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Constant):
            return
        if isinstance(value, ast.Yield):
            if self.purpose != "emit":
                self.refuse("is a generator; only the operator's own function may yield")
            if value.value is None:
                self.refuse("yields None")
            self.emit_value(value.value)
            return
        if isinstance(value, ast.Call) and self.callee(value) == Known("drop"):
            self._drop(value)
            return
        self.put(f"{self.expression(value).code}")

    def _drop(self, node: ast.Call) -> None:
        state = self.expression(node.args[0]) if len(node.args) == 1 and not node.keywords else None
        if state is None or state.type.tag != "state":
            self.refuse("calls tw.drop with something else than the state")
        self.put(f"put_u({state.code} + {state.type.offsets[-1]}, 1)")

    def emit_value(self, node: ast.expr) -> None:
        """Sends the value of an expression on, field by field, each as declared; None sends nothing."""
        assert self.emit is not None
        if isinstance(node, ast.IfExp):
            self.put(f"if {self.truth(node.test)}:")
            self.depth += 1
            self.emit_value(node.body)
            self.depth -= 1
            self.put("else:")
            self.depth += 1
            self.emit_value(node.orelse)
            self.depth -= 1
        elif isinstance(node, ast.Constant) and node.value is None:
            if self.is_generator:
                self.refuse("yields None")
            self.put("pass")
        else:
            self._emit_fields(node)

    def _emit_fields(self, node: ast.expr) -> None:
        assert self.emit is not None
        parts = list(node.elts) if isinstance(node, ast.Tuple) else self._constructed(node)
        if parts is not None:
            self._put_emit(self._fields(parts))
            return
        value = self.expression(node)
        if value.type.tag not in ("record", "tuple"):
            self.refuse(f"gives {value.type} where {self.emit.target} is declared")
        whole = self.temporary(value)
        if not value.type.boxed:
            self._put_emit(self._taken(whole))
            return
        if self.is_generator:
            self.refuse("yields a value that may be None")
        self.put(f"if {whole.code}[0]:")
        self.depth += 1
        self._put_emit(self._taken(Expr(f"{whole.code}[1]", value.type.bare)))
        self.depth -= 1

    def _put_emit(self, codes: Sequence[str]) -> None:
        assert self.emit is not None
        fields = "".join(f", {code}" for code in codes)
        self.put(f"_n = {self.emit.function}(_x, _n{fields})")

    def _targets(self, size: int) -> list[tuple[Type, str]]:
        """Type and name of the declared fields that ``size`` values go to."""
        assert self.emit is not None
        target = self.emit.target
        if size != len(target.items):
            self.refuse(f"gives {size} values where {target} has {len(target.items)} fields")
        return [(kind, f"{target}.{n}") for kind, n in zip(target.items, target.names, strict=True)]

    def _fields(self, parts: Sequence[ast.expr | Expr]) -> list[str]:
        """Expressions as code of the declared types."""
        codes = []
        for part, (kind, where) in zip(parts, self._targets(len(parts)), strict=True):
            if not isinstance(part, ast.expr):
                codes.append(self.fit(part, kind, where))
                continue
            before = len(self.unit.sensitive)
            codes.append(self.fitted(part, kind, where))
            if isinstance(part, ast.Attribute) and kind.tag == "float":
                # An int in the field becomes the same float when it is put out.
                del self.unit.sensitive[before:]
        return codes

    def _taken(self, whole: Expr) -> list[str]:
        """The items of a record or tuple as code of the declared types."""
        items = whole.type.items
        return [
            self.fit(Expr(f"{whole.code}[{i}]", items[i]), kind, where)
            for i, (kind, where) in enumerate(self._targets(len(items)))
        ]

    def _constructed(self, node: ast.expr) -> list[ast.expr | Expr] | None:
        """The arguments of a record's constructor as far as they are written in order."""
        if not isinstance(node, ast.Call):
            return None
        value = self.callee(node)
        if not isinstance(value, RecordClass):
            return None
        if any(isinstance(one, ast.Starred) for one in node.args):
            self.refuse("passes arguments by * or **")
        names = value.schema.names
        given: dict[str, ast.expr | Expr] = dict(zip(names, node.args, strict=False))
        given |= {word.arg: word.value for word in node.keywords if word.arg is not None}
        for name, default in getattr(value.schema.cls, "_field_defaults", {}).items():
            if name not in given:
                given[name] = self.literal(default)
        if set(given) != set(names) or len(node.args) > len(names):
            self.refuse(f"{value.schema.name} takes {', '.join(names)}")
        return [given[name] for name in names]

    # -- calls -----------------------------------------------------------------------------------

    def call_function(self, source: FunctionSource, node: ast.Call) -> Expr:
        if source.reason:
            self.refuse(f"calls {source.name}: {source.reason}")
        spec = source.node().args
        names = [one.arg for one in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        positional = len(spec.posonlyargs) + len(spec.args)
        given = {n: self.expression(a) for n, a in zip(names[:positional], node.args, strict=False)}
        for word in node.keywords:
            if word.arg in given or word.arg not in names:
                self.refuse(f"calls {source.name} with a wrong argument {word.arg}")
            given[word.arg] = self.expression(word.value)
        for name, value in source.defaults:
            if name not in given:
                if not isinstance(value, Const):
                    self.refuse(f"the default of `{name}` of {source.name} is not a number or text")
                given[name] = self.literal(value.value)
        if set(given) != set(names) or len(node.args) > positional:
            self.refuse(f"{source.name} takes {', '.join(names)}")
        args = [given[name] for name in names]
        if any(one.type.tag == "none" for one in args):
            self.refuse(f"passes None to {source.name}")
        name, result = write_function(
            self.unit, source, [one.type for one in args], None, "value"
        )
        return Expr(f"{name}({', '.join(one.code for one in args)})", result)
