"""A snapshot as lines of text: what ``thalweg top`` and ``print(running)`` show."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Final

from thalweg.brief import counted
from thalweg.snapshot.bottleneck import bottleneck
from thalweg.snapshot.schema import Snapshot, SourceProgress
from thalweg.stats import OperatorProgress

#: The columns of the operators' table, and whether they hold numbers.
COLUMNS: Final[tuple[tuple[str, bool], ...]] = (
    ("operator", False),
    ("runs in", False),
    ("in", True),
    ("out", True),
    ("late", True),
    ("rejected", True),
    ("rows/s", True),
    ("busy", True),
    ("blocked", True),
    ("queue", True),
    ("cost/row", True),
    ("state", True),
)
#: So many columns are there also where there are only zeros.
_ALWAYS: Final = 4
#: Stands in front of the operator that holds up the others.
MARK: Final = "▶ "
#: Changes and sources of which a head line says more.
_FEW: Final = 3


def head_lines(snapshot: Snapshot) -> Iterator[str]:
    """What there is to say of the whole, a line each."""
    parts = [
        f"{snapshot.flow or 'flow'} ({snapshot.host}): {snapshot.status} {duration_text(snapshot.seconds)}",
        f"{counted(snapshot.rows_in, 'row')} in",
        f"{snapshot.rows_per_s:,.0f} rows/s",
        counted(snapshot.threads, "thread"),
    ]
    if snapshot.slots > 1:
        parts.append(counted(snapshot.slots, "slot"))
    yield ", ".join(parts)
    if snapshot.error:
        yield f"failed: {snapshot.error}"
    for source in snapshot.sources:
        yield f"source {_source(source, is_waited_for=source.name in snapshot.idle)}"
    if snapshot.batches:
        yield _batch(snapshot)
    if snapshot.keys is not None and snapshot.keys.stay is not None:
        keys = snapshot.keys
        yield (
            f"keys: {keys.stay or 0.0:.0%} of tuples stayed in their slot, {counted(keys.keys_moved, 'key')} and"
            f" {size_text(keys.bytes_moved)} of state moved"
        )
    if snapshot.policy is not None:
        policy = snapshot.policy
        rounds = "" if policy.rounds is None else f", {counted(policy.rounds, 'round')}"
        yield f"policy {policy.policy}{rounds}{f': {policy.reason}' if policy.reason else ''}"
    for one in snapshot.changes[-_FEW:]:
        refused = f" refused ({one.refused})" if one.refused else ""
        yield (
            f"{one.seconds:.0f} s: {one.what} {one.operator} {one.before} → {one.after}{refused}: {one.reason}"
        ).replace("  ", " ")
    if snapshot.stuck:
        yield f"stuck in {', '.join(snapshot.stuck)}"
    if culprit := bottleneck(snapshot):
        yield (
            f"{MARK}{culprit} holds up the others"
            if len(snapshot.operators) > 1
            else f"{MARK}{culprit}"
        )


def _source(one: SourceProgress, *, is_waited_for: bool) -> str:
    parts = [f"{one.name}: {counted(one.rows_in, 'row')}"]
    if one.rows_per_s is not None:
        parts.append(f"{one.rows_per_s:,.0f} rows/s")
    if one.lag_rows is not None:
        parts.append(f"{one.lag_rows:,} behind")
    if one.watermark is not None:
        held = f" held by {one.held_by}" if one.held_by else ""
        parts.append(f"watermark {one.watermark:,}{held}")
    for number, what in (
        (one.waiting_rows, "waiting"),
        (one.late, "late"),
        (one.rejected, "rejected"),
    ):
        if number:
            parts.append(f"{number:,} {what}")
    if one.is_idle or one.idle_lanes:
        parts.append("idle" if one.is_idle else f"idle: {', '.join(one.idle_lanes)}")
    return ", ".join([*parts, *(["others wait for it"] if is_waited_for else [])])


def _batch(snapshot: Snapshot) -> str:
    one = snapshot.batches[-1]
    parts = (
        ("wait", one.wait_s),
        ("plan", one.plan_s),
        ("run", one.run_s),
        ("write", one.write_s),
        ("commit", one.commit_s),
    )
    said = ", ".join(f"{name} {value:.2f}" for name, value in parts if value)
    return f"batch {one.batch}: {counted(one.rows, 'row')} in {one.seconds:.2f} s ({said})"


def operator_cells(snapshot: Snapshot) -> Iterator[list[str]]:
    """The operators, a list of texts each, as :data:`COLUMNS` has them."""
    state = {one.operator: one for one in snapshot.state}
    culprit = bottleneck(snapshot)
    for one in snapshot.operators:
        size = state.get(one.name)
        keys = "" if size is None or size.rows is None else f"{size.rows:,}"
        if size is not None and size.bytes is not None:
            keys = f"{keys} / {size_text(size.bytes)}"
        mark = MARK if one.name == culprit else "  "
        yield [f"{mark}{one.name}", _runs(one), *_numbers(one), keys]


def _runs(one: OperatorProgress) -> str:
    where = {"machine code": "machine", None: ""}.get(one.runs, one.runs or "")
    return f"with {one.fused_with}" if one.fused_with else where


def _numbers(one: OperatorProgress) -> list[str]:
    def shown(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    cost = "" if one.cost_ns is None else cost_text(one.cost_ns)
    return [
        f"{one.rows_in:,}", f"{one.rows_out:,}", f"{one.late:,}", f"{one.rejected:,}",
        shown(one.rows_per_s, ",.0f"), shown(one.busy, ".0%"), shown(one.back_pressured, ".0%"),
        shown(one.queue_rows, ","), cost,
    ]  # fmt: skip


def plain_table(snapshot: Snapshot) -> list[str]:
    """The operators as lines of text of equal columns."""
    return aligned([[name for name, _ in COLUMNS], *operator_cells(snapshot)])


def used_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """The numbers of the columns in which more than zeros stands, and of the first ones."""
    return [
        n for n in range(len(COLUMNS)) if n < _ALWAYS or any(row[n].strip(" 0%") for row in rows)
    ]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines; columns where nothing but zeros stands are left out."""
    used = used_columns(rows[1:])
    widths = {n: max(len(row[n]) for row in rows) for n in used}
    return [
        "  ".join(
            row[n].rjust(widths[n]) if COLUMNS[n][1] else row[n].ljust(widths[n]) for n in used
        ).rstrip()
        for row in rows
    ]


def text_of(snapshot: Snapshot, most: int = 20) -> str:
    """The whole as at most so many lines."""
    lines = [*head_lines(snapshot), *plain_table(snapshot)]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"… {len(lines) - most + 1:,} more lines"]
    return "\n".join(lines)


def duration_text(seconds: float) -> str:
    """``7.2 s``, ``1:05:03``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return str(dt.timedelta(seconds=int(seconds)))


def cost_text(ns: float) -> str:
    """``85 ns``, ``1.2 µs``, ``3.4 ms``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def size_text(count: float) -> str:
    """``512 B``, ``1.5 MB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"
