"""The schema of a snapshot; docs/snapshot.md says what each field means.

Whoever reads it (terminal, metrics, page, notebooks) reads nothing else, and every host makes it. A field that a host
cannot tell is None, or empty where it is a collection. Fields are only added under one version; what is renamed or
means something else makes the next version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import orjson

from thalweg.brief import brief_repr
from thalweg.errors import BuildError
from thalweg.stats import Change, FaultyRow, Latency, OperatorProgress

T = TypeVar("T")

#: Of the schema.
VERSION: Final = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamEdge:
    """A stream from one operator to another.

    Attributes:
        giver: the operator or source that puts it out, by name.
        port: which of its streams: ``out``, ``late``, ``rejected``, or a port of a coroutine operator.
        reader: the operator that takes it, or ``sink:<name>``.
        feedback: whether it goes back upstream.
    """

    giver: str
    port: str
    reader: str
    feedback: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """What a source has given, and where it stands.

    Attributes:
        name: of the source.
        rows_in: rows that it read.
        rows_out: of these, rows that were released into the flow.
        late: rows that were late.
        rejected: rows that did not fit its record.
        rows_per_s: rows read a second, lately.
        waiting_rows: rows that wait until the watermark has passed them.
        watermark: before this time of the flow nothing more comes; in the unit of the flow's time (microseconds since
            1970 for instants).
        holds: whether the watermark of all that it meets in unions is its own: they wait for it.
        held_by: the lane that is least far, as text.
        is_idle: whether it is declared idle now, so that nothing waits for it (``idle=``).
        idle_lanes: of its lanes, those that are declared idle now, as text.
        pauses: how often it, or a lane of it, has been declared idle.
        position: where reading goes on, as JSON: of a log, by lane.
        lag_rows: rows of a log that are there and were not read yet, as of the last look.
    """

    name: str
    rows_in: int
    rows_out: int
    late: int = 0
    rejected: int = 0
    rows_per_s: float | None = None
    waiting_rows: int | None = None
    watermark: int | None = None
    holds: bool = False
    held_by: str | None = None
    is_idle: bool = False
    idle_lanes: tuple[str, ...] = ()
    pauses: int = 0
    position: Any = None
    lag_rows: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SinkProgress:
    """What has come to a sink.

    Attributes:
        name: of the sink.
        rows: that it took.
        latency: from a tuple's release into the flow to its exit; None without rows, or where nobody measures it.
    """

    name: str
    rows: int
    latency: Latency | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateSize:
    """What an operator keeps.

    Attributes:
        operator: its name.
        rows: keys that have a state, or that were dropped lately.
        bytes: of memory, without what lists and texts in it own beside; on Spark and of a checkpoint of state files.
    """

    operator: str
    rows: int | None
    bytes: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRound:
    """What the policy decided last.

    Attributes:
        policy: its name.
        rounds: how many rounds there were, or picks (in the simulator); None where nobody counts.
        assigned: by thread the operators that it was given, the most urgent first; on Spark the query admitted.
        reason: why, where the policy says it.
        cost_s: what deciding has cost so far, CPU seconds.
    """

    policy: str
    rounds: int | None = None
    assigned: tuple[tuple[str, ...], ...] = ()
    reason: str = ""
    cost_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyTraffic:
    """Where tuples and the state of keys went between slots, in the last batch; docs/locality.md has more.

    Attributes:
        epoch: of the routing table; 0 is hashing.
        stay: the share of tuples that stayed in their slot.
        stay_hashed: what that share would have been by hash.
        imbalance: by operator, the fullest slot's load by the mean.
        co_located: the share of bytes that did not leave their executor.
        local_bytes, remote_bytes: that the exchanges carried inside executors and between them.
        keys_pinned: keys that the table names.
        keys_moved: keys that get another slot with the next table.
        states_moved: states of keys that were moved.
        bytes_moved: of these states.
        decision: why there is a new table, or is none.
        slot_rows: by operator by key, the tuples that each slot took.
        known_stay: of the pairs of keys that were counted, the share that the table of now keeps in one slot.
        table_stay: the share that a new table would have kept, where one was considered.
        table_gain, table_cost: of that table, in tuples: those that would no longer leave their slot, and what moving
            keys is worth.
    """

    epoch: int = 0
    stay: float | None = None
    stay_hashed: float | None = None
    imbalance: Mapping[str, float] = dataclasses.field(default_factory=dict)
    co_located: float | None = None
    local_bytes: int | None = None
    remote_bytes: int | None = None
    keys_pinned: int = 0
    keys_moved: int = 0
    states_moved: int = 0
    bytes_moved: int = 0
    decision: str = ""
    slot_rows: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    known_stay: float | None = None
    table_stay: float | None = None
    table_gain: float | None = None
    table_cost: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchParts:
    """A batch, and where its time went, seconds.

    Attributes:
        batch: its number.
        rows: of the sources.
        seconds: from its start to its commit.
        wait_s: before that, for a place among other queries.
        plan_s: reading the checkpoint and planning the tasks.
        run_s: reading, running and exchanging rows.
        write_s: the sinks.
        commit_s: state, the commit record, and cleaning up.
        slots: it ran in so many.
        threads: of each slot.
    """

    batch: int
    rows: int
    seconds: float
    wait_s: float | None = None
    plan_s: float | None = None
    run_s: float | None = None
    write_s: float | None = None
    commit_s: float | None = None
    slots: int = 1
    threads: int = 1


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a flow does, or did, at one moment.

    Attributes:
        version: of the schema.
        flow: its name.
        host: ``process``, ``slots``, ``durable``, ``spark`` or ``simulator``.
        status: ``running``, ``ended``, ``stopped`` or ``failed``.
        error: the first line of why it failed.
        at_s: when it was taken, seconds since 1970; None in virtual time.
        rows_in: tuples that the sources gave: of a checkpoint, in this run.
        seconds: since the run began.
        rows_per_s: of the sources, over the whole run.
        latency: by sink, from a tuple's release into the flow to its exit; sinks without rows are missing.
        operators: in topological order, without sources and sinks.
        edges: who reads whom.
        sources, sinks: in the order of the flow.
        idle: sources for which others wait.
        state: by operator with state.
        threads: how many workers may run now; 1 where the calling thread runs all; on Spark of each slot.
        slots: how many there are.
        changes: of threads, replicas and slots by a controller or by hand, or of the routing table, in order.
        stuck: the operators in which threads sit that were told to suspend.
        policy: what it decided last.
        keys: where keys and tuples went between slots.
        batches: the last ones, oldest first.
        bad_rows: the last rows that were late or rejected, at most ten, oldest first.
        links: by what they show, addresses of pages of others, such as Spark's.
    """

    rows_in: int
    seconds: float
    rows_per_s: float
    latency: Mapping[str, Latency] = dataclasses.field(default_factory=dict)
    operators: tuple[OperatorProgress, ...] = ()
    edges: tuple[StreamEdge, ...] = ()
    sources: tuple[SourceProgress, ...] = ()
    sinks: tuple[SinkProgress, ...] = ()
    idle: tuple[str, ...] = ()
    state: tuple[StateSize, ...] = ()
    threads: int = 1
    slots: int = 1
    changes: tuple[Change, ...] = ()
    stuck: tuple[str, ...] = ()
    policy: PolicyRound | None = None
    keys: KeyTraffic | None = None
    batches: tuple[BatchParts, ...] = ()
    bad_rows: tuple[FaultyRow, ...] = ()
    links: Mapping[str, str] = dataclasses.field(default_factory=dict)
    version: int = VERSION
    flow: str = ""
    host: str = "process"
    status: str = "running"
    error: str = ""
    at_s: float | None = None

    def to_json(self) -> str:
        """The snapshot as JSON, a field a key; numbers that JSON does not have are null."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Snapshot:
        """A snapshot that :meth:`to_json` wrote, also by a later release that added fields.

        Raises:
            BuildError: it is none, or of another version.
        """
        try:
            given = orjson.loads(text)
            version = given["version"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise BuildError(f"that is no snapshot: {error}") from None
        if version != VERSION:
            raise BuildError(
                f"a snapshot of version {version}, and this release reads {VERSION}: use the release that wrote it"
            )
        made = {name: _read(name, value) for name, value in given.items()}
        return _known(cls, made)

    def as_dict(self) -> dict[str, Any]:
        """The snapshot as JSON's types."""
        found: dict[str, Any] = orjson.loads(self.to_json())
        return found

    def operator(self, name: str) -> OperatorProgress:
        """The operator of that name; KeyError where there is none."""
        return {one.name: one for one in self.operators}[name]


