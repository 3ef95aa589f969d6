"""Whether threads pay: in virtual time the default takes hardly longer than the better way, however dear rows are."""

from __future__ import annotations

import itertools
import math
import random
from typing import NamedTuple

from thalweg.elasticity.trial import LEAST_LEFT_NS, ThreadTrial, TrialPhase
from thalweg.workers.step_size import STEP_NS

MANY, FEW = 65_536, 16_384


class Ran(NamedTuple):
    """A run in virtual time: how long it took, ns, and whether it ever went to threads."""

    ns: float
    tried: bool
    ends_in_threads: bool


def run(rows: int, *, alone_ns: float, threads_ns: float, known: float | None = None) -> Ran:
    """Rows that cost so much alone and in threads; ``known``: what is thought of their number."""
    trial = ThreadTrial(rows if known is None else known)
    now, tried, left = 1e9, False, rows
    while left > 0:
        if trial.is_due(int(now)):
            trial.look(int(now))
        tried = tried or trial.in_threads
        in_threads = min(FEW, max(64, int(STEP_NS / threads_ns)))
        step = min(left, in_threads if trial.in_threads else trial.step_rows(FEW, MANY))
        now += step * (threads_ns if trial.in_threads else alone_ns)
        trial.count(step)
        left -= step
    return Ran(now - 1e9, tried, trial.in_threads)


def test_the_default_takes_hardly_longer_than_the_better_way() -> None:
    """Within 10 % of the best plus 0.2 s: what is not worth a trial, where the number of rows is known about."""
    chooser = random.Random(5)
    for _ in range(400):
        rows = int(10 ** chooser.uniform(4.7, 8))
        alone = 10 ** chooser.uniform(1.5, 3.5)
        threads = alone * chooser.choice([0.5, 0.55, 0.7, 0.9, 0.95, 1.0, 1.1, 1.5, 3.0, 15.0])
        known = chooser.choice([rows, rows, rows * chooser.uniform(1, 3)])
        took = run(rows, alone_ns=alone, threads_ns=threads, known=known)
        best = rows * min(alone, threads)
        assert took.ns <= 1.1 * best + 0.2e9, (rows, alone, threads, known)


def test_where_nobody_knows_how_much_comes_long_runs_find_out_all_the_same() -> None:
    """Of an endless input: as much is thought to be left as has come."""
    for alone, threads in [(500.0, 250.0), (500.0, 500.0), (500.0, 2_000.0), (2_000.0, 1_000.0)]:
        took = run(40_000_000, alone_ns=alone, threads_ns=threads, known=math.inf)
        assert took.ns <= 1.1 * 40_000_000 * min(alone, threads) + 0.2e9
        assert took.tried
        assert took.ends_in_threads is (threads < alone)


def test_what_ends_soon_never_leaves_the_thread_that_brings_it() -> None:
    """However much faster threads were."""
    for rows in (1_000, 200_000, 2_000_000):
        assert not run(rows, alone_ns=0.9 * LEAST_LEFT_NS / rows, threads_ns=1e-3).tried


def test_rows_that_get_dearer_are_noticed() -> None:
    """The other way is tried again, ever more rarely; each trial costs at most a share of what is left."""
    trial = ThreadTrial(math.inf)
    now, trials, was = 1e9, [], False
    while now < 200e9:
        if trial.is_due(int(now)):
            trial.look(int(now))
        if trial.in_threads and not was:
            trials.append(now - 1e9)
        was = trial.in_threads
        now += FEW * (400.0 if trial.in_threads else 300.0)
        trial.count(FEW)
    assert 4 <= len(trials) <= 8
    assert all(later >= 3 * earlier for earlier, later in itertools.pairwise(trials))


def test_what_cannot_be_tried_yet_is_asked_again_and_what_never_can_is_not() -> None:
    """``postpone`` and ``give_up`` of the caller."""
    trial = ThreadTrial(math.inf)
    for now in (0, 1, 2):
        assert not trial.is_due(now)
        trial.count(10)
    assert trial.is_due(10**9)
    trial.postpone(10**9)
    assert not trial.is_due(2 * 10**9)
    assert trial.is_due(4 * 10**9)
    trial.give_up()
    assert not trial.is_due(100 * 10**9)
    assert not trial.in_threads


