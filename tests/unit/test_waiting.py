"""How much functions wait, and how many threads may therefore be in them: decided from times, in virtual time."""

from __future__ import annotations

from thalweg.elasticity.waiting import WINDOW_NS, Waits, useful

MS = 1_000_000


def seen(waits: Waits, calls: int, *, took_ms: float, used_ms: float, waited_ms: float) -> int:
    for _ in range(calls):
        waits.add(int(took_ms * MS), int(used_ms * MS), int(waited_ms * MS))
    return waits.freely


def test_a_function_that_sleeps_gets_as_many_threads_as_fill_a_processor() -> None:
    """Its occupancy over its CPU time, at most as many as there are; one long call says enough."""
    assert seen(Waits(64), 1, took_ms=20, used_ms=1, waited_ms=19) == 20
    assert seen(Waits(8), 1, took_ms=20, used_ms=1, waited_ms=19) == 8
    assert seen(Waits(64), 1, took_ms=20, used_ms=0, waited_ms=20) == 64
    short = Waits(64)
    assert seen(short, 9, took_ms=1.1, used_ms=0.1, waited_ms=1.0) == 0, "too little was seen"
    assert seen(short, 1, took_ms=1.1, used_ms=0.1, waited_ms=1.0) == 11
    assert useful(10, 3) == 4


def test_what_computes_has_none() -> None:
    """However long it takes, and also where it takes long since it waits for the interpreter."""
    assert seen(Waits(64), 100, took_ms=20, used_ms=20, waited_ms=0) == 0
    assert seen(Waits(64), 100, took_ms=80, used_ms=20, waited_ms=0) == 0


def test_threads_that_wait_for_the_interpreter_become_fewer() -> None:
    """A quarter less a window, down to none; in between, where a little waiting is left, they stay."""
    waits = Waits(64)
    seen(waits, 1, took_ms=32, used_ms=1, waited_ms=31)
    found = [seen(waits, 1, took_ms=32, used_ms=1, waited_ms=1) for _ in range(12)]
    assert found == [24, 18, 13, 9, 6, 4, 3, 2, 0, 0, 0, 0]
    seen(waits, 1, took_ms=32, used_ms=1, waited_ms=31)
    assert seen(waits, 1, took_ms=32, used_ms=2, waited_ms=6.4) == 32
    assert WINDOW_NS <= 32 * MS


def test_a_function_that_begins_to_wait_gets_more() -> None:
    """What it did before does not count for ever."""
    waits = Waits(64)
    assert seen(waits, 1_000, took_ms=1, used_ms=1, waited_ms=0) == 0
    assert seen(waits, 2, took_ms=10, used_ms=1, waited_ms=9) == 10
    assert seen(waits, 2, took_ms=10, used_ms=2, waited_ms=8) == 10, "more may be of use still"
