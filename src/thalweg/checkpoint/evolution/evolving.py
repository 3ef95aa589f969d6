"""A flow and a checkpoint: what each operator's state becomes, found, computed and checked in memory.

Nothing is written here. What has to be written anew is held until all of it is known to be right
(:mod:`thalweg.checkpoint.evolution.committing` writes it), so the memory for it is that of the operators that change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint.evolution.arrays import Unconvertible
from thalweg.checkpoint.evolution.changes import StateChange, refused
from thalweg.checkpoint.evolution.compare import (
    StateVerdict,
    give_up,
    operator_verdict,
    source_verdict,
    stateful,
)
from thalweg.checkpoint.evolution.functions import (
    Migration,
    MigrationFailed,
    OldClass,
    key_text,
    told,
)
from thalweg.checkpoint.evolution.renaming import (
    GATES,
    new_names,
    renamed_manifest,
    renamed_record,
    without,
)
from thalweg.checkpoint.evolution.rows import (
    Bucket,
    NewForm,
    OldForm,
    assembled,
    buckets,
    rewritten,
)
from thalweg.checkpoint.evolution.states import differs_from, own_fields, spec_of
from thalweg.checkpoint.evolution.times import floor_of, new_gate
from thalweg.checkpoint.manifest import Manifest, ManifestField, ManifestOperator
from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import Chains, CommitRecord
from thalweg.checkpoint.segments import NewUnit
from thalweg.errors import SchemaError
from thalweg.flow.operators.nodes import Coroutine, Keyed, OrderBy, Source
from thalweg.plan.plan import Plan


@dataclasses.dataclass(frozen=True)
class Evolution:
    """What a flow does to a checkpoint.

    Attributes:
        changes: by operator and source, those of the flow first.
        before: what the state meant; None in a new checkpoint.
        manifest: what it means from now on.
        record: the newest, with new names and without what is given up; None in a new checkpoint.
        units: by operator, its state as it is to be written anew.
        is_new_record: whether the record has to be written anew.
    """

    changes: tuple[StateChange, ...]
    before: Manifest | None
    manifest: Manifest
    record: CommitRecord | None
    units: Mapping[str, tuple[NewUnit, ...]] = dataclasses.field(default_factory=dict)
    is_new_record: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether the flow cannot go on with the checkpoint."""
        return any(change.is_refused for change in self.changes)


