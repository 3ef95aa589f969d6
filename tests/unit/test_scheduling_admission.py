"""Which query's batch is given a place: the policy's order, aging, places kept free, and what errors leave behind."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized

import thalweg as tw
from thalweg.scheduling import (
    Admission,
    Admitted,
    Chain,
    FirstComeFirstServed,
    HighestRate,
    MostUrgentFirst,
    MultiClass,
    OperatorStats,
    Phase,
    RoundView,
    by,
    feature,
)
from thalweg.scheduling.measures import PRIOR_COST_NS

S = 1_000_000_000
CLASSES = {"urgent": 0, "report": 1, "archive": 2}


CHEAPEST = by(lambda operator, view: -operator.cost_ns, features=["cost_ns"])


def decide(admission: Admission, now_ns: int) -> list[Admitted]:
    made = []
    while (decision := admission.decide(now_ns)) is not None:
        made.append(decision)
    return made


def names(admission: Admission, now_ns: int) -> list[str]:
    return [one.query for one in decide(admission, now_ns)]


# -- order --------------------------------------------------------------------------------------------------


def test_who_comes_alone_runs_at_once() -> None:
    admission = Admission(MostUrgentFirst(), CLASSES)
    admission.arrive("archive", 7, 5 * S)
    [decision] = decide(admission, 6 * S)
    assert decision == Admitted("archive", 7, 6 * S, S, "no other could run", ())
    admission.arrive("urgent", 0, 7 * S)
    assert decide(admission, 8 * S) == [] and admission.waiting == ("urgent",)
    admission.leave("archive", 9 * S)
    [decision] = decide(admission, 9 * S)
    assert (decision.query, decision.wait_ns) == ("urgent", 2 * S)


def test_the_most_urgent_class_and_then_the_oldest_input() -> None:
    """By class, then by when input may have begun to wait; never by who asked first."""
    admission = Admission(MostUrgentFirst(), CLASSES | {"late": 1})
    admission.arrive("urgent", 0, 0)
    assert names(admission, 0) == ["urgent"]
    for at, query in enumerate(("archive", "late", "report"), 1):
        admission.arrive(query, 0, at * S)
    admission.leave("urgent", 10 * S)
    [first] = decide(admission, 10 * S)
    assert (first.query, first.behind) == ("late", ("archive", "report"))
    assert first.reason == "first of 3 by MostUrgentFirst"
    admission.leave("late", 11 * S)
    assert names(admission, 11 * S) == ["report"]


def test_since_when_input_may_have_waited() -> None:
    """At once after the last batch: since that one's input was fixed. Later: since the trigger before."""
    admission = Admission(MostUrgentFirst())

    def head(at: int, interval: int = 0) -> int:
        admission.arrive("a", 0, at, interval_ns=interval)
        found = admission.view(at).operators[0].head_ns
        names(admission, at)
        admission.leave("a", at + 4 * S)
        return found

    assert head(100 * S) == 100 * S
    assert head(104 * S + S // 2) == 100 * S
    assert head(150 * S) == 150 * S
    assert head(170 * S, interval=20 * S) == 150 * S
    assert head(200 * S, interval=20 * S) == 180 * S
    assert admission.view(0).operators[0].head_ns == -1


def test_any_round_policy_orders_queries() -> None:
    """By measured cost a row here; the rows may be told when the batch leaves, or at the next one."""
    admission = Admission(CHEAPEST)
    for query, rows in (("dear", 10), ("cheap", 1_000)):
        admission.arrive(query, 0, 0)
        assert names(admission, 0) == [query]
        admission.leave(query, S, rows if query == "dear" else None)
    admission.count("cheap", 1_000)
    admission.count("cheap", 1)  # once only
    costs = [admission.stats(query).cost_ns for query in ("dear", "cheap")]
    assert costs == [S / 10, S / 1_000]
    admission.arrive("other", 0, 2 * S)
    assert names(admission, 2 * S) == ["other"]
    admission.arrive("dear", 1, 2 * S)
    admission.arrive("cheap", 1, 3 * S)
    admission.leave("other", 4 * S)
    assert names(admission, 4 * S) == ["cheap"]


def test_what_a_policy_sees() -> None:
    """One operator a query: waiting input by the recent rate, no place for one that runs, features of one's own."""
    size = feature("size", kind="external", read={"a": 3.0, "b": 4.0}.__getitem__)
    seen = []

    def note(operator: OperatorStats, view: RoundView) -> float:
        seen.append(view)
        return operator.own["size"]

    admission = Admission(by(note, features=[size]), {"a": 1, "b": 2})
    for batch in range(2):
        admission.arrive("a", batch, 10 * S * batch)
        names(admission, 10 * S * batch)
        admission.leave("a", 10 * S * batch + 2 * S, 50)
    admission.arrive("b", 0, 30 * S)
    admission.arrive("a", 2, 30 * S)
    assert names(admission, 34 * S) == ["b"]
    a, b = seen[-1].operators
    assert (a.name, a.flow, a.priority_class, b.priority_class) == ("a", "a", 1, 2)
    assert (a.last_run_ns, b.last_run_ns, b.cost_ns) == (12 * S, 0, PRIOR_COST_NS)
    # 90 rows in 10 s, of which the older 40 have faded; input has waited for 4 s.
    assert (a.worklist, b.worklist) == (36, 1)
    assert (seen[-1].now_ns, seen[-1].readers, seen[-1].feeders) == (34 * S, ((), ()), ((), ()))
    a, b = admission.view(35 * S).operators
    assert (a.places, b.places, b.worklist, b.head_ns) == (1, 0, 0, 30 * S)


# -- aging --------------------------------------------------------------------------------------------------


def test_who_waited_too_long_goes_first() -> None:
    admission = Admission(MostUrgentFirst(), CLASSES, starve_after_ns=10 * S)
    admission.arrive("urgent", 0, 0)
    names(admission, 0)
    admission.arrive("report", 0, 0)
    admission.leave("urgent", 9 * S)
    admission.arrive("urgent", 1, 9 * S)
    assert names(admission, 9 * S) == ["urgent"]
    admission.leave("urgent", 10 * S)
    admission.arrive("urgent", 2, 10 * S)
    [decision] = decide(admission, 10 * S)
    assert (decision.query, decision.reason) == ("report", "it has waited for 10.0 s")


def test_but_not_before_one_that_was_held_up() -> None:
    """An urgent batch that waits for a report already does not wait for an archive, however old, too."""
    admission = Admission(MostUrgentFirst(), CLASSES, starve_after_ns=10 * S)
    admission.arrive("report", 0, 0)
    names(admission, 0)
    admission.arrive("archive", 0, 0)
    admission.arrive("urgent", 0, S)
    admission.leave("report", 20 * S)
    [decision] = decide(admission, 20 * S)
    assert decision.query == "urgent"
    assert decision.reason == "a less urgent batch has held it up; 'archive' is overdue"
    admission.arrive("report", 1, 20 * S)
    admission.leave("urgent", 21 * S)
    admission.arrive("urgent", 1, 21 * S)
    assert names(admission, 21 * S) == ["archive"]


def test_without_aging_the_policy_decides_always() -> None:
    admission = Admission(MostUrgentFirst(), CLASSES)
    admission.arrive("report", 0, 0)
    names(admission, 0)
    admission.arrive("archive", 0, 0)
    admission.arrive("urgent", 0, 10_000 * S)
    admission.leave("report", 10_001 * S)
    assert names(admission, 10_001 * S) == ["urgent"]


# -- places -------------------------------------------------------------------------------------------------


def test_places_that_only_the_most_urgent_class_is_given() -> None:
    admission = Admission(MostUrgentFirst(), CLASSES, slots=2, reserved=1)
    for query in ("archive", "report"):
        admission.arrive(query, 0, 0)
    assert names(admission, 0) == ["report"]
    admission.arrive("urgent", 0, S)
    [decision] = decide(admission, S)
    assert (decision.query, decision.reason, decision.behind) == (
        "urgent", "no other could run", ("archive",),
    )  # fmt: skip
    admission.leave("urgent", 2 * S)
    assert names(admission, 2 * S) == []
    admission.leave("report", 3 * S)
    admission.arrive("urgent", 1, 3 * S)
    assert names(admission, 3 * S) == ["urgent", "archive"]


def test_who_leaves_while_waiting_is_forgotten() -> None:
    """A query that ends while its batch waits neither runs nor stands in others' way, and may come again."""
    admission = Admission(MostUrgentFirst(), CLASSES)
    for query in CLASSES:
        admission.arrive(query, 0, 0)
    assert names(admission, 0) == ["urgent"]
    admission.leave("report", S)
    admission.leave("report", S)
    admission.leave("urgent", S)
    assert names(admission, S) == ["archive"]
    admission.arrive("report", 0, 2 * S)
    admission.leave("archive", 3 * S)
    assert names(admission, 3 * S) == ["report"]
    told = admission.stats("report")
    assert (told.batches, told.waited_s, told.phase, told.ran_s) == (1, 1.0, Phase.RUNNING, 0.0)
    assert admission.stats("archive").ran_s == 2.0


# -- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"slots": 0}, "slots must be an int of at least 1"),
        ({"slots": 2, "reserved": 2}, "2 of 2 places reserved"),
        ({"reserved": -1}, "reserved must be an int of at least 0"),
        (
            {"classes": {"a": True}},
            "query 'a': a priority class is an int, 0 the most urgent, not True",
        ),
        ({"policy": tw.scheduling.RoundRobin()}, "needs a round policy"),
    ],
)
def test_arguments(change: dict[str, Any], text: str) -> None:
    arguments: dict[str, Any] = {"policy": MostUrgentFirst(), "classes": CLASSES} | change
    with pytest.raises(tw.BuildError, match=text):
        Admission(arguments.pop("policy"), arguments.pop("classes"), **arguments)


