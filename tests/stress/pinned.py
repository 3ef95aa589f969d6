"""Threads that really run at the same time: one after the other on the processors there are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

#: How many items a test passes on: by default and at a merge, with --slow, and with --exhaustive. A lock that two can
#: take is not found with 25,000 and is with 100,000, so a merge needs no more than the default: threads that wait for
#: each other burn both processors.
ITEMS = [
    250_000,
    pytest.param(5_000_000, marks=pytest.mark.slow),
    pytest.param(20_000_000, marks=pytest.mark.exhaustive),
]


def run_pinned(bodies: Sequence[Callable[[], T]]) -> list[T]:
    """Runs each body in a thread of its own and returns their results; raises what one of them raised.

    Left to itself, a kernel may pack threads on one processor, and then they race for nothing.
    """
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    start = threading.Barrier(len(bodies))

    def run(i: int) -> None:
        if processors:
            # Of this thread alone, so there is nothing to restore.
            os.sched_setaffinity(0, {processors[i % len(processors)]})
        start.wait()
        try:
            results[i] = bodies[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[i] for i in range(len(bodies))]
