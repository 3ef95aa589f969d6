"""Rolling windows: each row gives the aggregates over the last rows of its key, itself among them.

An aggregate that can take a row out exactly (counts, sums of ints) does so. Of the others two stacks are kept
(Tangwongsan, Hirzel and Schneider, *Low-Latency Sliding-Window Aggregation*, 2017, section 3): lists called ``front``
have the aggregates of the oldest rows up to each of the younger ones, the state's own fields those of the rows behind.
A row costs a constant number of merges on average, and nothing is ever subtracted from a float.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.aggregates import Part, bind_all
from thalweg.flow.operators.aggregates.parts import (
    all_renamed,
    flag,
    guarded,
    renamed,
    results_of,
    values_of,
)
from thalweg.flow.operators.generated import (
    MadeFunctions,
    asked_of,
    body,
    make_functions,
    output,
    packs_of,
    scope_of,
    spare_name,
    timer_field,
)
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import make_state


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """How far back a rolling window goes: so many rows, or so far in time; neither: to the first row."""

    rows: int | None = None
    within: int | None = None

    @property
    def ends(self) -> bool:
        return self.rows is not None or self.within is not None


def rolling(
    operator: str,
    item: Schema,
    time: Field | None,
    reach: Reach,
    aggregates: Mapping[str, Aggregate],
    *,
    keyed: bool,
) -> MadeFunctions:
    """The user's row with the results behind, for each row.

    Args:
        operator: name, for messages.
        item: the user's record; the operator's rows have the event time behind where the window goes back in time.
        time: the field that holds the event time, None without.
        reach: how far the window goes back.
        aggregates: result name to aggregate.
        keyed: whether there is a key.
    """
    parts = bind_all(aggregates, item, operator)
    made = _Rolling(operator, item, time, reach, parts)
    out = output(operator, [*item.fields, *results_of(parts)], "Rolling")
    state = make_state("RollingState", made.fields())
    text = "def update(state, row):\n" + body(made.update())
    if reach.within is not None:
        text += f"def forget(state{', key' if keyed else ''}, time):\n    return None\n"
    scope = scope_of(item, out, parts, ROWS=reach.rows, WITHIN=reach.within, Held=made.held.cls)
    functions = make_functions(operator, text, scope)
    asked = {"rows": reach.rows, "within": reach.within, "aggregates": asked_of(aggregates, parts)}
    return MadeFunctions(
        functions["update"],
        functions.get("forget"),
        state,
        out,
        asked=asked,
        packs=packs_of(out, parts),
    )


class _Rolling:
    """The texts of one operator."""

    def __init__(
        self,
        operator: str,
        item: Schema,
        time: Field | None,
        reach: Reach,
        parts: Mapping[str, Part],
    ) -> None:
        self.item, self.time, self.reach, self.parts = item, time, reach, parts
        self.stacked = {n: p for n, p in parts.items() if reach.ends and not p.retract}
        for name, part in self.stacked.items():
            if not part.merge:
                raise BuildError(
                    f"operator {operator!r}: {name}: parts of this aggregate do not merge, and it cannot take rows out"
                    " again, so it is for windows and sessions; give aggregates of your own merge= or retract="
                )
        self.reads = {f: item.field(f).type for part in parts.values() for f in part.reads}
        self.at = spare_name("time_", list(self.reads))
        self.where = {
            name: spare_name(f"{name}_counts_", list(self.reads))
            for name, part in parts.items() if part.where
        }  # fmt: skip
        # No aggregate's state can have names without an underscore.
        self.front = {f.name: f"front{i}" for i, f in enumerate(self._stacked_fields())}
        self.held = Schema.make_record("Held", self._held())

    def _held(self) -> list[Field]:
        """What is remembered of a row until it leaves."""
        fields = [Field(name, kind) for name, kind in self.reads.items()]
        fields += [Field(name, FieldType(Kind.BOOL)) for name in self.where.values()]
        if self.time is not None and self.reach.within is not None:
            fields.append(Field(self.at, self.time.type))
        return fields or [flag(self.at)]

    def fields(self) -> list[Field]:
        fields = [timer_field()] if self.reach.within is not None else []
        fields += [field for part in self.parts.values() for field in part.state]
        if not self.reach.ends:
            return fields
        rows = FieldType(Kind.LIST, item=FieldType(Kind.RECORD, record=self.held), form="deque")
        fields.append(Field("held", rows, []))
        if self.stacked:
            fields.append(Field("left", FieldType(Kind.INT), 0))
            fields += [
                Field(self.front[f.name], FieldType(Kind.LIST, item=f.type), [])
                for f in self._stacked_fields()
            ]
        return fields

    def _stacked_fields(self) -> list[Field]:
        return [field for part in self.stacked.values() for field in part.state]

    # -- a row ------------------------------------------------------------------------------------------------

    def update(self) -> list[str]:
        lines = [f"{self._test(name)} = False" for name in self.where]
        for name in self.where:
            lines += guarded(self.parts[name].where, [f"{self._test(name)} = True"])
        if self.reach.within is not None:
            assert self.time is not None
            lines += [f"edge = row.{self.time.name} - WITHIN"]
            lines += [f"while len(state.held) > 0 and state.held[0].{self.at} < edge:"]
            lines += [f"    {one}" for one in self._evict()]
            lines += [f"state.timer = row.{self.time.name} + WITHIN"]
        elif self.reach.rows is not None:
            lines += ["if len(state.held) == ROWS:", *(f"    {one}" for one in self._evict())]
        if self.reach.ends:
            lines += [f"state.held.append(Held({', '.join(self._kept())}))"]
        for name, part in self.parts.items():
            lines += part.taking(part.update, self._test(name) if name in self.where else "")
        lines += self._results()
        return lines

    def _test(self, name: str) -> str:
        return f"counts_{name}"

    def _kept(self) -> list[str]:
        kept = [f"row.{name}" for name in self.reads]
        kept += [self._test(name) for name in self.where]
        if self.time is not None and self.reach.within is not None:
            kept.append(f"row.{self.time.name}")
        return kept or ["True"]

    # -- the oldest row leaves ----------------------------------------------------------------------------------

    def _evict(self) -> list[str]:
        lines = [*self._flip(), "one = state.held.popleft()"]
        for name, part in self.parts.items():
            if name not in self.stacked:
                where = f"one.{self.where[name]}" if name in self.where else ""
                lines += all_renamed(part.taking(part.retract, where), row="one.")
        if self.stacked:
            lines.append("state.left -= 1")
            lines += [f"state.{self.front[f.name]}.pop()" for f in self._stacked_fields()]
        return lines

    def _flip(self) -> list[str]:
        """Where the front is empty, it becomes the aggregates of all rows up to the youngest, and the back is empty."""
        if not self.stacked:
            return []
        fields = self._stacked_fields()
        body = ["place -= 1", "one = state.held[place]"]
        body += [f"b_{f.name} = {self._empty(f)}" for f in fields]
        for name, part in self.stacked.items():
            where = f"one.{self.where[name]}" if name in self.where else ""
            body += all_renamed(part.taking(part.update, where), row="one.", state="b_")
        for part in self.stacked.values():
            body += all_renamed(part.merge, state="b_", other="c_")
        for f in fields:
            body += [f"c_{f.name} = b_{f.name}", f"state.{self.front[f.name]}.append(c_{f.name})"]
        return guarded(
            "state.left == 0",
            [
                *(f"c_{f.name} = {self._empty(f)}" for f in fields),
                "place = len(state.held)",
                "state.left = place",
                "while place > 0:",
                *(f"    {line}" for line in body),
                *(f"state.{f.name} = {self._empty(f)}" for f in fields),
            ],
        )

    def _empty(self, field: Field) -> str:
        """What a field of the state is of no row."""
        for part in self.parts.values():
            if field in part.state and field.name in part.empty:
                return part.empty[field.name]
        return repr(field.default)

    # -- results ------------------------------------------------------------------------------------------------

    def _results(self) -> list[str]:
        fields = self._stacked_fields()
        lines = [f"r_{f.name} = state.{f.name}" for f in fields]
        if fields:
            front = [
                f"r_{f.name} = state.{self.front[f.name]}[len(state.{self.front[f.name]}) - 1]"
                for f in fields
            ]
            for part in self.stacked.values():
                front += all_renamed(part.merge, state="r_", other="state.")
            lines += guarded("state.left > 0", front)
        values = [
            renamed(one, state="r_") if name in self.stacked else one
            for name, part in self.parts.items()
            for one in values_of(part)
        ]
        given = ", ".join([*(f"row.{name}" for name in self.item.names), *values])
        return [*lines, f"return Out({given})"]
