"""Methods of texts: which of them compile, and with which arguments."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final, NamedTuple

from thalweg.compiler.kinds import BOOL, INT, NONE, TEXT, TEXTS, Type
from thalweg.compiler.operations import Expr, an
from thalweg.compiler.text.values import TO_THE_END
from thalweg.compiler.text.writing import TextWriting

_THREE: Final = Type("tuple", items=(TEXT, TEXT, TEXT))


class _Method(NamedTuple):
    """A method of texts: what is called, what it gives, its arguments, and whether it makes a text.

    An argument is "t" for a text; for an int it is the code that stands for one that is left out, "" where none may be.
    """

    function: str
    result: Type
    arguments: tuple[str, ...] = ()
    makes: bool = False


_RANGE: Final = ("t", "0", TO_THE_END)
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
    [
        "startswith",
        "endswith",
        "strip",
        "lstrip",
        "rstrip",
        "split",
        "rsplit",
        "join",
        "ljust",
        "rjust",
    ]
)


class TextMethods(TextWriting):
    """Typed code of calls of methods; the subclass says what is one."""

    def is_method(self, node: ast.Call) -> bool:
        """Whether a call is that of a value's method."""
        raise NotImplementedError

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
                codes.append(self.int_or(given[i] if i < len(given) else None, one))
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
            bounds = [self.int_or(node.args[1], "0"), self.int_or(stop, TO_THE_END)]
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
        most = self.as_int(self.expression(given["maxsplit"])) if "maxsplit" in given else "-1"
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
        if value.type.tag == "tuple" and all(one.is_text for one in value.type.items):
            kinds = enumerate(value.type.items)
            texts = [self.text(Expr(f"{value.code}[{i}]", kind)) for i, kind in kinds]
            return self.joined([one for text in texts for one in (owner, text)][1:])
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
        width = self.as_int(self.expression(node.args[0]))
        fill = self.text(self.expression(node.args[1])) if node.args[1:] else self.literal(" ")
        return self.make(function, TEXT, owner.code, width, fill.code)

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