def test_names_that_do_not_fit() -> None:
    admission = Admission(MostUrgentFirst(), CLASSES)
    with pytest.raises(tw.BuildError, match="query 'urgnt' has no class; classes has 'urgent', "):
        admission.arrive("urgnt", 0, 0)
    admission.arrive("urgent", 3, 0)
    with pytest.raises(tw.SchedulingError, match="batch 4 arrived while batch 3 is waiting"):
        admission.arrive("urgent", 4, 0)
    with pytest.raises(tw.SchedulingError, match="unknown feature: 'colour'"):
        Admission(by(lambda operator, view: 0, features=["colour"]))


def test_a_policy_that_fails_gives_no_place_away() -> None:
    def read(query: str) -> float:
        raise RuntimeError("no such table")

    own = feature("own", kind="external", read=read)
    for policy, text in (
        (by(lambda operator, view: float("nan")), "its priority is"),
        (by(lambda operator, view: 0, features=[own]), "'own' of 'a' raised"),
    ):
        admission = Admission(policy)
        admission.arrive("a", 0, 0)
        with pytest.raises(tw.SchedulingError, match=text):
            admission.decide(0)
        assert admission.stats("a").phase is Phase.WAITING


# -- in general ---------------------------------------------------------------------------------------------

POLICIES = {
    "most urgent": MostUrgentFirst(),
    "multi-class": MultiClass({0: FirstComeFirstServed(), 1: HighestRate(), 2: Chain()}),
    "first come": FirstComeFirstServed(),
    "rate": HighestRate(),
    "chain": Chain(),
    "least urgent": by(lambda operator, view: operator.priority_class),
    "all alike": by(lambda operator, view: 0),
}
#: Those that go by class.
BY_CLASS = ("most urgent", "multi-class")


