"""What ``process`` does beyond one timer a key: several, states that outlive them, timers set again at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from thalweg.checks import meant, require_flag
from thalweg.errors import BuildError
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.operators.arguments import choice
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.timers import SeveralTimers
from thalweg.flow.state_class import StateSpec

#: What becomes of a timer that a timer sets when the stream ends.
AtEnd = Literal["disarm", "fire"]


class BeyondOneTimer(NamedTuple):
    """``keep=`` and ``at_end=`` of an operator."""

    keep: bool = False
    at_end: AtEnd = "disarm"

    def check(self, label: str, spec: StateSpec) -> None:
        """Refuses what is none, or needs a timer that the state lacks.

        Raises:
            BuildError: one of both.
        """
        require_flag(f"operator {label!r}", keep=self.keep)
        choice("at_end", self.at_end, get_args(AtEnd), label)
        if spec.timer is None and self != BeyondOneTimer():
            raise BuildError(
                f"operator {label!r}: keep= and at_end= are about timers, and state {spec.name} has none; it stays"
                " until tw.drop(state)"
            )

    def node_fields(self, spec: StateSpec) -> dict[str, Any]:
        """What the operator's node says of it."""
        return {"keeps": self.keep, "again": self.at_end == "fire", "timers": spec.timers}


def timer_functions(label: str, spec: StateSpec, on_timer: Any) -> dict[str, Function]:
    """The functions by timer; of a state's only timer too.

    Raises:
        BuildError: there is a timer without a function, or a function without a timer.
    """
    if not isinstance(on_timer, Mapping):
        if spec.timers and on_timer is not None:
            each = ", ".join(f"{name!r}: ..." for name in spec.timers)
            raise BuildError(
                f"operator {label!r}: state {spec.name} has several timers; give on_timer={{{each}}}"
            )
        made = {} if on_timer is None else {spec.timer or "timer": on_timer}
    else:
        made = dict(on_timer)
        known = spec.timers or ((spec.timer,) if spec.timer else ())
        for name in made:
            if name not in known:
                raise BuildError(
                    f"operator {label!r}: on_timer: state {spec.name} has no timer {name!r}; it has"
                    f" {', '.join(known) or 'none'}{meant(name, known)}"
                )
    missing = [name for name in spec.timers if name not in made]
    if missing:
        raise BuildError(
            f"operator {label!r}: state {spec.name} has a timer {missing[0]}, but on_timer= has no function for it"
        )
    return {name: Function.of(one, label, argument="on_timer") for name, one in made.items()}


def several(
    spec: StateSpec,
    process: Function,
    timers: Mapping[str, Function],
    takes: Any,
    gives: Any,
    many: bool,
    several_of: frozenset[str],
) -> tuple[Function, Function]:
    """The functions of an operator with several timers, as the engine calls them.

    Args:
        spec: of the state.
        process: for rows, of values inside.
        timers: by timer, as the user wrote them.
        takes, gives: what those take and give.
        many: whether ``process`` gives several rows.
        several_of: the timers whose function does.
    """
    assert spec.timer is not None
    adapted = {
        name: one.adapted(Adapter(takes, gives, name in several_of)).call
        for name, one in timers.items()
    }
    rules = SeveralTimers(
        process.call, adapted, spec.timers, spec.timer, gives=several_of, many=many
    )
    first = timers[spec.timers[0]]
    return (
        dataclasses.replace(process, call=rules.process),
        dataclasses.replace(first, call=rules.on_timer),
    )
