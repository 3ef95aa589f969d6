"""A picture of a flow that a notebook shows, and that can be saved."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from thalweg.brief import counted
from thalweg.checks import Guessable
from thalweg.drawing.graph import DrawnGraph
from thalweg.drawing.mermaid import mermaid_of
from thalweg.drawing.svg import svg_of
from thalweg.errors import BuildError


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Drawing(Guessable):
    """A graph as a picture; notebooks show it.

    Attributes:
        title: of the picture.
        graph: what is drawn.
    """

    title: str
    graph: DrawnGraph

    @property
    def svg(self) -> str:
        """The picture as an SVG element."""
        return svg_of(self.graph, self.title)

    @property
    def mermaid(self) -> str:
        """The graph as Mermaid's text, for a page of Markdown."""
        return mermaid_of(self.graph)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it: as Mermaid where the name ends with ``.mmd`` or ``.mermaid``, as SVG where with ``.svg``.

        Raises:
            BuildError: it ends otherwise.
        """
        forms = {".svg": lambda: self.svg, ".mmd": lambda: self.mermaid, ".mermaid": lambda: self.mermaid}  # fmt: skip
        end = Path(path).suffix.lower()
        if end not in forms:
            raise BuildError(
                f"save: a file that ends with {', '.join(forms)}, got {os.fspath(path)!r}"
            )
        Path(path).write_text(forms[end]() + "\n", encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        arrows = counted(len(self.graph.arrows), "stream")
        return f"<Drawing of {self.title}: {len(self.graph.boxes)} nodes, {arrows}; .svg, .mermaid, .save(path)>"
