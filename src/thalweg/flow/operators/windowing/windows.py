"""The verbs that are made of others: windows, sessions and dedupe as generated keyed functions.

A window is a keyed operator over the key (key fields, window start) whose timer stands at the window's last
unit; a session is one whose timer is moved to ``gap`` after each tuple. The functions are generated as source
text, so they compile like a user's and the reference runner executes them too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.aggregates import bind_all
from thalweg.flow.operators.aggregates.parts import results_of, values_of, whole_row
from thalweg.flow.operators.generated import (
    MadeFunctions,
    asked_of,
    body,
    keys_of,
    make_functions,
    output,
    packs_of,
    scope_of,
    spare_name,
    state_fields,
    timer_field,
    updates,
)
from thalweg.flow.operators.nodes import Collects
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import make_state
from thalweg.times import EXTREME


def window(
    operator: str,
    item: Schema,
    key: Sequence[Field],
    start: Field,
    size: int,
    aggregates: Mapping[str, Aggregate],
    early: Early | None = None,
) -> MadeFunctions:
    """A window with aggregates: gives (key fields, start, end, results) when the window ends.

    Args:
        operator: name, for messages.
        item: the user's record; the operator's rows have the window's start as one more field, the last.
        key: the key fields without the window's start.
        start: the field that holds the window's start.
        size: length of the window.
        aggregates: result name to aggregate.
        early: when there are results before the window ends; each result then says whether it is one.
    """
    parts = bind_all(aggregates, item, operator)
    time = start.type
    marked = [Field("early", FieldType(Kind.BOOL))] if early else []
    bounds = [Field("start", time), Field("end", time), *marked]
    out = output(operator, [*key, *bounds, *results_of(parts)], "Window")
    counted = [Field("early", FieldType(Kind.INT), 0)] if early else []
    state = make_state("WindowState", [timer_field(), *counted, *state_fields(parts)])
    keys = [f"key[{i}]" for i in range(len(key))] if key else []
    first = f"key[{len(key)}]" if key else "key"
    values = [one for part in parts.values() for one in values_of(part)]
    lines = [f"state.timer = row.{start.name} + SIZE - 1", *updates(parts)]
    scope = scope_of(item, out, parts, SIZE=size)
    if early is not None:
        lines += early.lines(f"row.{start.name}", values)
        scope |= early.scope
    given = ", ".join([*keys, first, "time + 1", *(["False"] if early else []), *values])
    text = (
        "def update(state, row):\n"
        + body(lines)
        + f"def close(state, key, time):\n    return Out({given})\n"
    )
    made = make_functions(operator, text, scope)
    asked = {"size": size, "aggregates": asked_of(aggregates, parts)}
    return MadeFunctions(
        made["update"], made["close"], state, out, asked=asked, packs=packs_of(out, parts)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Early:
    """Early results of a window: with every so many-th row, or with the first row of each stretch of time.

    Attributes:
        rows: with every so many-th row.
        every: with the first row in each stretch of this length but the window's first.
        time: the field that has the row's time.
        keys: the key's fields as expressions of a row.
        scope: what these name.
    """

    rows: int
    every: int
    time: str
    keys: Sequence[str]
    scope: Mapping[str, Any]

    def lines(self, start: str, values: Sequence[str]) -> list[str]:
        """The lines that put one out behind a row."""
        given = ", ".join([*self.keys, start, f"{start} + SIZE", "True", *values])
        if self.rows:
            mark = ["state.early += 1"]
            test = f"state.early % {self.rows} == 0"
        else:
            mark = [f"stretch = (row.{self.time} - {start}) // {self.every}"]
            test = "stretch > state.early"
        keep = [] if self.rows else ["    state.early = stretch"]
        return [*mark, f"if {test}:", *keep, f"    return Out({given})", "return None"]


def sessions(
    operator: str,
    item: Schema,
    key: Sequence[Field],
    time: Field,
    gap: int | Callable[[Any], Any],
    aggregates: Mapping[str, Aggregate],
) -> MadeFunctions:
    """Sessions with aggregates: gives (key fields, start, end, results) when ``gap`` has passed without a row.

    ``end`` is the time of the last row; a row exactly ``gap`` after the last one still joins. A gap may be a function
    of the row: then a session goes on as long as the gap of one of its rows does.
    """
    parts = bind_all(aggregates, item, operator, may_be_none=True)
    bounds = [Field("start", time.type), Field("end", time.type)]
    out = output(operator, [*key, *bounds, *results_of(parts)], "Session")
    # No aggregate's state can have these names: theirs end in _, _sum, _n, _by, _seen and the like.
    own = [
        timer_field(),
        Field("first", time.type, 0),
        Field("last", time.type, 0),
        Field("open", FieldType(Kind.BOOL), False),
    ]
    state = make_state("SessionState", [*own, *state_fields(parts)])
    keys = keys_of(key)
    values = ", ".join(
        [*keys, "state.first", "state.last", *(v for p in parts.values() for v in values_of(p))]
    )
    text = (
        "def update(state, row):\n"
        + body([*(_until(time, item) if callable(gap) else [])])
        + body(
            [
                "if not state.open:",
                f"    state.first = row.{time.name}",
                *(["    state.timer = until"] if callable(gap) else []),
                "    state.open = True",
                f"state.last = row.{time.name}",
                *(_LATER if callable(gap) else [f"state.timer = row.{time.name} + GAP"]),
            ]
        )
        + body(updates(parts))
        + f"def close(state{', key' if key else ''}, time):\n    return Out({values})\n"
    )
    made = make_functions(operator, text, scope_of(item, out, parts, GAP=gap))
    asked = {
        "gap": "a function" if callable(gap) else gap,
        "aggregates": asked_of(aggregates, parts),
    }
    return MadeFunctions(
        made["update"], made["close"], state, out, asked=asked, packs=packs_of(out, parts)
    )


#: A session's timer goes forward only.
_LATER: Final = ("if until > state.timer:", "    state.timer = until")


def _until(time: Field, item: Schema) -> list[str]:
    """Lines that say until when the row's own gap lasts."""
    return [
        f"gap = GAP({whole_row(item)})",
        "if gap < 0:",
        '    raise ValueError("the gap of a session is negative")',
        f"until = row.{time.name} + gap",
    ]


