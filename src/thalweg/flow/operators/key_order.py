"""``order="key"``: each key's rows in order, lateness judged by key, without one point that sorts all rows.

A source with ``order="key"`` hands its rows on as they arrive. The first operator by key that reads them gets a
generated keyed operator in front, which holds the key's rows back until the key's own watermark (its greatest time
minus the lateness) has passed them; :class:`~thalweg.flow.operators.nodes.OwnTime` behind it splits off what came
too late. Time is the key's own from there on.
"""

from __future__ import annotations

import bisect
import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.built_in import OwnTime
from thalweg.flow.operators.generated import MadeFunctions, make_functions, spare_name
from thalweg.flow.operators.nodes import Coroutine, Key, Node, Ref, Source, Union
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import make_state
from thalweg.times import NEVER

#: When the timer of a key whose rows wait stands: only the end of the stream fires it.
_AT_THE_END: Final = NEVER - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """What a stream whose time is its keys' own remembers of its source, and of the key that ordered it.

    Attributes:
        source: the source's node.
        name: the source's name.
        lateness: the source's lateness.
        ordered: the node that put the rows of each key in order; 0 as long as none has.
        late: the record of the rows that this node found late.
        kept: the fields in which each row still has the key that it was ordered by.
    """

    source: int
    name: str
    lateness: int
    ordered: int = 0
    late: Schema | None = None
    kept: tuple[str, ...] = ()

    def keeping(self, names: Sequence[str]) -> Own:
        """The same for a stream whose rows have the key in these fields."""
        return dataclasses.replace(self, kept=tuple(names))

    def refuse(self, label: str, why: str) -> BuildError:
        """The error for an operator that cannot work on such a stream."""
        return BuildError(
            f"operator {label!r}: {why}; source {self.name!r} has order='key', so time is each key's own."
            " Give the source order='total', or sort the rows with order_by first"
        )

    def check_key(self, label: str, key: Key) -> None:
        """Refuses an operator by another key than the one that the rows were ordered by."""
        names = tuple(field.name for field in key.fields)
        if not names:
            raise self.refuse(label, "a state for all rows needs a total order of the rows")
        if self.ordered and (key.function is not None or names != self.kept):
            had = ", ".join(self.kept) or "none that is known to be the key"
            raise self.refuse(
                label,
                f"a second key would need its rows in order (key here: {', '.join(names)}; the fields that"
                f" hold the key by which the rows were ordered: {had})",
            )


def order(label: str, row: Schema, lateness: int) -> MadeFunctions:
    """The generated operator: gives each row with a last field that says whether it came too late.

    Args:
        label: the operator's name.
        row: the user's record with the event time as its last field.
        lateness: how far a row may lie behind the key's greatest time before it.
    """
    flag = spare_name("late", row.names)
    out = Schema.make_record("Ordered", [*row.fields, Field(flag, FieldType(Kind.BOOL))])
    return _at_once(label, row, out) if lateness <= 0 else _held(label, row, out, lateness)


def _at_once(label: str, row: Schema, out: Schema) -> MadeFunctions:
    """Without lateness no row waits."""
    time = row.fields[-1]
    fields = [
        Field("known", FieldType(Kind.BOOL), False),
        Field("greatest", time.type, 0),
    ]
    values = ", ".join(f"row.{name}" for name in row.names)
    text = (
        "def order(state, row):\n"
        f"    if state.known and row.{time.name} < state.greatest:\n"
        f"        return Out({values}, True)\n"
        "    state.known = True\n"
        f"    state.greatest = row.{time.name}\n"
        f"    return Out({values}, False)\n"
    )
    made = make_functions(label, text, {"Out": out.cls})
    return MadeFunctions(made["order"], None, make_state("KeyClock", fields), out)