@dataclasses.dataclass
class _Wait:
    """A batch that waits: less urgent ones that held it up; decisions for others while it was overdue the longest."""

    since_ns: int
    less_urgent: int = 0
    passed_overdue: int = 0


class Model:
    """Drives an admission by events at random and keeps its own account of who waits and runs."""

    def __init__(self, admission: Admission, classes: list[int], slots: int, reserved: int) -> None:
        self.admission = admission
        self.classes = {f"q{n}": its for n, its in enumerate(classes)}
        self.slots = slots
        self.reserved = reserved
        self.waiting: dict[str, _Wait] = {}
        self.running: set[str] = set()
        self.now_ns = 0

    def shared(self, query: str) -> bool:
        """Whether the query's place cannot have been a reserved one."""
        return self.reserved == 0 or self.classes[query] != min(self.classes.values())

    def less_urgent(self, query: str, than: str) -> bool:
        return self.classes[query] > self.classes[than]

    def arrive(self, query: str) -> None:
        wait = _Wait(self.now_ns)
        full = len(self.running) >= self.slots
        if full and all(self.less_urgent(one, query) for one in self.running):
            wait.less_urgent += 1
        self.waiting[query] = wait
        self.admission.arrive(query, 0, self.now_ns)

    def leave(self, query: str) -> None:
        self.running.discard(query)
        self.waiting.pop(query, None)
        self.admission.leave(query, self.now_ns, 10)

    def decide(self, starve_after_ns: int) -> None:
        for decision in decide(self.admission, self.now_ns):
            mine = self.waiting.pop(decision.query)
            assert decision.wait_ns == self.now_ns - mine.since_ns
            assert set(decision.behind) == set(self.waiting)
            self.running.add(decision.query)
            for query, wait in self.waiting.items():
                wait.less_urgent += self.less_urgent(decision.query, query)
            longest = min(self.waiting.values(), key=lambda wait: wait.since_ns, default=mine)
            if longest.since_ns + starve_after_ns <= self.now_ns and self.shared(decision.query):
                longest.passed_overdue += 1
        self.validate()

    def step(self, chooser: random.Random, eager: float, starve_after_ns: int) -> None:
        """Queries whose batch is over come again, those of the most urgent class the likeliest; one batch ends."""
        for query, its in self.classes.items():
            if query in self.running or query in self.waiting:
                continue
            if chooser.random() < eager / (1 + its):
                self.arrive(query)
                self.decide(starve_after_ns)
        self.now_ns += chooser.randrange(4)
        for query in self.classes:
            ends = query in self.running and chooser.random() < 0.5
            if ends or (query in self.waiting and chooser.random() < 0.02):
                self.leave(query)
                self.decide(starve_after_ns)

    def validate(self) -> None:
        assert len(self.running) <= self.slots
        top = min(self.classes.values())
        others = [one for one in self.running if self.classes[one] != top]
        assert len(others) <= self.slots - self.reserved
        # No place stays free that one of those who wait could be given.
        if len(self.running) < self.slots:
            assert all(self.classes[one] != top for one in self.waiting)
            assert not self.waiting or len(others) == self.slots - self.reserved


