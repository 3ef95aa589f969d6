"""Functions that take or give a text, and f-strings: what is written as a text, and in which formats."""

from __future__ import annotations

import ast
import re
from typing import Final

from thalweg.compiler.kinds import BOOL, INT, NONE, TEXT
from thalweg.compiler.operations import Expr, whole
from thalweg.compiler.text.values import Texts

_TEXT_SPEC: Final = re.compile(r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<width>[1-9]\d{0,5})?s?", re.S)
_INT_SPEC: Final = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<zero>0)?(?P<width>[1-9]\d{0,5})?d?", re.S
)


class TextWriting(Texts):
    """Typed code of ``len``, ``str``, ``ord``, ``chr``, ``times.text`` and f-strings."""

    def text_call(self, name: str, node: ast.Call) -> Expr:
        """``len``, ``str``, ``ord``, ``chr`` and ``times.text``."""
        if len(node.args) != 1:
            self.refuse(f"calls {name} with {len(node.args)} arguments")
        value = self.expression(node.args[0])
        if name == "len":
            return self._length(value)
        if name == "str":
            return self.written(value, "")
        if name == "ord":
            return self.run("text_ord", INT, self.text(value).code)
        function = "text_chr" if name == "chr" else "time_text"
        return self.make(function, TEXT, self.as_int(value))

    def _length(self, value: Expr) -> Expr:
        if value.type.tag == "texts":
            return Expr(f"{value.code}[1]", INT)
        if value.is_const and isinstance(value.const, str | tuple):
            return self.literal(len(value.const))
        if value.type.tag in ("tuple", "record") and not value.type.optional:
            return self.literal(len(value.type.items))
        return self.run("text_len", INT, self.text(value, "takes the length of").code)

    def _joinedstr(self, node: ast.JoinedStr) -> Expr:
        """An f-string of texts and ints."""
        parts = []
        for one in node.values:
            if isinstance(one, ast.FormattedValue):
                parts.append(self._formatted(one))
            else:
                parts.append(self.expression(one))
        return self.joined(parts)

    def _formatted(self, node: ast.FormattedValue) -> Expr:
        if node.conversion not in (-1, ord("s")):
            self.refuse("uses !r or !a in an f-string")
        spec = ""
        if node.format_spec is not None:
            assert isinstance(node.format_spec, ast.JoinedStr)
            fixed = [one.value for one in node.format_spec.values if isinstance(one, ast.Constant)]
            if len(fixed) != len(node.format_spec.values):
                self.refuse("computes a format in an f-string")
            spec = "".join(fixed)
        value = self.expression(node.value)
        if node.conversion == ord("s"):
            value = self.written(value, "")
        return self.written(value, spec)

    def written(self, value: Expr, spec: str) -> Expr:
        """``format(value, spec)``."""
        value = self.read(value)
        if value.type == NONE and not spec:
            return self.literal("None")
        if value.type.boxed and not spec:
            inner = self.written(Expr(f"{value.code}[1]", value.type.bare), spec)
            none = self.unit.constant("None")
            return Expr(f"({inner.code} if {value.code}[0] else {none})", TEXT)
        value = self.needed(value)
        if value.type.tag == "text":
            return self._padded(value, spec, _TEXT_SPEC, "<")
        if value.type == BOOL and not spec:
            yes, no = self.unit.constant("True"), self.unit.constant("False")
            return Expr(f"({yes} if {value.code} else {no})", TEXT)
        if value.type.tag in ("int", "bool"):
            return self._int_written(value, spec)
        if value.type.tag == "float":
            self.refuse("writes a float as a text")
        return self.text(value, "writes")

    def _int_written(self, value: Expr, spec: str) -> Expr:
        found = _INT_SPEC.fullmatch(spec)
        if found is not None and found["zero"] and not found["align"]:
            width = found["width"] or "0"
            return self.make("int_padded", TEXT, whole(value), width)
        if found is None or found["zero"]:
            self.refuse(f"uses the format {spec!r} for an int")
        text = self.make("int_text", TEXT, whole(value))
        return self._padded(text, spec.removesuffix("d"), _TEXT_SPEC, ">")

    def _padded(self, value: Expr, spec: str, known: re.Pattern[str], align: str) -> Expr:
        found = known.fullmatch(spec)
        if found is None:
            self.refuse(f"uses the format {spec!r} for a str")
        if not found["width"]:
            return value
        sides = {"<": "0", ">": "1", "^": "2"}[found["align"] or align]
        fill = self.literal(found["fill"] or " ")
        return self.make("text_padded", TEXT, value.code, found["width"], sides, fill.code)
