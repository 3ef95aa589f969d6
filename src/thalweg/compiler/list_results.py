"""What a flat_map returns: the records of a list, one by one."""

from __future__ import annotations

import ast

from thalweg.compiler.containers.list_functions import is_plain_display
from thalweg.compiler.operations import Expr, an
from thalweg.compiler.statements import Statements


class ListResults(Statements):
    """Sends on what a returned list holds; the subclass sends one value on."""

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
