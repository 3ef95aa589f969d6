"""Views of flows for tests of picks: by hand, at random, and laid out as the engine lays them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from thalweg import scheduling
from thalweg.scheduling import FlowView, PortView
from thalweg.scheduling.policy import FLOATS
from thalweg.workers.memory import layout
from thalweg.workers.picks import compiled_policy


def arrays(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns as the types of views have them."""
    return {
        name: np.array(values, "f8" if name in FLOATS else "i8") for name, values in columns.items()
    }


def port_view(operators: int, **columns: list[Any]) -> PortView:
    """Ports whose other columns are those of empty inboxes with room for a thousand."""
    ports, edges = len(columns.get("operator", [])), len(columns.get("writer", []))
    plain: dict[str, list[Any]] = {
        "operator": [],
        "length": [0] * ports,
        "capacity": [1_000] * ports,
        "head_ns": [0] * ports,
        "enqueued_ns": [0] * ports,
        "reads": [1e6] * ports,
        "writer": [],
        "target": [],
        "writes": [1e6] * edges,
        "conjunctive": [1.0] * operators,
    }
    return PortView(**arrays(plain | columns))


def view_of(ports: dict[str, list[Any]] | None = None, **columns: list[Any]) -> FlowView:
    """A view whose other columns are those of idle, ordinary operators behind an ingress."""
    n = len(next(iter(columns.values())))
    plain: dict[str, list[Any]] = {
        "kind": [layout.INGRESS] + [layout.STATELESS] * (n - 1),
        "rank": list(range(n)),
        "cost_ns": [1_000.0] * n,
        "selectivity": [1.0] * n,
        "cumulative_in": [1.0] * n,
        "cumulative_out": [1.0] * n,
        "limit": [8] * n,
        "runnable": [0] + [1] * (n - 1),
        "now_ns": [1],
    }
    given = {
        name: columns.get(name, plain.get(name, [0] * n))
        for name in FlowView._fields
        if name != "ports"
    }
    return FlowView(**arrays(given), ports=port_view(n, **(ports or {})))


def columns_of(view: FlowView) -> list[Any]:
    """All arrays of a view, those of its ports last."""
    return [*view[:-1], *view.ports]


@st.composite
def views(draw: st.DrawFn) -> FlowView:
    """Any view of one to six operators, with many equals."""
    n = draw(st.integers(1, 7))

    def column(element: st.SearchStrategy[Any], size: int = n) -> list[Any]:
        return draw(st.lists(element, min_size=size, max_size=size))

    runnable = column(st.integers(0, 1))
    # As in an engine there are as many edges as ports, but here they lead anywhere.
    ports = draw(st.integers(0, 6)) if n > 1 else 0
    rates = st.sampled_from([0.0, 1e3, 1e6]) | st.floats(1e-3, 1e9)
    return view_of(
        {
            "operator": sorted(column(st.integers(1, max(n - 1, 1)), ports)),
            "length": column(st.integers(0, 3) | st.integers(0, 10**7), ports),
            "capacity": column(st.sampled_from([1, 1_000, 2**62]), ports),
            "head_ns": column(st.integers(0, 2**62), ports),
            "enqueued_ns": column(st.integers(0, 2**62), ports),
            "reads": column(rates, ports),
            "writer": column(st.integers(0, n - 1), ports),
            "target": column(st.integers(0, max(ports - 1, 0)), ports),
            "writes": column(rates, ports),
            "conjunctive": column(st.sampled_from([0.0, 0.5, 1.0])),
        },
        kind=[layout.INGRESS, *column(st.integers(0, 2))[1:]],
        rank=column(st.integers(0, 4)),
        worklist=column(st.integers(0, 3) | st.integers(0, 10**7)),
        output=column(st.integers(-1, 40) | st.integers(0, 10**7)),
        cost_ns=column(st.sampled_from([10.0, 25.0, 1e3]) | st.floats(10, 1e9)),
        selectivity=column(st.floats(1e-6, 1e3)),
        cumulative_in=column(st.sampled_from([0.0, 0.5, 1.0]) | st.floats(1e-9, 1e6)),
        cumulative_out=column(st.sampled_from([0.0, 0.5, 1.0]) | st.floats(1e-9, 1e6)),
        workers=column(st.integers(0, 3)),
        limit=column(st.integers(1, 4)),
        window_ns=column(st.sampled_from([0.0, 100.0]) | st.floats(0, 1e9)),
        last_run_ns=column(st.integers(0, 3) | st.integers(0, 2**62)),
        head_ns=column(st.integers(0, 3) | st.integers(0, 2**62)),
        priority_class=column(st.integers(0, 2)),
        runnable=[0, *runnable[1:]],
        now_ns=[draw(st.integers(0, 2**62))],
    )


def picked(
    policy: scheduling.PickPolicy,
    worker: int = 0,
    *,
    ports: dict[str, list[Any]] | None = None,
    **columns: list[Any],
) -> int:
    """What a policy picks of a view by hand."""
    return policy.pick_function()(view_of(ports, **columns), worker)


def compiled(policy: scheduling.PickPolicy) -> Callable[[FlowView, int], int]:
    """The machine code that the engine calls, over a view laid out as the engine's."""
    made = compiled_policy(policy)
    assert made.address, made.reason

    def pick(view: FlowView, worker: int) -> int:
        ports = np.array([len(view.ports.operator)])
        assert len(view.ports.operator) == len(view.ports.writer)
        words = [*view[:-1], ports, *view.ports]
        laid_out = np.concatenate([column.view(np.int64) for column in words])
        found: int = made.keep(laid_out.ctypes.data, worker, len(view.kind))
        return found

    return pick
