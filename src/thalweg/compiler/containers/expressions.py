"""Containers in expressions: those of the state, those that a call makes, those captured."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from thalweg.compiler.code.source import Captured, Frozen, Known, dotted
from thalweg.compiler.containers.making import MadeContainers
from thalweg.compiler.containers.tables import table_of
from thalweg.compiler.kinds import Type
from thalweg.compiler.operations import Expr
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind

#: Calls of functions that may be about lists, and the method of the class that writes them.
_FUNCTIONS: Final = {
    "len": "_len", "sum": "_sum", "sorted": "_sorted", "list": "_copied", "min": "_least", "max": "_greatest",
    "any": "_any", "all": "_all", "deque": "_deque", "dict": "_new_dict",
    "heapq.heappush": "_heap", "heapq.heappop": "_heap", "heapq.heapreplace": "_heap",
    "heapq.heappushpop": "_heap", "heapq.heapify": "_heap", "heapq.nlargest": "_best", "heapq.nsmallest": "_best",
    "bisect.bisect_left": "_bisect", "bisect.bisect_right": "_bisect", "bisect.insort_left": "_bisect",
    "bisect.insort_right": "_bisect",
}  # fmt: skip

#: Calls that give a list.
_LISTS: Final = (Known("sorted"), Known("list"))


class Containers(MadeContainers):
    """Lowers what concerns containers; the rest is left to the class above."""

    def expression(self, node: ast.expr) -> Expr:
        if isinstance(node, (ast.ListComp, ast.List)) or (
            isinstance(node, ast.Dict) and not node.keys
        ):
            self.line = node.lineno
            if isinstance(node, ast.ListComp):
                return self._comprehension(node)
            return self._display(node) if isinstance(node, ast.List) else self.new("dict", ())
        return super().expression(node)

    def _call(self, node: ast.Call) -> Expr:
        if isinstance(node.func, ast.Attribute):
            path = dotted(node.func)
            if path is None or self.variable(path[0]) is not None or self.is_frozen(path[:-1]):
                owner = self.looked_at(node.func.value)
                if owner.type.tag == "list":
                    return self._method(owner, node.func.attr, node)
        return super()._call(node)

    def is_frozen(self, path: Sequence[str]) -> bool:
        """Whether a captured container has this path."""
        return isinstance(self.captured.get(".".join(path)), Frozen)

    def _outside(self, path: str) -> Expr:
        value = self.captured.get(path)
        return self.table(path, value) if isinstance(value, Frozen) else super()._outside(path)

    def table(self, path: str, value: Frozen) -> Expr:
        """A captured container."""
        try:
            table = table_of(value)
        except (SchemaError, TypeError) as error:
            self.refuse(f"reads `{path}`, a captured {type(value.value).__name__} that {error}")
        items = tuple(self._table_item(one) for one in table.items)
        names = ("frozen", "texts") if table.by_text else ("frozen",)
        kind = Type("list", label=table.form, items=items, names=names, offsets=(-1,))
        return Expr(f"({self.unit.table(table.symbol)}(), 0)", kind)

    def _known(self, name: str, node: ast.Call) -> Expr:
        method = _FUNCTIONS.get(name)
        made = getattr(self, method)(name, node) if method is not None else None
        return made if made is not None else super()._known(name, node)

    def truth_of(self, value: Expr) -> str:
        if value.type.tag == "list":
            return f"(length({value.code}[0]) != 0)"
        return super().truth_of(value)

    def _tuple(self, node: ast.Tuple) -> Expr:
        made = super()._tuple(node)
        if any(one.tag == "list" for one in made.type.items):
            self.refuse("puts a list into a tuple")
        return made

    def _binop(self, node: ast.BinOp) -> Expr:
        if isinstance(node.op, ast.Add) and self._may_be_list(node.left):
            left = self.looked_at(node.left)
            if left.type.tag == "list" and left.type.label == "list":
                return self._joined(left, self.expression(node.right))
        return super()._binop(node)

    def _may_be_list(self, node: ast.expr) -> bool:
        """Whether an operand is worth a look, which lowers it once more: of a long sum only one that must be a list."""
        if isinstance(node, ast.BinOp):
            while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                if isinstance(node.right, (ast.List, ast.ListComp)):
                    return True
                node = node.left
            return isinstance(node, (ast.List, ast.ListComp))
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice)
        if isinstance(node, ast.Call):
            return self.resolved(node) in _LISTS
        return isinstance(node, (ast.Attribute, ast.Name, ast.List, ast.ListComp))

    def resolved(self, node: ast.Call) -> Captured | None:
        """What is called; None for a method of a value."""
        path = dotted(node.func)
        if path is None or self.variable(path[0]) is not None:
            return None
        return self.captured.get(".".join(path))

    def _table_item(self, kind: FieldType) -> Type:
        if kind.record is None or kind.kind is not Kind.RECORD:
            return self.unit.value_type(kind)
        items = tuple(self._table_item(field.type) for field in kind.record.fields)
        if kind.form == "tuple":
            return Type("tuple", kind.optional, items=items)
        label = self.unit.class_of(kind.record)
        return Type("record", kind.optional, label, items, kind.record.names)
