"""The static types of compiled expressions, and which of them a value may become.

Every compiled variable has one type that is known before Numba sees the function. So what is refused is
refused with the user's line and words, ``explain()`` needs no compilation, and Numba only ever sees
int64, float64, bool and tuples of these. (A Numba type of its own for Category was the alternative; the
check here forbids the same operations without leaning on Numba's internals.)
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal, TypeAlias

from thalweg.flow.field_types import FieldType, Kind
from thalweg.flow.records import Schema

Tag: TypeAlias = Literal[
    "int", "float", "bool", "category", "handle", "none", "record", "state", "tuple", "list", "text"
]

_TAGS: Final[dict[Kind, Tag]] = {
    Kind.INT: "int",
    Kind.TIMESTAMP: "int",
    Kind.TIMER: "int",
    Kind.FLOAT: "float",
    Kind.BOOL: "bool",
    Kind.CATEGORY: "category",
}
_SIZES: Final[dict[Tag, int]] = {"int": 8, "float": 8, "bool": 1, "category": 8, "handle": 8}
_LETTERS: Final[dict[Tag, str]] = {
    "int": "i",
    "float": "f",
    "bool": "b",
    "category": "i",
    "handle": "i",
}
_ZEROS: Final[dict[Tag, str]] = {
    "int": "0",
    "float": "0.0",
    "bool": "False",
    "category": "0",
    "handle": "0",
    "none": "False",
    "list": "(0, 0)",
    "text": "(0, 0)",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Type:
    """A static type.

    Compiled forms: int and category int64; handle int64 (the number of the column that the value passes
    through from); an optional number or record is a tuple (is there, value); a record a namedtuple; a state
    the address of its row.

    ``label`` is the generated class of a record, the class name of a state, the field type of a handle.
    ``items`` and ``names`` describe the fields of a record or state, ``offsets`` those of a state. Of a list ``label``
    is what it is ("list", "deque", "dict", "set"), ``items`` its item, or key and value, ``offsets`` its maxlen
    (-1: none), and ``names`` is not empty where it cannot be changed.
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
    def bare(self) -> Type:
        """The type without None."""
        return dataclasses.replace(self, optional=False) if self.optional else self

    @property
    def zero(self) -> str:
        """Code of some value of the compiled form; what stands behind a None."""
        if self.boxed:
            return f"(False, {self.bare.zero})"
        if self.tag in ("record", "tuple"):
            inner = "".join(f"{one.zero}, " for one in self.items)
            return f"{self.label}({inner})" if self.tag == "record" else f"({inner})"
        return _ZEROS[self.tag]

    @property
    def size(self) -> int:
        """Bytes of a value in a column."""
        return _SIZES[self.tag]

    @property
    def letter(self) -> str:
        """The ending of the load and store functions: i, f or b."""
        return _LETTERS[self.tag]

    def __str__(self) -> str:
        names = {"category": "Category", "none": "None"}
        text = names.get(self.tag, self.tag)
        if self.tag in ("list", "tuple") and self.items:
            text = f"{self.label or 'tuple'}[{', '.join(map(str, self.items))}]"
        elif self.tag in ("handle", "record", "state"):
            text = self.label.partition("_")[2] if self.tag == "record" else self.label
        return f"{text} | None" if self.optional else text


INT: Final = Type("int")
FLOAT: Final = Type("float")
BOOL: Final = Type("bool")
CATEGORY: Final = Type("category")
NONE: Final = Type("none")

#: The handle of a None that goes to an optional text, list or record.
NO_VALUE: Final = -(2**40)


def field_type(kind: FieldType) -> Type:
    """The static type of a record's or state's field."""
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
    if a.tag == "none" or b.tag == "none":
        other = b if a.tag == "none" else a
        if other.tag in ("state", "list", "handle"):
            return None
        return dataclasses.replace(other, optional=True)
    if a.bare == b.bare:
        return a if a.optional else b
    if {a.tag, b.tag} == {"int", "bool"} and not (a.optional or b.optional):
        return INT
    return None