class Evolving:
    """A comparison of a checkpoint with a flow.

    Args:
        fs, root: where the state is.
        before: what it means.
        record: the newest; None where no batch was committed.
        plan: of the flow.
        manifest: of the flow.
        drop: the operators whose state may be given up.
    """

    def __init__(
        self,
        fs: FileSystem,
        root: str,
        before: Manifest,
        record: CommitRecord | None,
        plan: Plan,
        manifest: Manifest,
        drop: Collection[str] = (),
    ) -> None:
        self._fs, self._root, self._plan, self._new = fs, root, plan, manifest
        self._names = new_names(before, manifest, dict(plan.renamed))
        self._were = {now: was for was, now in self._names.items()}
        self._written = before
        self._before = renamed_manifest(before, self._names)
        self._record = None if record is None else renamed_record(record, self._names)
        self._drop = tuple(self._names.get(name, name) for name in drop)
        self._nodes = {node.name: node for node in plan.nodes if node.label == node.name}
        self._units: dict[str, tuple[NewUnit, ...]] = {}
        self._gates: dict[str, Any] = {}
        self._dropped: set[str] = set()

    def evolution(self) -> Evolution:
        """What becomes of everything."""
        changes = [self._named(change) for change in self._changes()]
        carried = manifests.carry(self._kept(), self._new)
        record, is_new = self._record, bool(self._names)
        if record is not None:
            record = without(record, self._dropped)
            if self._gates:
                gates = {**record.extra.get(GATES, {}), **self._gates}
                record = dataclasses.replace(record, extra={**record.extra, GATES: gates})
            is_new = bool(self._names or self._dropped or self._gates or self._units)
            # Where the record says what its state means, it is to say what the manifest does.
            said = manifests.MEANING in record.extra
            is_new = is_new or (said and carried != self._written)
        return Evolution(
            tuple(changes), self._written, carried, record, self._units,
            is_new and record is not None,
        )  # fmt: skip

    def _kept(self) -> Manifest:
        """The manifest of what is gone on with: fields of state that is rewritten have today's defaults."""
        gone = {*self._dropped, *self._units}
        operators = {n: one for n, one in self._before.operators.items() if n not in gone}
        return dataclasses.replace(self._before, operators=operators)

    def _named(self, change: StateChange) -> StateChange:
        return change._replace(was=self._were.get(change.name, ""))

    # -- by name -------------------------------------------------------------------------------------------

    def _changes(self) -> Iterator[StateChange]:
        if self._before.flow != self._new.flow:
            why = f"the flow's name: the checkpoint has {self._before.flow}, the flow has {self._new.flow}"
            yield StateChange(self._new.flow, "flow", "refused", why, "give it its old name")
        if wrong := self._routed():
            yield StateChange(
                self._new.flow,
                "flow",
                "refused",
                wrong,
                "keep their names, or begin a new checkpoint folder",
            )
        olds, news = stateful(self._before.operators), stateful(self._new.operators)
        for name in self._new.sources:
            yield self._source(name)
        for name in news:
            yield self._operator(name, olds.get(name), news[name])
        for name in self._before.sources:
            if name not in self._new.sources:
                yield self._gone(name, "source")
        for name, old in olds.items():
            if name not in news:
                yield self._lost(name, old)

    def _routed(self) -> str:
        """Why operators may not come or go: where keys are routed by a table, it names them."""
        if self._record is None or not self._record.epoch:
            return ""
        keyed = [
            {name for name, x in one.operators.items() if x.keys}
            for one in (self._written, self._new)
        ]
        if keyed[0] == keyed[1]:
            return ""
        names = ", ".join(sorted(keyed[0] ^ keyed[1]))
        return f"keys are routed by a table (locality=), which names the operators by key, and {names} differs"

    def _lost(self, name: str, old: ManifestOperator) -> StateChange:
        kept = name in self._new.operators
        if not self._chains(name):
            return StateChange(name, "operator", "dropped", "it holds no state")
        if not kept or self._may_drop(name):
            return self._gone(name, "operator")
        why = f": the checkpoint has a {old.kind} operator, the flow has one without state"
        return refused(name, [why], give_up(name))

    def _gone(self, name: str, what: Any) -> StateChange:
        was = self._before.sources.get(name) or self._before.operators[name]
        if self._may_drop(name) or self._record is None:
            self._dropped.add(name)
            return StateChange(name, what, "dropped", "its state is given up")
        kind = "it" if what == "source" else f"a {was.kind} operator"  # type: ignore[union-attr]
        todo = f'Flow(..., renamed={{{name!r}: "its new name"}}) keeps its state; {give_up(name)}'
        why = f": the checkpoint has {kind}, the flow has none of that name"
        return StateChange(name, what, "refused", why, todo)

    def _operator(
        self, name: str, old: ManifestOperator | None, new: ManifestOperator
    ) -> StateChange:
        if old is None:
            return StateChange(name, "operator", "new", "begins empty" + self._behind())
        node = self._nodes[name]
        own = spec_of(node)
        held = bool(self._chains(name))
        migrates = own is not None and own.migrate is not None and differs_from(node, own, old)
        verdict = operator_verdict(name, old, new, held=held, migrates=migrates)
        if verdict.rewrites:
            verdict = self._rewritten(name, old, verdict)
        if verdict.change.is_refused and self._may_drop(name):
            self._dropped.add(name)
            self._units.pop(name, None)
            why = "the state before is given up, and it begins empty" + self._behind()
            return StateChange(name, "operator", "dropped", why)
        return verdict.change

    def _source(self, name: str) -> StateChange:
        old, new = self._before.sources.get(name), self._new.sources[name]
        if old is None:
            return self._new_source(name)
        if self._record is None:
            same = old == new
            return StateChange(
                name, "source", "same" if same else "changed", "" if same else "no batch yet"
            )
        rows = list(self._queue(name, old.record))
        held = any(bucket.rows for bucket in rows)
        verdict = source_verdict(name, old, new, held=held)
        if verdict.change.kind in ("converted", "changed") and self._chains(name):
            # Also where no row waits: older ones stand in the files, and would be read as if they were of today.
            form = OldForm(0, old.record, True)
            verdict = self._by_name(name, verdict, rows, form, NewForm((), self._fields(name)))
        return verdict.change

    def _new_source(self, name: str) -> StateChange:
        node = self._nodes[name]
        assert isinstance(node, Source)
        floor = floor_of(self._plan, node, self._record)
        why = "begins where its input does"
        if floor is None:
            return StateChange(name, "source", "new", why)
        made = new_gate(node, floor)
        if made is None:
            why = ": it is new, and joins sources that are underway, so its lanes must be known"
            return refused(name, [why], "give it lanes=[...]", source=True)
        self._gates[name] = made
        return StateChange(name, "source", "new", f"{why}; rows before {floor} are late")

    def _may_drop(self, name: str) -> bool:
        """Whether its state may be given up; what a verb has put in front of an operator goes with it."""
        return any(name == one or name.startswith(f"{one}/") for one in self._drop)

    def _behind(self) -> str:
        return "" if self._record is None else f", with the rows behind batch {self._record.batch}"

    # -- state ----------------------------------------------------------------------------------------------

    def _chains(self, name: str) -> Chains:
        return {} if self._record is None else self._record.chains.get(name, {})

    def _fields(self, name: str) -> Any:
        """The fields of a node's state, or of the rows that wait at it."""
        node = self._nodes[name]
        if isinstance(node, (Keyed, Coroutine)):
            return node.state.schema.fields
        assert isinstance(node, (Source, OrderBy)) and node.out is not None
        return node.out.fields

    def _queue(self, name: str, fields: tuple[ManifestField, ...]) -> Iterator[Bucket]:
        """The rows that wait at a source or order_by."""
        assert self._record is not None
        facts = self._record.extra.get(GATES, {}).get(name, {})
        form = OldForm(0, fields, True, facts.get("released"))
        return buckets(self._fs, self._root, self._chains(name), form)

    def _rewritten(self, name: str, old: ManifestOperator, verdict: StateVerdict) -> StateVerdict:
        """The verdict behind a look at each row; what the rows become is kept."""
        node = self._nodes[name]
        if old.waits:
            form = OldForm(0, old.fields, True)
            rows = list(self._queue(name, old.fields))
            return self._by_name(name, verdict, rows, form, NewForm((), self._fields(name)))
        assert isinstance(node, (Keyed, Coroutine))
        form = OldForm(len(old.keys), old.fields)
        rows = list(buckets(self._fs, self._root, self._chains(name), form))
        new = NewForm(node.key.fields, node.state.schema.fields)
        if verdict.change.kind == "migrated":
            return self._by_function(name, verdict, rows, form, new)
        return self._by_name(name, verdict, rows, form, new)

    def _by_name(
        self, name: str, verdict: StateVerdict, rows: Sequence[Bucket], form: OldForm, new: NewForm
    ) -> StateVerdict:
        made = []
        for bucket in rows:
            try:
                found = rewritten(bucket, form, new, shift=verdict.shift, lossy=verdict.lossy)
            except Unconvertible as error:
                return verdict._replace(change=self._failed(verdict.change, f", state {error}"))
            made.append(NewUnit(bucket.number, "snapshot", found))
        return self._held(verdict, made)

    def _by_function(
        self, name: str, verdict: StateVerdict, rows: Sequence[Bucket], form: OldForm, new: NewForm
    ) -> StateVerdict:
        spec = spec_of(self._nodes[name])
        assert spec is not None and spec.migrate is not None
        own = own_fields(self._nodes[name], form.fields)
        try:
            migration = Migration(spec.migrate, OldClass.of(spec.migrate), own, spec)
        except SchemaError as error:
            return verdict._replace(change=self._failed(verdict.change, f": migrate: {error}"))
        if wrong := migration.old.difference(own):
            return verdict._replace(change=self._failed(verdict.change, f": {wrong}"))
        made, failed = [], []
        for bucket in rows:
            mine = bucket._replace(fields=bucket.fields[: len(own)])
            try:
                columns, stay = migration.columns(mine, new.keys)
                rest = [self._kept_column(bucket, form, one) for one in new.fields[len(columns) :]]
            except MigrationFailed as error:
                failed += error.keys
                continue
            except Unconvertible as error:
                return verdict._replace(change=self._failed(verdict.change, f", state {error}"))
            failed += self._passed(name, bucket, new, columns, stay)
            found = assembled(_only(bucket, stay), new, [*columns, *_taken(rest, stay)])
            made.append(NewUnit(bucket.number, "snapshot", found))
        if failed:
            why = f": migrate fails: {told(failed)}"
            return verdict._replace(change=self._failed(verdict.change, why))
        return self._held(verdict, made)

    def _passed(
        self,
        name: str,
        bucket: Bucket,
        new: NewForm,
        columns: Sequence[pa.Array],
        stay: Sequence[int],
    ) -> list[str]:
        """Keys whose new timer lies before what has passed: what it gave would come too late."""
        spec = spec_of(self._nodes[name])
        floor = floor_of(self._plan, self._nodes[name], self._record)
        if spec is None or spec.timer is None or floor is None:
            return []
        timers = columns[spec.schema.names.index(spec.timer)].to_pylist()
        return [
            f"{key_text(bucket, new.keys, stay[row])}: its new timer {time} lies before {floor - 1}, which has passed"
            for row, time in enumerate(timers)
            if time < floor - 1
        ]

    def _kept_column(self, bucket: Bucket, form: OldForm, field: Any) -> pa.Array:
        """What the library keeps behind the user's fields of a coroutine operator."""
        one = NewForm((), (field,))
        return rewritten(bucket._replace(keys=[]), form, one).column(0)

    def _held(self, verdict: StateVerdict, made: Sequence[NewUnit]) -> StateVerdict:
        change = verdict.change
        rows = sum(unit.rows.num_rows for unit in made)
        self._units[change.name] = tuple(made)
        return verdict._replace(change=change._replace(rows=rows))

    def _failed(self, change: StateChange, why: str) -> StateChange:
        todo = give_up(change.name) if change.what == "operator" else "Restore the old definition"
        return change._replace(kind="refused", why=why, todo=todo)


def _only(bucket: Bucket, rows: Sequence[int]) -> Bucket:
    if len(rows) == bucket.rows:
        return bucket
    return bucket._replace(keys=_taken(bucket.keys, rows), rows=len(rows))


def _taken(columns: Sequence[pa.Array], rows: Sequence[int]) -> list[pa.Array]:
    return [column.take(pa.array(rows, pa.int64())) for column in columns]
