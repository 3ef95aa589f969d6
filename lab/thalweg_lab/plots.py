"""Experiments as plots: bars of what is compared, lines of what changes over time."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from thalweg_lab.measure import is_number

Rows = Sequence[Mapping[str, Any]]

#: What is drawn of an experiment whose rows are compared.
_BARS: Final = ("rows/s", "speed-up", "mean ms", "ratio", "remote share", "locality")
#: What rows are numbered by that follow each other.
_STEPS: Final = ("period", "batch")


def draw(folder: Path, name: str, found: Mapping[str, Rows]) -> None:
    """A file for each experiment that has something to draw: ``name-0.png`` and so on, by its place."""
    for number, (experiment, rows) in enumerate(found.items()):
        figure = _figure(rows)
        if figure is not None:
            figure.suptitle(experiment)
            figure.savefig(folder / f"{name}-{number}.png", dpi=120)


def _figure(rows: Rows) -> Figure | None:
    step = next((name for name in _STEPS if name in rows[0]), None)
    if step is None:
        return _bars(rows)
    return _graphs(rows) if "graph" in rows[0] else _lines(rows, step)


def _bars(rows: Rows) -> Figure | None:
    """A panel for each measurement, a bar for each row; None where there is none of those that are drawn."""
    keys = [key for key in rows[0] if key in _BARS]
    if not keys:
        return None
    labels = [" ".join(str(v) for v in row.values() if not is_number(v)) for row in rows]
    figure = Figure(figsize=(9, 2.2 * len(keys)), layout="constrained")
    panels = figure.subplots(len(keys), 1, squeeze=False)[:, 0]
    for axes, key in zip(panels, keys, strict=True):
        axes.bar(range(len(rows)), [row[key] for row in rows])
        axes.set_xticks(range(len(rows)), labels, rotation=60, ha="right", fontsize=6)
        axes.set_ylabel(key)
    return figure


def _lines(rows: Rows, step: str) -> Figure:
    """A line for each measurement; those whose names end with the same word have a panel of their own."""
    names = [name for name in rows[0] if name != step and is_number(rows[0][name])]
    ends = collections.Counter(name.rpartition(" ")[2] for name in names)
    panels: dict[str, list[str]] = {}
    for name in names:
        end = name.rpartition(" ")[2]
        panels.setdefault(end if ends[end] > 1 else "", []).append(name)
    steps = [str(row[step]) for row in rows]
    figure = Figure(figsize=(7, 2.4 * len(panels)), layout="constrained")
    for axes, mine in zip(
        figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels.values(), strict=True
    ):
        for name in mine:
            axes.plot(steps, [row[name] for row in rows], label=name)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7)
        axes.set_xlabel(step, fontsize=7)
    return figure


def _graphs(rows: Rows) -> Figure:
    """Threads and throughput by period, a panel for each graph (as Figure 10 of Schneider & Wu)."""
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    columns = min(3, len(graphs))
    lines = -(-len(graphs) // columns)
    figure = Figure(figsize=(4 * columns, 2.5 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, graph in zip(panels, graphs, strict=False):
        mine = [row for row in rows if row["graph"] == graph]
        periods = [row["period"] for row in mine]
        axes.plot(periods, [row["tuples/s"] for row in mine], color="tab:blue")
        axes.set_ylim(bottom=0)
        axes.set_title(graph, fontsize=8)
        axes.set_ylabel("tuples/s", color="tab:blue", fontsize=7)
        threads = axes.twinx()
        threads.step(periods, [row["level"] for row in mine], where="mid", color="tab:red")
        threads.set_ylim(bottom=0)
        threads.set_ylabel("threads", color="tab:red", fontsize=7)
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    return figure