def test_a_trial_ends_when_it_has_had_its_rows_though_no_time_goes_by() -> None:
    """Steps for threads are only handed over: all of them would be on their way before a moment has passed."""
    trial = ThreadTrial(10_000_000)
    now = 1e9
    while not trial.in_threads:
        now += FEW * 300.0
        trial.count(FEW)
        if trial.is_due(int(now)):
            trial.look(int(now))
    handed_over = 0
    while trial.phase is not TrialPhase.RUNNING:
        handed_over += FEW
        trial.count(FEW)
        if trial.is_due(int(now)):
            # What was handed over is waited for here.
            now += FEW * 500.0
            trial.look(int(now))
    assert handed_over <= 0.08 * 10_000_000


def test_functions_that_wait_go_to_threads_at_once_and_back_if_that_is_no_faster() -> None:
    """Nothing is tried where steps were seen to wait; where only that is worth threads, others never go there."""
    for faster, only in itertools.product((True, False), (True, False)):
        trial = ThreadTrial(10_000)
        trial.only_waiting = only
        now, went = 1e9, []
        for _ in range(60):
            if trial.is_due(int(now)):
                went.append(trial.look(int(now)))
            alone = not trial.in_threads
            took = 20e6 if alone or not faster else 2e6
            now += took
            trial.count(1, took_ns=int(took) * alone, waited_ns=int(0.95 * took) * alone)
        assert went[0] and trial.phase is TrialPhase.RUNNING
        assert all(went) if faster else False in went, "it stays only where it was faster"
    never = ThreadTrial(10_000)
    never.only_waiting = True
    now = 1e9
    for _ in range(60):
        assert not never.is_due(int(now))
        now += 20e6
        never.count(1, took_ns=20_000_000, waited_ns=1_000_000)


def test_threads_must_be_faster_by_what_they_cost_others() -> None:
    """4 % are not worth more processors, a fifth is."""
    for threads, pays in ((480.0, False), (400.0, True)):
        assert run(40_000_000, alone_ns=500.0, threads_ns=threads).ends_in_threads is pays


def first_trial(threads_ns: float) -> tuple[set[TrialPhase], float]:
    """The phases of the first trial of a long run, and how long it was, ns."""
    trial, now, phases, began = ThreadTrial(40_000_000), 1e9, set[TrialPhase](), 0.0
    while not (began and not trial.in_threads):
        if trial.is_due(int(now)):
            trial.look(int(now))
            began = began or (now if trial.in_threads else 0.0)
            phases.add(trial.phase)
        rows = 64 if trial.in_threads else trial.step_rows(FEW, MANY)
        now += rows * (threads_ns if trial.in_threads else 500.0)
        trial.count(rows)
    return phases, now - began


def test_a_trial_takes_its_share_of_what_is_left_unless_its_start_is_hopeless() -> None:
    """Here threads are 1.5 times as slow, and 20 times."""
    phases, took = first_trial(750.0)
    assert TrialPhase.TRYING in phases and 100e6 < took < 500e6
    assert TrialPhase.TRYING not in first_trial(10_000.0)[0]


def test_time_in_which_nothing_was_to_be_done_is_no_cost() -> None:
    """A run that waits for rows, or commits, between its steps decides as one that does not, as much later."""
    decided = []
    for pause_ns in (0, 3_000_000_000):
        trial, now, paused = ThreadTrial(1_000_000), 1_000_000_000, 0
        for _ in range(40):
            if trial.is_due(now):
                trial.look(now)
                decided.append((now - paused, trial.in_threads))
            now += 5_000_000
            trial.count(1_000)
            now, paused = now + pause_ns, paused + pause_ns
            trial.pass_by(pause_ns)
    assert decided and decided[: len(decided) // 2] == decided[len(decided) // 2 :]
