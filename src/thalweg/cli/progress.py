"""How a running query is seen: one live line on a terminal, plain lines elsewhere, and a table at the end."""

from __future__ import annotations

import collections
import logging
import sys
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from thalweg.brief import counted
from thalweg.flow.operators.nodes import Sink
from thalweg.plan.plan import Plan
from thalweg.printing import Table, Terminal, say
from thalweg.snapshot import Snapshot

log = logging.getLogger("thalweg")
COUNTS = ("in", "out", "late", "rejected")


class Display(Protocol):
    """Where a run says what it does."""

    def say(self, text: str) -> None:
        """What is going on now."""

    def batch(self, progress: Mapping[str, Any]) -> None:
        """A batch was done."""

    def close(self) -> None:
        """No more of it."""


class LineProgress:
    """A line for everything, on stderr."""

    def say(self, text: str) -> None:
        say(text)

    def batch(self, progress: Mapping[str, Any]) -> None:
        self.say(batch_line(progress))

    def close(self) -> None:
        pass


class LiveProgress:
    """One line that changes, on a terminal."""

    def __init__(self) -> None:
        self._status = Terminal(error=True).status()

    def say(self, text: str) -> None:
        self._status.say(text)

    def batch(self, progress: Mapping[str, Any]) -> None:
        self._status.say(batch_line(progress))

    def close(self) -> None:
        self._status.close()


class _Handler(logging.Handler):
    """Passes what the library logs ("compiling …") on to the display."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.INFO)
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "is_announced", False):
            return
        if record.levelno >= logging.WARNING:
            say(f"warning: {record.getMessage()}")
        else:
            self._display.say(record.getMessage())


def open_display(*, verbose: bool = False, live: bool = True) -> Display:
    """The display that fits where stderr goes.

    Args:
        verbose: shows the log itself.
        live: whether a line may change in place; not where tables are printed meanwhile.
    """
    display: Display = (
        LiveProgress() if sys.stderr.isatty() and live and not verbose else LineProgress()
    )
    handler: logging.Handler = _Handler(display)
    if verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for old in [one for one in log.handlers if getattr(one, "thalweg_cli", False)]:
        log.removeHandler(old)
    handler.thalweg_cli = True  # type: ignore[attr-defined]
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    log.propagate = False
    return display


def batch_line(progress: Mapping[str, Any]) -> str:
    """A batch in one line, with late and rejected rows since the beginning."""
    totals = progress["totals"].values()
    late, rejected = (sum(one.get(what, 0) for one in totals) for what in ("late", "rejected"))
    keys = sum(one["keys"] for one in progress["state"].values())
    waiting = sum(progress["waiting"].values())
    return (
        f"batch {progress['batch']}: {counted(progress['rows'], 'row')}, {progress['rows_per_s']:,.0f} rows/s,"
        f" {late:,} late, {rejected:,} rejected, {counted(keys, 'key')}, {waiting:,} waiting"
    )


def embedded_line(progress: Snapshot) -> str:
    """How a run in this process goes, in one line."""
    late, rejected = (
        sum(getattr(one, what) for one in (*progress.sources, *progress.operators))
        for what in ("late", "rejected")
    )
    return (
        f"{progress.seconds:.0f} s: {counted(progress.rows_in, 'row')}, {progress.rows_per_s:,.0f} rows/s,"
        f" {late:,} late, {rejected:,} rejected"
    )


def totals_table(
    plan: Plan, counts: Mapping[str, Mapping[str, int]], unwritten: Collection[str] = ()
) -> Table:
    """Rows in, out, late and rejected by operator, in the order of the flow; out of a sink is what it wrote."""
    out = Table("rows since the beginning")
    out.column("operator")
    for what in COUNTS:
        out.column(what, right=True, wraps=False)
    names = collections.Counter(node.name for node in plan.nodes)
    for node in plan.nodes:
        mine = dict(counts.get(node.label, {}))
        if isinstance(node, Sink) and node.name not in unwritten:
            mine["out"] = mine.get("in", 0)
        shown = node.label if names[node.name] > 1 else node.name
        out.row(shown, *[f"{mine.get(what, 0):,}" for what in COUNTS])
    return out
