"""The protocol of an engine: takes rows of sources, gives the rows of sinks, and reports its counts.

Three implement it: the serial engine (:mod:`thalweg.engine.serial`), that of many threads
(:mod:`thalweg.workers.engine`), and that of slots in one process (:mod:`thalweg.slots.slotted`). A host does not ask
which one it has. What only some can do stands behind a property that is None for the others: :attr:`Engine.beside`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from thalweg.columns.chunks import Chunk
from thalweg.engine.coroutines.unit import CoroutineUnit
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.units import Counts, Given, Moment, Setting
from thalweg.engine.watermarks.ingress import Gate, Ingress
from thalweg.flow.operators.idle import IdleDecision
from thalweg.flow.operators.nodes import Ref
from thalweg.plan.plan import Edge, Plan
from thalweg.stats import FaultyRow, OperatorProgress

#: Rows of a step, unless the host says otherwise.
CHUNK_ROWS: Final = 65_536

#: What leaves an engine, to sinks or to readers in later stages, in the order of each stream.
Leaving: TypeAlias = dict[Edge, list[Chunk]]


class Beside(Protocol):
    """What an engine runs on its own, beside the thread that calls it."""

    @property
    def threads(self) -> int:
        """How many threads run operators now."""

    @property
    def is_settled(self) -> bool:
        """Whether no step is on its way."""

    def halt(self) -> None:
        """Nobody is to wait for the engine any more, and what is on its way is dropped; waits for nothing."""

    def check(self) -> None:
        """Raises what the first operator or sink that failed raised, if one has."""


class Engine(Protocol):
    """The units of one stage of a plan, or of all, with their state.

    Attributes:
        plan: the flow's.
        stage: the stage that it runs; None for the whole plan.
        chunk_rows: about how many rows a step has.
        counts: by node, what it took and gave.
        setting: where counts are added.
        moment: what the last step said about time.
        ingresses: the gates of its sources by time domain.
        woken: what was decided since rows came to lanes that were idle; a host that logs decisions takes them out.
        fallen: by node, why Python runs it though the compiler was to.
    """

    plan: Plan
    stage: int | None
    chunk_rows: int
    counts: Counts
    setting: Setting
    moment: Moment
    ingresses: dict[int, Ingress]
    woken: list[IdleDecision]
    fallen: dict[int, str]

    @property
    def beside(self) -> Beside | None:
        """What runs beside the caller's thread; None where a step is done when it returns."""

    # -- state --------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> Mapping[str, KeyedUnit | CoroutineUnit]:
        """The operators with state, by name: keyed, stateful and coroutine operators."""

    @property
    def by_key(self) -> Mapping[str, KeyedUnit]:
        """Those of them that have a state for each key."""

    @property
    def coroutines(self) -> Sequence[CoroutineUnit]:
        """Those of them that are coroutines."""

    @property
    def gates(self) -> Mapping[str, Gate]:
        """The sources and order_by operators, by name; also sources without event time."""

    def own_clocks(self) -> dict[int, int]:
        """The watermarks that order_by operators set in their last step, by the operator's index."""

    def resume(self) -> None:
        """Goes on with state that a host has put into tables and gates; counts start from nothing.

        No step may be on its way.
        """

    # -- running ------------------------------------------------------------------------------------------

    def feed(
        self, source: str, chunk: Chunk, rejected: Sequence[tuple[str, str, str]] = ()
    ) -> Leaving:
        """Rows of a source in arrival order, with rows that did not fit as (reason, position, text)."""

    def decide(self, decision: IdleDecision) -> None:
        """Takes a decision about a source; what follows from it comes with :meth:`advance`."""

    def advance(self, *, everything: bool = False) -> Iterator[Leaving]:
        """Releases what the watermarks allow (or everything) through the flow, a step at a time."""

    def finish(self) -> Iterator[Leaving]:
        """The end of all streams: waiting rows, then the remaining timers, domain by domain."""

    def step(
        self,
        given: Given,
        watermarks: Mapping[int, int],
        *,
        ending: frozenset[int] = frozenset(),
        round: int = 0,
        arriving: Mapping[Edge, Chunk] | None = None,
    ) -> Leaving:
        """Runs a step, or sends it on its way; gives what has left since the last call.

        Args:
            given: streams that begin in this step (sources and their side outputs).
            watermarks: the watermark of domains, as far as they move in this step.
            ending: the domain that ends, if one does.
            round: what of its end comes now (see :class:`thalweg.plan.plan.Closing`).
            arriving: chunks from earlier stages by edge, in stream order.
        """

    def settle(self) -> Iterator[Leaving]:
        """Waits for the steps that are on their way; gives what leaves."""

    def edge_columns(self, ref: Ref, edge: Edge) -> tuple[str, ...]:
        """The order columns of a stream as one of its readers sees it."""

    def operators(self) -> list[OperatorProgress]:
        """What each operator has done."""

    def give_up(self) -> None:
        """Operators wait for nobody outside any more: a step that waits for calls fails. Waits for nothing."""

    def totals(self) -> Counts:
        """The counts of now, also of what has not been added to ``counts`` yet; from any thread."""

    def held_tables(self) -> Mapping[str, Sequence[Any]]:
        """By operator with state the tables that it has now. From any thread."""

    def bad_rows(self) -> tuple[FaultyRow, ...]:
        """The last rows that were late or rejected, the newest last; some, not all. From any thread."""

    def pressed(self) -> Sequence[str] | None:
        """The operators that wait for room behind them now; None where none ever does. From any thread."""

    def stop(self) -> None:
        """Ends what runs on its own, leaves what operators have opened, and drops what is on its way."""
