"""What the tests of runs in many threads share: runs that end in any case, and flows that fail where they are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.workers.options import Options

#: A run that has not ended by then hangs, seconds; runs end within a few.
DEADLINE_S = 300.0

#: How runs go in the tests: one and many workers, and a thread for each operator.
WAYS = {
    "one": Options(threads=1),
    "two": Options(threads=2),
    "eight": Options(threads=8),
    "narrow": Options(threads=2, queue_chunks=1, rows_limit=1),
    "dedicated": Options(threading="dedicated"),
}


class Row(NamedTuple):
    ts: tw.Timestamp
    key: int
    value: int


ROWS = [Row(i, i % 7, i) for i in range(1_000)]


@tw.state
class Count:
    n: int = 0


def count(state: Count, row: Row) -> Row:
    state.n += 1
    return Row(row.ts, row.key, state.n)


def plus_one(row: Row) -> Row:
    return Row(row.ts, row.key, row.value + 1)


class Failure(Exception):
    """What functions raise that fail on purpose."""


def bounded(call: Callable[[], Any]) -> Any:
    """Calls in a thread of its own; gives what it returned or raises what it raised, and fails where it hangs."""
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, name="under test", daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    if thread.is_alive():
        pytest.fail("the run hangs")
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


#: Events by name. What functions of a flow capture is copied, so they reach these through the module.
_EVENTS: dict[str, threading.Event] = {}


def event(name: str) -> threading.Event:
    """The test's event of that name."""
    return _EVENTS.setdefault(name, threading.Event())


def wait_for(name: str) -> None:
    """Waits until the event has come, and fails where it does not."""
    assert event(name).wait(DEADLINE_S), f"{name} did not happen"


@pytest.fixture
def events() -> Iterator[None]:
    """New events; at the end all have come, so nobody waits for one any more."""
    _EVENTS.clear()
    yield
    for one in _EVENTS.values():
        one.set()


def workers() -> set[threading.Thread]:
    """The threads of runs that are alive."""
    names = ("thalweg-", "source ", "source-")
    return {one for one in threading.enumerate() if one.name.startswith(names)}


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    """All threads that the test's runs have started end with them."""
    before = workers()
    yield
    for thread in workers() - before:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), f"{thread.name} was left behind"


def background(call: Callable[[], Any]) -> threading.Thread:
    """Calls in a thread of its own, which has begun."""
    thread = threading.Thread(target=call, name="beside the test", daemon=True)
    thread.start()
    return thread
