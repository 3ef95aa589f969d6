"""Arguments of runs in many threads: what makes no sense is refused, and a policy's nonsense does no harm."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.unit.engine_kit import ROWS, Count, Row, bounded, count, no_thread_left

import thalweg as tw
from thalweg import scheduling
from thalweg.workers.options import Options
from thalweg.workers.picks import compiled_policy

__all__ = ["no_thread_left"]


def flow_of() -> tw.Flow:
    flow = tw.Flow("arguments")
    rows = flow.source("in", Row, order_by="ts").filter(lambda row: row.value % 2 == 0)
    rows.key_by("key").process(count, state=Count).sink("out")
    return flow


EXPECTED = tw.run(flow_of(), {"in": ROWS}, threading="manual").rows("out")


@pytest.mark.parametrize(
    "arguments",
    [
        {"threads": 0},
        {"threads": -1},
        {"threads": 1.5},
        {"threads": "two"},
        {"threads": True},
        {"threading": "both"},
        {"threading": None},
        {"policy": object()},
        {"policy": "free_list"},
        {"policy": scheduling.RoundRobin},
        {"chunk_rows": 0},
        {"chunk_rows": 2.5},
        {"policy": scheduling.FreeList},
        {"policy": scheduling.LastInPipeline(), "threading": "manual"},
        {"policy": scheduling.HighestRate(), "threading": "dedicated"},
        {"options": 1},
    ],
)
def test_refused_by_run(arguments: dict[str, Any]) -> None:
    """Before anything is read."""
    name = next(iter(arguments))
    with pytest.raises(tw.BuildError, match=name):
        tw.run(flow_of(), {"in": ROWS}, **arguments)


def test_options_and_what_they_say_are_not_given_both() -> None:
    """What stands beside ``options=`` would have no effect, so it is named; alone each is fine."""
    beside: tuple[dict[str, Any], ...] = (
        {"threads": 1}, {"threads": "auto"}, {"threading": "dedicated"}, {"policy": scheduling.FreeList()},
        {"controller": tw.elasticity.ThreadLevels()}, {"period_s": 1.0},
    )  # fmt: skip
    for given in beside:
        (name,) = given
        with pytest.raises(
            tw.BuildError, match=rf"options: .* so {name}= beside .*Options\({name}="
        ):
            tw.run(flow_of(), {"in": ROWS}, options=Options(threads=2), **given)
        with pytest.raises(tw.BuildError, match=rf"so {name}= beside"):
            tw.start(options=Options(threads=2), **given)
    assert tw.run(flow_of(), {"in": ROWS}, options=Options(threads=2))["out"] == EXPECTED


def test_refused_flows_and_inputs() -> None:
    with pytest.raises(tw.BuildError, match=r"expected a tw\.Flow"):
        tw.run(None, {})  # type: ignore[arg-type]
    with pytest.raises(tw.BuildError, match="inputs by source name"):
        tw.run(flow_of(), [ROWS])  # type: ignore[arg-type]


def test_a_policy_is_asked_also_for_small_inputs() -> None:
    def fails(op: Any, view: Any) -> float:
        raise ValueError("no idea")

    with pytest.raises(tw.ThalwegError, match="no idea"):
        tw.run(flow_of(), {"in": ROWS}, policy=scheduling.by(fails))


@pytest.mark.parametrize(
    "arguments",
    [
        {"threads": 0},
        {"queue_chunks": 0},
        {"rows_limit": 0},
        {"partitions": 0},
        {"threading": "by hand"},
        {"queue": "lifo"},
        {"reorder": "none"},
        {"policy": object()},
    ],
)
def test_refused_options(arguments: dict[str, Any]) -> None:
    """A limit of no rows, for example, would let nothing in."""
    name = next(iter(arguments))
    with pytest.raises(tw.BuildError, match=name):
        Options(**arguments)


@dataclasses.dataclass
class Policy:
    """A policy of one function; not frozen, so it cannot be hashed."""

    function: Any
    slice_ns: Any = 1_000_000
    window_ns: Any = 100_000_000

    def pick_function(self) -> Any:
        return self.function


def raises(view: Any, worker: int) -> int:
    if view.kind[0] == 3:
        raise ValueError("no idea")
    return 1


def beyond_the_last(view: Any, worker: int) -> int:
    return len(view.kind)


def below_none(view: Any, worker: int) -> int:
    return -2


def interpreted_raises(view: Any, worker: int) -> int:
    return {}["no idea"]


def interpreted_text(view: Any, worker: int) -> Any:
    return "1" if isinstance(view, tuple) else [1, ""]


def none_at_all(view: Any, worker: int) -> int:
    return -1


def interpreted_none_at_all(view: Any, worker: int) -> int:
    return {0: -1}.get(0, [])


def always_the_first(view: Any, worker: int) -> int:
    return 1


def the_ingress(view: Any, worker: int) -> int:
    return 0


def interpreted_first_that_can_run(view: Any, worker: int) -> int:
    return next((i for i in range(len(view.kind)) if view.runnable[i]), -1)


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises, "policy Policy: its pick failed: ValueError: no idea"),
        (interpreted_raises, "policy Policy: its pick failed: KeyError: 'no idea'"),
        (interpreted_text, "policy Policy: its pick failed: TypeError"),
        (beyond_the_last, "policy Policy: its pick is no operator: 5"),
        (below_none, "policy Policy: its pick is no operator: -2"),
    ],
)
def test_a_pick_that_fails_stops_the_run(function: Any, message: str) -> None:
    """Compiled or not; with the function's own error as the cause, where there is one."""
    options = Options(threads=2, policy=Policy(function))
    with pytest.raises(tw.ThalwegError, match=message):
        bounded(lambda: tw.run(flow_of(), {"in": ROWS}, options=options))


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize(
    "function",
    [
        none_at_all,
        interpreted_none_at_all,
        always_the_first,
        the_ingress,
        interpreted_first_that_can_run,
    ],
)
def test_a_pick_that_leaves_work_undone_does_no_harm(function: Any) -> None:
    """Operators that cannot run are not run, and those that can are not starved for ever."""
    options = Options(threads=2, policy=Policy(function))
    result = bounded(lambda: tw.run(flow_of(), {"in": ROWS}, options=options))
    assert result.rows("out") == EXPECTED


@pytest.mark.parametrize("number", ["slice_ns", "window_ns"])
@pytest.mark.parametrize("value", [None, 0, "long"])
def test_a_policy_without_its_numbers_is_refused(number: str, value: Any) -> None:
    """Its name stands in the message."""
    policy = Policy(none_at_all, **{number: value})
    with pytest.raises(tw.BuildError, match=f"Policy: {number}"):
        tw.run(flow_of(), {"in": ROWS}, threads=2, policy=policy)


class Weighed(scheduling.PickPolicy):
    """A plain class, which is equal to another one of it whatever its own attributes are."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def pick_function(self) -> Any:
        first = self.first

        def pick(view: Any, worker: int) -> int:
            return first

        return pick


def test_picks_of_plain_classes_are_not_mixed_up() -> None:
    """What is compiled is each one's own."""
    one, two = compiled_policy(Weighed(1)), compiled_policy(Weighed(2))
    assert one.address != two.address
    assert compiled_policy(scheduling.LastInPipeline()) is compiled_policy(
        scheduling.LastInPipeline()
    )
