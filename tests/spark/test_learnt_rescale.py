"""Tables that are learnt while a flow runs, and made anew when the number of slots changes, by tasks without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slots_host import SlotsHost, Told, check
from test_counting import Post, posts_flow
from tests.sizes import sized

from thalweg.locality import Online
from thalweg.spark.keys.locality import KeyRouting, Routed

FLOW = posts_flow()
#: Tags, each of which is used by five users.
TAGS = 40


def posts(count: int) -> list[Post]:
    """A user has one tag; both come in no order that buckets could know."""
    users = [n * 7919 % (5 * TAGS) for n in range(count)]
    return [Post(1_000_000 * n, user, f"t{user * 13 % TAGS}") for n, user in enumerate(users)]


class Context:
    """Stands for Spark's context."""

    master = "local[2]"

    def accumulator(self, value: Any, param: Any) -> Told:
        """Counts begin with nothing."""
        assert value == []
        return Told()


def no_pairs(reads: Any) -> Any:
    raise AssertionError("no new key is to be placed")


class Driver:
    """A driver that learns, and can be killed."""

    def __init__(self, folder: Path, online: Online, slots: int) -> None:
        self.host = SlotsHost(FLOW, str(folder))
        self._online = online
        self.start(slots)

    def start(self, slots: int) -> None:
        """A driver that knows nothing but the checkpoint."""
        store, context = self.host.store, Context()
        self.routing = KeyRouting(
            context,  # type: ignore[arg-type]
            self.host.plan, store.fs, store.root, self._online, self.host.record, slots,
        )  # fmt: skip

    def run(
        self, rows: list[Post], slots: int, *, lost: bool = False, ends: bool = False
    ) -> tuple[Routed, float]:
        """A batch, and the share of tuples that stay in their slot between keyed operators."""
        record = self.host.record
        batch = 0 if record is None else record.batch + 1
        routed = self.routing.plan(batch, slots, record, no_pairs)
        self.host.told = self.routing.told if slots > 1 else None
        reports = self.host.batch(
            rows, slots=slots, epoch=routed.epoch, next_epoch=routed.next_epoch, ends=ends, commit=not lost
        )  # fmt: skip
        if not lost:
            self.routing.collect(self.host.attempt)
            self.routing.committed(batch)
        sums = [pair for said in reports for pair in said.get("routed", {}).values()]
        return routed, sum(one for one, _ in sums) / max(sum(all_ for _, all_ in sums), 1)


def cause(routed: Routed) -> str | None:
    """Why a table was made for the batches behind this one."""
    decision = None if routed.run is None else routed.run.decision
    return None if decision is None else decision.cause


@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (2, 5)])
def test_another_number_of_slots(tmp_path: Path, before: int, after: int) -> None:
    """The batch with other slots already makes a table for them, of what the last one was made from."""
    rows = posts(6 * 800)
    driver = Driver(tmp_path, Online(every=2, min_tuples=100), before)
    parts = [rows[800 * n : 800 * (n + 1)] for n in range(6)]
    for part in parts[:3]:
        driver.run(part, before)
    learnt, stay = driver.run(parts[3], before)
    assert cause(learnt) is None
    assert stay > 0.95
    changed, less = driver.run(parts[4], after)
    assert cause(changed) == "slots changed"
    assert changed.next_epoch > changed.epoch > learnt.epoch
    assert less < 0.9
    _, again = driver.run(parts[5], after, ends=True)
    assert again > 0.95
    check(FLOW, driver.host, tmp_path, rows)


def test_what_was_counted_long_ago_does_not_hide_a_change(tmp_path: Path) -> None:
    """After many batches users turn to other tags; the tables follow within some ``every`` batches."""
    driver = Driver(tmp_path, Online(every=2, drop=None, imbalance=None, min_tuples=100), 3)
    rows = posts(200)
    turned = [one._replace(tags=f"t{(one.user * 7 + 3) % TAGS}") for one in rows]
    fed = []
    for number in range(38):
        now = rows if number < 30 else turned
        part = [one._replace(ts=200_000_000 * number + one.ts) for one in now]
        fed += part
        _, stay = driver.run(part, 3, ends=number == 37)
        if number == 30:
            assert stay < 0.6
    assert stay > 0.95
    check(FLOW, driver.host, tmp_path, fed)


def test_a_driver_that_begins_anew_has_counted_nothing(tmp_path: Path) -> None:
    """Then pins stay in their groups, which get other owners, until it has counted enough."""
    rows = posts(6 * 400)
    driver = Driver(tmp_path, Online(every=2, min_tuples=100), 3)
    for n in range(4):
        driver.run(rows[400 * n : 400 * (n + 1)], 3)
    driver.start(4)
    changed, _ = driver.run(rows[1600:2000], 4)
    assert changed.run is not None and changed.run.decision is None
    assert changed.next_epoch == 0
    driver.run(rows[2000:], 4, ends=True)
    check(FLOW, driver.host, tmp_path, rows)


STEPS = st.lists(
    st.tuples(
        st.integers(1, 5),  # slots
        st.sampled_from(["", "", "lost", "killed"]),  # what happens to a first try of the batch
        st.booleans(),  # whether the processes are new
    ),
    min_size=4,
    max_size=8,
)


@pytest.mark.merge
@settings(max_examples=sized(12, 4), deadline=None)
@given(STEPS, st.integers(1, 3))
def test_random_numbers_of_slots(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, bool]], every: int
) -> None:
    """Rescales at any batches, tries that are lost, drivers that are killed: output and states of the serial run."""
    folder = tmp_path_factory.mktemp("learnt")
    rows = posts(120 * len(steps))
    driver = Driver(folder, Online(every=every, min_tuples=20, move_cost=0.0), steps[0][0])
    for place, (slots, failure, new_processes) in enumerate(steps):
        part, ends = rows[120 * place : 120 * (place + 1)], place == len(steps) - 1
        if failure:
            driver.run(part, slots, lost=True, ends=ends)
        if failure == "killed":
            driver.start(slots)
        if new_processes:
            driver.host.forget()
        driver.run(part, slots, ends=ends)
    check(FLOW, driver.host, folder, rows)
