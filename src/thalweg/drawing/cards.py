"""What a run did, or does, as HTML for notebooks: tables with the notebook's own look, every text escaped."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from thalweg.drawing.graphs import drawing_of
from thalweg.snapshot import Snapshot
from thalweg.snapshot.shown import COLUMNS, head_lines, operator_cells

#: Sinks, rows of each, operators, and characters of a cell that are shown.
_SINKS: Final = 10
_ROWS: Final = 10
_OPERATORS: Final = 40
_CHARACTERS: Final = 120


def snapshot_html(snapshot: Snapshot, link: str | None = None) -> str:
    """What a flow does now: the graph, what there is to say of the whole, and the operators.

    Args:
        snapshot: of now.
        link: the address of its page, if it has one.
    """
    lines = [html.escape(line) for line in head_lines(snapshot)]
    if link is not None:
        address = html.escape(link, quote=True)
        lines.append(f'<a href="{address}" target="_blank" rel="noopener noreferrer">live page</a>')
    svg = drawing_of(snapshot).svg if len(snapshot.operators) <= _OPERATORS else ""
    cells = list(itertools.islice(operator_cells(snapshot), _OPERATORS))
    used = [n for n in range(len(COLUMNS)) if n < 4 or any(row[n].strip(" 0%") for row in cells)]
    heads = [COLUMNS[n][0] for n in used]
    table = _table(heads, [[row[n] for n in used] for row in cells], len(snapshot.operators))
    return f"<div>{'<br>'.join(lines)}</div>{svg}{table}"


def result_html(
    snapshot: Snapshot,
    sinks: Mapping[str, tuple[Sequence[str], Iterable[Sequence[Any]], int]],
    counts: Mapping[str, Mapping[str, int]],
) -> str:
    """What a run gave: the first rows of each sink, and late and rejected rows.

    Args:
        snapshot: how it went.
        sinks: by name the columns, the first rows, and how many there are.
        counts: by operator.
    """
    parts = [f"<div>{html.escape(next(head_lines(snapshot)))}</div>"]
    for name, (columns, rows, count) in itertools.islice(sinks.items(), _SINKS):
        parts.append(f"<div><b>{html.escape(name)}</b>: {count:,} rows</div>")
        parts.append(_table(columns, itertools.islice(rows, _ROWS), count))
    if len(sinks) > _SINKS:
        parts.append(f"<div>… {len(sinks) - _SINKS:,} more sinks</div>")
    parts += [f"<div>{html.escape(line)}</div>" for line in _lost(counts)]
    return "".join(parts)


def _lost(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for what in ("late", "rejected"):
        some = [f"{name} {its[what]:,}" for name, its in counts.items() if its.get(what)]
        if some:
            yield f"{what}: {', '.join(some)}"


def _table(heads: Iterable[str], rows: Iterable[Sequence[Any]], count: int) -> str:
    shown = [[_cell(value) for value in row] for row in rows]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in shown)
    more = f"<div>… {count - len(shown):,} more</div>" if count > len(shown) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else repr(value)
    return html.escape(text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…")
