"""The graphs that the papers measure: pipelines, data-parallel regions, many chains, and trees.

Each takes further fields of :class:`~thalweg.simulate.graph.Operator` for its operators by name.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from thalweg.checks import is_int_from
from thalweg.errors import BuildError
from thalweg.simulate.arrivals import Arrivals, Saturated
from thalweg.simulate.graph import Graph, Operator, Source

#: Schneider & Wu, section 5: a thousand operators, ten side by side and a hundred in a row.
WIDTH: Final = 10
DEPTH: Final = 100
#: Sahin & Gedik, section 5.1: trees of 63 operators, chains of 12.
TREE_DEPTH: Final = 6
BRANCHES: Final = 2
CHAIN_LENGTH: Final = 12


def pipeline(length: int, *, arrivals: Arrivals | None = None, **fields: Any) -> Graph:
    """Operators ``o0``, ``o1``, ... in a row (Schneider & Wu, 5.1; the chain of Sahin & Gedik, 5.1)."""
    _require_counts(length=length)
    return Graph((_source(arrivals),), _row("o", "in", length, fields))


def data_parallel(
    width: int,
    *,
    arrivals: Arrivals | None = None,
    merge: Literal["order", "arrival"] = "order",
    **fields: Any,
) -> Graph:
    """``split`` deals tuples to ``o0``, ``o1``, ... side by side, and ``merge`` brings them together again.

    Split and merge cost the least that an operator may, 1 ns: what is measured is what stands between.

    Args:
        merge: back into order, or as they come through one queue, as into the sink of Schneider & Wu, 5.2.
    """
    return mesh(width, 1, arrivals=arrivals, merge=merge, **fields)


def mesh(
    width: int = WIDTH,
    depth: int = DEPTH,
    *,
    arrivals: Arrivals | None = None,
    merge: Literal["order", "arrival"] = "order",
    **fields: Any,
) -> Graph:
    """So many pipelines side by side, ``o{i}`` or ``o{i}_{j}``, between a split and a merge."""
    _require_counts(width=width, depth=depth)
    ends: dict[str, Any] = {"cost_ns": 1, "kind": "stateful"}
    if "capacity" in fields:
        ends["capacity"] = fields["capacity"]
    split = Operator(name="split", reads=("in",), split="deal", **ends)
    rows = [
        _row(f"o{i}_" if depth > 1 else f"o{i}", "split", depth, fields, single=depth == 1)
        for i in range(width)
    ]
    last = tuple(row[-1].name for row in rows)
    inner = [operator for row in rows for operator in row]
    return Graph(
        (_source(arrivals),),
        (split, *inner, Operator(name="merge", reads=last, merge=merge, **ends)),
    )


def tree(
    depth: int = TREE_DEPTH,
    branches: int = BRANCHES,
    *,
    arrivals: Arrivals | None = None,
    **fields: Any,
) -> Graph:
    """A tree from its root to its leaves; tuples are dealt to the branches (Sahin & Gedik, 5.1).

    Level l has operators ``o{l}_0``, ``o{l}_1``, ...
    """
    _require_counts(depth=depth, branches=branches)
    operators = []
    for level in range(depth):
        for i in range(branches**level):
            read = f"o{level - 1}_{i // branches}" if level else "in"
            made = {"split": "deal", **fields, "name": f"o{level}_{i}", "reads": (read,)}
            operators.append(Operator(**made))
    return Graph((_source(arrivals),), tuple(operators))


def reverse_tree(
    depth: int = TREE_DEPTH,
    branches: int = BRANCHES,
    *,
    arrivals: Arrivals | None = None,
    **fields: Any,
) -> Graph:
    """A tree from its leaves, each with a source, to its root (Sahin & Gedik, 5.1).

    Level l, of which 0 is the root, has operators ``o{l}_0``, ``o{l}_1``, ...; the leaves read ``in0``, ``in1``, ...
    """
    _require_counts(depth=depth, branches=branches)
    leaves = branches ** (depth - 1)
    operators = []
    for level in reversed(range(depth)):
        for i in range(branches**level):
            below = range(i * branches, (i + 1) * branches)
            reads = tuple(f"o{level + 1}_{j}" for j in below) if level < depth - 1 else (f"in{i}",)
            operators.append(Operator(**{**fields, "name": f"o{level}_{i}", "reads": reads}))
    sources = tuple(Source(f"in{i}", arrivals or Saturated()) for i in range(leaves))
    return Graph(sources, tuple(operators))


def haren_chains(
    arrivals: Sequence[Arrivals],
    *,
    base_ns: float,
    length: int = CHAIN_LENGTH,
    classes: Mapping[int, int] | None = None,
    seed: int = 0,
    **fields: Any,
) -> Graph:
    """A chain of operators a source, as different as in Haren's evaluation (Palyvos-Giannas et al., 7.1).

    Of the tuples that enter query q a share from [0.01, 1] comes out, and each of its operators lets its length-th root
    through, ±10 %. They cost ``base_ns · 2^z`` a tuple, ±10 %, with a class z from 0 to 4. All that is drawn evenly.
    Operators are ``q{q}_0`` and so on, one thread at a time is in each, and sources hold back nothing.

    Args:
        arrivals: by query.
        base_ns: the paper's B, ns.
        classes: by query, its priority class; the others are of class 0.
        seed: other costs and selectivities.
    """
    _require_counts(length=length)
    rng = random.Random(seed)
    operators: list[Operator] = []
    for query in range(len(arrivals)):
        through = math.log(rng.uniform(0.01, 1.0)) / length
        cost_ns = base_ns * 2 ** rng.randint(0, 4)
        for i in range(length):
            made = {
                "limit": 1,
                "capacity": None,
                **fields,
                "name": f"q{query}_{i}",
                "reads": (f"q{query}_{i - 1}" if i else f"in{query}",),
                "flow": f"q{query}",
                "cost_ns": cost_ns * rng.uniform(0.9, 1.1),
                "selectivity": math.exp(through) * rng.uniform(0.9, 1.1),
                "priority_class": (classes or {}).get(query, 0),
            }
            operators.append(Operator(**made))
    sources = tuple(Source(f"in{query}", given) for query, given in enumerate(arrivals))
    return Graph(sources, tuple(operators))


def work_ns(graph: Graph) -> float:
    """Worker time for one tuple of each source, ns: times a rate it is the threads that a graph needs."""
    leaving = {source.name: 1.0 for source in graph.sources}
    readers: dict[str, int] = {}
    for operator in graph.operators:
        for read in operator.reads:
            readers[read] = readers.get(read, 0) + 1
    deals = {operator.name for operator in graph.operators if operator.split == "deal"}
    total = 0.0
    for operator in graph.operators:
        arriving = sum(
            leaving[read] / (readers[read] if read in deals else 1) for read in operator.reads
        )
        total += arriving * operator.cost_ns
        leaving[operator.name] = arriving * operator.selectivity
    return total


def _source(arrivals: Arrivals | None) -> Source:
    return Source("in", arrivals or Saturated())


def _row(
    name: str, read: str, length: int, fields: Mapping[str, Any], *, single: bool = False
) -> tuple[Operator, ...]:
    """Operators in a row; a single one has the name without a number."""
    names = [name] if single else [f"{name}{i}" for i in range(length)]
    reads = [read, *names]
    return tuple(
        Operator(**{**fields, "name": own, "reads": (before,)})
        for own, before in zip(names, reads, strict=False)
    )


def _require_counts(**counts: int) -> None:
    for name, count in counts.items():
        if not is_int_from(count, 1):
            raise BuildError(f"{name} must be an int of at least 1, not {count!r}")
