"""From nodes to implementations: compiled where it can be, interpreted where it must be, and why.

:func:`prepare` runs where the flow was written: it freezes what functions captured and takes along their source,
which a worker in another process or on another machine may not find. :class:`Builder` runs where the operators do.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from thalweg.checkpoint.state_tables.cells import is_cell
from thalweg.columns.chunks import Chunk
from thalweg.columns.contracts import KeyedOperator, StatelessOperator, StatelessResult
from thalweg.columns.keys import KeySpec
from thalweg.compiler import (
    FunctionSource,
    KeyedSpec,
    NotCompilable,
    Step,
    check_keyed,
    check_stateless,
    describe,
    freeze,
    key_step,
    keyed_kernel,
    stateless_kernel,
    tell_changed_copies,
)
from thalweg.engine.interpreter.keyed import InterpretedKeyed
from thalweg.engine.interpreter.stateless import InterpretedChain, InterpretedKey
from thalweg.engine.joins.asof import ColumnAsof
from thalweg.engine.joins.operator import ColumnJoin
from thalweg.errors import BuildError, CompileRefused
from thalweg.flow.loops.nodes import LoopByKey, StatelessLoop
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.joining.join_nodes import Join, NextRow
from thalweg.flow.operators.nodes import Keyed, Node, Stateless
from thalweg.flow.records import Schema
from thalweg.plan.plan import Plan, stream_schema
from thalweg.plan.units import Unit

#: Sources by node index and role (``function``, ``process``, ``on_timer``, ``key``).
Sources = Mapping[tuple[int, str], FunctionSource]
ChainPart = tuple[Sequence[Stateless], StatelessOperator]
KeyFunction = Callable[[Chunk], StatelessResult]

_LOG: Final = logging.getLogger("thalweg")
_FORBIDDEN = "compile=False"
#: Why Python runs a driver loop by key, or one without state.
OWN_LOOP: Final = "it has its own driver loop, which starts from its top at each row"
#: Neighbours become one loop as long as their functions do not nest deeper: a filter is one, a map or flat_map two
#: levels. More would be too deep for Numba, which takes as long for each node in any case.
_MOST_LEVELS: Final = 24


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a node's functions run compiled, and if not, why; the function of its key by itself."""

    compiled: bool
    reason: str = ""
    key_compiled: bool = True
    key_reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A plan whose functions captured frozen values, with their sources: what a host runs or sends."""

    plan: Plan
    sources: Sources
    #: by node with functions, whether it compiles
    verdicts: Mapping[int, Verdict] = dataclasses.field(default_factory=dict)


def prepare(plan: Plan) -> Prepared:
    """Freezes the plan's functions and describes them for the compiler.

    Raises:
        BuildError: a function captured something that cannot be copied.
        CompileRefused: a node says ``compile="require"`` and its function can only be interpreted.
    """
    sources: dict[tuple[int, str], FunctionSource] = {}
    nodes = []
    for node in plan.nodes:
        for role, function in functions_of(node):
            sources[node.index, role] = describe(function.call)
            tell_changed_copies(function.call, node.name)
            node = _with_frozen(node, role, function)
        nodes.append(node)
    prepared = Prepared(dataclasses.replace(plan, nodes=tuple(nodes)), sources)
    prepared = dataclasses.replace(prepared, verdicts=verdicts(prepared))
    for index, verdict in prepared.verdicts.items():
        node = prepared.plan.node(index)
        if not verdict.compiled and getattr(node, "compile", "") == "require":
            raise _refused(node, functions_of(node)[0][1], verdict.reason)
    return prepared


def functions_of(node: object) -> list[tuple[str, Function]]:
    """The functions of a node that may be compiled, by role."""
    if isinstance(node, (LoopByKey, StatelessLoop)):
        return []
    if isinstance(node, Stateless):
        return [("function", node.function)]
    if isinstance(node, Join):
        return [] if node.pair is None else [("pair", node.pair.function)]
    if isinstance(node, Keyed):
        found = [("process", node.process), ("on_timer", node.on_timer), ("key", node.key.function)]
        return [(role, one) for role, one in found if one is not None]
    return []


def _refused(node: Node, function: Function, reason: str) -> CompileRefused:
    return CompileRefused(
        f"operator {node.name!r}: compile='require', but {function.where} can only be interpreted:\n  {reason}"
    )


def _fall_back(node: Stateless | Keyed, function: Function, refusal: NotCompilable) -> None:
    """The compiler failed at what the checks let through: that is told, and an error where it must not be."""
    if node.compile == "require":
        raise _refused(node, function, refusal.reason)
    _LOG.warning("operator %r is interpreted: %s", node.name, refusal.reason)


def _frozen(function: Function, operator: str) -> Function:
    return dataclasses.replace(function, call=freeze(function.call, operator))


def _with_frozen(node: Node, role: str, function: Function) -> Node:
    """The node with a function whose captured values are frozen; a join's that cannot be is called as it is."""
    try:
        return _with_function(node, role, _frozen(function, node.name))
    except BuildError:
        if not isinstance(node, Join):
            raise
    return dataclasses.replace(node, pair=None)


