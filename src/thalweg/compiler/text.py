"""Texts in expressions: which operations compile, and the functions of ``runtime`` that they call.

All of them give exactly what Python gives, for every text, or raise in the machine code, so that Python makes that
call. What would need Python for most texts is refused here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from thalweg.compiler.kinds import (
    BOOL,
    CATEGORY,
    INT,
    LITERAL,
    NO_COLUMN_TEXT,
    NONE,
    TEXT,
    TEXTS,
    Type,
)
from thalweg.compiler.operations import Expr, Operations, an, whole
from thalweg.compiler.unit import category_code

_TO_THE_END: Final = str(2**62)
_THREE: Final = Type("tuple", items=(TEXT, TEXT, TEXT))


class _Method(NamedTuple):
    """A method of texts: what is called, what it gives, its arguments, and whether it makes a text.

    An argument is "t" for a text, or the code of the int that stands for it where it is left out, "" where it may not be.
    """

    function: str
    result: Type
    arguments: tuple[str, ...] = ()
    makes: bool = False


_RANGE: Final = ("t", "0", _TO_THE_END)
_METHODS: Final = {
    "find": _Method("text_find", INT, _RANGE),
    "rfind": _Method("text_rfind", INT, _RANGE),
    "index": _Method("text_index", INT, _RANGE),
    "rindex": _Method("text_rindex", INT, _RANGE),
    "count": _Method("text_count", INT, _RANGE),
    "removeprefix": _Method("text_removeprefix", TEXT, ("t",)),
    "removesuffix": _Method("text_removesuffix", TEXT, ("t",)),
    "partition": _Method("text_partition", _THREE, ("t",)),
    "rpartition": _Method("text_rpartition", _THREE, ("t",)),
    "replace": _Method("text_replace", TEXT, ("t", "t", "-1"), makes=True),
    "lower": _Method("text_lower", TEXT, makes=True),
    "upper": _Method("text_upper", TEXT, makes=True),
    "casefold": _Method("text_lower", TEXT, makes=True),
    "swapcase": _Method("text_swapcase", TEXT, makes=True),
    "capitalize": _Method("text_capitalize", TEXT, makes=True),
    "zfill": _Method("text_zfill", TEXT, ("",), makes=True),
    "isascii": _Method("is_ascii", BOOL),
    "isdigit": _Method("text_isdigit", BOOL),
    "isdecimal": _Method("text_isdigit", BOOL),
    "isnumeric": _Method("text_isdigit", BOOL),
    "isalpha": _Method("text_isalpha", BOOL),
    "isalnum": _Method("text_isalnum", BOOL),
    "isspace": _Method("text_isspace", BOOL),
    "isupper": _Method("text_isupper", BOOL),
    "islower": _Method("text_islower", BOOL),
}
#: Methods with arguments of several kinds; each has a Python method here.
_OTHERS: Final = frozenset(
    "startswith endswith strip lstrip rstrip split rsplit join ljust rjust".split()
)
_TEXT_SPEC: Final = re.compile(r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<width>[1-9]\d{0,5})?s?", re.S)
_INT_SPEC: Final = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<zero>0)?(?P<width>[1-9]\d{0,5})?d?", re.S
)


class Texts(Operations):
    """Typed code of operations on texts; the subclass lowers expressions."""

    def expression(self, node: ast.expr) -> Expr:
        """Typed code of any allowed expression."""
        raise NotImplementedError

    def run(self, function: str, result: Type, *arguments: str) -> Expr:
        """A call of a function of ``runtime``."""
        self.unit.imports.add(function)
        return Expr(f"{function}({', '.join(arguments)})", result)

    def make(self, function: str, result: Type, *arguments: str) -> Expr:
        """A call of a function of ``runtime`` that reserves memory in the arena."""
        return self.run(function, result, "_a", *arguments)

    # -- texts as values -------------------------------------------------------------------------

    def read(self, value: Expr) -> Expr:
        if not value.type.is_column_text:
            return value
        kind = Type("text", value.type.optional)
        suffix = "_or_none" if kind.optional else ""
        self.unit.reads_text = True
        if value.type.names:
            layout = self.unit.constant(value.type.names[0])
            return self.run(f"key_text{suffix}", kind, value.code, layout)
        return self.run(f"column_text{suffix}", kind, value.code)

    def text(self, value: Expr, what: str = "uses") -> Expr:
        """The value as a text that is there; refused where it is none."""
        value = self.needed(self.read(value))
        if value.type.tag == "category":
            self.refuse(
                f"{what} the letters of a Category, of which compiled functions know the hash;"
                " declare the field str"
            )
        if value.type.tag != "text":
            self.refuse(f"{what} {an(value.type)} as a text")
        return value

    def text_truth(self, value: Expr) -> str:
        if value.type.boxed:
            return self.run("text_true", BOOL, value.code).code
        return f"({value.code}[1] != 0)"

    def equal_text(self, a: Expr, b: Expr) -> str:
        if NONE in (a.type, b.type):
            value = self.read(b if a.type == NONE else a)
            return f"(not {value.code}[0])" if value.type.boxed else "False"
        if "category" in (a.type.tag, b.type.tag):
            return self._equal_category(a, b)
        if not (a.type.is_text and b.type.is_text):
            self.refuse(f"compares {an(a.type)} with {an(b.type)}")
        a, b = self.read(a), self.read(b)
        if a.type.boxed and b.type.boxed:
            return self.run("text_equal_both", BOOL, a.code, b.code).code
        if a.type.boxed or b.type.boxed:
            a, b = (a, b) if a.type.boxed else (b, a)
            return self.run("text_equal_one", BOOL, a.code, b.code).code
        return self.run("text_equal", BOOL, a.code, b.code).code

    def _equal_category(self, a: Expr, b: Expr) -> str:
        category, other = (a, b) if a.type.tag == "category" else (b, a)
        if other.type.label != LITERAL or other.type.optional:
            self.refuse(
                "compares a Category with a text that is no literal; declare both str, or both tw.Category"
            )
        return self.equal(category, self._as_category(other))

    def _as_category(self, value: Expr) -> Expr:
        """A text of literals, all of which this process knows as categories."""
        if value.is_const:
            return Expr(f"({category_code(value.const)})", CATEGORY, value.const)
        return self.run("category_of", CATEGORY, value.code)

    def ordered_text(self, a: Expr, symbol: str, b: Expr) -> str:
        a, b = self.text(a), self.text(b)
        return f"({self.run('text_order', INT, a.code, b.code).code} {symbol} 0)"

    def fit_text(self, value: Expr, target: Type, where: str) -> str:
        kind = value.type
        if target.is_column_text:
            return self._fit_column(value, target, where)
        if target.tag == "category" and kind.label == LITERAL and not kind.optional:
            return self.fit(self._as_category(value), target, where)
        if target.tag != "text" or not (kind.is_text or kind == NONE):
            self.refuse(f"{where} is {target}, got {an(kind)}")
        if kind == NONE and not target.optional:
            self.refuse(f"{where} is {target}, got None")
        value = self.read(value)
        if kind == NONE:
            return f"(False, {target.bare.zero})"
        if target.optional:
            return value.code if value.type.optional else f"(True, {value.code})"
        return self.needed(value).code

    def _fit_column(self, value: Expr, target: Type, where: str) -> str:
        """A text that passes through; where it cannot it is noted that the field's texts are made."""
        kind = value.type
        if kind.is_column_text and (target.optional or not kind.optional):
            return value.code
        if kind == NONE and target.optional:
            return NO_COLUMN_TEXT
        if kind.is_text and self.unit.made is not None:
            self.unit.made.add(where)
            return NO_COLUMN_TEXT
        self.refuse(f"{where} is {target}, got {an(kind)}")

    # -- operators -------------------------------------------------------------------------------

    def text_arithmetic(self, a: Expr, symbol: str, b: Expr) -> Expr:
        """``a + b`` and ``a * b`` where one of them is a text."""
        if symbol == "*":
            text, times = (a, b) if a.type.is_text else (b, a)
            count = self._int(times)
            return self.make("text_times", TEXT, self.text(text).code, count)
        if symbol == "%" and a.type.is_text:
            self.refuse("formats a text by `%`; write an f-string")
        if symbol != "+" or not (a.type.is_text and b.type.is_text):
            self.refuse(f"uses `{symbol}` on {an(a.type)} and {an(b.type)}")
        return self.joined([self.text(a), self.text(b)])

    def joined(self, parts: Sequence[Expr]) -> Expr:
        """The parts one behind the other; neighbours that are literals become one."""
        merged: list[Expr] = []
        for one in parts:
            if one.is_const and merged and merged[-1].is_const:
                one = self.literal(merged.pop().const + one.const)
            if not (one.is_const and one.const == ""):
                merged.append(one)
        if not merged:
            return self.literal("")
        made = merged[0]
        for one in merged[1:]:
            made = self.make("text_add", TEXT, made.code, one.code)
        return made

    def _int(self, value: Expr) -> str:
        value = self.needed(value)
        if value.type.tag not in ("int", "bool"):
            self.refuse(f"uses {an(value.type)} where Python wants an int")
        return whole(value)

    def _int_or(self, node: ast.expr | None, default: str) -> str:
        """An int that may be left out or None."""
        if node is None:
            return default
        value = self.expression(node)
        return default if value.type == NONE else self._int(value)

    def item_of_text(self, owner: Expr, node: ast.expr) -> Expr:
        """``text[…]`` or ``texts[…]``: an item, or a slice of step 1."""
        many = owner.type.tag == "texts"
        owner = owner if many else self.text(owner)
        if isinstance(node, ast.Slice):
            if node.step is not None and self.expression(node.step).const not in (1, None):
                self.refuse("takes a slice with a step")
            bounds = self._int_or(node.lower, "0"), self._int_or(node.upper, _TO_THE_END)
            function = "list_slice" if many else "text_slice"
            return self.run(function, owner.type if many else TEXT, owner.code, *bounds)
        plain = owner.is_const and owner.const.isascii()
        function = "list_item" if many else "byte_item" if plain else "text_item"
        return self.run(function, TEXT, owner.code, self._int(self.expression(node)))

    def split_item(self, node: ast.Subscript) -> Expr | None:
        """``text.split(separator)[2]`` without making a list; None where it is something else."""
        call, index = node.value, node.slice
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            return None
        fixed = isinstance(index, ast.Constant) and type(index.value) is int
        if not fixed or call.func.attr != "split" or not self.is_method(call):
            return None
        separator, most = self._split_arguments(call)
        if separator is None:
            return None
        owner = self.text(self.expression(call.func.value))
        found = self.text(self.expression(separator))
        at = str(index.value)  # type: ignore[attr-defined]
        return self.run("text_split_item", TEXT, owner.code, found.code, most, at)

    def is_method(self, node: ast.Call) -> bool:
        """Whether a call is that of a value's method."""
        raise NotImplementedError

    def contained_in_text(self, value: Expr, container: Expr) -> str:
        """``value in container``, a text or a list of texts."""
        wanted = self.text(value)
        if container.type.tag == "texts":
            return self.run("list_has", BOOL, container.code, wanted.code).code
        return self.run("text_in", BOOL, wanted.code, self.text(container).code).code

    # -- methods ---------------------------------------------------------------------------------

    def method(self, node: ast.Call) -> Expr:
        """A call of a method of a text."""
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        owner = self.expression(node.func.value)
        if owner.type.tag == "state" or not (owner.type.is_text or owner.type.tag == "category"):
            self.refuse(f"calls `.{name}` of {an(owner.type)}")
        owner = self.text(owner, f"calls `.{name}` on")
        if name in _OTHERS:
            made: Expr = getattr(self, f"_text_{name}")(owner, node)
            return made
        if name not in _METHODS:
            self.refuse(f"calls `.{name}` of a str, which is not on the list of compiled methods")
        if node.keywords:
            self.refuse(f"calls `.{name}` with keywords")
        method = _METHODS[name]
        codes = [owner.code, *self._arguments(name, method.arguments, node.args)]
        call = self.make if method.makes else self.run
        return call(method.function, method.result, *codes)

    def _arguments(self, name: str, wanted: Sequence[str], given: Sequence[ast.expr]) -> list[str]:
        needed = sum(one in ("t", "") for one in wanted)
        if not needed <= len(given) <= len(wanted):
            self.refuse(f"calls `.{name}` with {len(given)} arguments")
        codes = []
        for i, one in enumerate(wanted):
            if one == "t":
                codes.append(self.text(self.expression(given[i])).code)
            else:
                codes.append(self._int_or(given[i] if i < len(given) else None, one))
            if not codes[-1]:
                self.refuse(f"calls `.{name}` with None")
        return codes

    def _text_startswith(self, owner: Expr, node: ast.Call) -> Expr:
        return self._starts(owner, node, "starts")

    def _text_endswith(self, owner: Expr, node: ast.Call) -> Expr:
        return self._starts(owner, node, "ends")

    def _starts(self, owner: Expr, node: ast.Call, function: str) -> Expr:
        if not 1 <= len(node.args) <= 3 or node.keywords:
            self.refuse("calls startswith or endswith with a wrong number of arguments")
        bounds: list[str] = []
        if len(node.args) > 1:
            function += "_in"
            stop = node.args[2] if len(node.args) > 2 else None
            bounds = [self._int_or(node.args[1], "0"), self._int_or(stop, _TO_THE_END)]
        wanted = self._alternatives(node.args[0])
        codes = [self.run(function, BOOL, owner.code, one.code, *bounds).code for one in wanted]
        return Expr(f"({' or '.join(codes)})" if codes else "False", BOOL)

    def _alternatives(self, node: ast.expr) -> list[Expr]:
        """The texts of a tuple, or the one text."""
        if isinstance(node, ast.Tuple):
            return [self.text(self.expression(one)) for one in node.elts]
        value = self.expression(node)
        if value.type.tag != "tuple":
            return [self.text(value)]
        if not value.is_const:
            self.refuse("passes a tuple that is not a literal")
        return [self.text(self.literal(one)) for one in value.const]

    def _text_strip(self, owner: Expr, node: ast.Call) -> Expr:
        return self._stripped(owner, node, "text_strip")

    def _text_lstrip(self, owner: Expr, node: ast.Call) -> Expr:
        return self._stripped(owner, node, "text_lstrip")

    def _text_rstrip(self, owner: Expr, node: ast.Call) -> Expr:
        return self._stripped(owner, node, "text_rstrip")

    def _stripped(self, owner: Expr, node: ast.Call, function: str) -> Expr:
        if len(node.args) > 1 or node.keywords:
            self.refuse("calls strip with more than the characters")
        chars = self.expression(node.args[0]) if node.args else Expr("None", NONE, None)
        if chars.type == NONE:
            return self.run(function, TEXT, owner.code)
        return self.run(f"{function}_of", TEXT, owner.code, self.text(chars).code)

    def _split_arguments(self, node: ast.Call) -> tuple[ast.expr | None, str]:
        """The separator, None for white space, and code of the most splits."""
        given = dict(zip(("sep", "maxsplit"), node.args, strict=False))
        given |= {word.arg: word.value for word in node.keywords if word.arg is not None}
        if not set(given) <= {"sep", "maxsplit"} or len(node.args) > 2:
            self.refuse("calls split with wrong arguments")
        separator = given.get("sep")
        if isinstance(separator, ast.Constant) and separator.value is None:
            separator = None
        most = self._int(self.expression(given["maxsplit"])) if "maxsplit" in given else "-1"
        return separator, most

    def _text_split(self, owner: Expr, node: ast.Call) -> Expr:
        separator, most = self._split_arguments(node)
        if separator is None:
            return self.make("text_words", TEXTS, owner.code, most)
        found = self.text(self.expression(separator))
        return self.make("text_split", TEXTS, owner.code, found.code, most)

    def _text_rsplit(self, owner: Expr, node: ast.Call) -> Expr:
        separator, most = self._split_arguments(node)
        if separator is None:
            if most != "-1":
                self.refuse("calls rsplit without a separator")
            return self.make("text_words", TEXTS, owner.code, most)
        found = self.text(self.expression(separator))
        return self.make("text_rsplit", TEXTS, owner.code, found.code, most)

    def _text_join(self, owner: Expr, node: ast.Call) -> Expr:
        if len(node.args) != 1 or node.keywords:
            self.refuse("calls join with a wrong number of arguments")
        parts = node.args[0]
        if isinstance(parts, (ast.Tuple, ast.List)):
            texts = [self.text(self.expression(one)) for one in parts.elts]
            between = [one for text in texts for one in (owner, text)]
            return self.joined(between[1:])
        value = self.expression(parts)
        if value.type.tag != "texts":
            self.refuse("joins something else than a tuple, a list display or what split gave")
        return self.make("text_join", TEXT, owner.code, value.code)

    def _text_ljust(self, owner: Expr, node: ast.Call) -> Expr:
        return self._justified(owner, node, "text_ljust")

    def _text_rjust(self, owner: Expr, node: ast.Call) -> Expr:
        return self._justified(owner, node, "text_rjust")

    def _justified(self, owner: Expr, node: ast.Call, function: str) -> Expr:
        if not 1 <= len(node.args) <= 2 or node.keywords:
            self.refuse("calls ljust or rjust with a wrong number of arguments")
        width = self._int(self.expression(node.args[0]))
        fill = self.text(self.expression(node.args[1])) if node.args[1:] else self.literal(" ")
        return self.make(function, TEXT, owner.code, width, fill.code)

    # -- functions -------------------------------------------------------------------------------

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
        return self.make(function, TEXT, self._int(value))

    def _length(self, value: Expr) -> Expr:
        if value.type.tag == "texts":
            return Expr(f"{value.code}[1]", INT)
        if value.is_const and isinstance(value.const, str | tuple):
            return self.literal(len(value.const))
        if value.type.tag in ("tuple", "record") and not value.type.optional:
            return self.literal(len(value.type.items))
        return self.run("text_len", INT, self.text(value, "takes the length of").code)

    def formatted(self, node: ast.JoinedStr) -> Expr:
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
