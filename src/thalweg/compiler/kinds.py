"""The static types of compiled expressions, and which of them a value may become.

Every compiled variable has one type that is known before Numba sees the function. So what is refused is
refused with the user's line and words, ``explain()`` needs no compilation, and Numba only ever sees
int64, float64, bool and tuples of these. (A Numba type of its own for Category was the alternative; the
check here forbids the same operations without leaning on Numba's internals.)
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal, TypeAlias

from thalweg.compiler.runtime.handles import NO_VALUE as NO_VALUE
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema

Tag: TypeAlias = Literal[
    "int",
    "float",
    "bool",
    "category",
    "word",
    "text",
    "texts",
    "handle",
    "none",
    "record",
    "state",
    "tuple",
    "list",
]

_TAGS: Final[dict[Kind, Tag]] = {
    Kind.INT: "int",
    Kind.TIMESTAMP: "int",
    Kind.TIMER: "int",
    Kind.FLOAT: "float",
    Kind.BOOL: "bool",
    Kind.CATEGORY: "category",
}
_SIZES: Final[dict[Tag, int]] = {
    "int": 8,
    "float": 8,
    "bool": 1,
    "category": 8,
    "word": 8,
    "handle": 8,
    "text": 8,
}
_LETTERS: Final[dict[Tag, str]] = {
    "int": "i",
    "float": "f",
    "bool": "b",
    "category": "i",
    "word": "i",
    "handle": "i",
}
_ZEROS: Final[dict[Tag, str]] = {
    "int": "0",
    "float": "0.0",
    "bool": "False",
    "category": "0",
    "word": "0",
    "handle": "0",
    "text": "(int64(0), int64(0))",
    "texts": "(int64(0), int64(0))",
    "none": "False",
    "list": "(0, 0)",
}
#: The field type and name of texts.
_TEXT_NAME: Final = "str"
#: The label of a text that is made of literals only, so that it may become a Category.
LITERAL: Final = "literal"


@dataclasses.dataclass(frozen=True, slots=True)
class Type:
    """A static type.

    Compiled forms: int and category int64, and so is a word, which is inside of what users see as another type;
    text a pair of int64, the address of its bytes and their number; texts, a list of them, the address of such pairs
    and their number; handle, a value that passes through, the number of its column, and that of a text with what
    reading it takes (number, where the columns' addresses stand, row); an optional number, text or record is a tuple
    (is there, value); a record a namedtuple; a state the address of its row; a list, deque, dict or set the addresses
    of its header and of the log of the call.

    ``label`` is the generated class of a record, the class name of a state, the field type of a handle, LITERAL
    for a text of literals. ``items`` and ``names`` describe the fields of a record or state, ``offsets`` those
    of a state. The one name of the handle of a key's text is the way to it (``runtime.text_keys``). Of a list
    ``label`` is what it is ("list", "deque", "dict", "set"), ``items`` its item, or key and value, ``offsets`` its
    maxlen (-1: none); ``names`` has "frozen" where it cannot be changed, and "texts" where it is by text: then its keys
    are the codes of texts, which stand behind them.
    """

    tag: Tag
    optional: bool = False
    label: str = ""
    items: tuple[Type, ...] = ()
    names: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()

    @property
    def numeric(self) -> bool:
        return self.tag in ("int", "float", "bool")

    @property
    def boxed(self) -> bool:
        """Whether the compiled form is the tuple (is there, value)."""
        return self.optional and self.tag != "handle"

    @property
    def form(self) -> str:
        """What users see of a record: "tuple", "object" or "dict"."""
        return _FORMS.get(self.label[:1], "tuple")

    @property
    def is_frozen(self) -> bool:
        """Whether a container is a captured one, which nobody changes."""
        return self.tag == "list" and "frozen" in self.names

    @property
    def is_column_text(self) -> bool:
        """Whether it is a text of a column that was not looked at yet."""
        return self.tag == "handle" and self.label == _TEXT_NAME

    @property
    def is_text(self) -> bool:
        """Whether it is a text, looked at or not, perhaps None."""
        return self.tag == "text" or self.is_column_text

    @property
    def bare(self) -> Type:
        """The type without None."""
        return dataclasses.replace(self, optional=False) if self.optional else self

    @property
    def zero(self) -> str:
        """Code of some value of the compiled form: the one that a None carries."""
        if self.boxed:
            return f"(False, {self.bare.zero})"
        if self.tag in ("record", "tuple"):
            inner = "".join(f"{one.zero}, " for one in self.items)
            return f"{self.label}({inner})" if self.tag == "record" else f"({inner})"
        return NO_COLUMN_TEXT if self.is_column_text else _ZEROS[self.tag]

    @property
    def size(self) -> int:
        """Bytes of a value in a column."""
        return _SIZES[self.tag]

    @property
    def letter(self) -> str:
        """The ending of the load and store functions: i, f or b."""
        return _LETTERS[self.tag]

    def __str__(self) -> str:
        names = {
            "category": "Category",
            "none": "None",
            "text": _TEXT_NAME,
            "texts": "list of str",
        }
        text = names.get(self.tag, self.tag)
        if self.tag in ("list", "tuple") and self.items:
            text = f"{self.label or 'tuple'}[{', '.join(map(str, self.items))}]"
        elif self.tag in ("handle", "record", "state", "word"):
            text = self.label.partition("_")[2] if self.tag == "record" else self.label
        return f"{text} | None" if self.optional else text


#: The first letter of a record's label, by what users see of it.
LETTERS: Final = {"tuple": "R", "object": "O", "dict": "D"}
_FORMS: Final = {letter: form for form, letter in LETTERS.items()}

INT: Final = Type("int")
FLOAT: Final = Type("float")
BOOL: Final = Type("bool")
CATEGORY: Final = Type("category")
NONE: Final = Type("none")
TEXT: Final = Type("text")
TEXTS: Final = Type("texts")
#: Code of the handle of a text that is None.
NO_COLUMN_TEXT: Final = f"({NO_VALUE}, 0, 0)"


def field_type(kind: FieldType) -> Type:
    """The static type of a record's or state's field."""
    if kind.shape is not None and kind.fixed_width:
        return Type("word", kind.optional, str(kind.shape))
    if kind.kind in _TAGS:
        return Type(_TAGS[kind.kind], kind.optional)
    return Type("handle", kind.optional, str(dataclasses.replace(kind, optional=False)))


def record_type(label: str, schema: Schema) -> Type:
    """The static type of a record whose fields have exactly the declared types."""
    return Type(
        "record",
        label=label,
        items=tuple(field_type(f.type) for f in schema.fields),
        names=schema.names,
    )


def join(a: Type, b: Type) -> Type | None:
    """The one type that holds both; None when there is none.

    An int and a float have none: Python would keep the int, and ``//``, ``-`` and large values show it.
    """
    if a == b:
        return a
    if a.is_text or b.is_text:
        return _joined_text(a, b)
    if a.tag == "none" or b.tag == "none":
        other = b if a.tag == "none" else a
        if other.tag in ("state", "list", "texts"):
            return None
        return dataclasses.replace(other, optional=True)
    if a.tag == b.tag and a.tag in ("record", "tuple") and a.names == b.names:
        return _joined_items(a, b)
    if a.bare == b.bare:
        return a if a.optional else b
    if {a.tag, b.tag} == {"int", "bool"} and not (a.optional or b.optional):
        return INT
    return None


def _joined_text(a: Type, b: Type) -> Type | None:
    """What holds a text and another value: one that is not looked at stays so as long as it can."""
    optional = a.optional or b.optional or "none" in (a.tag, b.tag)
    kinds = [one for one in (a, b) if one.tag != "none"]
    if all(one.is_text for one in kinds):
        same = {(one.tag, one.label, one.names) for one in kinds}
        kind = kinds[0] if len(same) == 1 else TEXT
    elif {(one.tag, one.label) for one in kinds} == {("category", ""), ("text", LITERAL)}:
        kind = CATEGORY
    else:
        return None
    return dataclasses.replace(kind, optional=optional)


def _joined_items(a: Type, b: Type) -> Type | None:
    """The tuple or record that holds both: their items may differ as texts do, and in nothing else."""
    if a.label != b.label or len(a.items) != len(b.items):
        return None
    items = []
    for one, other in zip(a.items, b.items, strict=True):
        joined = join(one, other) if one.is_text and other.is_text else one
        if joined is None or (one != other and not one.is_text):
            return None
        items.append(joined)
    return dataclasses.replace(a, items=tuple(items), optional=a.optional or b.optional)