def _with_function(node: Node, role: str, function: Function) -> Node:
    changes: dict[str, Any] = {role: function}
    if isinstance(node, Keyed) and role == "key":
        changes = {"key": dataclasses.replace(node.key, function=function)}
    if isinstance(node, Join) and node.pair is not None:
        changes = {"pair": dataclasses.replace(node.pair, function=function)}
    return dataclasses.replace(node, **changes)


def verdicts(prepared: Prepared) -> dict[int, Verdict]:
    """For each node with functions, whether it compiles; nothing is compiled here."""
    builder = Builder(prepared)
    out = {}
    for node in prepared.plan.nodes:
        if isinstance(node, Stateless):
            out[node.index] = builder.chain_verdict([node])
        elif isinstance(node, Keyed):
            key = builder.key_verdict(node)
            out[node.index] = dataclasses.replace(
                builder.keyed_verdict(node), key_compiled=key.compiled, key_reason=key.reason
            )
    return out


def _beyond_one_timer(node: Keyed) -> str:
    """Why machine code cannot treat the operator's timers; empty where it can."""
    if node.timers:
        return "its state has several timers, which Python sees to"
    if node.keeps:
        return "its state outlives its timer, which Python sees to"
    return "timers that are set again at the end fire, which Python sees to" if node.again else ""


def _not_collected(item: Schema) -> str:
    """Why machine code cannot keep the rows of a window; empty where it can."""
    fields = [f"{one.name}: {one.type}" for one in item.fields if not is_cell(one.type)]
    if not fields:
        return ""
    return (
        f"the window keeps rows of {item.name} with {', '.join(fields)}; machine code keeps rows of int, float, bool,"
        " str, Timestamp and Category, each also | None (aggregates need no rows)"
    )


