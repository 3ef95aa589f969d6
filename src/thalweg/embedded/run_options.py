"""How a flow runs: threads, threading, policy and controller as options of the workers."""

from __future__ import annotations

import logging
from typing import Any, Final

from thalweg.checks import require_count, require_seconds
from thalweg.elasticity import ThreadLevels
from thalweg.elasticity.waiting import WAITING_THREADS
from thalweg.embedded.result import Result as Result
from thalweg.engine.machine import usable_processors
from thalweg.errors import BuildError
from thalweg.flow.regions import ThreadingModel
from thalweg.scheduling.rounds import Policy
from thalweg.workers.options import Options, require_policy

_LOG: Final = logging.getLogger("thalweg")


def options_of(
    threads: int | str | None,
    threading: ThreadingModel,
    policy: Policy | None,
    controller: Any = None,
    period_s: float = 10.0,
    *,
    is_alone: bool = False,
    has_regions: bool = False,
) -> Options | None:
    """How the run goes; None: in the thread that brings the rows.

    Args:
        is_alone: one flow, which goes so, too, where one worker is asked for.
        has_regions: it says of operators which threads run them, so it does not.
    """
    if threading not in ("manual", "dedicated", "dynamic"):
        raise BuildError(
            f"threading: expected 'manual', 'dedicated' or 'dynamic', got {threading!r}"
        )
    require_seconds("", above=True, period_s=period_s)
    is_auto = threads is None
    if threads == "auto":
        if threading != "dynamic":
            raise BuildError(
                f"threads: 'auto' finds their number, and threading {threading!r} leaves nothing to change"
            )
        threads, controller = usable_processors(), controller or ThreadLevels()
        is_auto = True
    if threads is not None:
        require_count("threads", threads)
        _warn_of_threads(int(threads), threading)
    if policy is not None:
        require_policy(policy)
        if threading != "dynamic":
            raise BuildError(f"policy: threading {threading!r} leaves nothing to choose")
    if controller is not None and threading != "dynamic":
        raise BuildError(f"controller: threading {threading!r} leaves nothing to change")
    if threading == "manual" and not has_regions:
        return None
    count = usable_processors() if threads is None else int(threads)
    # Who names a number gets no more; else as many as wait in functions may be there besides.
    waiting = WAITING_THREADS if is_auto else None
    if threading in ("dedicated", "manual"):
        return Options(threads=count, threading=threading)
    if controller is not None:
        return Options(
            threads=count, waiting_threads=waiting, policy=policy, controller=controller, period_s=period_s
        )  # fmt: skip
    # One worker would gain nothing over the thread that brings the rows.
    if policy is None and threads is not None and count == 1 and is_alone and not has_regions:
        return None
    return Options(threads=count, waiting_threads=waiting, policy=policy)


def refuse_beside_options(
    options: Options | None,
    threads: Any,
    threading: str,
    policy: Any,
    controller: Any,
    period_s: float,
) -> None:
    """Refuses what ``options=`` says, too: it would have no effect.

    Raises:
        BuildError: something is given beside options.
    """
    if options is None:
        return
    given = {
        "threads": (threads, None), "threading": (threading, "dynamic"), "policy": (policy, None),
        "controller": (controller, None), "period_s": (period_s, 10.0),
    }  # fmt: skip
    both = [
        name
        for name, (value, default) in given.items()
        if value is not default and value != default
    ]
    if both:
        names = ", ".join(f"{name}=" for name in both)
        raise BuildError(
            f"options: they say all that there is to say of threads, so {names} beside them would have no effect; write"
            f" options=tw.Options({', '.join(f'{name}=...' for name in both)})"
        )


def _warn_of_threads(threads: int, threading: str) -> None:
    """Says where the number of threads follows from the threading."""
    if threading == "dedicated":
        _LOG.warning("threads=%d: threading 'dedicated' has a thread for each operator", threads)
    elif threading == "manual" and threads > 1:
        _LOG.warning(
            "threads=%d: threading 'manual' runs all in the thread that brings the rows; leave threading out to have"
            " %d",
            threads, threads,
        )  # fmt: skip
