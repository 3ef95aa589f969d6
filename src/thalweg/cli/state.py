"""``thalweg state show``: what a checkpoint holds, while its query runs or after."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import pyarrow as pa
import typer

from thalweg.brief import counted
from thalweg.checkpoint.inspect import CheckpointInfo, OperatorInfo, describe, read_state
from thalweg.cli.progress import COUNTS
from thalweg.errors import CheckpointError
from thalweg.printing import Table, Terminal, plain
from thalweg.times import NEVER, text


def show(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint folder of a query.")],
    operator: Annotated[str, typer.Option(help="Only this operator's keys.")] = "",
    key: Annotated[
        str | None,
        typer.Option(
            help="Only this key; several fields with commas. Or a JSON array of the fields, which can have null and"
            """ texts with commas: --key '["a,b", null]'."""
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many keys an operator.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Show what a checkpoint holds: operators, counts, and the state of keys."""
    info = describe(checkpoint)
    if key is not None and not operator:
        raise typer.BadParameter("--key needs --operator NAME", param_hint="--key")
    wanted = [operator] if operator else [one.name for one in info.operators if one.used]
    tables = {name: _state(checkpoint, info, name, limit, key) for name in wanted}
    if as_json:
        typer.echo(orjson.dumps(_as_json(info, tables), option=orjson.OPT_INDENT_2).decode())
        return
    console = Terminal()
    if not operator:
        _print_head(console, info)
    for name, table in tables.items():
        one = next(one for one in info.operators if one.name == name)
        by = f" by {', '.join(one.keys)}" if one.keys else ""
        if one.kind == "source" and not table.num_rows:
            typer.echo(plain(f"\nno rows wait at {name}"))
            continue
        what = "rows waiting at" if one.kind == "source" else "state of"
        typer.echo(plain(f"\n{what} {name}{by}"))
        console.print(_keys_table(table, _timers(info, name), limit))


def _state(
    checkpoint: str, info: CheckpointInfo, name: str, limit: int, key: str | None
) -> pa.Table:
    if key is None:
        return read_state(checkpoint, name, limit=limit)
    one = next((one for one in info.operators if one.name == name), None)
    parts = _key_parts(key, len(one.keys) if one else 1)
    table = read_state(checkpoint, name, limit=limit, key=parts)
    if not table.num_rows:
        raise CheckpointError(f"operator {name!r} has no state of the key {key!r}")
    return table


def _key_parts(key: str, fields: int) -> tuple[Any, ...]:
    """The fields of a key as a user writes it: a JSON array, or texts with commas between them."""
    if key.startswith("["):
        try:
            return tuple(orjson.loads(key))
        except orjson.JSONDecodeError as error:
            if fields > 1:
                raise CheckpointError(f"--key {key}: it is not a JSON array: {error}") from error
    return tuple(key.split(",")) if fields > 1 else (key,)


def _timers(info: CheckpointInfo, name: str) -> dict[str, bool]:
    """The timer columns of an operator, and whether they hold instants (the flow's time may be a number)."""
    instants = info.instants is True
    one = next(one for one in info.operators if one.name == name)
    return {
        field.partition(":")[0]: instants
        for field in one.fields
        if field.partition(": ")[2].startswith("Timer")
    }


def _print_head(console: Terminal, info: CheckpointInfo) -> None:
    state = "finished" if info.finished else f"batch {info.batch}" if info.batch >= 0 else "empty"
    lines = [
        f"flow {info.flow}, {state}, {counted(info.slots, 'slot')}, written by thalweg {info.version}"
    ]
    for domain, clock in info.clock.items():
        if abs(clock) < NEVER:
            lines.append(f"watermark {domain}: {_time(clock, info.instants)}")
    typer.echo(plain("\n".join(lines) + "\n"))
    console.print(_operators_table(info.operators))


def _time(clock: int, instants: bool | None) -> str:
    """A time of the flow: it need not be microseconds since 1970."""
    if instants is None:
        return f"{clock} ({text(clock)} where its unit is microseconds)"
    return text(clock) if instants else str(clock)


def _operators_table(operators: tuple[OperatorInfo, ...]) -> Table:
    out = Table("operators")
    out.column("operator")
    for name in ("kind", "buckets", "bytes", *COUNTS):
        out.column(name, right=name != "kind", wraps=False)
    for one in operators:
        buckets = f"{one.used}/{one.buckets}" if one.keys else ""
        size = f"{one.bytes:,}" if one.bytes else ""
        counts = [f"{one.counters.get(what, 0):,}" for what in COUNTS]
        out.row(one.name, one.kind, buckets, size, *counts)
    return out


def _keys_table(table: pa.Table, timers: Mapping[str, bool], limit: int) -> Table:
    out = Table()
    if table.num_rows == limit:
        out.note(f"the first {limit} keys; more with --limit")
    for field in table.schema:
        number = pa.types.is_integer(field.type) and field.name not in timers
        out.column(field.name, right=number)
    for row in _rows(table):
        out.row(*[_shown(value, timers.get(column)) for column, value in row.items()])
    return out


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _shown(value: Any, instant: bool | None) -> str:
    if value is None or (instant is not None and value == NEVER):
        return "–"
    if instant:
        return text(value)
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)


def _as_json(info: CheckpointInfo, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    operators = {
        one.name: {
            "kind": one.kind,
            "keys": one.keys,
            "fields": one.fields,
            "buckets": one.buckets,
            "used": one.used,
            "bytes": one.bytes,
            "counts": dict(one.counters),
        }
        for one in info.operators
    }
    return {
        "flow": info.flow,
        "version": info.version,
        "batch": info.batch,
        "slots": info.slots,
        "finished": info.finished,
        "watermark": dict(info.clock),
        "clock": dict(info.clock),  # its name in 0.1
        "operators": operators,
        "state": {name: _rows(table) for name, table in tables.items()},
    }
