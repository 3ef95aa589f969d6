"""The verbs that are made of others: windows, sessions and dedupe as generated keyed functions.

A window is a keyed operator over the key (key fields, window start) whose timer stands at the window's last
unit; a session is one whose timer is moved to ``gap`` after each tuple. The functions are generated as source
text, so they compile like a user's and the reference runner executes them too.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xxhash import xxh64_intdigest

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.agg import Aggregate, Part, bind
from thalweg.flow.operators.nodes import Collects
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import StateSpec, make_state
from thalweg.times import EXTREME, NEVER

_NOTHING: Final[Mapping[str, Any]] = {}


class MadeFunctions(NamedTuple):
    """The functions, state and output record of a generated keyed operator."""

    process: Callable[..., Any]
    on_timer: Callable[..., Any] | None
    state: StateSpec
    out: Schema
    collects: Collects | None = None
    #: what was asked for that the state depends on, as JSON values
    asked: Mapping[str, Any] = _NOTHING


def make_functions(name: str, text: str, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Compiles source text whose lines tracebacks and the compiler can find again."""
    file = f"<thalweg {name} {xxh64_intdigest(text.encode()):016x}>"
    namespace: dict[str, Any] = {"__name__": "thalweg_generated", **scope}
    exec(compile(text, file, "exec"), namespace)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return namespace


def spare_name(wanted: str, taken: Sequence[str]) -> str:
    """``wanted``, with underscores behind it until no field has that name."""
    while wanted in taken:
        wanted += "_"
    return wanted


def _output(operator: str, fields: Sequence[Field], name: str) -> Schema:
    names = [field.name for field in fields]
    for one in names:
        if names.count(one) > 1:
            raise BuildError(
                f"operator {operator!r}: two output fields are called {one!r}; rename one"
            )
    return Schema.make_record(name, fields)


def _body(lines: Sequence[str], indent: str = "    ") -> str:
    return "".join(f"{indent}{line}\n" for line in lines)


def _bind_all(aggregates: Mapping[str, Aggregate], row: Schema, operator: str) -> dict[str, Part]:
    if not aggregates:
        raise BuildError(
            f"operator {operator!r}: say what to compute, for example n=tw.agg.count(), or pass a function"
        )
    return {name: bind(name, one, row, operator) for name, one in aggregates.items()}


def asked_of(
    aggregates: Mapping[str, Aggregate], parts: Mapping[str, Part]
) -> dict[str, dict[str, Any]]:
    """By result, what its aggregate is, the state fields that it has, and whether it has a value of no row at all."""
    empty = ("count", "sum", "top_k")
    return {
        name: {
            "does": one.described,
            "fields": [field.name for field in parts[name].state],
            "of_nothing": one.verb in empty or parts[name].result.optional,
        }
        for name, one in aggregates.items()
    }


def _scope(item: Schema, out: Schema, **constants: int) -> dict[str, Any]:
    """What the texts of aggregates may name."""
    return {**constants, "ITEM": item.make, "Out": out.cls}


def window(
    operator: str,
    item: Schema,
    key: Sequence[Field],
    start: Field,
    size: int,
    aggregates: Mapping[str, Aggregate],
) -> MadeFunctions:
    """A window with aggregates: gives (key fields, start, end, results) when the window ends.

    Args:
        operator: name, for messages.
        item: the user's record; the operator's rows have the window's start as one more field, the last.
        key: the key fields without the window's start.
        start: the field that holds the window's start.
        size: length of the window.
        aggregates: result name to aggregate.
    """
    parts = _bind_all(aggregates, item, operator)
    time = start.type
    bounds = [Field("start", time), Field("end", time)]
    results = [Field(name, part.result) for name, part in parts.items()]
    out = _output(operator, [*key, *bounds, *results], "Window")
    state = make_state("WindowState", [_timer(), *(f for p in parts.values() for f in p.state)])
    keys = [f"key[{i}]" for i in range(len(key))] if key else []
    first = f"key[{len(key)}]" if key else "key"
    values = ", ".join([*keys, first, "time + 1", *(part.value for part in parts.values())])
    text = (
        "def update(state, row):\n"
        + _body([f"state.timer = row.{start.name} + SIZE - 1"])
        + _body([line for part in parts.values() for line in part.update])
        + f"def close(state, key, time):\n    return Out({values})\n"
    )
    made = make_functions(operator, text, _scope(item, out, SIZE=size))
    asked = {"size": size, "aggregates": asked_of(aggregates, parts)}
    return MadeFunctions(made["update"], made["close"], state, out, asked=asked)


def sessions(
    operator: str,
    item: Schema,
    key: Sequence[Field],
    time: Field,
    gap: int,
    aggregates: Mapping[str, Aggregate],
) -> MadeFunctions:
    """Sessions with aggregates: gives (key fields, start, end, results) when ``gap`` has passed without a row.

    ``end`` is the time of the last row; a row exactly ``gap`` after the last one still joins.
    """
    parts = _bind_all(aggregates, item, operator)
    bounds = [Field("start", time.type), Field("end", time.type)]
    results = [Field(name, part.result) for name, part in parts.items()]
    out = _output(operator, [*key, *bounds, *results], "Session")
    # No aggregate's state can have these names: theirs end in _, _sum, _n or _seen.
    own = [
        _timer(),
        Field("first", time.type, 0),
        Field("last", time.type, 0),
        Field("open", FieldType(Kind.BOOL), False),
    ]
    state = make_state("SessionState", [*own, *(f for p in parts.values() for f in p.state)])
    keys = ["key"] if len(key) == 1 else [f"key[{i}]" for i in range(len(key))]
    values = ", ".join([*keys, "state.first", "state.last", *(p.value for p in parts.values())])
    text = (
        "def update(state, row):\n"
        + _body(
            [
                "if not state.open:",
                f"    state.first = row.{time.name}",
                "    state.open = True",
                f"state.last = row.{time.name}",
                f"state.timer = row.{time.name} + GAP",
            ]
        )
        + _body([line for part in parts.values() for line in part.update])
        + f"def close(state{', key' if key else ''}, time):\n    return Out({values})\n"
    )
    made = make_functions(operator, text, _scope(item, out, GAP=gap))
    asked = {"gap": gap, "aggregates": asked_of(aggregates, parts)}
    return MadeFunctions(made["update"], made["close"], state, out, asked=asked)


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
        _timer(),
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
        + _body(
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
        fields.insert(0, _timer())
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
        "def keep(state, row):\n"
        + _body(lines)
        + "def forget(state, key, time):\n    return None\n"
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


def _timer() -> Field:

    return Field("timer", FieldType(Kind.TIMER), NEVER)
