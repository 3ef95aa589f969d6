"""From a flow to a plan: who reads whom, stages, fused chains, time domains and the order key.

The order key (docs/architecture.md) places every tuple of every stream in the serial, depth-first run: event time,
level (0 for rows, else the index of the operator whose timer made it), then source and arrival or the timer's
key, then along the path one counter per expanding operator and one branch number per fan-out. The plan says
which of these hidden columns a stream carries. A single slot needs the whole key only in front of a union.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from thalweg.checks import meant
from thalweg.errors import BuildError
from thalweg.flow.blocks import refuse_not_entered
from thalweg.flow.flow import Flow
from thalweg.flow.operators.built_in import BuiltIn
from thalweg.flow.operators.domains import domains_of
from thalweg.flow.operators.feedback import check_connected, loops_of
from thalweg.flow.operators.key_order import settle_late
from thalweg.flow.operators.nodes import (
    Coroutine,
    Keyed,
    Node,
    OrderBy,
    Ref,
    Sink,
    Source,
    Union,
)
from thalweg.flow.records import Schema
from thalweg.flow.regions import Region, Regions
from thalweg.flow.tags import NO_TAGS, Tag, Tags, tags_of
from thalweg.plan.units import Unit, expands, ports, stages_of, units_of

TIME: Final = "_time"
LEVEL: Final = "_level"
SEQ: Final = "_seq"
KEY: Final = "_key"
#: The row's time where time is each key's own; it stands behind the order key and orders nothing.
OWN: Final = "_own"
#: The event part of the order key; counters and branches follow, see :meth:`Plan.order_columns`.
EVENT: Final = (TIME, LEVEL, SEQ, KEY)
#: The first thing that ends: rows that wait for their key's own watermark are released, before any timer fires.
RELEASE: Final = -1


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Edge:
    """One reader of a stream: the reading node and its input port."""

    node: int
    port: int


class Closing(NamedTuple):
    """A step of the end of the streams: in round 0 the last timers of a domain fire; then, in a round each, the
    coroutine operators close whose inputs have ended with it, and what they give runs through."""

    domain: int
    round: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """A checked flow, ready to be run by any host.

    ``stages[i]`` is the number of re-routings between slots before node i + 1; ``domains[i]`` names the node
    whose watermark rules its main output (a source or order_by; 0 where there is no event time).
    """

    flow: str
    nodes: tuple[Node, ...]
    stages: tuple[int, ...]
    domains: tuple[int, ...]
    units: tuple[Unit, ...]
    #: names that operators had before, and those that they have now
    renamed: tuple[tuple[str, str], ...] = ()
    #: what the flow's author says of operators
    tags: Tags = ()
    #: and by which threads they are run, where that was said
    regions: Regions = ()

    def region_of(self, index: int) -> Region | None:
        """The region that an operator was defined in."""
        return self._regions.get(index)

    @functools.cached_property
    def _regions(self) -> dict[int, Region]:
        return dict(self.regions)

    def tags_of(self, index: int) -> Mapping[str, Tag]:
        """What the flow's author says of an operator."""
        return self._tags.get(index, NO_TAGS)

    @functools.cached_property
    def _tags(self) -> dict[int, dict[str, Tag]]:
        return {index: dict(found) for index, found in self.tags}

    def node(self, index: int) -> Node:
        return self.nodes[index - 1]

    def stage(self, index: int) -> int:
        return self.stages[index - 1]

    def domain(self, ref: Ref) -> int:
        """The time domain of a stream; late and rejected streams have none."""
        return self.domains[ref.node - 1] if ref.port in self.node(ref.node).main else 0

    @functools.cached_property
    def _own(self) -> frozenset[int]:
        """The nodes whose main output has each key's own time."""
        found: set[int] = set()
        for node in self.nodes:
            if isinstance(node, Source):
                own = node.order == "key"
            else:
                inputs = [ref for ref in node.inputs if ref.port == "out"]
                own = not isinstance(node, OrderBy) and any(ref.node in found for ref in inputs)
            if own:
                found.add(node.index)
        return frozenset(found)

    def own(self, ref: Ref) -> bool:
        """Whether a stream's time is each key's own."""
        return ref.port == "out" and ref.node in self._own

    @functools.cached_property
    def endings(self) -> tuple[int, ...]:
        """The domains in the order in which they end; 0 are the streams without a watermark."""
        first = [RELEASE] if any(node.timing == "end" for node in self.keyed) else []
        return (*first, *sorted({0, *self.domains}))

    @functools.cached_property
    def closings(self) -> tuple[Closing, ...]:
        """The steps in which the streams end."""
        return tuple(
            Closing(domain, number)
            for domain in self.endings
            for number in range(self.rounds(domain) + 1)
        )

    @functools.cached_property
    def _closers(self) -> dict[int, list[int]]:
        """By domain, the coroutine operators whose inputs have all ended when it has, in order."""
        found: dict[int, list[int]] = {}
        for node in self.nodes:
            if isinstance(node, Coroutine):
                found.setdefault(self.last_domain(node), []).append(node.index)
        return found

    def last_domain(self, node: Node) -> int:
        """The domain whose end is the end of all of a node's inputs.

        A late or rejected stream goes on until the last domain that it comes from has ended.
        """
        return max(self.domains[one.index - 1] for ref in node.inputs for one in self.upstream(ref))

    def rounds(self, domain: int) -> int:
        """How many coroutine operators close when a domain ends."""
        return len(self._closers.get(domain, ()))

    def closing(self, node: Coroutine) -> Closing:
        """When a coroutine operator closes."""
        domain = self.last_domain(node)
        return Closing(domain, 1 + self._closers[domain].index(node.index))

    @functools.cached_property
    def depth(self) -> int:
        """How many stages there are."""
        return max(self.stages) + 1

    @functools.cached_property
    def readers(self) -> dict[Ref, tuple[Edge, ...]]:
        """Who reads each stream, in the order in which a serial run visits them."""
        out: dict[Ref, list[Edge]] = {}
        for node in self.nodes:
            for port, ref in enumerate(node.inputs):
                out.setdefault(ref, []).append(Edge(node.index, port))
        return {ref: tuple(sorted(edges)) for ref, edges in out.items()}

    @functools.cached_property
    def feedback(self) -> dict[Ref, tuple[Edge, ...]]:
        """Who reads each stream by feedback."""
        out: dict[Ref, list[Edge]] = {}
        for node in self.coroutines:
            for port, one in enumerate(node.in_ports):
                if one.feedback:
                    out.setdefault(one.ref, []).append(Edge(node.index, port))
        return {ref: tuple(edges) for ref, edges in out.items()}

    def inputs_of(self, nodes: Sequence[int]) -> tuple[tuple[Ref, Edge], ...]:
        """What comes into a unit from others: of a chain what its first node reads, of a loop what any does."""
        return tuple(
            (ref, Edge(index, port))
            for index in nodes
            for port, ref in enumerate(self.node(index).inputs)
            if ref.node not in nodes
        )

    @functools.cached_property
    def sources(self) -> tuple[Source, ...]:
        return tuple(n for n in self.nodes if isinstance(n, Source))

    @functools.cached_property
    def sinks(self) -> tuple[Sink, ...]:
        return tuple(n for n in self.nodes if isinstance(n, Sink))

    @functools.cached_property
    def keyed(self) -> tuple[Keyed, ...]:
        return tuple(n for n in self.nodes if isinstance(n, Keyed))

    @functools.cached_property
    def coroutines(self) -> tuple[Coroutine, ...]:
        return tuple(n for n in self.nodes if isinstance(n, Coroutine))

    @functools.cached_property
    def merges(self) -> frozenset[Ref]:
        """The streams that lead to where several are merged, whose order key must therefore be whole."""
        out: set[Ref] = set()
        loops = {index: loop for loop in loops_of(self.nodes) for index in loop}
        for node in reversed(self.nodes):
            several = isinstance(node, Coroutine) and len(node.inputs) > 1
            several = several or (
                node.index in loops and len(self.inputs_of(loops[node.index])) > 1
            )
            merging = isinstance(node, Union) or several
            if merging or any(Ref(node.index, port) in out for port in ports(node)):
                out.update(node.inputs)
        return frozenset(out)

    def order_columns(self, ref: Ref, *, whole: bool) -> tuple[str, ...]:
        """The hidden columns of a stream, most significant first.

        Args:
            ref: the stream.
            whole: whether the whole order key is wanted (several slots, or a union behind it).
        """
        own = (OWN,) if self.own(ref) else ()
        if not whole:
            return (TIME, *own) if own or self.domain(ref) else ()
        return (*EVENT, *self._path_columns(ref), *own)

    def merged_columns(self, refs: Sequence[Ref]) -> tuple[str, ...]:
        """The whole order key of several streams, merged."""
        found = {
            _place(name): name
            for ref in refs
            for name in (*self._path_columns(ref), *self._branch(ref))
        }
        return (*EVENT, *(found[place] for place in sorted(found)))

    def _branch(self, ref: Ref) -> tuple[str, ...]:
        return (branch(ref.node),) if len(self.readers[ref]) > 1 else ()

    def _path_columns(self, ref: Ref) -> tuple[str, ...]:
        found: set[tuple[int, int]] = set()
        waiting, seen = [ref], {ref}
        while waiting:
            ref = waiting.pop()
            node = self.node(ref.node)
            if ref.port in node.main and expands(node):
                found.add((node.index, 0))
            if isinstance(node, (Source, OrderBy)):
                continue
            if ref.port == "late" and not (isinstance(node, BuiltIn) and node.late_of):
                continue
            found |= {(one.node, 1) for one in node.inputs if len(self.readers[one]) > 1}
            waiting += [one for one in node.inputs if one not in seen]
            seen.update(node.inputs)
        return tuple(f"_{'cb'[kind]}{index}" for index, kind in sorted(found))

    def upstream(self, ref: Ref) -> Iterator[Node]:
        """The nodes that a stream comes from, nearest first."""
        waiting = [ref]
        while waiting:
            node = self.node(waiting.pop().node)
            yield node
            waiting += reversed(node.inputs)


