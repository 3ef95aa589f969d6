"""Runs units in Python: from the handles of a step to the handle of their output."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.compiler.code.columns import address
from thalweg.engine.keyed_unit import Parts
from thalweg.engine.units import Moment
from thalweg.times import BEFORE_ALL
from thalweg.workers.contract import FlowEngine
from thalweg.workers.lockfree.atomics import store
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import HAS_OBJECT
from thalweg.workers.memory.places import handle_at
from thalweg.workers.tasks import Task


def run(engine: FlowEngine, me: int, task: Task) -> None:
    """Runs the unit that a worker was returned with."""
    mem, phase = engine.mem, int(engine.mem[me + at.PHASE])
    first, out = int(mem[me + at.INPUTS]), int(mem[me + at.SPARE])
    if phase == at.RANGE:
        assert task.unit is not None
        part = int(mem[me + at.PART])
        bound = task.run_part(engine, first, part, _moment(engine, first))
        store(mem, int(mem[engine.op_at(task.index) + at.EARLIEST]) + part, bound)
    elif phase == at.JOIN:
        engine.put(out, task, task.join(engine, first, _moment(engine, first), out))
    else:
        handles = mem[me + at.INPUTS : me + at.INPUTS + len(task.inputs)].tolist()
        moment = _moment(engine, out)
        result = task.run(engine, handles, moment, out)
        if isinstance(result, Parts):
            _put_parts(engine, out, result)
            return
        if task.sets_clock:
            put_clocks(engine, out, moment)
        engine.put(out, task, result)


def drop(engine: FlowEngine, me: int, task: Task) -> None:
    """Puts out nothing in its place, as of a flow that has failed."""
    mem = engine.mem
    phase, first, out = (int(mem[me + word]) for word in (at.PHASE, at.INPUTS, at.SPARE))
    if phase == at.RANGE:
        # Machine code must not merge what was not run to the end; others may be at other parts of it yet.
        engine.set_block(first, 0, 0)
    elif task.spec.is_split:
        _put_no_parts(engine, out, task)
    else:
        engine.put(out, task, {})


def _put_no_parts(engine: FlowEngine, handle: int, task: Task) -> None:
    reader = next(one for one in engine.tasks if one.spec.reads == [(task.index, 0)])
    rows = np.zeros(reader.spec.partitions, np.int64)
    _put_rows(engine, handle, rows, rows)


def _moment(engine: FlowEngine, handle: int) -> Moment:
    place = handle_at(engine.mem, handle)
    values = engine.mem[place + at.CLOCKS : place + at.CLOCKS + len(engine.domains)].tolist()
    clocks = {d: v for d, v in zip(engine.domains, values, strict=True) if v != BEFORE_ALL}
    number = int(engine.mem[place + at.ENDING])
    ending = frozenset([engine.plan.endings[number - 1]]) if number else frozenset[int]()
    return Moment(clocks, ending, int(engine.mem[place + at.ROUND]))


def _put_parts(engine: FlowEngine, handle: int, parts: Parts) -> None:
    _put_rows(engine, handle, parts, parts.rows)


def _put_rows(engine: FlowEngine, handle: int, kept: Any, rows: at.Int64s) -> None:
    """Keeps an object under the handle of a split chunk, whose rows by partition stand there."""
    place = handle_at(engine.mem, handle)
    engine.objects[handle] = kept
    engine.mem[place + at.OBJECT] = HAS_OBJECT
    engine.mem[place + at.PARTS] = address(rows)


def put_clocks(engine: FlowEngine, handle: int, moment: Moment) -> None:
    """Sets the clocks of a handle."""
    place = handle_at(engine.mem, handle)
    for slot, domain in enumerate(engine.domains):
        engine.mem[place + at.CLOCKS + slot] = moment.watermarks.get(domain, BEFORE_ALL)
