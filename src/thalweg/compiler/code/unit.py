"""One generated module while it is written: the record classes, functions and texts it consists of."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Final

from thalweg.checkpoint.state_tables.cells import is_cell
from thalweg.checkpoint.state_tables.table_form import default_record, record_dtype
from thalweg.columns.categories import CATEGORIES
from thalweg.compiler.code.reasons import NotCompilable
from thalweg.compiler.kinds import LETTERS, Type, field_type, record_type
from thalweg.compiler.runtime import arena, calendar, kept_items, undo
from thalweg.compiler.runtime.texts import (
    text,
    text_category,
    text_finding,
    text_keys,
    text_letters,
    text_making,
    text_parts,
    text_reading,
)
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema
from thalweg.flow.state_class import StateSpec

_TEXT_MODULES: Final = (
    arena, calendar, text, text_finding, text_parts, text_making, text_letters, text_reading, text_keys, text_category,
    undo, kept_items,
)  # fmt: skip

#: (function as text, argument types, what it is for): one generated function each.
Instance = tuple[str, tuple[Type, ...], str]


@dataclasses.dataclass(slots=True)
class ModuleParts:
    """Collects the parts of one module; the text is in :meth:`text`."""

    parts: list[str] = dataclasses.field(default_factory=list)
    records: dict[tuple[str, tuple[str, ...], str], str] = dataclasses.field(default_factory=dict)
    #: generated name and result type of the functions written so far
    functions: dict[Instance, tuple[str, Type]] = dataclasses.field(default_factory=dict)
    #: float fields of states that are assigned an int somewhere, and where
    widened: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    #: fields of states that are read where an int and the equal float differ
    sensitive: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    #: generated functions that serve others, by their text
    helpers: dict[str, str] = dataclasses.field(default_factory=dict)
    #: fields of states whose list is given a name somewhere, and those that get another list somewhere, and where
    named_lists: set[str] = dataclasses.field(default_factory=set)
    replaced_lists: dict[str, str] = dataclasses.field(default_factory=dict)
    #: what the module imports of the functions for texts
    imports: set[str] = dataclasses.field(default_factory=set)
    #: generated functions that are given the arena
    with_arena: set[str] = dataclasses.field(default_factory=set)
    #: columns of the chunk
    columns: int = 0
    #: whether a text of a column is looked at
    reads_text: bool = False
    #: by the label of a field that holds lists, the type of these where machine code can make them
    list_fields: dict[str, Type] = dataclasses.field(default_factory=dict)
    #: where the fields of outputs that a text or list is made for are noted; None: they are known
    made: set[str] | None = None
    _constants: dict[str, str] = dataclasses.field(default_factory=dict)
    #: whether rows of state own texts, which may go before outputs are built
    keeps_texts: bool = False
    #: whether lists are made in the scratch of the arena
    uses_scratch: bool = False
    _names: int = 0

    def name(self, base: str) -> str:
        """A name not used yet that reminds of ``base``."""
        self._names += 1
        return f"f{self._names}_{identifier(base)}"

    def class_of(self, schema: Schema) -> str:
        """The generated namedtuple class for a record."""
        form = "tuple" if schema.user is None else schema.user.form
        return self.record_class(schema.name, schema.names, form)

    def record_class(self, name: str, fields: Sequence[str], form: str = "tuple") -> str:
        """The generated namedtuple class for a record of this name and fields, of which users see that form."""
        key = (name, tuple(fields), form)
        if not fields:
            raise NotCompilable(f"record {name} has no fields")
        if key not in self.records:
            self.records[key] = f"{LETTERS[form]}{len(self.records)}_{identifier(name)}"
            inner = ", ".join(f'"f_{one}"' for one in fields)
            label = self.records[key]
            self.parts.append(f'{label} = namedtuple("{label}", ({inner},))\n')
        return self.records[key]

    def record(self, schema: Schema) -> Type:
        """The type of a record with its declared fields."""
        for kind in (field.type for field in schema.fields):
            if (
                kind.kind is Kind.LIST
                and not kind.form
                and kind.item is not None
                and is_cell(kind.item)
            ):
                bare = dataclasses.replace(kind, optional=False)
                self.list_fields[str(bare)] = self.value_type(bare)
        return record_type(self.class_of(schema), schema)

    def helper(self, base: str, text: str) -> str:
        """The name of a generated function with this text, in which ``{name}`` stands for it; written once."""
        if text not in self.helpers:
            self.helpers[text] = self.name(base)
            self.parts.append(text.replace("{name}", self.helpers[text]))
        return self.helpers[text]

    def table(self, symbol: str) -> str:
        """The name of a function that gives the address of a captured table."""
        if symbol not in self.helpers:
            self.helpers[symbol] = self.name("table")
            self.parts.append(f'{self.helpers[symbol]} = table_place("{symbol}")\n')
        return self.helpers[symbol]

    def state(self, spec: StateSpec) -> Type:
        """The type of a state: its fields and where they stand in a row of the table."""
        try:
            default_record(spec)
        except SchemaError as error:
            raise NotCompilable(str(error)) from None
        dtype = record_dtype(spec)
        offsets = tuple(int(dtype.fields[name][1]) for name in dtype.names or ())  # type: ignore[index]
        types = tuple(self.value_type(f.type) for f in spec.schema.fields)
        self.keeps_texts = any(map(_has_text, types))
        return Type("state", label=spec.name, items=types, names=spec.schema.names, offsets=offsets)

    def value_type(self, kind: FieldType) -> Type:
        """The static type of a state's field, or of what it holds."""
        if kind.kind is Kind.STR:
            return Type("text", kind.optional)
        if kind.kind is Kind.LIST:
            assert kind.item is not None
            item = self.value_type(kind.item)
            items = item.items if kind.form == "dict" else (item,)
            names: tuple[str, ...] = ()
            if kind.form == "dict" and items[0].tag == "text" and not items[0].optional:
                # By the codes of the texts, which stand behind them.
                items, names = (Type("category"), items[1]), ("texts",)
            most = -1 if kind.maxlen is None else kind.maxlen
            return Type("list", False, kind.form or "list", items, names, (most,))
        if kind.kind is Kind.RECORD and kind.record is not None:
            items = tuple(self.value_type(field.type) for field in kind.record.fields)
            if kind.form == "tuple":
                return Type("tuple", kind.optional, items=items)
            label = self.class_of(kind.record)
            return Type("record", kind.optional, label, items, kind.record.names)
        return field_type(kind)

    def check_lists(self) -> None:
        """Refuses a list that has a name while its field gets another one: Python's name still means the old one."""
        for field, place in self.replaced_lists.items():
            if field in self.named_lists:
                raise NotCompilable(
                    f"{place}: assigns to {field}, which a variable stands for somewhere; use {field} itself"
                )

    def check_widened(self) -> None:
        """Refuses a float field that holds Python's int where that could be seen before it is coerced."""
        for field in self.sensitive:
            if field in self.widened:
                raise NotCompilable(
                    f"{self.widened[field]}: assigns an int to the float field {'.'.join(field)}, which"
                    " is read before the call ends; assign a float (0.0 instead of 0)"
                )

    def constant(self, value: str) -> str:
        """Code of a text that becomes a constant of the module."""
        if value not in self._constants:
            self._constants[value] = f"L{len(self._constants)}"
        return f"{self._constants[value]}()"

    @property
    def uses_arena(self) -> bool:
        """Whether texts are made in an arena."""
        return bool(self.with_arena)

    def text(self) -> str:
        """The module's text so far."""
        code = "\n\n".join(self.parts)
        used = [
            f"{name} = text_constant({value!a})\n"
            for value, name in self._constants.items()
            if f"{name}()" in code
        ]
        called = {one for one in self.imports if re.search(rf"\b{one}\b", code)}
        called |= {"text_constant"} if used else set()
        return "\n\n".join([*_import_lines(called), *used, code])


def _has_text(kind: Type) -> bool:
    return kind.tag == "text" or "texts" in kind.names or any(map(_has_text, kind.items))


def _import_lines(names: Iterable[str]) -> list[str]:
    """Imports of what generated code calls for texts, each from the module that has it."""
    lines = []
    for name in sorted(names):
        home = next(one for one in _TEXT_MODULES if name in vars(one))
        lines.append(f"from {home.__name__} import {name}")
    return ["\n".join(lines) + "\n"] if lines else []


def identifier(text: str) -> str:
    """Text reduced to what a Python name may hold."""
    return re.sub(r"[^0-9A-Za-z_]", "_", text)


def category_code(text: str) -> str:
    """The code of a category literal; the process then knows its text."""
    return str(CATEGORIES.code(text))
