"""``checkpoint=``, ``every=`` and ``end=`` of a run, checked and brought into the form in which they are used."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, get_args

from thalweg.checkpoint.paths import is_local, resolve
from thalweg.checks import names_of, path_of, refuse, require_count
from thalweg.embedded.durable.batches import Durable, End
from thalweg.embedded.durable.host import DurableHost
from thalweg.errors import BuildError
from thalweg.plan.plan import Plan
from thalweg.times import duration

Checkpoint: TypeAlias = str | os.PathLike[str] | None
Every: TypeAlias = str | int | dt.timedelta | None
#: How often is committed where nobody says.
EVERY: Final = "10 seconds"


def durable_of(
    where: str, checkpoint: Checkpoint, every: Every, end: End | None, drop: Sequence[str] = ()
) -> Durable | None:
    """How a run is durable; None: it is not.

    Raises:
        BuildError: something is not what it is to be, or is said without a checkpoint.
    """
    if checkpoint is None:
        for name, value in {
            "every": every,
            "end": end,
            "drop": None if drop == () else drop,
        }.items():
            if value is not None:
                raise BuildError(
                    f"{where}: {name}= needs checkpoint=, the folder of the checkpoint"
                )
        return None
    place = path_of(where, "checkpoint", checkpoint)
    if end not in (None, *get_args(End)):
        raise refuse(where, "end", '"drain" or "keep"', end)
    if isinstance(every, int) and every != 0:
        # Elsewhere an int counts microseconds of event time; here nobody means that.
        raise refuse(where, "every", 'a duration such as "10 seconds" or a timedelta', every)
    try:
        every_us = duration(EVERY if every is None else every)
    except ValueError as error:
        raise BuildError(f"{where}: every: {error}") from None
    if every_us < 0:
        raise refuse(where, "every", "a duration from 0 on", every)
    if not is_local(resolve(place)[0]):
        # Without locks two processes could write one batch's outputs before either sees the other's record.
        raise BuildError(f"{where}: checkpoint: {place} is not on a local file system")
    return Durable(place, every_us * 1e-6, end or "drain", names_of(where, drop))


def durable_host(
    plan: Plan,
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any],
    durable: Durable,
    *,
    chunk_rows: int | None,
    threads: int | None,
) -> DurableHost:
    """What runs a flow on a checkpoint; nothing of it runs yet, and nothing is written.

    Raises:
        BuildError: an input cannot be read again, or something does not fit.
    """
    if chunk_rows is not None:
        require_count("chunk_rows", chunk_rows)
    if threads is not None:
        require_count("threads", threads)
    return DurableHost(plan, inputs, sinks, durable, chunk_rows=chunk_rows, threads=threads)
