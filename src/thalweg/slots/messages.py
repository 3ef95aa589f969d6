"""The messages between slots and the manager of reconfigurations (Caneill et al., Algorithm 1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from thalweg.engine.contract import Leaving
from thalweg.engine.units import Moment
from thalweg.locality import KeySummary, Moves, RoutingTable


class Instance(NamedTuple):
    """A stage in a slot: an instance of an operator, in the paper's words.

    Stage 0 is the ingress, in slot 0; behind the last stage is what collects for the sinks. Both are the host's.
    """

    stage: int
    slot: int


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What a place has for another in a step: the last that it has to say of it, also when it has no tuples."""

    step: int
    moment: Moment
    parts: Leaving


@dataclasses.dataclass(frozen=True, slots=True)
class GetMetrics:
    """Step 1: tell what was counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class SendMetrics:
    """Step 2: the keys and pairs that a place counted since it told last; None where it does not count."""

    summary: KeySummary | None


@dataclasses.dataclass(frozen=True, slots=True)
class SendReconf:
    """Step 3: the table that is to hold (``reconfiguration_router``), and what the place sends and receives."""

    before: RoutingTable
    router: RoutingTable
    send: Moves
    receive: Moves


@dataclasses.dataclass(frozen=True, slots=True)
class AckReconf:
    """Step 4: the place is ready."""

    epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class Propagate:
    """Step 5: all that comes behind this from the same place goes by the new table, which holds from a step on."""

    epoch: int
    step: int


@dataclasses.dataclass(frozen=True, slots=True)
class Migrate:
    """Step 6: the state of keys, by operator in its Arrow form; the only message of one place to another of its stage
    in an epoch, also when no key has a state."""

    epoch: int
    states: Mapping[str, list[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """Beyond the paper: all state has come, so that the next reconfiguration may begin."""

    epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """An operator raised; the run is over."""

    error: BaseException


Message: TypeAlias = (
    Work
    | GetMetrics
    | SendMetrics
    | SendReconf
    | AckReconf
    | Propagate
    | Migrate
    | Settled
    | Failed
)


class Envelope(NamedTuple):
    """A message on its way. Between two places messages keep their order."""

    sender: Instance
    receiver: Instance
    message: Message
