"""``flow.operator`` over streams by key, and with ``stateless=True``: the operators that come of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from thalweg.errors import BuildError
from thalweg.flow.by_key.keyed import KeyedStream
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.loops.forgotten import forgotten
from thalweg.flow.loops.nodes import (
    KeyRules,
    LoopByKey,
    Side,
    StatelessLoop,
    StatelessRules,
    ToPort,
)
from thalweg.flow.loops.row_loop import Tagged
from thalweg.flow.operators.generated import spare_name
from thalweg.flow.operators.generators import outputs_of, tagged, tagged_record
from thalweg.flow.operators.kept import unread_fields
from thalweg.flow.operators.nodes import PORT_ROWS, Coroutine, Key, Node, Ref, Union
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import StateSpec, make_state

if TYPE_CHECKING:
    from thalweg.flow.flow import Flow
    from thalweg.flow.streams import Stream


def without_keys(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Key]]:
    """What ``flow.operator`` was given with plain streams in place of those by key; and the keys, by input."""
    keys: dict[str, Key] = {}

    def plain(name: str, one: Any) -> Any:
        if not isinstance(one, KeyedStream):
            return one
        one._need_whole_keys(name, "a driver loop reads all rows of a key")
        keys[name] = one._key
        return one._stream

    made: dict[str, Any] = {}
    for name, one in given.items():
        if isinstance(one, Mapping):
            made[name] = {port: plain(str(port), each) for port, each in one.items()}
        elif isinstance(one, (list, tuple)):
            made[name] = [plain(f"{name}[{place}]", each) for place, each in enumerate(one)]
        else:
            made[name] = plain(name, one)
    return made, keys


def _refuse(loop: Coroutine, what: str) -> BuildError:
    return BuildError(f"operator {loop.name!r}: {loop.function.where} {what}")


def _check(loop: Coroutine, how: str) -> None:
    """Refuses what a loop that starts anew at each row has no use for."""
    if not loop.in_ports or not loop.out_ports:
        raise _refuse(loop, f"lacks inputs or outputs, and {how} it has both")
    if any(port.feedback for port in loop.in_ports):
        raise _refuse(
            loop, f"reads by feedback, and {how} there is no one loop that it could come back to"
        )
    lost = "" if loop.user else forgotten(loop.function.call)
    if lost:
        raise _refuse(
            loop,
            f"would lose something: {lost}; {how} a loop starts from its top at each row, and is not told of the end."
            " Hold in a class with @tw.state, given by key, what must outlive a row (docs/coroutines.md)",
        )
    if loop.capacity != PORT_ROWS:
        raise _refuse(loop, f"has capacity=, but {how} no source waits for it; say max_waiting=")


# -- without state ----------------------------------------------------------------------------------------


def add_stateless(flow: Flow, loop: Coroutine, time: FieldType | None) -> list[Stream[Any]]:
    """Adds a loop without state; its streams.

    Raises:
        BuildError: it has a state, another number of inputs than one, or no output.
    """
    _check(loop, "with stateless=True")
    if len(loop.in_ports) != 1 or loop.in_ports[0].control:
        names = ", ".join(port.name for port in loop.in_ports)
        raise _refuse(
            loop, f"has the inputs {names}; with stateless=True a loop reads one, a row at a time"
        )
    if loop.own is not None:
        raise _refuse(
            loop,
            f"asks for a state {loop.own.name}, so it is not stateless; leave stateless= out, or give its stream"
            " by key: key_by(...)",
        )
    loop, record, tag = _outputs(flow, loop)
    rules = StatelessRules(loop, tag)
    node = StatelessLoop(
        loop.index, loop.name, "flat_map", loop.in_ports[0].ref,
        dataclasses.replace(loop.told, call=rules.each), record, many=True, errors="fail",
        compile="never", loop=loop,
    )  # fmt: skip
    return _add(flow, loop, node, time)


def _outputs(flow: Flow, loop: Coroutine) -> tuple[Coroutine, Schema, Tagged | None]:
    """The loop at the place that comes next, its record, and what makes one of the rows of several outputs."""
    loop = dataclasses.replace(loop, index=flow._next())
    if len(loop.out_ports) == 1:
        return loop, loop.out_ports[0].record, None
    return loop, tagged_record(loop), functools.partial(_tagged, loop)


def _tagged(loop: Coroutine, place: int, row: Any) -> Any:
    return tagged(loop, loop.out_ports[place], row)


def _add(flow: Flow, loop: Coroutine, node: Node, time: FieldType | None) -> list[Stream[Any]]:
    """Adds the operator, and behind it what gives each of several outputs."""
    stream = flow._add(node, time)
    return [flow._add(one, time) for one in outputs_of(loop, flow.errors)] or [stream]


# -- by key -----------------------------------------------------------------------------------------------


def add_by_key(
    flow: Flow, loop: Coroutine, keys: Mapping[str, Key], time: FieldType | None
) -> list[Stream[Any]]:
    """Adds a loop by key, and in front of it what brings the rows of several inputs together; its streams.

    Raises:
        BuildError: the inputs are not keyed alike.
    """
    _check(loop, "by key")
    found = _keyed_alike(loop, keys)
    state, unread = _state(loop)
    if len(found) == 1:
        read, key, firsts = loop.in_ports[0].ref, found[0], [0]
    else:
        rows = _rows_of_all(loop, found)
        read, key, firsts = _brought_together(flow, loop, rows, found, time), rows.key, rows.firsts
    sides = tuple(
        Side(port.record, first, name, port.control)
        for port, first, name in zip(loop.in_ports, firsts, unread, strict=True)
    )
    loop, record, tag = _outputs(flow, loop)
    rules = KeyRules(loop, state, sides, tag)
    node = LoopByKey(
        loop.index, loop.name, read, key, dataclasses.replace(loop.told, call=rules.process), None,
        state, record, many=True, timer_many=False, errors="fail", compile="never",
        asked={"inputs": [port.name for port in loop.in_ports]}, loop=loop, unread=tuple(unread),
    )  # fmt: skip
    return _add(flow, loop, node, time)


def _keyed_alike(loop: Coroutine, keys: Mapping[str, Key]) -> list[Key]:
    """The key of each input.

    Raises:
        BuildError: one has no key, or another type or number of buckets than the first.
    """
    for port in loop.in_ports:
        if port.name not in keys:
            raise _refuse(
                loop,
                f"reads {next(iter(keys))!r} by key and {port.name!r} as a whole; give all inputs by key, or none",
            )
    found = [keys[port.name] for port in loop.in_ports]
    first, name = found[0], loop.in_ports[0].name
    for port, key in zip(loop.in_ports[1:], found[1:], strict=True):
        if any(one.function is not None for one in (first, key)):
            raise _refuse(
                loop, "reads several inputs by a function's key; put the key into a field by map"
            )
        if [one.type.kind for one in first.fields] != [one.type.kind for one in key.fields]:
            raise _refuse(
                loop,
                f"reads {name!r} by {_shown(first)} and {port.name!r} by {_shown(key)}; the keys of all inputs are of"
                " the same types",
            )
        if key.buckets != first.buckets:
            raise _refuse(
                loop,
                f"reads {name!r} in {first.buckets} buckets and {port.name!r} in {key.buckets}; say the same buckets="
                " in each key_by",
            )
    return found


def _shown(key: Key) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in key.fields)


def _state(loop: Coroutine) -> tuple[StateSpec, list[str]]:
    """The state of a key, and by input the name of the field that has what was not read."""
    own = list(loop.own.schema.fields) if loop.own else []
    unread = unread_fields(own, loop.in_ports)
    spec = make_state(loop.own.name if loop.own else "Unread", [*own, *unread])
    return spec, [field.name for field in unread]


class _Rows(NamedTuple):
    """The rows of all inputs: their record, the key there, and by input where its fields begin."""

    record: Schema
    key: Key
    firsts: list[int]


def _rows_of_all(loop: Coroutine, keys: Sequence[Key]) -> _Rows:
    fields: list[Field] = []

    def add(name: str, kind: FieldType) -> Field:
        fields.append(Field(spare_name(name, [one.name for one in fields]), kind))
        return fields[-1]

    # The key's fields keep their names: who looks at the state sees them.
    add(spare_name("input", [field.name for field in keys[0].fields]), FieldType(Kind.INT))
    optional = [
        any(key.fields[i].type.optional for key in keys) for i in range(len(keys[0].fields))
    ]
    key = [
        add(field.name, dataclasses.replace(field.type, optional=may))
        for field, may in zip(keys[0].fields, optional, strict=True)
    ]
    firsts = []
    for port in loop.in_ports:
        firsts.append(len(fields))
        for field in port.record.fields:
            add(field.name, dataclasses.replace(field.type, optional=True))
    record = Schema.make_record("RowOfAny", fields)
    return _Rows(record, Key(tuple(key), None, keys[0].buckets), firsts)


def _brought_together(
    flow: Flow, loop: Coroutine, rows: _Rows, keys: Sequence[Key], time: FieldType | None
) -> Ref:
    """Adds what makes one stream of the rows of all inputs."""
    refs = []
    for place, (port, key) in enumerate(zip(loop.in_ports, keys, strict=True)):
        node = ToPort(
            flow._next(), flow._stateless_name(f"{loop.name}/{port.name}"), port.ref, rows.record, place,
            port.name, tuple(port.record.index(field.name) for field in key.fields), rows.firsts[place],
        )  # fmt: skip
        refs.append(flow._add(node, time).ref)
    name = flow._stateless_name(f"{loop.name}/inputs")
    return flow._add(Union(flow._next(), name, tuple(refs), rows.record), time).ref