#: What the items of a field are.
_ITEMS: Final[Mapping[str, type]] = {
    "operators": OperatorProgress,
    "edges": StreamEdge,
    "sources": SourceProgress,
    "sinks": SinkProgress,
    "state": StateSize,
    "changes": Change,
    "batches": BatchParts,
    "bad_rows": FaultyRow,
}


def _read(name: str, value: Any) -> Any:
    if name in _ITEMS:
        return tuple(_known(_ITEMS[name], _nested(one)) for one in value)
    if name in ("idle", "stuck"):
        return tuple(value)
    if name == "latency":
        return {sink: _known(Latency, one) for sink, one in value.items()}
    if name == "policy" and value is not None:
        lists = tuple(tuple(one) for one in value["assigned"])
        return _known(PolicyRound, {**value, "assigned": lists})
    if name == "keys" and value is not None:
        return _known(KeyTraffic, {**value, "slot_rows": _lists(value.get("slot_rows", {}))})
    return value


def _lists(given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(rows) for name, rows in given.items()}


def _nested(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an item, of the types that they have in its record."""
    made = dict(given)
    if made.get("latency") is not None:
        made["latency"] = _known(Latency, made["latency"])
    if "idle_lanes" in made:
        made["idle_lanes"] = tuple(made["idle_lanes"])
    return made


def _known(cls: type[T], given: Mapping[str, Any]) -> T:
    """A record of the fields that this release knows."""
    names = {one.name for one in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(**{name: value for name, value in given.items() if name in names})
