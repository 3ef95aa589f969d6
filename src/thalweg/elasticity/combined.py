"""Threads and replicas together: one change a period, threads first.

A bottleneck with all threads busy elsewhere gains nothing from a replica, and a thread with nowhere to go gains
nothing either. So replicas are thought of only when the thread level has come to rest, and after each change of
replicas more threads are tried again before its gain is judged. Both by the period with the most throughput of the
search for a level: the level itself may have just as few threads as do not show, which hides the bottleneck.
"""

from __future__ import annotations

from thalweg.brief import brief_repr
from thalweg.elasticity.controller import Controller
from thalweg.elasticity.replicas import Replicas
from thalweg.elasticity.samples import Limits, Sample, Suggestion
from thalweg.elasticity.thread_levels import ThreadLevels
from thalweg.elasticity.utilization import Utilization
from thalweg.errors import BuildError


@brief_repr
class Combined(Controller):
    """A controller of threads and one of replicas; by default by throughput and by congestion.

    Args:
        threads: suggests thread levels.
        replicas: suggests replicas.

    Raises:
        BuildError: one is no controller, or one for the other role.
    """

    def __init__(
        self, threads: Controller | None = None, replicas: Controller | None = None
    ) -> None:
        super().__init__()
        _require(
            "threads", threads, (Replicas, Combined), "of thread levels, such as ThreadLevels()"
        )
        _require("replicas", replicas, (ThreadLevels, Utilization, Combined), "such as Replicas()")
        self.threads = ThreadLevels() if threads is None else threads
        self.replicas = Replicas() if replicas is None else replicas
        self.initial_replicas = self.replicas.initial_replicas
        self.looks = max(self.threads.looks, self.replicas.looks)

    def start(self, limits: Limits) -> None:
        super().start(limits)
        self.threads.start(limits)
        self.replicas.start(limits)
        #: The period with the most throughput since threads and replicas last came to rest together.
        self._fullest: Sample | None = None

    @property
    def settled(self) -> bool:
        return self.threads.settled and self.replicas.settled

    def reconsider(self) -> None:
        self.threads.reconsider()
        self.replicas.reconsider()

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        if not sample.whole:
            return ()
        if self._fullest is None or sample.throughput > self._fullest.throughput:
            self._fullest = sample
        found = self.threads.decide(sample)
        if found or not self.threads.settled:
            return found
        fullest, self._fullest = self._fullest, None
        found = self.replicas.decide(fullest)
        if found:
            self.threads.reconsider()
        return found

    def refused(self, suggestion: Suggestion, reason: str) -> None:
        self.threads.refused(suggestion, reason)
        self.replicas.refused(suggestion, reason)


def _require(
    role: str, given: Controller | None, others: tuple[type[Controller], ...], expected: str
) -> None:
    """Refuses what is no controller, or known to be one for another role."""
    if given is None or (isinstance(given, Controller) and not isinstance(given, others)):
        return
    kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    raise BuildError(
        f"Combined: {role} must be a controller {expected}, not {kind}"
        "\n  expected: Combined(threads=ThreadLevels(), replicas=Replicas())"
    )
