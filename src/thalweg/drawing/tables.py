"""Rows as a table of HTML. All text is escaped: keys and values are whatever the data has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_CELL = "padding:2px 10px;border-bottom:1px solid rgba(128,128,128,.3);white-space:pre;"


def html_table(
    head: Sequence[tuple[str, bool]],
    rows: Iterable[Sequence[str]],
    *,
    caption: str = "",
    note: str = "",
) -> str:
    """A table.

    Args:
        head: the columns, and whether they stand to the right.
        rows: of texts.
        caption: above it.
        note: below it.
    """
    sides = ["right" if right else "left" for _, right in head]
    top = "".join(
        f'<th style="{_CELL}text-align:{side}">{escape(name)}</th>'
        for (name, _), side in zip(head, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL}text-align:{side}">{escape(text)}</td>'
            for text, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    style = "text-align:left;white-space:nowrap;font-weight:600;caption-side:top"
    said = f'<caption style="{style}">{escape(caption)}</caption>' if caption else ""
    below = f'<div style="opacity:.7">{escape(note)}</div>' if note else ""
    return (
        f'<table style="border-collapse:collapse;font-size:90%">{said}<thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table>{below}"
    )
