"""A chain of map, filter and flat_map as one compiled loop over a chunk.

Every step calls the next one for each row it puts out, so the chain is one expression to LLVM and no
intermediate column exists. An output that does not fit the buffers is counted but not written; the kernel
then returns FULL and does that row again in larger ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import RejectedRow, StatelessResult
from thalweg.compiler.code import modules
from thalweg.compiler.code.columns import (
    Buffers,
    address,
    addresses,
    gather,
    put_word,
    row_code,
    store_codes,
    with_texts,
    word,
)
from thalweg.compiler.code.reasons import NotCompilable
from thalweg.compiler.code.source import FunctionSource, describe
from thalweg.compiler.code.unit import ModuleParts
from thalweg.compiler.code.written import written_once
from thalweg.compiler.functions import Emit, write_function
from thalweg.compiler.kinds import Type
from thalweg.compiler.made_fields import made_fields, with_made
from thalweg.compiler.replay import consume, operator_error
from thalweg.compiler.runtime.arena import ARENA_WORDS, free_arena
from thalweg.compiler.runtime.support import DONE, FULL
from thalweg.compiler.text.use import TextUse, text_use_lines
from thalweg.flow.failures import reason_of, shorten
from thalweg.flow.records import Schema

#: Offsets in the control array: the row being processed, the row to stop at, outputs so far, room
#: needed when FULL; then a count per step, then these counts as they were before the row, then the arena of made texts.
ROW: Final = 0
STOP: Final = 1
OUT: Final = 2
NEEDED: Final = 3
COUNTS: Final = 4
#: Offsets in the chunk array: the columns' addresses start here.
_COLUMNS: Final = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One operator of a chain.

    ``function`` is the frozen one, for error texts; ``source`` what the driver captured (None: captured now).
    ``out`` is the schema of its outputs, for a filter that of its inputs.
    """

    kind: Literal["map", "filter", "flat_map"]
    name: str
    function: Callable[..., Any]
    out: Schema
    source: FunctionSource | None = None

    def described(self) -> FunctionSource:
        return self.source or describe(self.function)


def check_stateless(steps: Sequence[Step], source: Schema) -> tuple[bool, str]:
    """Whether the chain can be compiled, and if not why; compiles nothing."""
    return modules.verdict(lambda: _write(steps, source))


def stateless_kernel(
    steps: Sequence[Step],
    source: Schema,
    *,
    reject: bool,
    python: Callable[[Chunk], StatelessResult] | None = None,
) -> CompiledChain:
    """The chain as one compiled operator.

    Args:
        reject: a row on which a function raises goes to ``rejected``; else OperatorError.
        python: the same, interpreted: it runs long stretches of rows that are left to Python. Without it they run one
            by one.

    Raises:
        NotCompilable: with the reason that ``explain()`` shows.
    """
    names = ", ".join(step.name for step in steps)
    module = modules.load(names, modules.written(lambda: _write(steps, source)))
    texts = TextUse.of(module)
    return CompiledChain(
        tuple(steps), source, module.kernel, reject=reject, texts=texts, python=python
    )


#: So many rows at least are a stretch, which is worth what an interpreted operator costs by itself.
_STRETCH: Final = 32
#: Code that hands a row, given as code, to what follows in the chain.
_Following: TypeAlias = Callable[[str], str]


def _write(steps: Sequence[Step], source: Schema) -> str:
    rest = ("chain", [(step.kind, step.out) for step in steps], source)
    return written_once([step.source for step in steps], rest, lambda: _written(steps, source))


def _written(steps: Sequence[Step], source: Schema) -> str:
    unit = ModuleParts(columns=len(source.fields))
    records = [unit.record(source)]
    made: frozenset[int] = frozenset()
    for step in steps:
        if step.kind == "filter":
            records.append(records[-1])
            continue
        target = unit.record(step.out)
        described = step.described()
        lists = step.kind == "flat_map" and not described.yields
        made = made_fields(unit, [(described, records[-1:])], target, lists=lists)
        if step is not steps[-1] and any(not target.items[i].is_column_text for i in made):
            raise NotCompilable(
                f"{described.name} makes lists, which others of one pass do not read"
            )
        records.append(with_made(target, made))
    following = _write_store(unit, records[-1])
    for i in range(len(steps) - 1, -1, -1):
        following = _write_step(unit, i, steps[i], records[i], records[i + 1], following)
    unit.check_widened()
    unit.parts.append(_kernel(unit, records[0], following, len(steps), is_making=bool(made)))
    unit.parts += text_use_lines(unit, made)
    return unit.text()


def _write_store(unit: ModuleParts, record: Type) -> _Following:
    """The end of the chain: writes the row to the buffers."""
    name = unit.name("store")
    lines = [f"@inner\ndef {name}(_x, _n, _r):", "    _o = _x[0]", "    if _n < get_i(_o):"]
    lines.append(f"        put_i({word('_o', 1)} + 8 * _n, _x[1])")
    values = [f"_r[{i}]" for i in range(len(record.items))]
    lines += [f"        {line}" for line in store_codes(record, 2, values)]
    unit.parts.append("\n".join([*lines, "    return _n + 1"]) + "\n")
    return lambda row: f"{name}(_x, _n, {row})"


