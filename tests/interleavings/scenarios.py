"""Small flows at the moments that matter, and the threads that go on from there."""

from __future__ import annotations

from collections.abc import Sequence

from tests.interleavings.explorer import Make, Memory
from tests.interleavings.flows import Flow, ingress, operator
from tests.interleavings.plain import Structures

from thalweg.workers.memory.layout import KEYED, STATEFUL, STATELESS


def worked_off(flow: Flow, steps: int, workers: int) -> Make:
    """A source that waits for room, and workers."""

    def source(mem: Memory) -> None:
        flow.submit_all(mem, steps)

    return flow.program(
        steps, source, *(lambda mem, w=w: flow.work_off(mem, w, steps) for w in range(workers))
    )


def line(structures: Structures, steps: int, workers: int, locking: int = 0) -> Make:
    """A stateless operator and then a stateful one, with room for one chunk each."""
    ops = [ingress(), operator(STATELESS, 0, locking=locking), operator(STATEFUL, 1)]
    return worked_off(Flow(structures, ops), steps, workers)


def diamond(structures: Structures) -> Make:
    """A stateful operator takes the same step from two operators before it."""
    ops = [ingress(2), operator(STATELESS, 0), operator(STATELESS, 0), operator(STATEFUL, 1, 2)]
    flow = Flow(structures, ops)
    for _ in range(2):
        assert flow.submit(flow.memory)
    return flow.program(
        2, lambda mem: flow.work_off(mem, 0, 2), lambda mem: flow.work_off(mem, 1, 2)
    )


def into_a_full_inbox(structures: Structures, locking: int = 0) -> Make:
    """One worker puts out what the full inbox of a stateful operator has no room for, another runs that operator."""
    ops = [ingress(), operator(STATELESS, 0, locking=locking), operator(STATEFUL, 1)]
    flow = Flow(structures, ops)
    assert flow.submit(flow.memory)
    assert flow.visit(flow.memory, 0, 1)
    assert flow.submit(flow.memory)
    return flow.program(2, lambda mem: flow.visit(mem, 0, 1), lambda mem: flow.visit(mem, 1, 2))


def waiting_chain(structures: Structures, locking: int = 0) -> Flow:
    """Step 0 is in the last of two stateless operators, 1 in the first one's inbox, and 2 waits before that."""
    ops = [ingress(), *(operator(STATELESS, feeder, locking=locking) for feeder in (0, 1))]
    flow = Flow(structures, ops)
    assert flow.submit(flow.memory)
    assert flow.visit(flow.memory, 0, 1)
    assert flow.submit(flow.memory)
    assert flow.submit(flow.memory)
    assert not flow.submit(flow.memory), "one step too many is let in"
    return flow


def chain(structures: Structures, locking: int = 0) -> Make:
    """Both operators are run at the same time."""
    flow = waiting_chain(structures, locking)
    return flow.program(3, lambda mem: flow.visit(mem, 0, 2), lambda mem: flow.visit(mem, 1, 1))


def relieved_chain(structures: Structures, locking: int = 0) -> Make:
    """Outputs wait before both operators; the last one runs, which makes room for a further step at the source."""
    flow = waiting_chain(structures, locking)
    assert flow.visit(flow.memory, 1, 1)
    return flow.program(4, lambda mem: flow.visit(mem, 0, 2), lambda mem: flow.submit_all(mem, 1))


def two_finish(structures: Structures, ordered: int = 1) -> Make:
    """Two workers end units of the same operator, in the wrong order or at the same time."""
    ops = [
        ingress(2),
        operator(STATELESS, 0, capacity=2, ordered=ordered),
        operator(STATEFUL, 1, capacity=2),
    ]
    flow = Flow(structures, ops)
    for _ in range(2):
        assert flow.submit(flow.memory)
    return flow.program(2, lambda mem: flow.visit(mem, 0, 1), lambda mem: flow.visit(mem, 1, 1))


def fan_out(structures: Structures) -> Make:
    """An operator puts out to two readers while the one that has no room is run."""
    ops = [ingress(), operator(STATELESS, 0), operator(STATEFUL, 1), operator(STATEFUL, 1)]
    flow = Flow(structures, ops)
    assert flow.submit(flow.memory)
    assert flow.visit(flow.memory, 0, 1)
    assert flow.visit(flow.memory, 0, 2)
    assert flow.submit(flow.memory)
    return flow.program(2, lambda mem: flow.visit(mem, 0, 1), lambda mem: flow.visit(mem, 1, 3))


def two_readers(structures: Structures) -> Make:
    """Both readers of a chunk let it go at the same time."""
    flow = Flow(structures, [ingress(), operator(STATEFUL, 0), operator(STATEFUL, 0)])
    assert flow.submit(flow.memory)
    return flow.program(1, lambda mem: flow.visit(mem, 0, 1), lambda mem: flow.visit(mem, 1, 2))


def sleeping_line(structures: Structures, steps: int, workers: int) -> Make:
    """:func:`line` with a source and workers that sleep until they are woken."""
    flow = Flow(structures, [ingress(), operator(STATELESS, 0), operator(STATEFUL, 1)])
    return flow.program(
        steps,
        lambda mem: flow.submit_and_settle(mem, steps),
        *(lambda mem, w=w: flow.work_off_or_sleep(mem, w, steps) for w in range(workers)),
    )


def ranges(
    structures: Structures, kind: int, steps: int, workers: int, rows: Sequence[int] = (1, 1)
) -> Make:
    """A source adds the ranges of its chunks while workers run them."""
    keyed = operator(KEYED, 0, capacity=2, partitions=len(rows), queue_kind=kind)
    return worked_off(Flow(structures, [ingress(), keyed], rows=rows), steps, workers)
