"""The plan as text: a flow's operators, their stages, whether they are compiled, and their order.

The page is plain text of at most :data:`WIDTH` columns, the same on every machine, so that it can be compared.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

from thalweg.engine.build import OWN_LOOP, Verdict, prepare, verdicts
from thalweg.flow.flow import Flow
from thalweg.flow.loops.nodes import LoopByKey, StatelessLoop
from thalweg.flow.operators.asynchronous import MapAsync
from thalweg.flow.operators.built_in import BuiltIn, length_text
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.joining.join_nodes import Join, NextRow
from thalweg.flow.operators.lanes import meaning
from thalweg.flow.operators.nodes import (
    Batches,
    Coroutine,
    Keyed,
    Node,
    OrderBy,
    Ref,
    Sink,
    Source,
    Stateless,
    Union,
)
from thalweg.flow.records import Schema
from thalweg.plan.plan import Plan, make_plan
from thalweg.plan.regions import riders_of
from thalweg.plan.run_to_run import varying_parts
from thalweg.times import EXTREME

#: Columns of the page.
WIDTH: Final = 96
_NOT_TRIED: Final = "the compiler was not asked"


def explain(flow: Flow, *, compile: bool = True) -> str:
    """The plan of a flow as text.

    Args:
        flow: the flow; it needs a source and a sink.
        compile: whether to ask the compiler about each function, which takes seconds the first time.

    Raises:
        CompileRefused: a function that must be compiled cannot be; the message says why.
    """
    plan = make_plan(flow)
    return _Page(plan, verdicts(prepare(plan)) if compile else None).text()


@dataclasses.dataclass(slots=True)
class _Page:
    plan: Plan
    #: by node; None when the compiler was not asked
    found: Mapping[int, Verdict] | None

    def text(self) -> str:
        lines = list(self.head())
        for stage in range(self.plan.depth):
            lines += ["", *self.stage(stage)]
        lines += ["", *self.time(), *self.order()]
        return "\n".join(lines) + "\n"

    def head(self) -> Iterator[str]:
        plan = self.plan
        parts = [
            _number(plan.depth, "stage"),
            _number(len(plan.nodes), "operator"),
            _number(len(plan.sources), "source"),
            _number(len(plan.sinks), "sink"),
        ]
        yield f"flow {plan.flow}: {', '.join(parts)}"

    def stage(self, stage: int) -> Iterator[str]:
        """The operators of a stage; those of a composite stand indented under its name."""
        yield f"stage {stage}: {self.entry(stage)}"
        mine = [node for node in self.plan.nodes if self.plan.stage(node.index) == stage]
        column = min(24, 4 + max(len(_short(node)) + 2 * bool(_prefix(node)) for node in mine))
        open_ = ""
        for node in mine:
            prefix = _prefix(node)
            if prefix and prefix != open_:
                yield f"  {prefix}/"
            open_ = prefix
            yield from self.operator(node, f"{'    ' if prefix else '  '}{_short(node)}", column)

    def entry(self, stage: int) -> str:
        if stage == 0:
            sorts = all(source.order == "total" for source in self.plan.sources)
            return f"where tuples enter; each source is read {'and sorted ' if sorts else ''}in one slot"
        mine = [n for n in self.plan.nodes if self.plan.stage(n.index) == stage]
        if not any(isinstance(node, Keyed) and node.key.fields for node in mine):
            return "all rows go to one slot"
        return "each row goes to the slot that owns its key's bucket"

    def operator(self, node: Node, title: str, column: int) -> Iterator[str]:
        """The name, and beside it what there is to say, an aspect a line."""
        indent = " " * column
        first = f"{title:<{column}}"
        if len(title) >= column:
            yield title
            first = indent
        for line in [self.what(node), *self.details(node)]:
            if line:
                yield from textwrap.wrap(
                    line, WIDTH, initial_indent=first, subsequent_indent=f"{indent}  "
                )
                first = indent

    def what(self, node: Node) -> str:
        parts = [_kind(node)]
        if node.inputs:
            parts.append(f"reads {', '.join(self.stream(ref) for ref in node.inputs)}")
        if isinstance(node, (LoopByKey, StatelessLoop)):
            node = node.loop
        if isinstance(node, Coroutine) and len(node.out_ports) > 1:
            given = ", ".join(f"{port.record.name} ({port.name})" for port in node.out_ports)
            parts.append(f"gives {given}")
        elif node.out is not None:
            parts.append(f"gives {node.out.name}")
        return ", ".join(parts)

    def details(self, node: Node) -> Iterator[str]:
        if isinstance(node, Source):
            yield _source(node)
        elif isinstance(node, OrderBy):
            yield f"by {node.field}, lateness {_lateness(node)}, ties in arrival order"
        elif isinstance(node, Keyed):
            if node.timing == "end":
                yield "puts each key's rows in order and judges their lateness"
            yield from _keyed(node)
            yield _join(node) if isinstance(node, Join) else self.key_made(node)
            yield (
                _coroutine(node.loop, "a loop for each key; ")
                if isinstance(node, LoopByKey)
                else ""
            )
        elif isinstance(node, Coroutine):
            yield _coroutine(node)
        elif isinstance(node, BuiltIn):
            yield node.described()
        elif isinstance(node, Sink):
            yield (
                "ordered: one task writes"
                if node.ordered
                else "unordered: each slot writes its part"
            )
        yield self.how(node)
        yield self.fused(node)
        yield self.threads(node)
        yield from self.sides(node)
        yield from self.sent_back(node)

    def how(self, node: Node) -> str:
        """Compiled, or interpreted and why."""
        if isinstance(node, Batches):
            return f"{_where(node.function)}, on Arrow batches"
        if isinstance(node, MapAsync):
            return f"{_where(node.function)} awaited, at most {node.concurrency} at once{node.tries.described()}"
        if isinstance(node, Join):
            return self.joined(node)
        if isinstance(node, Coroutine):
            return f"{_where(node.function)} interpreted: it has its own driver loop".strip()
        if isinstance(node, (LoopByKey, StatelessLoop)):
            return f"{_where(node.loop.told)} interpreted: {OWN_LOOP}".strip()
        if not isinstance(node, (Stateless, Keyed)):
            return "built in" if isinstance(node, (BuiltIn, Union)) else ""
        verdict = self.verdict(node)
        names = ", ".join(filter(None, map(_where, _functions(node))))
        word = "compiled" if verdict.compiled else f"interpreted: {verdict.reason}"
        return f"{names} {word}".strip()

    def joined(self, node: Join) -> str:
        """How a join finds and combines its pairs."""
        found = "matches by column" if isinstance(node, NextRow) else "pairs by column"
        if node.user is None:
            return found
        verdict = self.verdict(node)
        word = "compiled" if verdict.compiled else f"interpreted: {verdict.reason}"
        return f"{found}; {_where(node.user)} {word}"

    def verdict(self, node: Node) -> Verdict:
        if self.found is None:
            return Verdict(False, _NOT_TRIED, False, _NOT_TRIED)
        return self.found.get(node.index, Verdict(False, "no verdict", False, "no verdict"))

    def key_made(self, node: Keyed) -> str:
        """What runs the function that makes the key, where there is one."""
        if node.key.function is None:
            return ""
        verdict = self.verdict(node)
        word = "compiled" if verdict.key_compiled else f"interpreted: {verdict.key_reason}"
        return f"key by {_where(node.key.function)} {word}"

    def fused(self, node: Node) -> str:
        unit = next(unit for unit in self.plan.units if node.index in unit.nodes)
        if len(unit.nodes) == 1 and not unit.loop:
            return ""
        names = [self.plan.node(index).name for index in unit.nodes]
        if unit.loop:
            return f"in a loop of feedback, a row at a time: {', '.join(names)}"
        if unit.nodes[0] == node.index:
            return f"fused, one pass: {' + '.join(names)}"
        return f"fused with {names[0]}"

    def threads(self, node: Node) -> str:
        """Who runs it, where its author has said so."""
        region = self.plan.region_of(node.index)
        if region is None or isinstance(node, Source):
            return ""
        if region.model != "manual":
            own = "a thread of its own" if region.model == "dedicated" else "the workers"
            return f"threading {region.model}: {own}"
        riders = riders_of(self.plan, self.plan.units, None, "dynamic")
        unit = next(unit for unit in self.plan.units if node.index in unit.nodes)
        if unit.nodes[0] in riders.several:
            return "threading manual, but its inputs come from several operators: the workers"
        leaders = (
            {riders.ends[edge] for edge in riders.ends if edge.node == node.index}
            if isinstance(node, Sink)
            else {riders.leaders[unit.nodes[0]]}
        )
        names = [self.plan.node(one).name if one else "the source" for one in sorted(leaders)]
        return f"threading manual: who runs {', '.join(names)}"

    def sides(self, node: Node) -> Iterator[str]:
        for port in ("late", "rejected"):
            edges = self.plan.readers.get(Ref(node.index, port), ())
            names = ", ".join(self.plan.node(edge.node).name for edge in edges)
            if names:
                yield f"{port} rows go to {names}"
            elif port == "rejected" and getattr(node, "errors", "fail") == "reject":
                yield "rejected rows are counted"

    def sent_back(self, node: Node) -> Iterator[str]:
        """Who reads its streams by feedback."""
        for ref, edges in self.plan.feedback.items():
            if ref.node == node.index:
                names = (self.plan.node(edge.node).name for edge in edges)
                yield f"{'' if ref.port == 'out' else ref.port + ' '}rows go back to {', '.join(names)}"

    def stream(self, ref: Ref) -> str:
        name = self.plan.node(ref.node).name
        return name if ref.port == "out" else f"{name}.{ref.port}"

    # -- time and order ---------------------------------------------------------------------------------

    def time(self) -> Iterator[str]:
        """Each time domain with the nodes whose watermarks rule it and their lateness."""
        domains: dict[int, list[Source | OrderBy]] = {}
        for node in self.plan.nodes:
            domain = self.plan.domains[node.index - 1]
            if domain and isinstance(node, (Source, OrderBy)):
                domains.setdefault(domain, []).append(node)
        own = [source for source in self.plan.sources if source.order == "key"]
        for source in own:
            yield from _wrapped(
                "time",
                f"each key's own: {source.name} by {source.order_by}, lateness {_lateness(source)}. A key's timers"
                " fire before its next row with a greater time, or at the end of the stream",
            )
        if not domains and not own:
            yield from _wrapped("time", "no event time: rows stay in the order of their arrival")
        for watermarks in domains.values():
            said = [
                f"{node.name} by {_time_field(node)}, lateness {_lateness(node)}"
                for node in watermarks
            ]
            members = f"one watermark: {'; '.join(said)}"
            if len(watermarks) > 1:
                members += " (the slowest of them rules)"
            yield from _wrapped("time", members)

    def order(self) -> Iterator[str]:
        plan = self.plan
        whole = sorted(
            {c for sink in plan.sinks for c in plan.order_columns(sink.input, whole=True)}
        )
        yield from _wrapped(
            "order",
            "the output is that of a serial run. One slot keeps it by running in order; between slots rows carry"
            f" the order key (time, operator, arrival or timer's key{', places' if len(whole) > 4 else ''}),"
            " by which each stage and each ordered sink merges",
        )
        if any(source.order == "key" for source in plan.sources):
            yield from _wrapped(
                "order by key",
                "behind a source with order='key' the order of the output is promised by key only",
            )
        varying = list(varying_parts(plan)) or ["none, as far as can be seen in their code"]
        yield from _wrapped("parts whose output may differ from run to run", "; ".join(varying))


def _short(node: Node) -> str:
    return node.name.rpartition("/")[2]


def _prefix(node: Node) -> str:
    return node.name.rpartition("/")[0]


def _kind(node: Node) -> str:
    if isinstance(node, (LoopByKey, StatelessLoop)):
        return f"{node.kind.value} (coroutine)"
    if isinstance(node, Stateless):
        return f"{node.kind.value} ({node.verb})"
    if isinstance(node, Batches):
        return f"{node.kind.value} (map_batches)"
    if isinstance(node, MapAsync):
        return f"{node.kind.value} (map_async)"
    if isinstance(node, OrderBy):
        return f"{node.kind.value} (order_by)"
    if isinstance(node, Coroutine):
        return f"{node.kind.value} (coroutine)"
    return node.kind.value


def _source(node: Source) -> str:
    if node.made_by is not None:
        return f"{_where(node.made_by.function)} makes its rows".strip()
    stamped = [f"{node.stamp} is stamped when a row comes"] if node.stamp else []
    if node.order_by is None:
        return "; ".join(["in arrival order", *stamped])
    each = ", each key on its own" if node.order == "key" else ""
    ties = f"by {node.lane} and place in it" if node.keeps_lanes else "in arrival order"
    parts = [f"by {node.order_by}{each}, lateness {_lateness(node)}, ties {ties}", *stamped]
    if node.lane:
        parts.append(f"lanes by {node.lane}: {meaning(node.lane, node.lanes)}")
    if node.arrival:
        parts.append(f"arrival by {', '.join(node.arrival)}")
    return "; ".join(parts)


def _keyed(node: Keyed) -> Iterator[str]:
    timer = " with timer" if node.state.timer else ""
    if node.timers:
        timer = f" with timers {', '.join(node.timers)}{', which outlives them' * node.keeps}"
    state = f"state {node.state.name}{timer}"
    if node.collects is not None:
        state = f"keeps rows of {node.collects.item.name} until their window ends"
    if node.key.fields:
        fields = ", ".join(f"{field.name}: {field.type}" for field in node.key.fields)
        yield f"key {fields}; {_number(node.key.buckets, 'bucket')}; {state}"
    else:
        yield f"a single state for all rows; {state}"


def _join(node: Join) -> str:
    """How far apart rows meet, and the sides whose rows come out without a partner."""
    left, right = node.sides
    kind = left.record.fields[left.time].type.kind
    if isinstance(node, NextRow):
        which = "nearest row of the right" if node.nearest else "next row of the right"
        far = f", at most {length_text(kind, node.within)} apart" if node.within < EXTREME else ""
        return f"each row of the left with the {which}{far}"
    after, before = (length_text(kind, side.within) for side in (left, right))
    far = f"at most {after} apart"
    if before != after:
        far = f"of the right at most {before} before and {after} after those of the left"
    kept = [name for name, side in zip(("left", "right"), node.sides, strict=True) if side.keeps]
    alone = f"; rows of the {' and the '.join(kept)} that met none, too" if kept else ""
    return f"rows {far}{alone}"


def _coroutine(node: Coroutine, how: str = "") -> str:
    """Its ports, and what must outlive a wait."""
    inputs = [
        f"{'control ' if port.control else ''}{port.name}{' (feedback)' if port.feedback else ''}"
        for port in node.in_ports
    ]
    state = f"; state {node.own.name}" if node.own else ""
    limit = f"; at most {node.max_waiting} rows wait at an input" if node.max_waiting else ""
    return f"{how}inputs {', '.join(inputs)}{limit}{state}"


def _functions(node: Stateless | Keyed) -> list[Function]:
    if isinstance(node, Stateless):
        return [node.function]
    return [node.process] if node.on_timer is None else [node.process, node.on_timer]


def _where(function: Function) -> str:
    """The function's place, empty for those that the library wrote."""
    return "" if function.file.startswith("<") else function.where


def _time_field(node: Source | OrderBy) -> str:
    return str(node.order_by if isinstance(node, Source) else node.field)


def _lateness(node: Source | OrderBy) -> str:
    return _span(node.record, _time_field(node), node.lateness)


def _span(record: Schema, field: str, length: int) -> str:
    return length_text(record.field(field).type.kind, length)


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _wrapped(title: str, text: str) -> list[str]:
    return textwrap.wrap(f"{title}: {text}", WIDTH, subsequent_indent="  ")