def _write_step(
    unit: ModuleParts, place: int, step: Step, given: Type, out: Type, following: _Following
) -> _Following:
    """One step: what it is called by gives the new number of outputs."""
    counter = word("_x[2]", COUNTS + place)
    count = f"    {put_word('_x[2]', COUNTS + place, f'{counter} + 1')}"
    if step.kind == "filter":
        name = unit.name("filter")
        test, _ = write_function(unit, step.described(), [given], None, "truth")
        given_arena = ", _x[-1]" if test in unit.with_arena else ""
        lines = [f"    if not {test}(_r{given_arena}):", "        return _n", count]
        body = "\n".join([*lines, f"    return {following('_r')}"])
        unit.parts.append(f"@inner\ndef {name}(_x, _n, _r):\n{body}\n")
        return lambda row: f"{name}(_x, _n, {row})"
    emit = unit.name("emit")
    fields = [f"_{i}" for i in range(len(out.items))]
    inner = following(f"{out.label}({', '.join(fields)})")
    head = f"@inner\ndef {emit}(_x, _n, {', '.join(fields)}):"
    unit.parts.append(f"{head}\n{count}\n    return {inner}\n")
    source = step.described()
    goal = Emit(emit, out, lists=step.kind == "flat_map" and not source.yields)
    if step.kind == "map" and source.yields:
        raise NotCompilable(f"{source.name} yields, but map takes one record or None; use flat_map")
    function, _ = write_function(unit, source, [given], goal, "emit")
    return lambda row: f"{function}({row}, _x, _n)"


def _kernel(
    unit: ModuleParts, record: Type, first: _Following, steps: int, *, is_making: bool
) -> str:
    def copied(start: int, end: int) -> list[str]:
        return [put_word("ctl", end + i, word("ctl", start + i)) for i in range(steps)]

    place = f"ctl + {8 * (COUNTS + 2 * steps)}"
    arena, mark, rewind = "", [], []
    if unit.uses_arena:
        unit.imports.add("rewind")
        arena, mark = f", {place}", [f"mark = get_i({place})"]
        # No output has a text that the row made.
        rewind = [f"{'if m == n: ' if is_making else ''}rewind({place}, mark)"]
    if unit.uses_scratch:
        unit.imports.add("clear_scratch")
        rewind.append(f"clear_scratch({place})")
    lines = [
        "@kernel",
        "def kernel(chunk, out, ctl):",
        f"    i, n = {word('ctl', ROW)}, {word('ctl', OUT)}",
        f"    while i < {word('ctl', STOP)}:",
        f"        {put_word('ctl', ROW, 'i')}",
        f"        {put_word('ctl', OUT, 'n')}",
        *(f"        {line}" for line in copied(COUNTS, COUNTS + steps)),
        *(f"        {line}" for line in mark),
        f"        _x, _n = (out, i, ctl{arena}), n",
        f"        m = {first(row_code(record, _COLUMNS, 'i'))}",
        "        if m > get_i(out):",
        f"            {put_word('ctl', NEEDED, 'm')}",
        *(f"            {line}" for line in copied(COUNTS + steps, COUNTS)),
        "            return FULL",
        *(f"        {line}" for line in rewind),
        "        n = m",
        "        i += 1",
        f"    {put_word('ctl', ROW, 'i')}",
        f"    {put_word('ctl', OUT, 'n')}",
        "    return DONE",
    ]
    return "\n".join(lines) + "\n"


