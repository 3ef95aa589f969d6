"""What the page may do with flows of this process: threads and the policy of all, the end of each, savepoints."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from thalweg import scheduling
from thalweg.brief import counted
from thalweg.checkpoint.hosts.copying import copy
from thalweg.page import Action
from thalweg.scheduling.rounds import Policy

#: Policies that need no arguments, by the name that the page gives them; the first stands for none at all.
_POLICIES: Final[Mapping[str, Callable[[], Policy | None]]] = {
    "none (free list)": lambda: None,
    **{
        one.__name__: one
        for one in (
            scheduling.Chain, scheduling.CurrentThroughput, scheduling.EstimatedTime,
            scheduling.FirstComeFirstServed, scheduling.HighestRate, scheduling.LastInPipeline,
            scheduling.LeastRecentlyRun, scheduling.MaxQueueLength, scheduling.MaxRunningTime,
            scheduling.MinLatency, scheduling.QueueSizeThrottling, scheduling.Random,
            scheduling.RoundRobin,
        )
    },
}  # fmt: skip


class Endable(Protocol):
    """A flow that runs beside others."""

    @property
    def name(self) -> str: ...

    @property
    def is_active(self) -> bool: ...

    @property
    def checkpoint(self) -> str | None: ...

    def end(self) -> None: ...

    def stop(self) -> None: ...


class Shared(Protocol):
    """What flows beside each other share."""

    policy: Policy | None

    def set_threads(self, count: int, *, reason: str) -> None: ...


def actions_of(run: Endable) -> Iterator[Action]:
    """What can be done with a flow now."""
    if not run.is_active:
        return
    kept = run.checkpoint is not None
    yield Action(
        name="end", flow=run.name, label="End its inputs", does=lambda *_: _said(run.end, "its inputs end here"),
        explains="What has come runs through and is committed; the next start goes on." if kept
        else "What has come runs through, remaining timers fire, and the flow ends with its result.",
        is_final=True,
    )  # fmt: skip
    yield Action(
        name="stop", flow=run.name, label="Stop now", does=lambda *_: _said(run.stop, "stopped"),
        explains="What is on its way is dropped; the next start goes on behind the last commit." if kept
        else "What is on its way is dropped, and there is no result.",
        is_final=True,
    )  # fmt: skip
    if run.checkpoint is not None:
        yield savepoint_action(run.name, run.checkpoint)


def savepoint_action(flow: str, checkpoint: str) -> Action:
    """Copies a checkpoint to a folder beside it."""
    return Action(
        name="savepoint", flow=flow, label="Make a savepoint", does=lambda *_: _saved(checkpoint),
        explains="The newest committed batch is copied to a new folder beside the checkpoint; the flow goes on.",
    )  # fmt: skip


def shared_actions(shared: Shared, threads: int, most: int | None) -> Iterator[Action]:
    """What can be done with threads and policy.

    Args:
        shared: the flows that share them.
        threads: how many may run now.
        most: how many there are; None where their number is not left to us.
    """
    if most is not None and most > 1:
        yield Action(
            name="threads", label="Threads", least=1, most=most, now=str(threads),
            does=functools.partial(_threads, shared),
            explains="So many workers run from now on; the others are suspended.",
        )  # fmt: skip
    policy = shared.policy
    now = "none (free list)" if policy is None else type(policy).__name__
    yield Action(
        name="policy", label="Policy", choices=tuple(_POLICIES), now=now,
        does=functools.partial(_policy, shared),
        explains="It says from now on which operator runs next.",
    )  # fmt: skip


def asked_by(who: str) -> str:
    """The reason of a change that somebody at an address asked for."""
    return f"asked for on the page by {who}"


def _threads(shared: Shared, count: int, who: str) -> str:
    shared.set_threads(count, reason=asked_by(who))
    return f"{counted(count, 'thread')} from now on"


def _policy(shared: Shared, name: str, _: str) -> str:
    shared.policy = _POLICIES[name]()
    return f"policy {name} from now on"


def _said(does: Callable[[], Any], text: str) -> str:
    does()
    return text


def _saved(checkpoint: str) -> str:
    target = f"{checkpoint.rstrip('/')}-savepoint-{time.strftime('%Y%m%d-%H%M%S')}"
    made = copy(checkpoint, target)
    return f"savepoint of batch {made.batch} in {target}"


def several(runs: Iterable[Endable]) -> Iterator[Action]:
    """What can be done with each of several flows now."""
    for run in runs:
        yield from actions_of(run)
