"""A plan as a graph: who reads whom, and its picture."""

from __future__ import annotations

from thalweg.drawing import Drawing, graph_of
from thalweg.flow.flow import Flow
from thalweg.flow.operators.nodes import Sink
from thalweg.plan.plan import Plan, make_plan
from thalweg.snapshot import StreamEdge


def draw(flow: Flow) -> Drawing:
    """The picture of a flow; see :meth:`thalweg.Flow.draw`."""
    plan = make_plan(flow)
    kinds = {
        node.label if isinstance(node, Sink) else node.name: node.kind.value for node in plan.nodes
    }
    return Drawing(plan.flow, graph_of(kinds, edges_of(plan)))


def edges_of(plan: Plan) -> tuple[StreamEdge, ...]:
    """Who reads whom, by the order of the givers."""
    return tuple(
        StreamEdge(
            giver=plan.node(ref.node).name, port=ref.port, reader=plan.node(edge.node).label,
            feedback=feedback,
        )
        for feedback, readers in ((False, plan.readers), (True, plan.feedback))
        for ref, edges in sorted(readers.items(), key=lambda one: (one[0].node, one[0].port))
        for edge in edges
    )  # fmt: skip
