"""A graph as Mermaid's text, which GitHub, GitLab and mkdocs draw; names are quoted, so that none of them is syntax."""

from __future__ import annotations

from html import escape

from thalweg.drawing.graph import Box, DrawnGraph


def mermaid_of(graph: DrawnGraph) -> str:
    """The graph as ``flowchart LR``; streams that go back are dotted."""
    numbers = {box.key: f"n{number}" for number, box in enumerate(graph.boxes)}
    lines = ["flowchart LR", *(f"    {numbers[box.key]}{_shape(box)}" for box in graph.boxes)]
    for arrow in graph.arrows:
        if arrow.giver in numbers and arrow.reader in numbers:
            line = "-.->" if arrow.back else "-->"
            text = f'|"{_quoted(arrow.text)}"|' if arrow.text else ""
            lines.append(f"    {numbers[arrow.giver]} {line}{text} {numbers[arrow.reader]}")
    return "\n".join(lines)


def _shape(box: Box) -> str:
    text = "<br>".join(_quoted(line) for line in (box.name, *box.lines))
    return f'(["{text}"])' if box.tone in ("source", "sink") else f'["{text}"]'


def _quoted(text: str) -> str:
    return escape(text, quote=True).replace("\n", " ").replace("&quot;", "#quot;")
