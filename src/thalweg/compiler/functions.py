"""Functions: the statements of a user's function as a generated one, its outputs as calls.

A function is written again and again until the type of every local variable is settled (two passes
nearly always). A result leaves by a call of an *emit* function that takes the record's fields and
returns the new number of outputs; so ``return R(...)``, ``return None`` and ``yield`` are all one thing,
and a chain of operators is a chain of calls that LLVM inlines.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from thalweg.compiler.code.reasons import NotCompilable
from thalweg.compiler.code.source import (
    Const,
    FunctionSource,
    Known,
    RecordClass,
    stored_names,
)
from thalweg.compiler.code.unit import ModuleParts, identifier
from thalweg.compiler.kinds import NONE, Type, join
from thalweg.compiler.list_results import ListResults
from thalweg.compiler.operations import Expr, an

#: Types only grow, so they settle long before.
_PASSES: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Emit:
    """Where a function's results go: ``function(_x, _n, field, …)`` gives the new number of outputs.

    ``lists``: a returned list display is several results (flat_map).
    """

    function: str
    target: Type
    lists: bool = False


def write_function(
    unit: ModuleParts,
    source: FunctionSource,
    arguments: Sequence[Type],
    emit: Emit | None,
    purpose: str,
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
    # By text: as values, a captured 1, 1.0 and True are equal.
    key = (repr(source), tuple(arguments), f"{purpose} {emit}")
    if key not in unit.functions:
        if source.reason:
            raise NotCompilable(source.reason)
        unit.functions[key] = ModuleFunction(unit, source, arguments, emit, purpose).write()
    return unit.functions[key]


class ModuleFunction(ListResults):
    """One function on its way into the module."""

    def __init__(
        self,
        unit: ModuleParts,
        source: FunctionSource,
        arguments: Sequence[Type],
        emit: Emit | None,
        purpose: str,
    ) -> None:
        self.unit, self.source, self.emit, self.purpose = unit, source, emit, purpose
        self.captured = dict(source.captured)
        self.node = source.node()
        self.line = self.node.lineno
        self.is_generator = source.yields
        self.stored = stored_names(self.node)
        self.defaults: dict[str, Expr] = {}
        self.arriving = self._bind(arguments)
        self.parameters = {name: self._inside(name) for name in self.arriving}
        self.types = {n: one.type for n, one in self.defaults.items()} | self.parameters
        self.result: Type | None = None
        self.bound = set()
        self.lines = []
        self.depth = 1
        self.temporaries = 0
        self.loops = 0
        self.changes = {}

    def _bind(self, arguments: Sequence[Type]) -> dict[str, Type]:
        """The parameters that get an argument; the others start with their default."""
        spec = self.node.args
        if spec.vararg or spec.kwarg:
            self.refuse("takes * or ** arguments")
        names = [one.arg for one in (*spec.posonlyargs, *spec.args)]
        keywords = [one.arg for one in spec.kwonlyargs]
        if self.purpose == "value":  # called with all of them, in this order
            names, keywords = names + keywords, []
        given = dict(zip(names, arguments, strict=False))
        for name, value in self.source.defaults:
            if name not in given:
                if not isinstance(value, Const):
                    self.refuse(f"the default of `{name}` is not a number or text")
                self.defaults[name] = self.literal(value.value)
        wanted = {*names, *keywords}
        if len(arguments) > len(names) or wanted != {*given, *self.defaults}:
            listed = ", ".join((*names, *keywords))
            self.refuse(f"takes {len(wanted)} arguments ({listed}), not {len(arguments)}")
        return given

    def _inside(self, name: str) -> Type:
        """The type of a parameter in the function: a text that it assigns to is read first."""
        kind = self.arriving[name]
        return Type("text", kind.optional) if kind.is_text and name in self.stored else kind

    # -- the whole -------------------------------------------------------------------------------

    def write(self) -> tuple[str, Type]:
        """Repeats until no type changes, then adds the text to the unit."""
        for _ in range(_PASSES):
            before = (dict(self.types), self.result)
            self.lines, self.bound = [], set(self.parameters) | set(self.defaults)
            for name, value in self.defaults.items():
                self.put(f"v_{name} = {self.fit(value, self.types[name], name)}")
            for name, kind in self.parameters.items():
                if kind != self.arriving[name]:
                    given = Expr(f"p_{name}", self.arriving[name])
                    self.put(f"v_{name} = {self.fit(given, kind, name)}")
            self._body()
            if before == (self.types, self.result):
                break
        else:
            self.refuse("the types of its variables do not settle")
        name = self.unit.name(self.source.name)
        same = {n for n, kind in self.parameters.items() if kind == self.arriving[n]}
        words = [f"v_{one}" if one in same else f"p_{one}" for one in self.parameters]
        if any(re.search(r"\b_a\b", line) for line in self.lines):
            self.unit.with_arena.add(name)
        if self.purpose == "emit":
            words += ["_x", "_n"]
            # The arena is the last of what all functions of a kernel are given.
            self.lines[:0] = ["    _a = _x[-1]"] if name in self.unit.with_arena else []
        elif name in self.unit.with_arena:
            words.append("_a")
        head = f"# {identifier(self.source.name)}, line {self.node.lineno}\n@inner\ndef {name}({', '.join(words)}):\n"
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

    # -- results ---------------------------------------------------------------------------------

    def _return(self, node: ast.Return) -> None:
        if node.value is None or (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
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
            self.emit_list(node)
        else:
            self.emit_value(node)

    def _return_value(self, value: Expr) -> None:
        kind = value.type if self.result is None else join(self.result, value.type)
        if kind is None:
            self.refuse(f"returns {self.result} or {value.type}; make both the same type")
        if kind.tag in ("state", "list"):
            self.refuse(f"returns {'the state' if kind.tag == 'state' else 'a list'}")
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
        if isinstance(value, ast.Call) and self.resolved(value) == Known("drop"):
            self._drop(value)
            return
        self.statement_call = value
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
        if isinstance(node, ast.Tuple):
            self._check_form(Type("tuple"))
        parts = list(node.elts) if isinstance(node, ast.Tuple) else self._constructed(node)
        if parts is not None:
            self._put_emit(self._fields(parts))
            return
        if isinstance(node, ast.Call) and (source := self.passed_through(node)) is not None:
            args = self.call_arguments(source, node)
            emit = dataclasses.replace(self.emit, lists=False)
            name, _ = write_function(self.unit, source, [one.type for one in args], emit, "emit")
            self.put(f"_n = {name}({', '.join([*(one.code for one in args), '_x', '_n'])})")
            return
        self.emit_whole(self.expression(node))

    def _check_form(self, kind: Type) -> None:
        """Refuses a record that Python would refuse for its class."""
        assert self.emit is not None
        target = self.emit.target
        wrong = kind.form != target.form or (kind.form != "tuple" and kind.label != target.label)
        if wrong and not self.is_library:
            self.refuse(f"gives {an(kind)} where {target} is declared")

    def emit_whole(self, value: Expr) -> None:
        """Sends a record, a tuple or None on."""
        assert self.emit is not None
        if value.type.tag == "none" and not self.is_generator:
            self.put("pass")
            return
        if value.type.tag not in ("record", "tuple"):
            self.refuse(f"gives {value.type} where {self.emit.target} is declared")
        self._check_form(value.type)
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
        kinds = self.emit.target.items
        fields = "".join(
            f", {self._kept(code, kind)}" for code, kind in zip(codes, kinds, strict=True)
        )
        self.put(f"_n = {self.emit.function}(_x, _n{fields})")

    def _kept(self, code: str, kind: Type) -> str:
        """Code of an output's text that outlives the call."""
        if kind.tag != "text" or kind.label or not self.unit.keeps_texts:
            return code
        return f"kept_text{'_or_none' if kind.optional else ''}(_a, {code})"

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
        """The arguments of a record's constructor; None when it is another expression."""
        assert self.emit is not None
        if isinstance(node, ast.Dict) and self.emit.target.form == "dict" and node.keys:
            return self.display_parts(node, self.emit.target)
        if not isinstance(node, ast.Call):
            return None
        if self.is_replaced(node):
            owner, parts = self.replaced_parts(node)
            self._check_form(owner)
            return parts
        value = self.resolved(node)
        if not isinstance(value, RecordClass):
            return None
        self._check_form(Type("record", label=self.unit.class_of(value.schema)))
        if any(isinstance(one, ast.Starred) for one in node.args):
            self.refuse("passes arguments by * or **")
        return self.record_parts(value, node)

    # -- calls -----------------------------------------------------------------------------------

    def call_function(self, source: FunctionSource, node: ast.Call) -> Expr:
        args = self.call_arguments(source, node)
        name, result = write_function(self.unit, source, [one.type for one in args], None, "value")
        codes = [one.code for one in args] + ["_a"] * (name in self.unit.with_arena)
        return Expr(f"{name}({', '.join(codes)})", result)

    def call_arguments(self, source: FunctionSource, node: ast.Call) -> list[Expr]:
        """The arguments of a call in the order of the parameters."""
        if source.reason:
            self.refuse(f"calls {source.name}: {source.reason}")
        spec = source.node().args
        names = [one.arg for one in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        positional = len(spec.posonlyargs) + len(spec.args)
        given = {n: self.expression(a) for n, a in zip(names[:positional], node.args, strict=False)}
        for word in node.keywords:
            if word.arg in given or word.arg not in names:
                self.refuse(f"calls {source.name} with a wrong argument {word.arg}")
            given[word.arg] = self.repeatable(word.value)
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
        if any(one.type.tag in ("state", "list") for one in args):
            self.effects += 1
            self.changes["any"] = self.changes.get("any", 0) + 1
        return args
