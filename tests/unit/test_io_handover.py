"""The hand-over between threads: order, bounds, ends and errors."""

from __future__ import annotations

import threading

import pytest
from io_kit import StopAfter

from thalweg.connectors.contracts import never
from thalweg.connectors.in_process.handover import Handover

FOREVER_S = 3600.0


def test_a_take_is_content_with_what_lingered() -> None:
    """An item that nobody follows is given out alone."""
    one = Handover(10, linger_s=0.001)
    assert one.put("a")
    assert one.take(10, never()) == ["a"]


def test_a_take_waits_for_a_full_chunk() -> None:
    """As long as nothing has lingered, a take waits until it has what it asked for."""
    one = Handover(10, linger_s=FOREVER_S)
    thread = threading.Thread(target=lambda: [one.put(item) for item in "abcd"])
    thread.start()
    assert one.take(4, never()) == ["a", "b", "c", "d"]
    thread.join()


def test_the_end_ends_lingering() -> None:
    """What lies there when the hand-over is closed is given out, and then nothing."""
    one = Handover(10, linger_s=FOREVER_S)
    one.put("a")
    one.put("b")
    one.close()
    one.close()
    assert one.take(10, never()) == ["a", "b"]
    assert one.take(10, never()) == []
    assert not one.put("c")


def test_a_full_hand_over_does_not_linger() -> None:
    """A take that asks for more than fits is content with all that fits."""
    one = Handover(2, linger_s=FOREVER_S)
    one.put("a")
    one.put("b")
    assert one.take(10, never()) == ["a", "b"]


def test_a_put_waits_for_room() -> None:
    """No more rows lie there than there is room for, and none is lost or out of order."""
    one, most = Handover(3, linger_s=0.0), 0
    thread = threading.Thread(
        target=lambda: [one.put(item) for item in range(1000)] and one.close()
    )
    thread.start()
    out: list[int] = []
    while items := one.take(1000, never()):
        most = max(most, len(items))
        out += items
    thread.join()
    assert out == list(range(1000))
    assert most <= 3


def test_items_of_many_rows() -> None:
    """Rows are what is counted; an item too large for the room comes in all the same, alone."""
    one = Handover(4, linger_s=FOREVER_S)
    one.put("small", 3)
    one.put("large", 100)
    assert one.take(3, never()) == ["small"]
    assert one.take(3, never()) == ["large"]
    one.put("none", 0)
    one.close()
    assert one.take(3, never()) == ["none"]


def test_closing_frees_who_waits() -> None:
    """A put that waits for room returns when the hand-over is closed, and says that its item was not taken."""
    one, taken = Handover(1, linger_s=0.0), []
    one.put("a")
    thread = threading.Thread(target=lambda: taken.append(one.put("b")))
    thread.start()
    one.close()
    thread.join()
    assert taken == [False]


def test_a_stop_ends_a_take() -> None:
    """A take that waits for a first item looks at the stop; once it is set, what lies there stays."""
    assert Handover(1, linger_s=0.0).take(1, StopAfter(1)) == []
    one = Handover(1, linger_s=0.0)
    one.put("a")
    assert one.take(1, StopAfter(0)) == []
    assert one.take(1, never()) == ["a"]


def test_an_error_comes_last() -> None:
    """What was put before a failure is given out before the failure is told, each time anew."""
    one = Handover(10, linger_s=0.0)
    one.put("a")
    one.fail(ValueError("no more"))
    assert one.take(10, never()) == ["a"]
    for _ in range(2):
        with pytest.raises(ValueError, match="no more"):
            one.take(10, never())


def test_many_threads_put() -> None:
    """Items of one thread stay in order; each comes once."""
    one, threads = Handover(8, linger_s=0.0), 4

    def put(who: int) -> None:
        for number in range(500):
            one.put((who, number))

    made = [threading.Thread(target=put, args=(who,)) for who in range(threads)]
    for thread in made:
        thread.start()
    out: list[tuple[int, int]] = []
    while len(out) < threads * 500:
        out += one.take(64, never())
    for thread in made:
        thread.join()
    for who in range(threads):
        assert [number for by, number in out if by == who] == list(range(500))
