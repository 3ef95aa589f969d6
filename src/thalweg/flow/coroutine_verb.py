"""``flow.operator``: the signature of an ``async def`` operator read, checked, and filled with streams.

What each parameter is for stands in its annotation: ``tw.Input``, ``tw.Output``, ``tw.Control``, a state class, and
``*views: tw.Input`` for a number of inputs that the flow decides; other parameters are constants.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from thalweg.brief import counted
from thalweg.checks import is_int_from, meant
from thalweg.errors import BuildError, SchemaError
from thalweg.flow.feedback import Feedback
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.operators.coroutines import Control, Input, Output
from thalweg.flow.operators.functions import Function, hints_of
from thalweg.flow.operators.kept import kept_state
from thalweg.flow.operators.nodes import Coroutine, InPort, OutPort, Ref
from thalweg.flow.records import Schema
from thalweg.flow.state_class import StateSpec, state_spec

if TYPE_CHECKING:
    from thalweg.flow.flow import Flow
    from thalweg.flow.streams import Stream

_SIDES: Final = ("late", "rejected")


@dataclasses.dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter: its role (Input, Control, Output, StateSpec, or object for a constant) and its record."""

    name: str
    role: type
    record: Any
    variable: bool
    has_default: bool


def coroutine_node(
    flow: Flow,
    name: str,
    function: Any,
    given: Mapping[str, Any],
    into: Any,
    max_waiting: int | None,
    capacity: int,
    user: Function | None = None,
) -> Coroutine:
    """The node of an ``async def`` operator.

    Args:
        flow: the flow that it is for.
        name: the operator's name.
        function: the coroutine function.
        given: streams and constants by parameter; for ``*views`` a list of streams, or streams by name.
        into: the record of its output, or records by output.
        max_waiting: the most rows that may wait at an input.
        capacity: the rows from which on an input's sources wait.
        user: of a library operator, the user's function that it calls, for messages.

    Raises:
        BuildError: a parameter lacks its stream, record or annotation, or something does not fit it.
    """
    if not isinstance(name, str) or not name:
        raise BuildError(f"flow.operator: the operator's name is a text, got {name!r}")
    full = flow._stateful_name(name, "operator")
    made = Function.of(function, full, coroutine=True)
    node = _Verb(flow, full, made, dict(given)).node(into, max_waiting, capacity)
    return dataclasses.replace(node, user=user)