@settings(max_examples=sized(100), deadline=None)
@given(
    classes=st.lists(st.integers(0, 2), min_size=1, max_size=6),
    policy=st.sampled_from(sorted(POLICIES)),
    slots=st.integers(1, 3),
    reserved=st.integers(0, 2),
    starve_after_ns=st.sampled_from([1, 5, None]),
    eager=st.sampled_from([0.3, 1.0, 3.0]),
    seed=st.integers(0, 2**32),
)
def test_in_general(
    classes: list[int], policy: str, slots: int, reserved: int, starve_after_ns: int | None,
    eager: float, seed: int,
) -> None:  # fmt: skip
    """Places are neither lost nor given twice, nobody starves, and by class none waits for two less urgent ones.

    The batch that is overdue for the longest time is passed by at most two batches of each query.
    """
    chooser = random.Random(seed)
    reserved = min(reserved, slots - 1)
    admission = Admission(
        POLICIES[policy], {f"q{n}": its for n, its in enumerate(classes)},
        slots=slots, reserved=reserved, starve_after_ns=starve_after_ns,
    )  # fmt: skip
    model = Model(admission, classes, slots, reserved)
    for _ in range(150):
        model.step(chooser, eager, starve_after_ns or 1 << 60)
        for query, wait in model.waiting.items():
            assert wait.passed_overdue <= 2 * len(classes)
            # Of classes in the middle that holds where all places are theirs, too.
            if policy in BY_CLASS and (reserved == 0 or model.classes[query] == min(classes)):
                assert wait.less_urgent <= 1
    told = [admission.stats(query) for query in admission.queries]
    assert {one.query for one in told if one.phase is Phase.RUNNING} == model.running
    assert set(admission.waiting) == set(model.waiting)
