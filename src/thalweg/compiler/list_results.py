"""Results that are not one record: those of a flat_map's list, one by one, and what another function gives."""

from __future__ import annotations

import ast

from thalweg.compiler.code.source import FunctionSource
from thalweg.compiler.containers.list_functions import is_plain_display
from thalweg.compiler.operations import Expr, an
from thalweg.compiler.statements import Statements


class ListResults(Statements):
    """Sends on what a returned list holds; the subclass sends one value on."""

    is_generator: bool

    def emit_value(self, node: ast.expr) -> None:
        """Sends the value of an expression on; given by the subclass."""
        raise NotImplementedError

    def emit_whole(self, value: Expr) -> None:
        """Sends a record, a tuple or None on; given by the subclass."""
        raise NotImplementedError

    def emit_list(self, node: ast.expr) -> None:
        """Sends on what a list, a generator expression or a tuple of several values holds; None is nothing."""
        if isinstance(node, (ast.List, ast.Tuple)) and (not node.elts or is_plain_display(node)):
            for one in node.elts:
                self.emit_value(one)
        elif isinstance(node, ast.IfExp):
            self.put(f"if {self.truth(node.test)}:")
            self._emit_nested(node.body)
            self.put("else:")
            self._emit_nested(node.orelse)
        elif not (isinstance(node, ast.Constant) and node.value is None):
            self._emit_items(node)
        self.put("pass")

    def passed_through(self, node: ast.Call) -> FunctionSource | None:
        """The plain function whose result is this one's, so that it sends it on itself; None without.

        So its records may have None where that is declared.
        """
        if self.is_generator or self.is_method(node):
            return None
        value = self.resolved(node)
        if not isinstance(value, FunctionSource) or value.reason or value.yields:
            return None
        return None if value.node().args.kwonlyargs else value

    def _emit_nested(self, node: ast.expr) -> None:
        self.depth += 1
        self.emit_list(node)
        self.depth -= 1

    def _emit_items(self, node: ast.expr) -> None:
        value = self.listed(node)
        if value is None:
            self.refuse(f"returns {an(self.expression(node).type)} where flat_map takes a list")
        if not value.type.items:
            # An empty list of which nothing says what it holds holds nothing.
            return
        turns = self._turns_of_list(value)
        self.put(turns.head)
        self.depth += 1
        for line in turns.lines:
            self.put(line)
        self.emit_whole(turns.value)
        self.depth -= 1
