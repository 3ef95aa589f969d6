"""What a controller of elasticity is: told what a period was like, it suggests what to change; its host may refuse."""

from __future__ import annotations

import abc

from thalweg.brief import brief_repr
from thalweg.elasticity.samples import Limits, Sample, Suggestion


@brief_repr
class Controller(abc.ABC):
    """Suggests thread levels, or how many threads may work on an operator.

    A host calls :meth:`start` once, then :meth:`decide` after each period, in order and from one thread at a time. It
    carries out what comes back, or says by :meth:`refused` that it will not. Whether something was carried out shows
    in the next sample: a controller goes by ``Sample.threads`` and ``OperatorSample.replicas``, never by what it
    asked for. What it suggests follows from the limits and the samples since ``start``, and from nothing else.

    Attributes:
        limits: the thread levels that the host allows.
        initial_replicas: how many may work at first on each operator on which several may; None: as many as there
            are threads.
        looks: so many times a period the host should look whether inputs are full: ``write_blocked`` and
            ``output_blocked`` are exact to one of them. Each wakes up a thread.
    """

    initial_replicas: int | None = None
    looks: int = 500

    def __init__(self) -> None:
        self.limits = Limits(1, 1)

    def start(self, limits: Limits) -> None:
        """Resets the controller at the start of a flow.

        Extend it to forget your own.

        Args:
            limits: thread levels that the host allows.
        """
        self.limits = limits

    @property
    def settled(self) -> bool:
        """Whether the controller expects no further change; True unless overridden."""
        return True

    def reconsider(self) -> None:  # noqa: B027
        """Tells that something else of the flow was changed, so that past measures may no longer hold."""

    @abc.abstractmethod
    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        """Suggests changes after a period; none: all stays as it is.

        Where ``sample.whole`` is False it suggests nothing and learns nothing about levels.
        """

    def refused(self, suggestion: Suggestion, reason: str) -> None:  # noqa: B027
        """Tells that the host refused the last suggestion, and why; ignored unless overridden.

        Args:
            suggestion: one that the last call of :meth:`decide` gave.
            reason: a sentence.
        """