class CompiledChain:
    """A compiled chain; callable as a :class:`~thalweg.columns.contracts.StatelessOperator`.

    Holds no state: any number of threads may call it.
    """

    def __init__(
        self,
        steps: tuple[Step, ...],
        source: Schema,
        kernel: Callable[..., int],
        *,
        reject: bool,
        texts: TextUse,
        python: Callable[[Chunk], StatelessResult] | None = None,
    ) -> None:
        self.steps = steps
        self._python = python
        self.source = source
        self.out = steps[-1].out
        #: ``kernel(chunk, out, ctl) -> code``, without the GIL; addresses of int64 arrays as above
        self.kernel = kernel
        self.reject = reject
        self.texts = texts
        self._none = [Column.from_python(field.type, []) for field in self.out.fields]

    def __call__(self, chunk: Chunk) -> StatelessResult:
        ctl = np.zeros(COUNTS + 2 * len(self.steps) + ARENA_WORDS, np.int64)
        try:
            return self._run(chunk, ctl)
        finally:
            if self.texts.arena:
                free_arena(address(ctl[-ARENA_WORDS:]))

    def _run(self, chunk: Chunk, ctl: Int64s) -> StatelessResult:
        keep: list[Any] = []
        columns_in = addresses(chunk.columns, keep)
        if self.texts.reads:
            columns_in = with_texts(chunk.columns, columns_in, keep)
        table = np.array([len(chunk), *columns_in], np.int64)
        ctl[STOP] = len(chunk)
        buffers = Buffers(self.out, 1, len(chunk), self.texts.made)
        rejected: list[RejectedRow] = []
        inserts: list[_Insert] = []
        interpreted = 1
        while True:
            try:
                code = self.kernel(address(table), address(buffers.table), address(ctl))
            except Exception:
                # Where many rows raise, each time twice as many are interpreted: a raise costs more than a row.
                inserts.append(self._interpret(chunk, ctl, interpreted, rejected))
                interpreted *= 2
                continue
            if code == DONE:
                break
            assert code == FULL
            buffers.grow(int(ctl[NEEDED]), int(ctl[OUT]))
        source = buffers.extra(0, int(ctl[OUT]))
        columns = self._columns(buffers, source, chunk)
        counts = ctl[COUNTS : COUNTS + len(self.steps)].tolist()
        if any(len(one.source) for one in inserts):
            columns, source = _inserted(self.out, columns, source, inserts)
        return StatelessResult(columns, source, counts, rejected)

    def _columns(self, buffers: Buffers, source: Int64s, chunk: Chunk) -> list[Column]:
        if not len(source):
            return list(self._none)
        columns = []
        parts = zip(self.out.fields, buffers.fields(len(source)), strict=True)
        for i, (field, (values, valid)) in enumerate(parts):
            if field.type.fixed_width:
                columns.append(Column(field.type, values, valid))
            elif i in self.texts.made:
                texts = buffers.made(i, len(source), field.type)
                columns.append(Column(field.type, texts))
            else:
                texts = gather(values, source, chunk.columns, field.type.arrow)
                columns.append(Column(field.type, texts))
        return columns

    def _interpret(
        self, chunk: Chunk, ctl: Int64s, most: int, rejected: list[RejectedRow]
    ) -> _Insert:
        """Runs the row that raised, and up to ``most`` rows from it on, in plain Python, whose word counts.

        Either the function raises there, too, or an int left 64 bits on the way to its result, which is Python's.
        Steps over the rows in ``ctl``; raises where errors are not to be rejected.
        """
        first, used, steps = int(ctl[ROW]), int(ctl[OUT]), len(self.steps)
        last = min(first + most, len(chunk))
        ctl[COUNTS : COUNTS + steps] = ctl[COUNTS + steps : COUNTS + 2 * steps]
        ctl[ROW] = last
        if self._python is not None and last - first >= _STRETCH:
            made = self._python(chunk.slice(first, last))
            ctl[COUNTS : COUNTS + steps] += np.array(made.counts, np.int64)
            rejected += [dataclasses.replace(one, row=one.row + first) for one in made.rejected]
            return _Insert(used, made.source + first, made.columns)
        out: list[Any] = []
        source: list[int] = []
        for place, row in enumerate(chunk.slice(first, last).rows(), first):
            rows = [row]
            for number, step in enumerate(self.steps):
                rows = self._step(step, place, rows, rejected)
                ctl[COUNTS + number] += len(rows)
            out += rows
            source += [place] * len(rows)
        return _Insert(used, np.array(source, np.int64), Chunk.from_rows(self.out, out).columns)

    def _step(
        self, step: Step, place: int, rows: list[Any], rejected: list[RejectedRow]
    ) -> list[Any]:
        out: list[Any] = []
        for row in rows:
            try:
                result = step.function(row)
                if step.kind == "filter":
                    made = [row] if result else []
                elif step.kind == "flat_map":
                    made = [step.out.coerce(one) for one in result or () if one is not None]
                else:
                    made = consume(result, step.out)
            except Exception as error:
                self._reject(step, place, row, error, rejected)
                continue
            out += made
        return out

    def _reject(
        self, step: Step, place: int, row: Any, error: BaseException, rejected: list[RejectedRow]
    ) -> None:
        if not self.reject:
            raise operator_error(step.name, step.described(), row, error) from error
        rejected.append(RejectedRow(place, step.name, reason_of(error), shorten(row)))


@dataclasses.dataclass(frozen=True, slots=True)
class _Insert:
    """Outputs of interpreted rows, the row of each, and before which compiled output they belong."""

    place: int
    source: Int64s
    columns: list[Column]


def _inserted(
    out: Schema, columns: list[Column], source: Int64s, inserts: Sequence[_Insert]
) -> tuple[list[Column], Int64s]:
    """The compiled outputs with the interpreted ones where they belong."""
    whole = Chunk(out, columns, len(source))
    parts: list[Chunk] = []
    sources: list[Int64s] = []
    at = 0
    for one in inserts:
        parts += [whole.slice(at, one.place), Chunk(out, one.columns, len(one.source))]
        sources += [source[at : one.place], one.source]
        at = one.place
    parts.append(whole.slice(at, len(source)))
    sources.append(source[at:])
    return Chunk.concat(parts).columns, np.concatenate(sources)
