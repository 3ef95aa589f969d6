"""C-Stream's figures: their flows are the paper's topologies, quantities are of what has left, and checks can fail."""

from __future__ import annotations

import pytest
from thalweg_lab.figures.c_stream import flows, waits
from thalweg_lab.figures.c_stream.shape import above, between, falls, rises
from thalweg_lab.figures.c_stream.virtual import measured

import thalweg as tw
from thalweg import testing
from thalweg.simulate import data_parallel as a_graph


def inputs(count: int, lanes: int, keeps: int = flows.ALL) -> dict[str, list[flows.Tuple]]:
    return {"in": [flows.Tuple(n, n % lanes, n % 5, keeps, n) for n in range(count)]}


@pytest.mark.parametrize(
    ("flow", "lanes", "keeps"),
    [
        (flows.chain(3), 1, 700),
        (flows.data_parallel(3), 3, flows.ALL),
        (flows.tree(3), 4, flows.ALL),
    ],
    ids=["chain", "data parallel", "tree"],
)
def test_topologies(flow: tw.Flow, lanes: int, keeps: int) -> None:
    """Every tuple goes its way through busy operators, of which none is fused, and the order is the source's."""
    given = inputs(60, lanes, keeps)
    found = tw.run(flow, given, threads=2, chunk_rows=4).rows("out")
    assert found == testing.reference(flow, given).rows("out")
    assert (len(found) == 60) is (keeps == flows.ALL)
    busy = [one for one in tw.run(flow, given).progress.operators if one.name.startswith("busy")]
    assert len(busy) == {"chain": 3, "data parallel": 3, "tree": 7}[flow.name]
    assert "interpreted" not in flow.explain()


def test_what_has_left_counts() -> None:
    """A chain gives what its threads can, not what its queues take in; the merge bounds data parallelism."""
    chain = measured("chain", "LeastRecently", 1, seconds=1.0)
    assert 0.8 * 833 <= chain.rows_per_s <= 1.2 * 833
    assert measured("chain", "LeastRecently", 4, seconds=1.0).mean_ms < chain.mean_ms
    assert len(a_graph(4, cost_ns=1).operators) == 6


def test_the_rate_leaves_out_the_warm_up() -> None:
    """It is of the tuples behind the first part, over the time that they took."""
    leaving = flows.Leaving()
    leaving.at, leaving.rows = [1.0, 9.0, 10.0, 11.0, 12.0], [5, 5, 10, 10, 10]
    assert leaving.rate(0.25) == pytest.approx(30 / 3.0)


def test_checks_can_fail() -> None:
    """Each way to say a shape holds of one that has it, and not of one that has not."""
    assert rises("", [1, 2, 2, 3]).holds and not rises("", [1, 3, 2]).holds
    assert not rises("", [1, 1]).holds
    assert falls("", [3, 2, 1]).holds and not falls("", [3, 3.2, 2]).holds
    assert between("", 2, 1, 3).holds and not between("", 4, 1, 3).holds
    assert above("", 3, 1, 2).holds and not above("", 3, 2, 2).holds


def test_a_chain_that_waits() -> None:
    """Operators that wait are units of their own, and what comes is what was given, in order."""
    flow = waits.chain(2)
    given = {"in": [waits.Call(n, 50) for n in range(30)]}
    found = tw.run(flow, given, threads=4, chunk_rows=1)
    assert found.rows("out") == given["in"]
    names = [one.name for one in found.progress.operators]
    assert names == ["busy 0", "before 1", "busy 1"]