def _held(label: str, row: Schema, out: Schema, lateness: int) -> MadeFunctions:
    """Rows wait, sorted by (time, arrival), until the key's greatest time lies ``lateness`` above theirs."""
    time = row.fields[-1]
    waiting = FieldType(Kind.LIST, item=FieldType(Kind.RECORD, record=row))
    fields = [
        Field("timer", FieldType(Kind.TIMER), NEVER),
        Field("known", FieldType(Kind.BOOL), False),
        Field("greatest", time.type, 0),
        Field("waiting", waiting, []),
    ]
    text = (
        "def order(state, row):\n"
        f"    if state.known and row.{time.name} < state.greatest - LATENESS:\n"
        "        return [OUT((*row, True))]\n"
        f"    if not state.known or row.{time.name} > state.greatest:\n"
        f"        state.greatest = row.{time.name}\n"
        "    state.known = True\n"
        "    insort(state.waiting, ITEM(row), key=TIME)\n"
        "    count = bisect(state.waiting, state.greatest - LATENESS, key=TIME)\n"
        "    ready = state.waiting[:count]\n"
        "    state.waiting = state.waiting[count:]\n"
        "    state.timer = LAST if state.waiting else NEVER\n"
        "    return [OUT((*one, False)) for one in ready]\n"
        "def release(state, key, time):\n"
        "    return [OUT((*one, False)) for one in state.waiting]\n"
    )
    scope = {
        "LATENESS": lateness,
        "LAST": _AT_THE_END,
        "NEVER": NEVER,
        "OUT": out.make,
        "ITEM": row.make,
        "TIME": operator.itemgetter(-1),
        "insort": bisect.insort_right,
        "bisect": bisect.bisect_right,
    }
    made = make_functions(label, text, scope)
    return MadeFunctions(made["order"], made["release"], make_state("KeyRows", fields), out)


# -- late rows -------------------------------------------------------------------------------------------


def settle_late(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with each reader of such a source's late rows behind the operator that finds them.

    Raises:
        BuildError: nothing orders a source's rows, or it is not clear what its late rows are.
    """
    target: dict[Ref, Ref] = {}
    read = {ref for node in nodes for ref in node.inputs}
    for source in nodes:
        if isinstance(source, Source) and source.order == "key":
            points = [n for n in nodes if isinstance(n, OwnTime) and n.source == source.name]
            late = Ref(source.index, "late")
            if late in read or not points:
                target[late] = Ref(_late_point(source, points).index, "late")
    return _renumbered(nodes, target) if target else tuple(nodes)


def _late_point(source: Source, points: Sequence[OwnTime]) -> OwnTime:
    if not points:
        raise BuildError(
            f"source {source.name!r} has order='key', but no operator by key reads it, so nothing puts its rows in"
            " order; add key_by(...) with process, sessions or dedupe, or give the source order='total'"
        )
    if len(points) > 1:
        raise BuildError(
            f"source {source.name!r}: lateness is judged by key, in {', '.join(p.name for p in points)};"
            " read .late of the operators by key instead of the source's"
        )
    if points[0].record != source.record:
        raise BuildError(
            f"source {source.name!r}: its rows are {points[0].record.name}, no longer {source.record.name},"
            " where lateness is judged by key; read .late of the operator by key instead of the source's"
        )
    return points[0]


def _renumbered(nodes: Sequence[Node], target: Mapping[Ref, Ref]) -> tuple[Node, ...]:
    """The nodes in an order in which each stands behind what it reads, otherwise as they were."""
    number: dict[int, int] = {}
    ordered: list[Node] = []
    pending = list(nodes)
    while pending:
        node = next(
            n for n in pending if all(target.get(ref, ref).node in number for ref in n.inputs)
        )
        pending.remove(node)
        ordered.append(node)
        number[node.index] = len(ordered)

    def moved(ref: Ref) -> Ref:
        found = target.get(ref, ref)
        return Ref(number[found.node], found.port)

    return tuple(_moved(node, number[node.index], moved) for node in ordered)


def _moved(node: Node, index: int, moved: Callable[[Ref], Ref]) -> Node:
    if isinstance(node, Coroutine):
        ports = tuple(dataclasses.replace(port, ref=moved(port.ref)) for port in node.in_ports)
        return dataclasses.replace(node, index=index, in_ports=ports)
    if isinstance(node, Union):
        return dataclasses.replace(node, index=index, streams=tuple(map(moved, node.streams)))
    if node.inputs:
        return dataclasses.replace(node, index=index, input=moved(node.inputs[0]))  # type: ignore[call-arg]
    return dataclasses.replace(node, index=index)