class _Verb:
    def __init__(self, flow: Flow, name: str, function: Function, given: dict[str, Any]) -> None:
        self.flow = flow
        self.name = name
        self.function = function
        self.given = given
        self.parameters = list(self._read())

    def node(self, into: Any, max_waiting: int | None, capacity: int) -> Coroutine:
        known = {one.name for one in self.parameters if one.role not in (Output, StateSpec)}
        for extra in sorted(self.given.keys() - known):
            raise self._error(
                f"has no input or argument {extra!r}; it has {', '.join(sorted(known))}"
                f"{meant(extra, [*known, 'into', 'max_waiting', 'capacity', 'stateless'])}"
            )
        for what, rows in (("max_waiting", max_waiting), ("capacity", capacity)):
            if not (is_int_from(rows, 1) or (rows is None and what == "max_waiting")):
                raise self._error(f"{what} is a number of rows from 1, got {rows!r}")
        constants = tuple(self._constants())
        found = [port for one in self.parameters for port in self._inputs(one)]
        in_ports = tuple(sorted(found, key=lambda port: port.feedback))
        if in_ports and all(port.control or port.feedback for port in in_ports):
            raise self._error(
                "has control inputs only, which never wake an operator; annotate an input as tw.Input"
            )
        own, parameter = self._state()
        return Coroutine(
            self.flow._next(), self.name, self.function, in_ports, self._outputs(into), own,
            kept_state(own, in_ports), parameter, constants, max_waiting, capacity,
        )  # fmt: skip

    # -- the signature ------------------------------------------------------------------------------------

    def _read(self) -> Iterator[_Parameter]:
        hints = hints_of(self.function, self.name)
        for name, parameter in inspect.signature(self.function.call).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                raise self._error(f"takes **{name}; name its ports and arguments one by one")
            hint = hints.get(name, object)
            role = self._role(hint)
            variable = parameter.kind is parameter.VAR_POSITIONAL
            if variable and role is not Input:
                raise self._error(f"takes *{name}, which may only be a number of tw.Input")
            record = next(iter(typing.get_args(hint)), None) if role is not object else None
            if record is Any or isinstance(record, typing.TypeVar):
                record = None
            has_default = parameter.default is not parameter.empty
            yield _Parameter(name, role, record, variable, has_default)

    def _role(self, hint: Any) -> type:
        kind = typing.get_origin(hint) or hint
        if kind in (Input, Control, Output):
            return typing.cast(type, kind)
        try:
            state_spec(kind)
        except SchemaError:
            return object
        return StateSpec

    def _inputs(self, one: _Parameter) -> Iterator[InPort]:
        if one.role not in (Input, Control):
            return
        if one.name not in self.given:
            raise self._error(
                f"has an input {one.name!r}, but no stream was given; pass {one.name}=..."
            )
        given = self.given[one.name]
        if not one.variable:
            yield self._port(one, one.name, given)
            return
        if not isinstance(given, (Sequence, Mapping)) or not given:
            raise self._error(
                f"has inputs *{one.name}: pass {one.name}=[stream, ...], not {given!r}"
            )
        if not isinstance(given, Mapping):
            given = {f"{one.name}[{place}]": stream for place, stream in enumerate(given)}
        for name, stream in given.items():
            yield self._port(one, name, stream)

    def _port(self, one: _Parameter, name: str, stream: Any) -> InPort:
        ref, schema = getattr(stream, "ref", None), getattr(stream, "schema", None)
        if not isinstance(ref, Ref) or not isinstance(schema, Schema):
            raise self._error(f"reads a stream at {name!r}, got {stream!r}")
        if stream.flow is not self.flow:
            raise self._error(f"reads {name!r} from another flow: {stream.flow!r}")
        if stream.own is not None:
            raise stream.own.refuse(
                self.name, "a coroutine operator needs a total order of its rows"
            )
        if one.record is not None:
            wanted = self._record(one.record, name)
            if wanted != schema:
                raise self._error(f"reads {wanted} at {name!r}, but the stream has {schema}")
        return InPort(
            name, one.name, ref, schema, one.role is Control, isinstance(stream, Feedback)
        )

    def _outputs(self, into: Any) -> tuple[OutPort, ...]:
        outputs = [one for one in self.parameters if one.role is Output]
        by_name = (
            into if isinstance(into, Mapping) else dict.fromkeys([o.name for o in outputs], into)
        )
        for extra in sorted(by_name.keys() - {one.name for one in outputs}):
            raise self._error(f"has no output {extra!r}, which into= names")
        if into is not None and not isinstance(into, Mapping) and len(outputs) != 1:
            raise self._error(
                f"has {counted(len(outputs), 'output')}; say into={{output: record}}, or annotate tw.Output[Record]"
            )
        found = []
        for one in outputs:
            if one.name in _SIDES and len(outputs) > 1:
                raise self._error(f"has an output {one.name!r}, a name that streams use themselves")
            chosen = by_name.get(one.name)
            record = one.record if chosen is None else chosen
            if record is None:
                raise self._error(
                    f"does not say which records {one.name!r} gives; annotate tw.Output[Record], or pass into=Record"
                )
            port = "out" if len(outputs) == 1 else one.name
            origin = "" if chosen is None else " by into"
            found.append(OutPort(port, one.name, self._record(record, one.name, origin)))
        return tuple(found)

    def _state(self) -> tuple[StateSpec | None, str]:
        given = [n for n, value in self.given.items() if isinstance(value, StateSpec)]
        if given:  # a library operator, whose state depends on the records that it reads
            return self.given[given[0]], given[0]
        states = [one for one in self.parameters if one.role is StateSpec]
        if len(states) > 1:
            raise self._error(
                f"has two states, {states[0].name!r} and {states[1].name!r}; put them into one"
            )
        if not states:
            return None, ""
        spec = state_spec(hints_of(self.function, self.name)[states[0].name])
        if spec.timer is not None:
            raise self._error(
                f"has a state {spec.name} with a timer; a driver loop has no on_timer to call"
            )
        return spec, states[0].name

    def _constants(self) -> Iterator[tuple[str, Any]]:
        for one in self.parameters:
            if one.role is not object:
                continue
            value = self.given.get(one.name)
            if isinstance(value, StateSpec):
                continue
            if isinstance(getattr(value, "ref", None), Ref):
                raise self._error(
                    f"was given a stream for {one.name!r}; annotate the parameter tw.Input"
                )
            if one.name in self.given:
                yield one.name, value
            elif not one.has_default:
                raise self._error(
                    f"has a parameter {one.name!r} that is no port: annotate it tw.Input, tw.Output or"
                    " tw.Control, declare its class with @tw.state if it must outlive a wait, or give it a value"
                )

    def _record(self, record: Any, port: str, origin: str = "") -> Schema:
        try:
            return Schema.of(record)
        except SchemaError as error:
            raise self._error(f"has a port {port!r} of {record!r}{origin}: {error}") from None

    def _error(self, what: str) -> BuildError:
        return BuildError(f"operator {self.name!r}: {self.function.where} {what}")


def check_times(node: Coroutine, given: Mapping[str, Any]) -> FieldType | None:
    """The event time that all inputs have in common.

    Args:
        node: the operator.
        given: its streams by parameter, as for :func:`coroutine_node`.

    Raises:
        BuildError: one has event time and another has not.
    """
    streams = {stream.ref: stream for value in given.values() for stream in _streams(value)}
    first, *others = [(port.name, streams[port.ref]) for port in node.in_ports if not port.feedback]
    for name, other in others:
        if other.time != first[1].time:
            raise BuildError(
                f"operator {node.name!r}: {node.function.where}: input {first[0]!r} has {_time(first[1])} and"
                f" {name!r} has {_time(other)}, so their rows have no common order; give both sources an order_by"
                " of the same type, or neither"
            )
    time: FieldType | None = first[1].time
    return time


def _streams(value: Any) -> Iterator[Stream[Any]]:
    several = list(value.values()) if isinstance(value, Mapping) else value
    for one in several if isinstance(several, Sequence) else [several]:
        if isinstance(getattr(one, "ref", None), Ref):
            yield one


def _time(stream: Stream[Any]) -> str:
    return f"{stream.time} as event time" if stream.time else "no event time"
