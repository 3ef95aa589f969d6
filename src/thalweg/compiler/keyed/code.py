"""The generated kernel of a keyed operator: timers and rows of many ranges in one compiled loop.

Before each call of a user's function the key's state is copied aside: one whose outputs did not fit, or that raised,
leaves no trace.
"""

from __future__ import annotations

from thalweg.checkpoint.state_tables.table_form import ALIVE, DIRTY
from thalweg.checkpoint.state_tables.table_rows import TABLE_WIDTH
from thalweg.compiler.code.columns import put_word, row_code, store_codes, word
from thalweg.compiler.code.source import FunctionSource, describe
from thalweg.compiler.code.unit import ModuleParts
from thalweg.compiler.code.written import written_once
from thalweg.compiler.functions import Emit, write_function
from thalweg.compiler.keyed.layout import (
    ARENA,
    BACKUP,
    CLOCK,
    COLUMNS,
    DISARMED,
    DUE,
    ENDING,
    ENTRIES,
    ENTRY,
    FIRING,
    LAST,
    NEEDED,
    ORDER,
    OUT,
    OUT_WORDS,
    PLACE,
    RANGE,
    RANGES,
    TABLES,
    TIME,
    TIMES,
    log_place,
)
from thalweg.compiler.keyed.shape import KeyedSpec, RowShape, key_code, key_types
from thalweg.compiler.kinds import INT, Type
from thalweg.compiler.made_fields import made_fields, with_made
from thalweg.compiler.runtime.lookup import RANGE_WIDTH
from thalweg.compiler.text.use import text_use_lines
from thalweg.times import NEVER


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
    shape = RowShape.of(unit, spec, state)
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
        calls.append((on_timer, [state, *key_types(spec.key), INT]))
    return calls


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


def _indent(lines: list[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]


def _call(call: str, shape: RowShape) -> list[str]:
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


def _fire(spec: KeyedSpec, shape: RowShape, on_timer: str, arena: str) -> str:
    """``fire(...)``: all timers of one key below ``limit``; the new number of outputs, -1 when full."""
    arguments = f"rec, {key_code(spec.key)}t, (out, -1, t, bucket, e, word{arena}), n"
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


def _rows(spec: KeyedSpec, shape: RowShape, process: str, row: Type, arena: str) -> str:
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


def _kernel(spec: KeyedSpec, shape: RowShape) -> str:
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
