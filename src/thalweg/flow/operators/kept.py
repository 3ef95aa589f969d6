"""What is kept of a coroutine operator between two of its starts, and how its function is started."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, Final

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.user_rows import is_library
from thalweg.flow.operators.generated import spare_name
from thalweg.flow.operators.nodes import Coroutine, InPort
from thalweg.flow.records import Field
from thalweg.flow.state_class import StateSpec, make_state
from thalweg.times import BEFORE_ALL

#: Fields that are kept behind the user's: the event time of the last row, and whether the operator has returned.
LAST_TIME: Final = "last_time"
COMPLETED: Final = "completed"


def kept_state(own: StateSpec | None, in_ports: Sequence[InPort]) -> StateSpec:
    """The state class with what the library keeps behind the user's fields."""
    fields = list(own.schema.fields) if own else []
    fields += unread_fields(fields, in_ports)
    fields.append(Field(_spare(LAST_TIME, fields), FieldType(Kind.INT), BEFORE_ALL))
    fields.append(Field(_spare(COMPLETED, fields), FieldType(Kind.BOOL), False))
    return make_state(own.name if own else "Unread", fields)


def unread_fields(own: Sequence[Field], in_ports: Sequence[InPort]) -> list[Field]:
    """The fields behind the user's that hold what was not read, one an input."""
    fields = list(own)
    for place, port in enumerate(in_ports):
        rows = FieldType(Kind.LIST, item=FieldType(Kind.RECORD, record=port.record))
        fields.append(Field(_spare(f"unread_{place}", fields), rows, []))
    return fields[len(own) :]


def _spare(name: str, fields: Sequence[Field]) -> str:
    return spare_name(name, [field.name for field in fields])


@dataclasses.dataclass(slots=True)
class Kept:
    """What is kept of a coroutine operator between two of its starts, in the user's terms."""

    own: Any
    #: by input, what was not read
    unread: list[list[Any]]
    last_time: int = BEFORE_ALL
    completed: bool = False

    @classmethod
    def of(cls, node: Coroutine, state: Any | None) -> Kept:
        """What a state object holds; None: the start."""
        if state is None:
            return cls(node.own.new() if node.own else None, [[] for _ in node.in_ports])
        values = list(node.state.values(state))
        count = len(node.own.schema.fields) if node.own else 0
        own = node.own.restore(values[:count]) if node.own else None
        *unread, last_time, completed = values[count:]
        return cls(own, unread, last_time, completed)

    def state(self, node: Coroutine) -> Any:
        """The state object."""
        own = node.own.values(self.own) if node.own else ()
        return node.state.restore([*own, *self.unread, self.last_time, self.completed])


def call(node: Coroutine, inputs: Sequence[Any], outputs: Sequence[Any], own: Any) -> Any:
    """Calls the function: with its ports, its state and the constants; gives the coroutine.

    Args:
        node: the operator.
        inputs: inputs and controls in the order of its ``in_ports``.
        outputs: in the order of its ``out_ports``.
        own: the state that it asks for.
    """
    signature = inspect.signature(node.function.call)
    values: dict[str, Any] = dict(node.constants)
    values |= {port.parameter: made for port, made in zip(node.out_ports, outputs, strict=True)}
    if node.state_parameter:
        values[node.state_parameter] = own
    is_users = not is_library(node.function.call)
    for port, made in zip(node.in_ports, inputs, strict=True):
        if is_users:
            made.outward = port.record.outward
        if signature.parameters[port.parameter].kind is inspect.Parameter.VAR_POSITIONAL:
            made = (*values.get(port.parameter, ()), made)
        values[port.parameter] = made
    bound = signature.bind_partial()
    bound.arguments |= values
    bound.apply_defaults()
    return node.function.call(*bound.args, **bound.kwargs)