def _place(name: str) -> tuple[int, int]:
    return int(name[2:]), "cb".index(name[1])


def counter(index: int) -> str:
    """The name of the counter column of an expanding operator."""
    return f"_c{index}"


def branch(index: int) -> str:
    """The name of the branch column of a stream with several readers."""
    return f"_b{index}"


def make_plan(flow: Flow) -> Plan:
    """The plan of a flow.

    Raises:
        BuildError: the flow has no source or no sink, a source nobody reads, or a block that nobody entered.
    """
    refuse_not_entered(flow.name, flow._blocks)
    check_connected(flow.nodes)
    nodes = settle_late(flow.nodes)
    if not any(isinstance(node, Source) for node in nodes):
        raise BuildError(f"flow {flow.name!r} has no source; begin with flow.source(...)")
    if not any(isinstance(n, Sink) or (isinstance(n, Coroutine) and not n.main) for n in nodes):
        raise BuildError(f"flow {flow.name!r} has no sink; end a stream with .sink('name')")
    loops = loops_of(nodes)
    renamed = require_renamed(flow, nodes)
    plan = Plan(
        flow.name,
        nodes,
        stages_of(nodes, loops),
        domains_of(nodes),
        (),
        renamed,
        tags_of(flow._tagged),
        tuple(sorted(flow._regions.items())),
    )

    def said_of(index: int) -> object:
        return plan.tags_of(index), plan.region_of(index)

    units = units_of(nodes, plan.merges, loops, plan.stages, said_of)
    return dataclasses.replace(plan, units=tuple(units))


def require_renamed(flow: Flow, nodes: Sequence[Node]) -> tuple[tuple[str, str], ...]:
    """The names that operators had before, with those that they have.

    Raises:
        BuildError: the flow has no operator of the new name, or one of the old.
    """
    names = {node.name for node in nodes if not isinstance(node, Sink)}
    for old, new in flow.renamed.items():
        if new not in names:
            raise BuildError(
                f"flow {flow.name!r}: renamed={{{old!r}: {new!r}}}, but there is no operator or source {new!r}"
                f"{meant(new, names)}"
            )
        if old in names:
            raise BuildError(
                f"flow {flow.name!r}: renamed={{{old!r}: {new!r}}}, but there still is an operator {old!r}: its state"
                " would be that of either; give it another name, or take the entry out"
            )
    return tuple(flow.renamed.items())


def stream_schema(plan: Plan, ref: Ref) -> Schema:
    """The record of a stream."""
    return plan.node(ref.node).record_of(ref.port) or Schema("Nothing", ())
