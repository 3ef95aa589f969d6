"""Options of a run in many threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from thalweg.brief import brief_repr
from thalweg.checks import refuse, require_count, require_mapping, require_seconds
from thalweg.elasticity.controller import Controller
from thalweg.errors import BuildError
from thalweg.flow.regions import THREADING_MODELS, ThreadingModel
from thalweg.scheduling.rounds import Policy, RoundPolicy, required_features

#: Chunks of an operator on their way from its inbox to its output.
QUEUE_CHUNKS: Final = 64
#: Rows on their way at which sources wait.
ROWS_LIMIT: Final = 4_000_000
_MAY_BE_NONE: Final = ("waiting_threads", "partitions")
_CHOICES: Final = {
    "threading": THREADING_MODELS,
    "partition": ("hash", "range"),
    "queue": ("hybrid", "partitioned", "shared"),
    "reorder": ("non-blocking", "lock-based"),
}


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Settings of a run; none of them changes the output.

    Attributes:
        threads: workers of threading ``dynamic``; under a controller the most that there may be.
        waiting_threads: of threading ``dynamic`` the most workers that there may be while functions are seen to wait,
            as those that sleep or ask a server (docs/elasticity.md); None: no more than ``threads``.
        threading: of all operators outside of ``with flow.threading(...)``: ``dynamic``, ``dedicated`` or ``manual``.
        policy: who runs next (see :mod:`thalweg.scheduling`); None is the free list.
        controller: changes how many workers run, and how many may run an operator (see :mod:`thalweg.elasticity`);
            None: all run, always.
        period_s: after so long the controller is asked again, seconds.
        step_ms: how long all operators together may take for a step, where steps must be long so that what each costs
            by itself is a small share (at most about a tenth), milliseconds.
        quantum_ms: how long a worker stays with an operator that has more to do before it looks for another one,
            milliseconds, and how long a step may take an operator; what is begun is done, so a stay may be longer by
            a step. None: as the policy says (``slice_ns``), and under the free list until there is nothing to do there.
            Policies of rounds count tuples instead, and one that has a ``preempt`` of its own is asked.
        queue_chunks: chunks of an operator on their way from its inbox to its output, at least 1.
        rows_limit: rows on their way at which sources wait.
        partitions: parts of a keyed operator that may run at once; None: four a thread, also of those that may wait
            where Python runs it.
        partition: which keys a part has: ``hash``, about equally many; ``range``, those from one boundary to the next,
            of the operators that ``boundaries`` names. It fixes the number of their parts.
        boundaries: by keyed operator, where each range but the first begins, as values of the key's first field in
            ascending order; ``thalweg plan --sample`` finds them, and :func:`thalweg.testing.plan_partitions`.
        queue: how a keyed operator's chunks are handed to workers: ``hybrid``, ``partitioned`` or ``shared``.
        reorder: ``non-blocking`` or ``lock-based``.
        times_held: takes how long chunks are in each operator, from when a worker takes one until what came of it
            leaves, in order (``held_ns`` of the progress); two looks at the clock for each.
        ordered: False lets outputs go on as they come, to measure what order costs.
        native: False keeps compiled operators on the Python path, for tests.

    Raises:
        BuildError: a number is below 1, a word is none of those, boundaries are no lists, or the policy lacks
            something.
    """

    threads: int = 2
    waiting_threads: int | None = None
    threading: ThreadingModel = "dynamic"
    policy: Policy | None = None
    controller: Controller | None = None
    period_s: float = 10.0
    step_ms: float = 20.0
    quantum_ms: float | None = None
    queue_chunks: int = QUEUE_CHUNKS
    rows_limit: int = ROWS_LIMIT
    partitions: int | None = None
    partition: Literal["hash", "range"] = "hash"
    boundaries: Mapping[str, Sequence[Any]] | None = None
    queue: Literal["hybrid", "partitioned", "shared"] = "hybrid"
    reorder: Literal["non-blocking", "lock-based"] = "non-blocking"
    times_held: bool = False
    ordered: bool = True
    native: bool = True

    def __post_init__(self) -> None:
        for name in ("threads", "waiting_threads", "queue_chunks", "rows_limit", "partitions"):
            if name not in _MAY_BE_NONE or getattr(self, name) is not None:
                require_count(name, getattr(self, name))
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise BuildError(
                    f"{name}: expected {' or '.join(map(repr, known))}, got {getattr(self, name)!r}"
                )
        if (self.partition == "range") != bool(self.boundaries):
            raise BuildError(
                "partition 'range' needs boundaries=, by keyed operator, and nothing else has them: `thalweg plan"
                " --sample` finds them in a sample of the input"
            )
        if self.boundaries is not None:
            _require_boundaries(self.boundaries)
        if self.policy is not None:
            require_policy(self.policy)
        if self.controller is not None:
            require_controller(self.controller)
            if self.threading != "dynamic":
                raise BuildError(
                    f"controller: threading {self.threading!r} leaves nothing to change"
                )
        require_seconds("", above=True, period_s=self.period_s)
        require_seconds("", above=True, unit="milliseconds", step_ms=self.step_ms)
        if self.quantum_ms is not None:
            require_seconds("", above=True, unit="milliseconds", quantum_ms=self.quantum_ms)

    @property
    def quantum_ns(self) -> int | None:
        """The quantum in nanoseconds, where there is one."""
        return None if self.quantum_ms is None else max(round(self.quantum_ms * 1e6), 1)

    @property
    def most_threads(self) -> int:
        """How many workers there may ever be."""
        return max(self.threads, self.waiting_threads or 0)

    def pieces(self, buckets: int, *, waits: bool = False) -> int:
        """The number of partitions of an operator with that many buckets, which may wait in a function or not."""
        threads = self.most_threads if waits else self.threads
        wanted = 4 * threads if self.partitions is None else self.partitions
        return max(1, min(buckets, wanted))


def _require_boundaries(boundaries: Any) -> None:
    """Refuses what is no dict of lists; a text would be one of its letters."""
    require_mapping("", "lists of keys by keyed operator", boundaries=boundaries)
    for name, firsts in boundaries.items():
        if isinstance(firsts, str | bytes) or not isinstance(firsts, Sequence):
            raise refuse(
                "",
                f"boundaries of operator {name!r}",
                "a list of keys, such as [one, other]",
                firsts,
            )


def require_controller(controller: Any) -> None:
    """Refuses what is no controller (see docs/elasticity.md)."""
    if isinstance(controller, type):
        name = controller.__name__
        raise BuildError(
            f"controller: expected an object of thalweg.elasticity, got the class {name}: write {name}()"
        )
    if not isinstance(controller, Controller):
        kind = type(controller).__name__
        raise BuildError(f"controller: expected an object of thalweg.elasticity, got {kind}")


def require_policy(policy: Any) -> None:
    """Refuses what is no policy (see docs/scheduling.md)."""
    if isinstance(policy, type):
        name = policy.__name__
        raise BuildError(
            f"policy: expected an object of thalweg.scheduling, got the class {name}: write {name}()"
        )
    kind = type(policy).__name__
    if isinstance(policy, RoundPolicy):
        required_features(policy)
        return
    if not hasattr(policy, "pick_function"):
        raise BuildError(f"policy: expected an object of thalweg.scheduling, got {kind}")
    if getattr(policy, "native", "") != "free_list":
        for name in ("slice_ns", "window_ns"):
            require_count(f"policy {kind}: {name}", getattr(policy, name, None))


DEFAULTS: Final = Options()
