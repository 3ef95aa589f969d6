"""Round views for tests, from the edges of a flow and the columns that matter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from thalweg.scheduling import OperatorStats, RoundView

NOW_NS = 10**15


def round_view(
    n: int, edges: Iterable[tuple[int, int]] = (), **columns: Sequence[Any]
) -> RoundView:
    """``n`` operators called a, b, c, ...; a column gives a field of ``OperatorStats`` by operator."""
    feeders: list[list[int]] = [[] for _ in range(n)]
    readers: list[list[int]] = [[] for _ in range(n)]
    for writer, reader in edges:
        readers[writer].append(reader)
        feeders[reader].append(writer)
    operators = tuple(
        OperatorStats(
            index=i,
            name=f"{chr(ord('a') + i % 26)}{i // 26 or ''}",
            **{name: values[i] for name, values in columns.items()},
        )
        for i in range(n)
    )
    return RoundView(operators, tuple(map(tuple, readers)), tuple(map(tuple, feeders)), NOW_NS)


def chain(n: int, **columns: Sequence[Any]) -> RoundView:
    """Operators that read one another."""
    return round_view(n, [(i, i + 1) for i in range(n - 1)], **columns)
