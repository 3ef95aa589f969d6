"""A figure's panels as a picture, as the paper has them: lines over an axis."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from thalweg_lab.figures.contract import Panel

#: Panels in a line.
_WIDE: Final = 3


def draw(panels: Sequence[Panel], title: str, path: Path) -> None:
    """Writes the picture."""
    wide = min(_WIDE, len(panels))
    high = -(-len(panels) // wide)
    figure = Figure(figsize=(4.6 * wide, 3.4 * high + 0.6), layout="constrained")
    figure.suptitle(textwrap.fill(title, 56 * wide), fontsize=10)
    places = figure.subplots(high, wide, squeeze=False).ravel()
    for axes, panel in zip(places, panels, strict=False):
        _fill(axes, panel)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.savefig(path, dpi=120)


def _fill(axes: Any, panel: Panel) -> None:
    for line in panel.lines:
        axes.plot(
            line.x, line.y, marker="o" if len(line.x) < 40 else None, markersize=3, label=line.name
        )
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x, fontsize=8)
    axes.set_ylabel(panel.y, fontsize=8)
    axes.tick_params(labelsize=7)
    if "x" in panel.log:
        axes.set_xscale("log")
    if "y" in panel.log:
        axes.set_yscale("log")
    elif all(value >= 0 for line in panel.lines for value in line.y):
        axes.set_ylim(bottom=0)
    if panel.lines:
        axes.legend(fontsize=7)
