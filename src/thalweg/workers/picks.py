"""Calls a policy from workers: its pick, by address where it is compiled, and whether a visit goes on."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Hashable
from typing import Any, Final

import numpy as np
from numba import types

from thalweg.compiler.runtime.calls import address_of
from thalweg.compiler.runtime.support import carray, pointer
from thalweg.errors import SchedulingError
from thalweg.flow.failures import reason_of
from thalweg.jit import njit
from thalweg.scheduling.policy import FLOATS, FlowView, Pick, PortView, Preempt, own_preempt
from thalweg.workers.lockfree.atomics import EMPTY
from thalweg.workers.memory.layout import (
    BASE,
    BEGAN,
    OP,
    PORT_FIELDS,
    VIEW,
    VIEW_FIELDS,
    VIEW_OPS,
    Int64s,
)
from thalweg.workers.memory.places import worker_at

_words: Final = pointer(types.int64, 64)
_floats: Final = pointer(types.float64, 64)


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledPick:
    """A pick that the engine can call.

    ``address`` is machine code ``(view, worker, operators) -> operator``, 0 where Python runs it for ``reason``;
    ``keep`` is what the code needs to stay alive, ``policy`` what messages call it.
    """

    address: int
    python: Pick
    reason: str = ""
    keep: Any = None
    policy: str = ""

    def ask(self, mem: Int64s, worker: int) -> int:
        """The operator that the Python function picks for a worker by its view, -1 for none.

        Raises:
            SchedulingError: it raised, or what it returned is no operator.
        """
        try:
            picked = operator.index(self.python(view_of(mem, worker), worker))
        except Exception as error:
            raise SchedulingError(
                f"policy {self.policy}: its pick failed: {reason_of(error)}", policy=self.policy
            ) from error
        last = int(mem[worker_at(mem, worker) + VIEW_OPS]) - 1
        if not EMPTY <= picked <= last:
            raise SchedulingError(
                f"policy {self.policy}: its pick is no operator: {picked}\n"
                f"  expected: 1 to {last}, or -1 for none",
                policy=self.policy,
            )
        return picked


@dataclasses.dataclass(frozen=True, slots=True)
class Preemption:
    """How a policy ends visits, if not by its time slice."""

    python: Preempt
    policy: str

    def ask(self, mem: Int64s, worker: int) -> bool:
        """Whether the worker must leave the operator that it visits.

        Raises:
            SchedulingError: the policy's function raised.
        """
        me = int(worker_at(mem, worker))
        try:
            return bool(self.python(view_of(mem, worker), int(mem[me + OP]), int(mem[me + BEGAN])))
        except Exception as error:
            raise SchedulingError(
                f"policy {self.policy}: its preempt failed: {reason_of(error)}", policy=self.policy
            ) from error


def preemption_of(policy: Any) -> Preemption | None:
    """How a policy ends visits; None: by its time slice."""
    own = own_preempt(policy)
    return None if own is None else Preemption(own, type(policy).__name__)


@njit
def _ports_at(place: int, ports: int, n: int) -> PortView:
    """The ports of a view: arrays of ``ports`` words each, in the order of the fields, and one of ``n``."""
    size = 8 * ports
    return PortView(
        carray(_words(place), ports),
        carray(_words(place + size), ports),
        carray(_words(place + 2 * size), ports),
        carray(_words(place + 3 * size), ports),
        carray(_words(place + 4 * size), ports),
        carray(_floats(place + 5 * size), ports),
        carray(_words(place + 6 * size), ports),
        carray(_words(place + 7 * size), ports),
        carray(_floats(place + 8 * size), ports),
        carray(_floats(place + 9 * size), n),
    )


@njit
def _view_at(place: int, n: int) -> FlowView:
    """The view at an address: arrays of ``n`` words each, in the order of the fields, then the time, then ports."""
    size = 8 * n
    behind = place + 15 * size
    return FlowView(
        carray(_words(place), n),
        carray(_words(place + size), n),
        carray(_words(place + 2 * size), n),
        carray(_words(place + 3 * size), n),
        carray(_floats(place + 4 * size), n),
        carray(_floats(place + 5 * size), n),
        carray(_floats(place + 6 * size), n),
        carray(_floats(place + 7 * size), n),
        carray(_words(place + 8 * size), n),
        carray(_words(place + 9 * size), n),
        carray(_floats(place + 10 * size), n),
        carray(_words(place + 11 * size), n),
        carray(_words(place + 12 * size), n),
        carray(_words(place + 13 * size), n),
        carray(_words(place + 14 * size), n),
        carray(_words(behind), 1),
        _ports_at(behind + 16, carray(_words(behind + 8), 1)[0], n),
    )


def compiled_policy(policy: Any) -> CompiledPick:
    """The pick of a policy; of those that say themselves when they are equal, equal ones are compiled once."""
    if "__eq__" in vars(type(policy)) and isinstance(policy, Hashable):
        return _compiled_once(policy)
    return compile_pick(policy.pick_function(), type(policy).__name__)


@functools.lru_cache(maxsize=64)
def _compiled_once(policy: Any) -> CompiledPick:
    return compile_pick(policy.pick_function(), type(policy).__name__)


def compile_pick(pick: Pick, policy: str = "") -> CompiledPick:
    """Compiles a pick where Numba can; a policy may be any Python function otherwise."""
    try:
        inner = njit(pick)

        def entry(place: int, worker: int, n: int) -> int:
            return inner(_view_at(place, n), worker)

        made = njit(signature="int64(int64, int64, int64)")(entry)
    except Exception as error:  # Numba raises all kinds of errors on code that it cannot take
        name = getattr(pick, "__name__", type(pick).__name__)
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return CompiledPick(0, pick, f"Numba refuses {name}: {first}", policy=policy)
    return CompiledPick(address_of(made), pick, "", made, policy)


def view_of(mem: Int64s, worker: int) -> FlowView:
    """A worker's view as NumPy arrays over its memory."""
    me = int(worker_at(mem, worker))
    n = int(mem[me + VIEW_OPS])
    words = mem[(int(mem[me + VIEW]) - int(mem[BASE])) // 8 :]
    columns, words = _columns(words, FlowView._fields[:VIEW_FIELDS], n)
    now, ports, words = words[:1], int(words[1]), words[2:]
    queues, words = _columns(words, PortView._fields[:PORT_FIELDS], ports)
    conjunctive, _ = _columns(words, PortView._fields[PORT_FIELDS:], n)
    return FlowView._make([*columns, now, PortView._make([*queues, *conjunctive])])


def _columns(words: Int64s, names: tuple[str, ...], size: int) -> tuple[list[Any], Int64s]:
    """Arrays that follow each other in the words, and the words behind them."""
    columns: list[Any] = []
    for place, name in enumerate(names):
        column = words[place * size : (place + 1) * size]
        columns.append(column.view(np.float64) if name in FLOATS else column)
    return columns, words[len(names) * size :]