def whole(
    operator: str,
    item: Schema,
    key: Sequence[Field],
    end: int,
    aggregates: Mapping[str, Aggregate],
) -> MadeFunctions:
    """Aggregates over all rows of a key: gives (key fields, results) at the end of the input."""
    parts = bind_all(aggregates, item, operator)
    out = output(operator, [*key, *results_of(parts)], "Total")
    state = make_state("TotalState", [timer_field(), *state_fields(parts)])
    values = ", ".join(
        [*(keys_of(key) if key else []), *(v for p in parts.values() for v in values_of(p))]
    )
    text = (
        "def update(state, row):\n"
        + body(["state.timer = END"])
        + body(updates(parts))
        + f"def close(state{', key' if key else ''}, time):\n    return Out({values})\n"
    )
    made = make_functions(operator, text, scope_of(item, out, parts, END=end))
    asked = {"aggregates": asked_of(aggregates, parts)}
    return MadeFunctions(
        made["update"], made["close"], state, out, asked=asked, packs=packs_of(out, parts)
    )


def collect(
    operator: str,
    row: Schema,
    item: Schema,
    key_fields: int,
    time: Field,
    size: int,
    call: Callable[..., Any],
    out: Schema,
    *,
    session: bool,
    many: bool,
) -> MadeFunctions:
    """A user's function over the rows of a window or session: ``call(key, start, end, rows)``.

    ``item`` is the record of the rows as the function sees them: ``row`` without its last field.
    """
    held = FieldType(Kind.LIST, item=FieldType(Kind.RECORD, record=item))
    fields = [
        timer_field(),
        Field("first_", time.type, 0),
        Field("last_", time.type, 0),
        Field("rows_", held, []),
    ]
    state = make_state("WindowRows", fields)
    first = f"row.{time.name}"
    timer = f"{first} + SIZE" if session else f"{first} + SIZE - 1"
    key = {0: "()", 1: "key" if session else "key[0]"}.get(key_fields, f"key[:{key_fields}]")
    has_key = bool(key_fields) or not session
    end = "state.last_" if session else "time + 1"
    answer = f"CALL({key}, state.first_, {end}, state.rows_)"
    text = (
        "def update(state, row):\n"
        + body(
            [
                "if not state.rows_:",
                f"    state.first_ = {first}",
                f"state.last_ = {first}",
                f"state.timer = {timer}",
                "state.rows_.append(ITEM(row[:-1]))",
            ]
        )
        + f"def close(state{', key' if has_key else ''}, time):\n"
        + (f"    yield from {answer}\n" if many else f"    return {answer}\n")
    )
    made = make_functions(operator, text, {"SIZE": size, "CALL": call, "ITEM": item.make})
    span = size if session else size - 1
    direct = Collects(item, span) if span <= EXTREME else None
    asked = {"gap" if session else "size": size}
    return MadeFunctions(made["update"], made["close"], state, out, direct, asked)


def dedupe(
    operator: str, row: Schema, record: Schema, time: str | None, payload: str, within: int
) -> MadeFunctions:
    """Keeps a row when no kept row of its key lies ``within`` before it; marks rows that differ as conflicts.

    ``record`` is the user's record; ``row`` has it, the event time (``time``, None without) and the payload's
    digest. The output is the record with a last field ``conflict``; rows that are plain duplicates give none.
    """
    flag = spare_name("conflict", record.names)
    out = Schema.make_record("Deduped", [*record.fields, Field(flag, FieldType(Kind.BOOL))])
    fields = [
        Field("seen_", FieldType(Kind.BOOL), False),
        # By another name than when the key was part of the digest: such state is refused, not misread.
        Field("content_", FieldType(Kind.INT), 0),
    ]
    if time is not None:
        fields.insert(0, timer_field())
    state = make_state("DedupeState", fields)
    values = ", ".join(f"row.{name}" for name in record.names)
    lines = [
        "if state.seen_:",
        f"    if row.{payload} != state.content_:",
        f"        return Out({values}, True)",
        "    return None",
        "state.seen_ = True",
        f"state.content_ = row.{payload}",
        *([f"state.timer = row.{time} + WITHIN"] if time is not None else []),
        f"return Out({values}, False)",
    ]
    text = (
        "def keep(state, row):\n" + body(lines) + "def forget(state, key, time):\n    return None\n"
    )
    made = make_functions(operator, text, {"WITHIN": within, "Out": out.cls})
    forget = made["forget"] if time is not None else None
    asked = {"within": None if time is None else within}
    return MadeFunctions(made["keep"], forget, state, out, asked=asked)


def split_conflicts(operator: str, deduped: Schema, record: Schema) -> tuple[Any, Any, Any]:
    """Functions over the output of :func:`dedupe`: is kept, is a conflict, and back to the user's record."""
    flag = deduped.names[-1]
    values = ", ".join(f"row.{name}" for name in record.names)
    text = (
        f"def kept(row):\n    return not row.{flag}\n"
        f"def conflicting(row):\n    return row.{flag}\n"
        f"def record(row):\n    return Out({values})\n"
    )
    made = make_functions(operator, text, {"Out": record.cls})
    return made["kept"], made["conflicting"], made["record"]
