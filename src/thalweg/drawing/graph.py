"""What is drawn of a flow: its operators, sources and sinks as boxes, its streams as arrows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from thalweg.snapshot import Snapshot, StreamEdge, bottleneck
from thalweg.snapshot.shown import size_text
from thalweg.stats import OperatorProgress

#: How a box is tinted: where rows come in and go out, who runs it, and who holds up the others.
Tone = Literal["source", "sink", "machine", "python", "plain", "culprit"]
#: What a sink's name begins with in a stream's reader.
_SINK: Final = "sink:"
_TONES: Final[Mapping[str | None, Tone]] = {"machine code": "machine", "Python": "python"}


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A node of the picture.

    Attributes:
        key: tells it from others; a sink may have the name of an operator.
        name: the first line.
        lines: what else stands in it.
        tone: its tint.
    """

    key: str
    name: str
    lines: tuple[str, ...]
    tone: Tone


@dataclasses.dataclass(frozen=True, slots=True)
class Arrow:
    """A stream from one box to another; ``back`` where it goes upstream."""

    giver: str
    reader: str
    text: str = ""
    back: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnGraph:
    """Boxes in topological order, and arrows between them."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def graph_of(kinds: Mapping[str, str], edges: Sequence[StreamEdge]) -> DrawnGraph:
    """The graph of a flow that does not run.

    Args:
        kinds: of sources and operators by name, in topological order; of sinks by ``sink:<name>``.
        edges: its streams.
    """
    boxes = tuple(_box(key, kind) for key, kind in kinds.items())
    return DrawnGraph(boxes, tuple(_arrow(edge, "") for edge in edges))


def _box(key: str, kind: str) -> Box:
    if key.startswith(_SINK):
        return Box(key, key.removeprefix(_SINK), ("sink",), "sink")
    return Box(key, key, (kind,), "source" if kind == "source" else "plain")


def graph_of_snapshot(snapshot: Snapshot) -> DrawnGraph:
    """The graph of a run: rows in the boxes, rates at the arrows, and the operator that holds up the others."""
    culprit = bottleneck(snapshot)
    sizes = {one.operator: one.bytes for one in snapshot.state}
    rates = {one.name: one.rows_per_s for one in snapshot.operators}
    boxes = [Box(one.name, one.name, (_rows(one.rows_in),), "source") for one in snapshot.sources]
    boxes += [
        Box(
            one.name,
            one.name,
            tuple(_operator_lines(one, sizes.get(one.name))),
            "culprit" if one.name == culprit else _TONES.get(one.runs, "plain"),
        )
        for one in snapshot.operators
    ]
    boxes += [
        Box(f"{_SINK}{one.name}", one.name, (_rows(one.rows),), "sink") for one in snapshot.sinks
    ]
    is_running = snapshot.status == "running"
    arrows = [
        _arrow(edge, _rate(rates.get(edge.reader)) if is_running else "") for edge in snapshot.edges
    ]
    return DrawnGraph(tuple(boxes), tuple(arrows))


def _operator_lines(one: OperatorProgress, size: int | None) -> list[str]:
    lines = [f"{one.kind}, {one.runs}" if one.runs else one.kind]
    lines.append(f"{one.rows_in:,} → {one.rows_out:,}")
    lines += [f"{n:,} {what}" for n, what in ((one.late, "late"), (one.rejected, "rejected")) if n]
    busy = [] if one.busy is None else [f"busy {one.busy:.0%}"]
    if size:
        busy.append(size_text(size))
    return [*lines, *([", ".join(busy)] if busy else [])]


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _rate(rate: float | None) -> str:
    return f"{rate:,.0f}/s" if rate else ""


def _arrow(edge: StreamEdge, text: str) -> Arrow:
    port = "" if edge.port == "out" else edge.port
    return Arrow(edge.giver, edge.reader, " ".join(filter(None, (port, text))), edge.feedback)
