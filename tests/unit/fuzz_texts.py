"""Random expressions of texts, for the writer of ``fuzz_kit``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

#: Texts at the edges: empty, blank, with NUL, of one to four bytes a character, numbers and nearly so.
EDGES: Final = [
    "", "a", "b", "ab", "abc", "aXbXc", "A", "Hello World", "  pad ", "\t\n", " \u2003x\u00a0", "é", "zwölf",
    "日本語", "a日b本", "😀", "x\0y", "\0", "0", "12", "-7", "+007", " 42 ", "1_000", "９", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "3.5", "1e5", ".5", "5.", "-0.0", "1e-22", "1e400", "nan",
    "123456789012345678901", "0.1", "ß", "ǅ", "/a/b/", "k=v=w", "aaaa", "\u0085", "true",
]  # fmt: skip
#: What texts are split at and stripped of.
SEPARATORS: Final = ["/", "=", "X", "a", "日", " ", "ab", "", "\0", "aa"]


class TextWriter:
    """Writes expressions that are texts, or take some; mixed into ``Writer``."""

    random: random.Random
    variables: dict[str, list[str]]
    state: bool

    def pick(self, *choices: Any) -> Any:
        raise NotImplementedError

    def int_(self, depth: int) -> str:
        raise NotImplementedError

    def bool_(self, depth: int) -> str:
        raise NotImplementedError

    def name(self) -> str:
        raise NotImplementedError

    def text_(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.35:
            leaves = ["r.text", "r.word", "r.word", *self.variables["text"] * 2]
            if self.random.random() < 0.25:
                return ascii(self.random.choice(EDGES))
            return self.random.choice(leaves)
        return self.random.choice(self._texts(depth - 1))()

    def separator(self, depth: int) -> str:
        """A text to look for."""
        if self.random.random() < 0.7:
            return ascii(self.random.choice(SEPARATORS))
        return self.text_(depth)

    def small(self) -> str:
        return str(
            self.pick("0", "1", "2", "-1", "-2", "3", "-7", "9", "r.i % 5 - 2", "len(r.word)")
        )

    def bounds(self) -> str:
        """Arguments that narrow a search, perhaps none."""
        return str(self.pick("", "", f", {self.small()}", f", {self.small()}, {self.small()}"))

    def _texts(self, d: int) -> list[Callable[[], str]]:
        t, s, k = (lambda: self.text_(d)), (lambda: self.separator(d)), self.small
        return [
            *[lambda: f"({t()} + {t()})"] * 3,
            lambda: f"({t()} * ({k()} % 3))",
            lambda: f"{t()}[{k()}]",
            *[lambda: f"{t()}[{self.pick('', k())}:{self.pick('', k())}]"] * 3,
            *[lambda: f"{t()}.{self.pick('strip', 'lstrip', 'rstrip')}({self.pick('', s())})"] * 3,
            *[lambda: f"{t()}.{self.pick('lower', 'upper', 'swapcase', 'capitalize', 'casefold')}()"] * 2,
            lambda: f"{t()}.replace({s()}, {t()}{self.pick('', ', 1', ', -1')})",
            lambda: f"{t()}.{self.pick('removeprefix', 'removesuffix')}({s()})",
            *[lambda: f"{t()}.{self.pick('split', 'rsplit')}({s()}{self.pick('', ', 1', ', 0', ', 2')})[{k()}]"] * 2,
            lambda: f"{t()}.split()[{k()}]",
            lambda: f"{t()}.split(None, {self.pick(0, 1)})[{self.pick(0, -1)}]",
            lambda: f"{t()}.{self.pick('partition', 'rpartition')}({s()})[{self.pick(0, 1, 2, -1)}]",
            lambda: f"{s()}.join(({t()}, {t()}))",
            lambda: f"{s()}.join({t()}.split({s()}))",
            lambda: f"{t()}.{self.pick('ljust', 'rjust')}({k()}{self.pick('', ', ' + ascii('é'))})",
            lambda: f"{t()}.zfill({self.pick(0, 3, 6)})",
            lambda: "f'{r.word}-{r.j:d}{r.text!s:>3}'",
            lambda: f"str({self.pick(self.int_, self.bool_)(d)})",
            lambda: f"f'{{r.i{self.pick('', ':d', ':05d', ':>4', ':é<22', ':03')}}}'",
            lambda: f"f'{{r.word{self.pick('', ':5', ':^4', ':é>3')}}}'",
            lambda: "f'{r.m}{r.note}{r.ok}'",
            lambda: f"chr({self.pick('65', 'abs(r.i) % 70000', 'r.j')})",
            lambda: f"{self.pick('min', 'max')}({t()}, {t()})",
            lambda: f"({t()} if {self.bool_(d)} else {t()})",
            lambda: f"({t()} {self.pick('and', 'or')} {t()})",
            lambda: f"(r.note or {t()})",
            lambda: f"(r.note if r.note is not None else {t()})",
            lambda: "(r.note + '!')",
            lambda: f"times.text({self.pick('r.ts', 'r.i', 'r.ts + r.i % 1000000')})",
            lambda: f"helper_text({t()}, {self.int_(d)})",
            lambda: f"LETTERS[{self.pick('r.i % 32', k(), 'r.i')}]",
            lambda: f"({t()}, {t()})[{self.pick(0, 1)}]",
        ]  # fmt: skip

    def ints_of_texts(self, d: int) -> list[Callable[[], str]]:
        t, s = (lambda: self.text_(d)), (lambda: self.separator(d))
        return [
            *[lambda: f"len({t()})"] * 3,
            lambda: (
                f"{t()}.{self.pick('find', 'rfind', 'index', 'rindex', 'count')}({s()}{self.bounds()})"
            ),
            lambda: f"ord({self.pick(t(), t() + '[0]', t() + '[-1:]')})",
            lambda: f"int({self.pick(t, t, lambda: ascii(self.random.choice(EDGES[18:26])))()})",
            lambda: f"len({t()}.{self.pick('split', 'rsplit')}({self.pick('', s())}))",
        ]

    def floats_of_texts(self, d: int) -> list[Callable[[], str]]:
        edge = lambda: ascii(self.random.choice(EDGES[18:38]))  # noqa: E731
        return [lambda: f"float({self.pick(lambda: self.text_(d), edge, edge)()})"]

    def bools_of_texts(self, d: int) -> list[Callable[[], str]]:
        t, s = (lambda: self.text_(d)), (lambda: self.separator(d))
        order = lambda: self.pick("<", "<=", ">", ">=", "==", "!=")  # noqa: E731
        kinds = [
            "isdigit",
            "isdecimal",
            "isnumeric",
            "isalpha",
            "isalnum",
            "isspace",
            "isupper",
            "islower",
            "isascii",
        ]
        return [
            *[lambda: f"({t()} {order()} {t()})"] * 2,
            lambda: f"({t()} {order()} {t()} {order()} {t()})",
            *[lambda: f"({s()} {self.pick('in', 'not in')} {t()})"] * 2,
            lambda: f"({t()} in ({t()}.split({s()})))",
            lambda: f"({t()} {self.pick('in', 'not in')} {self.pick('NAMES', repr(('a', 'ab')))})",
            lambda: f"{t()}.{self.pick('startswith', 'endswith')}({s()}{self.bounds()})",
            lambda: f"{t()}.{self.pick('startswith', 'endswith')}(({s()}, {s()}))",
            lambda: f"{t()}.startswith(NAMES)",
            lambda: f"{t()}.{self.random.choice(kinds)}()",
            lambda: f"(not {t()})",
            lambda: f"(r.note {self.pick('is', 'is not', '==', '!=')} None)",
            lambda: f"(r.note {self.pick('==', '!=')} {self.pick('r.note', t())})",
            lambda: "bool(r.note)",
        ]  # fmt: skip

    def parts(self) -> Iterator[str]:
        """A text taken apart."""
        a, b, c = self.name(), self.name(), self.name()
        way = self.random.random()
        if way < 0.4:
            yield f"{a}, {b}, {c} = {self.text_(1)}.{self.pick('partition', 'rpartition')}({self.separator(0)})"
            self.variables["text"] += [a, b, c]
        elif way < 0.7:
            yield f"{a} = {self.text_(1)}.split({self.pick('', self.separator(0))})"
            yield f"{b} = {a}[{self.small()}] if len({a}) > 1 else {self.text_(0)}"
            yield f"{c} = '-'.join({a}[{self.small()}:])"
            self.variables["text"] += [b, c]
        else:
            yield f"{a}, {b} = {self.text_(1)}.split({self.separator(0)}{self.pick('', ', 1')})"
            self.variables["text"] += [a, b]

    def characters(self) -> Iterator[str]:
        """A loop over the characters of a text, or over its parts, that makes another one."""
        made, one = self.name(), self.name()
        yield f"{made} = {self.pick(ascii(''), self.text_(0))}"
        many = self.pick("", "", f".split({self.separator(0)})")
        yield f"for {one} in {self.text_(1)}{many}:"
        yield f"    if {one} == {self.random.choice(SEPARATORS)!a}:"
        yield f"        {self.pick('continue', 'break')}"
        yield f"    {made} {self.pick('+=', f'= {one} +')} {self.pick(one, made + '[-2:]', repr('-'))}"
        self.variables["text"].append(made)
