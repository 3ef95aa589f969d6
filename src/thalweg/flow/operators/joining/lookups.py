"""Joins with one row of the other stream: the one before (as generated functions, which compile), after, the nearest.

The rows of both come in one order, tagged with their side (``operators.built_in.Tag``). "Before" and "after" are meant
in that order: by time, and at one time by the order in which the sources were defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.generated import make_functions
from thalweg.flow.operators.joining.join_nodes import JoinSide
from thalweg.flow.operators.joining.joins import Combiner, fitted, join_state
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import StateSpec, drop, make_state
from thalweg.times import NEVER

#: Which row of the right a row of the left gets.
Direction = Literal["backward", "forward", "nearest"]
#: The end of a row that may wait for as long as the stream goes on.
_LAST: Final = NEVER - 1


class LatestRow(NamedTuple):
    """The functions and the state of a look-up of the latest row of the right."""

    process: Callable[..., Any]
    state: StateSpec


def latest(
    operator: str,
    tagged: Schema,
    sides: Sequence[JoinSide],
    combine: Combiner,
    out: Schema,
    within: int | None,
) -> LatestRow:
    """Each row of the left at once, with the latest row of the right of its key, at most ``within`` before it.

    The state is that row, a field for each of its fields, null before the first. A key with a null matches nothing.
    """
    left, right = sides
    names, first = tagged.names, len(sides[0].keys)
    lefts = [f"row.{name}" for name in names[left.first : left.first + left.time]]
    fields = tagged.fields[right.first : right.first + right.time]
    held = [Field(f"r{i}", field.type, None) for i, field in enumerate(fields)]
    state = make_state(
        "Latest", [Field("seen", FieldType(Kind.BOOL), False), Field("at", FieldType(Kind.INT), 0), *held]
    )  # fmt: skip
    keys = [
        name
        for name, field in zip(names[2:], tagged.fields[2 : 2 + first], strict=False)
        if field.type.optional
    ]
    no_key = " or ".join(f"row.{name} is None" for name in keys)
    lines = [f"if row.{names[0]}:"]
    if no_key:
        lines += [f"    if {no_key}:", "        drop(state)", "        return None"]
    lines += ["    state.seen = True", f"    state.at = row.{names[1]}"]
    lines += [f"    state.r{i} = row.{field.name}" for i, field in enumerate(fields)]
    lines += ["    return None"]
    # Of a key that the right does not have nothing is kept.
    lines += ["is_near = state.seen", "if not is_near:", "    drop(state)"]
    if within is not None:
        lines += [f"elif row.{names[1]} - state.at > WITHIN:", "    is_near = False"]
    lines += _given(combine, lefts, [f"state.r{i}" for i in range(len(fields))])
    text = "def look(state, row):\n" + "".join(f"    {line}\n" for line in lines)
    scope = {
        "LEFT": combine.records[0].cls, "RIGHT": combine.records[1].cls, "CALL": combine.function,
        "OUT": out.cls, "WITHIN": within, "drop": drop,
    }  # fmt: skip
    return LatestRow(make_functions(operator, text, scope)["look"], state)


def _given(combine: Combiner, left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Lines that give the output of a row of the left with that of the right if it ``is_near``, else with none."""
    if combine.function is None:
        pair, alone = _made(combine, left, right), _made(combine, left, None)
        return ["if is_near:", f"    return {pair}", f"return {alone}"]
    # One call with a record or None: the function is compiled once.
    other = f"RIGHT({', '.join(right)}) if is_near else None"
    return [f"return CALL(LEFT({', '.join(left)}), {other})"]


def _made(combine: Combiner, left: Sequence[str], right: Sequence[str] | None) -> str:
    """The output of a pair without a function, as source text."""
    assert combine.places is not None
    mine, theirs = combine.places
    values = [left[i] for i in mine]
    values += ["None" if right is None else right[i] for i in theirs]
    return f"OUT({', '.join(values)})"


class NextRowRules:
    """What a row of the left waits for, a key at a time: the next row of the right, or the nearer of both neighbours.

    A row of the left leaves at the place of the row of the right that comes behind it, or as soon as none that comes
    can be its own: ``within`` later, for the nearest sooner, or at the end. Of two that are equally near it is the one
    before.
    The state has the rows that wait, and the last row of the right.
    """

    def __init__(
        self, sides: Sequence[JoinSide], combine: Combiner, out: Schema, within: int | None, *, nearest: bool
    ) -> None:  # fmt: skip
        self._sides = sides
        self._combine = combine
        self._out = out
        self.within = _LAST if within is None else within
        self._nearest = nearest

    def process(self, state: Any, row: Any) -> list[Any]:
        """What leaves with a row."""
        right, time, *rest = row
        side, made = self._sides[right], []
        mine = side.record.make((*row[side.first : side.first + side.time], time))
        if any(value is None for value in rest[: len(side.keys)]):
            if not (state.left or state.right):
                drop(state)
            return [] if right else self._give(mine, None)
        if right:
            for left in state.left:
                made += self._give(left, self._chosen(left, state.right, mine))
            state.left = []
            state.right = [mine] if self._nearest else []
            if not self._nearest:
                drop(state)
        elif self._nearest and self._end(mine, state.right) < time:
            made = self._give(mine, state.right[-1])
        else:
            state.left.append(mine)
        state.timer = self._timer(state)
        return made

    def on_timer(self, state: Any, *at: Any) -> list[Any]:
        """The rows that no row to come can be the match of."""
        now, made, stays = at[-1], [], []
        for left in state.left:
            if self._end(left, state.right) <= now:
                made += self._give(left, self._before(left, state.right))
            else:
                stays.append(left)
        state.left = stays
        state.timer = self._timer(state)
        if not (state.left or state.right):
            drop(state)
        return made

    def _give(self, left: Any, right: Any | None) -> list[Any]:
        made = self._combine(left, right)
        return [] if made is None else [fitted(self._out, made)]

    def _before(self, left: Any, rights: Sequence[Any]) -> Any | None:
        """The row of the right before it, if it is near enough."""
        if not self._nearest or not rights or left[-1] - rights[-1][-1] > self.within:
            return None
        return rights[-1]

    def _chosen(self, left: Any, rights: Sequence[Any], after: Any) -> Any | None:
        """Its match, now that the row behind it is there."""
        before, gap = self._before(left, rights), after[-1] - left[-1]
        if gap > self.within or (before is not None and left[-1] - before[-1] <= gap):
            return before
        return after

    def _end(self, left: Any, rights: Sequence[Any]) -> int:
        """The last time of a row of the right that could be its match."""
        before = self._before(left, rights)
        reach = self.within if before is None else min(self.within, left[-1] - before[-1] - 1)
        return int(min(left[-1] + reach, _LAST))

    def _timer(self, state: Any) -> int:
        """When the first of the waiting rows can wait no more; with none the last row of the right stays for ever."""
        return min((self._end(left, state.right) for left in state.left), default=NEVER)


def waiting_state(left: Schema, right: Schema) -> StateSpec:
    """Rows of the left that wait, and the last row of the right."""
    return join_state(left, right)
