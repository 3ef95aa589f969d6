"""The generated kernel of a keyed operator: timers and rows of many ranges in one compiled loop.

Before each call of a user's function the key's state is copied aside: one whose outputs did not fit, or that raised,
leaves no trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from thalweg.checkpoint.state_tables.table_form import ALIVE, DIRTY, filled_places, record_dtype
from thalweg.checkpoint.state_tables.table_rows import TABLE_WIDTH
from thalweg.columns.keys import KeySpec
from thalweg.compiler.code.columns import put_word, row_code, store_codes, word
from thalweg.compiler.code.source import FunctionSource, describe
from thalweg.compiler.code.unit import ModuleParts
from thalweg.compiler.code.written import written_once
from thalweg.compiler.containers.owned import free_lines
from thalweg.compiler.functions import Emit, write_function
from thalweg.compiler.kinds import INT, Type, field_type
from thalweg.compiler.made_fields import made_fields, with_made
from thalweg.compiler.runtime.arena import ARENA_WORDS
from thalweg.compiler.runtime.lookup import RANGE_WIDTH
from thalweg.compiler.text.use import text_use_lines
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.functions import Function
from thalweg.flow.records import Schema
from thalweg.flow.state_class import StateSpec
from thalweg.times import NEVER

#: Offsets in the control array.
RANGE: Final = 0  # the range at hand, and
LAST: Final = 1  # the one to stop at
PLACE: Final = 2  # the place in the order of rows, -1 for the range's first
OUT: Final = 3  # outputs so far
NEEDED: Final = 4  # room needed when FULL
FIRING: Final = 5  # 1 while on_timer runs, 0 while process does
ENTRY: Final = 6  # the entry that the function works on
TIME: Final = 7  # the timer's time while on_timer runs
DISARMED: Final = 8  # timers armed again while ending
ENDING: Final = 9  # 1: what on_timer arms is dropped
DUE: Final = 10  # 1: the places hold entries whose timers below CLOCK fire; 0: rows
CLOCK: Final = 11
ARENA: Final = 12  # of the texts that the run makes
CONTROL_SIZE: Final = ARENA + ARENA_WORDS

#: Offsets in the chunk array: addresses of the ranges, the order of rows, their entries, their times (0:
#: no timers), the table of tables, the default record and the copy of the state; then the columns.
RANGES: Final = 0
ORDER: Final = 1
ENTRIES: Final = 2
TIMES: Final = 3
TABLES: Final = 4
DEFAULT: Final = 5
BACKUP: Final = 6
COLUMNS: Final = 7

#: int64 columns before the fields of an output: source, time, bucket, entry, then the words of the key.
SOURCE: Final = 0
OUT_TIME: Final = 1
OUT_BUCKET: Final = 2
OUT_ENTRY: Final = 3
OUT_WORDS: Final = 4


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


def write_keyed(spec: KeyedSpec) -> str:
    """The module of a keyed operator.

    Raises:
        NotCompilable: with the reason.
    """
    sources = [spec.process_source]
    if spec.on_timer is not None:
        sources.append(spec.on_timer_source)
    rest = ("keyed", spec.on_timer is None, spec.state, spec.source, spec.key, spec.out)
    return written_once(sources, rest, lambda: _written(spec))


def _written(spec: KeyedSpec) -> str:
    unit = ModuleParts(columns=len(spec.source.fields))
    state, row = unit.state(spec.state), unit.record(spec.source)
    target = unit.record(spec.out) if spec.out else Type("record", label="_nothing")
    made = made_fields(unit, _calls(spec, state, row), target)
    target = with_made(target, made)
    emit = Emit(_write_store(unit, spec, target), target)
    process, on_timer = "", ""
    for source, arguments in _calls(spec, state, row):
        name, _ = write_function(unit, source, arguments, emit, "emit")
        process, on_timer = (process, name) if process else (name, "")
    unit.check_widened()
    unit.check_lists()
    shape = _Shape.of(unit, spec, state)
    unit.imports |= {"clear_scratch"} if shape.clears else set()
    unit.imports |= {"clone"} if shape.filled else set()
    arena = f", ctl + {8 * ARENA}" if unit.uses_arena else ""
    if spec.timer is not None:
        unit.parts.append(_fire(spec, shape, on_timer, arena))
    unit.parts.append(_rows(spec, shape, process, row, arena))
    unit.parts.append(_kernel(spec, shape))
    unit.parts += text_use_lines(unit, made)
    return unit.text()


def _calls(spec: KeyedSpec, state: Type, row: Type) -> list[tuple[FunctionSource, list[Type]]]:
    """process and on_timer with the types of their arguments; on_timer where timers can fire."""
    process = spec.process_source or describe(spec.process)
    calls = [(process, [state, row])]
    if spec.on_timer is not None and spec.state.timer is not None:
        on_timer = spec.on_timer_source or describe(spec.on_timer)
        calls.append((on_timer, [state, *_key_types(spec.key), INT]))
    return calls


def _key_types(key: KeySpec) -> list[Type]:
    items = [field_type(field.type) for field in key.fields]
    if not key.is_plain_text:
        layouts = _layouts(key)
        items = [
            dataclasses.replace(one, names=(layout,)) if one.is_column_text else one
            for one, layout in zip(items, layouts, strict=True)
        ]
    return items if len(items) < 2 else [Type("tuple", items=tuple(items))]


def _layouts(key: KeySpec) -> list[str]:
    """Of each field the way to it in the bytes of a key, see :mod:`thalweg.compiler.runtime.texts.text_keys`."""
    letters = ""
    for field in key.fields:
        known = {Kind.BOOL: "b", Kind.STR: "t", Kind.BYTES: "t", Kind.CATEGORY: "t"}
        letter = known.get(field.type.kind, "w")
        letters += letter.upper() if field.type.optional else letter
    return [letters[: i + 1] for i in range(len(letters))]


def _write_store(unit: ModuleParts, spec: KeyedSpec, target: Type) -> str:
    """Writes one output; ``_x`` is (out, source row, time, bucket, entry, address of the key's words)."""
    name = unit.name("store")
    fields = "".join(f", _{i}" for i in range(len(target.items)))
    lines = [f"@inner\ndef {name}(_x, _n{fields}):", "    _o = _x[0]", "    if _n < get_i(_o):"]
    lines += [f"        put_i({word('_o', 1 + i)} + 8 * _n, _x[{1 + i}])" for i in range(OUT_WORDS)]
    words = range(spec.words)
    lines += ["        if _x[1] < 0:"] if words else []
    lines += [
        f"            put_i({word('_o', 1 + OUT_WORDS + i)} + 8 * _n, {word('_x[5]', i)})"
        for i in words
    ]
    first = 1 + OUT_WORDS + spec.words
    values = [f"_{i}" for i in range(len(target.items))]
    lines += [f"        {line}" for line in store_codes(target, first, values)]
    unit.parts.append("\n".join([*lines, "    return _n + 1"]) + "\n")
    return name


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
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
    def of(cls, unit: ModuleParts, spec: KeyedSpec, state: Type) -> _Shape:
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


def _key_code(key: KeySpec) -> str:
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


def _indent(lines: list[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]


def log_place(size: int) -> int:
    """How far behind the copy of a state of this size the address of the log of the call stands."""
    return -(-size // 8) * 8


def _call(call: str, shape: _Shape) -> list[str]:
    """Lines that call a user's function on ``rec``, or undo and report that outputs do not fit."""
    size, begin, end, undone = shape.size, [], [], []
    if shape.log is not None:
        begin = [
            f"log = get_i({word('chunk', BACKUP)} + {log_place(size)})",
            f"put_i(rec + {shape.log}, log)",
        ]
        end, undone = ["settle(log)"], ["    undo(log)"]
    if shape.clears:
        end.append(f"clear_scratch(ctl + {8 * ARENA})")
    return [
        f"{put_word('ctl', OUT, 'n')}",
        f"copy_bytes({word('chunk', BACKUP)}, rec, {size})",
        *begin,
        call,
        "if m > get_i(out):",
        f"    {put_word('ctl', NEEDED, 'm')}",
        f"    copy_bytes(rec, {word('chunk', BACKUP)}, {size})",
        *undone,
        "    return -1",
        "n = m",
        *end,
    ]


def _fire(spec: KeyedSpec, shape: _Shape, on_timer: str, arena: str) -> str:
    """``fire(...)``: all timers of one key below ``limit``; the new number of outputs, -1 when full."""
    arguments = f"rec, {_key_code(spec.key)}t, (out, -1, t, bucket, e, word{arena}), n"
    done = _call(f"m = {on_timer}({arguments})", shape)
    # The copy must still have the timer, else a repeated call would find none.
    done.insert(2, f"put_i(rec + {shape.timer}, {NEVER})")
    body = [
        f"t = get_i(rec + {shape.timer})",
        f"{put_word('ctl', FIRING, '1')}",
        f"{put_word('ctl', ENTRY, 'e')}",
        f"{put_word('ctl', TIME, 't')}",
        *done,
        f"again = get_i(rec + {shape.timer})",
        f"alive = again != {NEVER}",
        f"if alive and {word('ctl', ENDING)} != 0:",
        f"    {put_word('ctl', DISARMED, word('ctl', DISARMED) + ' + 1')}",
        "    alive = False",
        f"if alive and get_u(rec + {shape.drop}) == 0:",
        "    again = max(again, t + 1)",
        f"    put_i(rec + {shape.timer}, again)",
        *_indent(shape.arm, 1),
        f"    put_u(flag, get_u(flag) | {DIRTY})",
        "else:",
        *_indent(shape.die, 1),
    ]
    head = [
        "@inner",
        "def fire(chunk, out, ctl, n, bucket, e, rec, flag, word, bounds, limit):",
        f"    while get_u(flag) & {ALIVE} != 0 and get_i(rec + {shape.timer}) < limit:",
    ]
    return "\n".join([*head, *_indent(body, 2), "    return n"]) + "\n"


def _rows(spec: KeyedSpec, shape: _Shape, process: str, row: Type, arena: str) -> str:
    """``row(...)``: one tuple, after the timers before it; the new number of outputs, -1 when full."""
    body = [f"t = 0 if {word('chunk', TIMES)} == 0 else get_i({word('chunk', TIMES)} + 8 * i)"]
    if shape.timer is not None:
        body += [
            f"if {word('chunk', TIMES)} != 0:",
            "    n = fire(chunk, out, ctl, n, bucket, e, rec, flag, word, bounds, t)",
            "    if n < 0:",
            "        return -1",
        ]
    arguments = f"rec, {row_code(row, COLUMNS, 'i')}, (out, i, 0, bucket, e, word{arena}), n"
    body += [
        f"if get_u(flag) & {ALIVE} == 0:",
        *_indent(shape.begin, 1),
        f"{put_word('ctl', FIRING, '0')}",
        f"{put_word('ctl', ENTRY, 'e')}",
        *_call(f"m = {process}({arguments})", shape),
        f"if get_u(rec + {shape.drop}) != 0:",
        *_indent(shape.die, 1),
        "    return n",
        f"put_u(flag, get_u(flag) | {ALIVE | DIRTY})",
    ]
    if shape.timer is not None:
        body += [
            f"again = get_i(rec + {shape.timer})",
            f"if again < t and {word('chunk', TIMES)} != 0:",
            "    again = t",
            f"    put_i(rec + {shape.timer}, again)",
            *shape.arm,
        ]
    head = ["@inner", "def row(chunk, out, ctl, n, bucket, e, rec, flag, word, bounds, i):"]
    return "\n".join([*head, *_indent([*body, "return n"], 1)]) + "\n"


def _kernel(spec: KeyedSpec, shape: _Shape) -> str:
    named = "chunk, out, ctl, n, bucket, e, rec, flag, word, bounds"
    due = f"fire({named}, {word('ctl', CLOCK)})" if shape.timer is not None else "n"
    body = [
        f"n, p = {word('ctl', OUT)}, {word('ctl', PLACE)}",
        f"for r in range({word('ctl', RANGE)}, {word('ctl', LAST)}):",
        f"    {put_word('ctl', RANGE, 'r')}",
        f"    at = {word('chunk', RANGES)} + {8 * RANGE_WIDTH} * r",
        "    bucket, end = get_i(at), get_i(at + 16)",
        f"    table = {word('chunk', TABLES)} + {8 * TABLE_WIDTH} * bucket",
        "    records, flags = get_i(table), get_i(table + 8)",
        "    words, bounds = get_i(table + 16), get_i(table + 24)",
        "    if p < 0:",
        "        p = get_i(at + 8)",
        "    while p < end:",
        f"        {put_word('ctl', PLACE, 'p')}",
        f"        e = get_i({word('chunk', ENTRIES)} + 8 * p)",
        f"        rec, flag = records + {shape.size} * e, flags + e",
        f"        word = words + {8 * spec.key.width} * e",
        f"        if {word('ctl', DUE)} != 0:",
        f"            n = {due}",
        "        else:",
        f"            n = row({named}, get_i({word('chunk', ORDER)} + 8 * p))",
        "        if n < 0:",
        "            return FULL",
        "        p += 1",
        "    p = -1",
        put_word("ctl", RANGE, word("ctl", LAST)),
        *[put_word("ctl", PLACE, "-1"), put_word("ctl", OUT, "n"), "return DONE"],
    ]
    return "\n".join(["@kernel", "def kernel(chunk, out, ctl):", *_indent(body, 1)]) + "\n"
