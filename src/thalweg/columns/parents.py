"""From which row of an operator's input a row comes that leaves behind it, told by their order keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.columns.chunks import Chunk
from thalweg.hashing import Int64s
from thalweg.jit import njit
from thalweg.plan.plan import KEY, OWN


def order_matrix(chunk: Chunk, names: Sequence[str]) -> Int64s:
    """Some int64 order columns of a chunk, ``int64[rows, len(names)]``."""
    matrix = np.empty((len(chunk), len(names)), np.int64)
    for place, name in enumerate(names):
        matrix[:, place] = chunk.order[name]
    return matrix


def shared_columns(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """The integer order columns that a stream has before some operators and still has behind them."""
    known = set(after) - {KEY, OWN}
    return [name for name in before if name in known]


def parents(arrived: Int64s, left: Int64s) -> Int64s:
    """The row of ``arrived`` that each row of ``left`` comes from, -1 where none is found.

    Both are sorted, with the same columns, as :func:`order_matrix` gives them. What an operator makes of a row has the
    row's place in the order, so one pass over both finds it. Timers of one time are not told apart.
    """
    out = np.empty(len(left), np.int64)
    _parents(arrived, left, out)
    return out


@njit
def _compare(one: Int64s, i: Any, other: Int64s, j: Any) -> int:
    for k in range(one.shape[1]):
        if one[i, k] != other[j, k]:
            return -1 if one[i, k] < other[j, k] else 1
    return 0


@njit
def _parents(arrived: Int64s, left: Int64s, out: Int64s) -> None:
    at = 0
    for j in range(len(left)):
        while at < len(arrived) and _compare(arrived, at, left, j) < 0:
            at += 1
        found = at < len(arrived) and _compare(arrived, at, left, j) == 0
        out[j] = at if found else -1
