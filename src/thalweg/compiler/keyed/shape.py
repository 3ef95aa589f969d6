"""What a compiled keyed operator is made of, and where things stand in a row of its table and in its key."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from thalweg.checkpoint.state_tables.table_form import ALIVE, DIRTY, filled_places, record_dtype
from thalweg.checkpoint.state_tables.table_rows import TABLE_WIDTH
from thalweg.columns.keys import KeySpec
from thalweg.compiler.code.columns import word
from thalweg.compiler.code.source import FunctionSource, describe
from thalweg.compiler.code.unit import ModuleParts
from thalweg.compiler.containers.owned import free_lines
from thalweg.compiler.keyed.layout import DEFAULT, TABLES
from thalweg.compiler.kinds import Type, field_type
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.functions import Function
from thalweg.flow.records import Schema
from thalweg.flow.state_class import StateSpec


@dataclasses.dataclass(frozen=True, slots=True)
class KeyedSpec:
    """What a keyed operator is made of; ``process`` and ``on_timer`` are frozen functions.

    ``process_source`` and ``on_timer_source`` are what the driver captured (None: captured now); ``told`` is what
    messages name in place of ``process``.
    """

    name: str
    process: Callable[..., Any]
    on_timer: Callable[..., Any] | None
    state: StateSpec
    source: Schema
    key: KeySpec
    out: Schema | None
    process_source: FunctionSource | None = None
    on_timer_source: FunctionSource | None = None
    told: Function | None = None

    @property
    def timer(self) -> str | None:
        """The state's timer; without on_timer it is a field like any other."""
        return None if self.on_timer is None else self.state.timer

    @property
    def sources(self) -> tuple[FunctionSource, FunctionSource]:
        """The sources of process and on_timer (of process again where there is no on_timer)."""
        process = self.process_source or describe(self.process)
        on_timer = self.on_timer_source or describe(self.on_timer or self.process)
        return process, on_timer

    @property
    def words(self) -> int:
        """Key words that a timer's outputs carry; keys with text are looked up in the table."""
        return 0 if self.key.has_text else self.key.width


def key_types(key: KeySpec) -> list[Type]:
    items = [field_type(field.type) for field in key.fields]
    if not key.is_plain_text:
        ways = layouts(key)
        items = [
            dataclasses.replace(one, names=(layout,)) if one.is_column_text else one
            for one, layout in zip(items, ways, strict=True)
        ]
    return items if len(items) < 2 else [Type("tuple", items=tuple(items))]


def layouts(key: KeySpec) -> list[str]:
    """Of each field the way to it in the bytes of a key, see :mod:`thalweg.compiler.runtime.texts.text_keys`."""
    letters = ""
    for field in key.fields:
        known = {Kind.BOOL: "b", Kind.STR: "t", Kind.BYTES: "t", Kind.CATEGORY: "t"}
        letter = known.get(field.type.kind, "w")
        letters += letter.upper() if field.type.optional else letter
    return [letters[: i + 1] for i in range(len(letters))]


@dataclasses.dataclass(frozen=True, slots=True)
class RowShape:
    """Where things stand in a row of the state table."""

    size: int
    timer: int | None
    drop: int
    #: where the address of the call's log goes in rows that own memory, and what they own
    log: int | None
    owned: tuple[int, ...]
    #: lines that give back what a dead row owns
    freeing: tuple[str, ...]
    #: whether calls make lists that go by themselves
    clears: bool
    #: of the fields that do not start empty: place, words, bytes that they own
    filled: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, unit: ModuleParts, spec: KeyedSpec, state: Type) -> RowShape:
        names = spec.state.schema.names
        timer = spec.timer
        at = None if timer is None else state.offsets[names.index(timer)]
        owned = tuple(
            state.offsets[i] for i, kind in enumerate(state.items) if kind.tag in ("list", "text")
        )
        log = state.offsets[-2] if owned else None
        size = record_dtype(spec.state).itemsize
        filled = tuple(
            (state.offsets[names.index(name)], words, owns)
            for name, words, owns in filled_places(spec.state)
        )
        kinds = [kind for kind in state.items if kind.tag in ("list", "text")]
        named = zip(owned, kinds, strict=True)
        freeing = [
            line for place, kind in named for line in free_lines(unit, kind, f"rec + {place}")
        ]
        clears = unit.uses_scratch
        return cls(size, at, state.offsets[-1], log, owned, tuple(freeing), clears, filled)

    @property
    def die(self) -> list[str]:
        """Lines that drop the state of the entry at hand."""
        return [
            *self.freeing,
            f"copy_bytes(rec, {word('chunk', DEFAULT)}, {self.size})",
            f"put_u(flag, (get_u(flag) | {DIRTY}) & {255 - ALIVE})",
        ]

    @property
    def begin(self) -> list[str]:
        """Lines that give a new key its state; a call that was taken back left some there."""
        default = word("chunk", DEFAULT)
        lines = [f"free(get_i(rec + {place}))" for place in self.owned] if self.filled else []
        lines.append(f"copy_bytes(rec, {default}, {self.size})")
        for place, words, owns in self.filled:
            lines.append(f"clone(rec + {place}, {default} + {self.size + place}, {words}, {owns})")
        return lines

    @property
    def arm(self) -> list[str]:
        """Lines that tell the table of the timer at hand, in ``again``."""
        return ["if again < get_i(bounds):", "    put_i(bounds, again)"]


def key_code(key: KeySpec) -> str:
    """The key as on_timer gets it, with a comma after it, from the entry's words."""
    parts = []
    place = 0
    for i, field in enumerate(key.fields):
        kind = field_type(field.type)
        if kind.tag == "handle":
            table = f"{word('chunk', TABLES)} + {8 * TABLE_WIDTH} * bucket"
            parts.append(f"({-i - 1}, {table}, e)" if kind.is_column_text else str(-i - 1))
            continue
        raw = f"get_i(word + {8 * place})"
        made = {Kind.FLOAT: f"as_float({raw})", Kind.BOOL: f"({raw} != 0)"}
        code = made.get(field.type.kind, raw)
        if kind.optional:
            mask = f"get_i(word + {8 * (key.width - 1)})"
            code = f"((({mask} >> {place}) & 1) == 0, {code})"
        parts.append(code)
        place += 1
    if len(parts) < 2:
        return "".join(f"{one}, " for one in parts)
    return f"({', '.join(parts)}), "