class Builder:
    """Makes the implementations of a prepared plan's operators."""

    def __init__(self, prepared: Prepared) -> None:
        self.plan = prepared.plan
        self._sources = prepared.sources
        #: by node, what makes the pieces of a keyed operator
        self._makers: dict[int, Callable[[], KeyedOperator]] = {}
        #: by node, why Python runs it though the checks let it through
        self.fallen: dict[int, str] = {}

    # -- stateless ----------------------------------------------------------------------------------------

    def chain(self, unit: Unit) -> list[ChainPart]:
        """A fused chain, cut where compiled and interpreted operators meet."""
        nodes = [node for i in unit.nodes if isinstance(node := self.plan.node(i), Stateless)]
        parts: list[ChainPart] = []
        for good, part in self._runs(nodes):
            parts += self._compiled(part) if good else [(part, InterpretedChain(part))]
        return parts

    def _runs(self, nodes: Sequence[Stateless]) -> Iterator[tuple[bool, list[Stateless]]]:
        run: list[Stateless] = []
        compiled, levels = False, 0
        for node in nodes:
            good = self.chain_verdict([node]).compiled
            own = 1 if node.verb == "filter" else 2
            levels += own
            if run and (good != compiled or (good and levels > _MOST_LEVELS)):
                yield compiled, run
                run, levels = [], own
            compiled = good
            run.append(node)
        yield compiled, run

    def _compiled(self, nodes: Sequence[Stateless]) -> list[ChainPart]:
        """The nodes as one loop, or as several where the compiler cannot do it in one."""
        reject = nodes[0].errors == "reject"
        try:
            made = stateless_kernel(
                self._steps(nodes),
                self._record(nodes[0]),
                reject=reject,
                python=InterpretedChain(nodes),
            )
        except NotCompilable as refusal:
            if len(nodes) > 1:
                half = len(nodes) // 2
                return [*self._compiled(nodes[:half]), *self._compiled(nodes[half:])]
            _fall_back(nodes[0], nodes[0].function, refusal)
            self.fallen[nodes[0].index] = refusal.reason
            return [(nodes, InterpretedChain(nodes))]
        return [(nodes, made)]

    def chain_verdict(self, nodes: Sequence[Stateless]) -> Verdict:
        """Whether these neighbouring nodes compile as one loop."""
        if any(isinstance(node, StatelessLoop) for node in nodes):
            return Verdict(False, OWN_LOOP)
        if any(node.compile == "never" for node in nodes):
            return Verdict(False, _FORBIDDEN)
        return Verdict(*check_stateless(self._steps(nodes), self._record(nodes[0])))

    def _steps(self, nodes: Sequence[Stateless]) -> list[Step]:
        return [
            Step(
                n.verb, n.name, n.function.call, n.record, self._sources.get((n.index, "function"))
            )
            for n in nodes
        ]

    def _record(self, node: Stateless | Keyed) -> Schema:
        return stream_schema(self.plan, node.input)

    # -- joins --------------------------------------------------------------------------------------------

    def pairs(self, node: Join) -> StatelessOperator | None:
        """A join's function over rows that are pairs, as machine code; None where Python calls it, or there is none."""
        if node.pair is None or not self.pair_verdict(node).compiled:
            return None
        try:
            return stateless_kernel([self._pair_step(node)], node.pair.record, reject=False)
        except NotCompilable as refusal:
            _LOG.warning("operator %r is interpreted: %s", node.name, refusal.reason)
            return None

    def pair_verdict(self, node: Join) -> Verdict:
        """Whether a join's function compiles."""
        if node.user is None:
            return Verdict(True)
        if node.pair is None or node.compile == "never":
            return Verdict(False, _FORBIDDEN)
        return Verdict(*check_stateless([self._pair_step(node)], node.pair.record))

    def _pair_step(self, node: Join) -> Step:
        assert node.pair is not None and node.record is not None
        call, source = node.pair.function.call, self._sources.get((node.index, "pair"))
        return Step("map", node.name, call, node.record, source)

    # -- keyed --------------------------------------------------------------------------------------------

    def keyed(self, node: Keyed) -> KeyedOperator:
        """A keyed operator with empty tables."""
        if node.index not in self._makers:
            self._makers[node.index] = self._keyed_maker(node)
        return self._makers[node.index]()

    def _keyed_maker(self, node: Keyed) -> Callable[[], KeyedOperator]:
        if isinstance(node, Join):
            pairs = self.pairs(node)
            if isinstance(node, NextRow):
                return lambda: ColumnAsof(node, pairs)
            return lambda: ColumnJoin(node, pairs)
        if not self.keyed_verdict(node).compiled:
            return lambda: InterpretedKeyed(node)
        try:
            return keyed_kernel(
                self._spec(node), buckets=node.key.buckets, reject=node.errors == "reject"
            )
        except NotCompilable as refusal:
            _fall_back(node, node.process, refusal)
            self.fallen[node.index] = refusal.reason
            return lambda: InterpretedKeyed(node)

    def keyed_verdict(self, node: Keyed) -> Verdict:
        """Whether both of the operator's functions and its state compile; of a join, whether the user's does."""
        if isinstance(node, Join):
            return self.pair_verdict(node)
        if isinstance(node, LoopByKey):
            return Verdict(False, OWN_LOOP)
        if node.compile == "never":
            return Verdict(False, _FORBIDDEN)
        if reason := _beyond_one_timer(node):
            return Verdict(False, reason)
        if node.collects is not None and (reason := _not_collected(node.collects.item)):
            return Verdict(False, reason)
        return Verdict(*check_keyed(self._spec(node)))

    def _spec(self, node: Keyed) -> KeyedSpec:
        return KeyedSpec(
            node.name,
            node.process.call,
            None if node.on_timer is None else node.on_timer.call,
            node.state,
            self._record(node),
            KeySpec(node.key.fields),
            node.record,
            self._sources.get((node.index, "process")),
            self._sources.get((node.index, "on_timer")),
            told=node.process,
        )

    def key(self, node: Keyed) -> KeyFunction | None:
        """The key function of a node as an operator that gives the key as its only column."""
        if node.key.function is None:
            return None
        step = self._key_step(node)
        if self.key_verdict(node).compiled:
            try:
                return stateless_kernel(
                    [step],
                    self._record(node),
                    reject=node.errors == "reject",
                    python=InterpretedKey(node),
                )
            except NotCompilable as refusal:
                _LOG.warning("the key of operator %r is interpreted: %s", node.name, refusal.reason)
        return InterpretedKey(node)

    def key_verdict(self, node: Keyed) -> Verdict:
        """Whether the function of the key, where there is one, compiles."""
        if node.key.function is None:
            return Verdict(True)
        if node.compile == "never":
            return Verdict(False, _FORBIDDEN)
        return Verdict(*check_stateless([self._key_step(node)], self._record(node)))

    def _key_step(self, node: Keyed) -> Step:
        assert node.key.function is not None
        make, bare = Schema.make_record("Key", node.key.fields[:1]), node.key.function.call

        def keyed(row: object) -> object:
            return make.make((bare(row),))

        return key_step(node.name, keyed, make, self._sources.get((node.index, "key")))
