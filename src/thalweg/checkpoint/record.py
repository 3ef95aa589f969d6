"""Commit records: what a batch left behind, and so all that the next one may read.

Segments become state only by being named here. The driver writes the record of batch n after all sinks
have written, by create-and-rename; a batch that runs again reads record n − 1 and replaces record n
(docs/architecture.md; :mod:`thalweg.checkpoint.history` refuses what does not fit together). For each operator and
bucket the record lists a *chain*: a snapshot, then deltas, oldest first. A source's waiting rows are chains too,
under the source's name, with lane groups as buckets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from thalweg.checkpoint.paths import FileSystem, join, read_bytes, stems, write_atomic, write_new
from thalweg.checkpoint.segments import Segment, UnitKind, tag
from thalweg.errors import CheckpointError

FORMAT: Final = 1

#: Where a record has the checksum of the rest.
_SUM: Final = "checksum"

_KINDS: Final[dict[str, UnitKind]] = {"s": "snapshot", "d": "delta", "m": "merge"}


class ChainPart(NamedTuple):
    """A unit of a chain: where it lies and how big it is.

    ``same_as``, for a merge, is the tag of the state before the merge was made, which it equals, so that a cache
    that holds that state need not be loaded again; it is kept for one batch.
    """

    file: str
    number: int
    kind: UnitKind
    bytes: int
    rows: int
    same_as: str = ""

    @property
    def tag(self) -> str:
        """Names the state of the bucket after this unit."""
        return tag(self.file, self.number)


#: The units of a bucket, a snapshot first, then deltas, oldest first.
Chain: TypeAlias = tuple[ChainPart, ...]
#: The chains of an operator by bucket; a bucket without keys has none.
Chains: TypeAlias = Mapping[int, Chain]


@dataclasses.dataclass(frozen=True, slots=True)
class CommitRecord:
    """The state of a flow after a batch.

    Attributes:
        batch: Spark's batch id.
        attempt: names the try that was committed; unique among all tries of the batch.
        slots: how many slots the batch ran with.
        epoch: the routing table that held.
        finished: the end of the input was processed; nothing may follow.
        plan: the fingerprint of the plan that ran.
        chains: by operator (or source) and bucket.
        counters: by operator, counts since the first batch: in, out, late, rejected, …
        clock: by clock domain, the time that no later row is below.
        extra: for later versions; plain JSON values.
    """

    batch: int
    attempt: str
    slots: int
    epoch: int = 0
    finished: bool = False
    plan: str = ""
    chains: Mapping[str, Chains] = dataclasses.field(default_factory=dict)
    counters: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    clock: Mapping[str, int] = dataclasses.field(default_factory=dict)
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """The state files that the chains name, sorted, relative to the root."""
        return sorted({unit.file for unit in self.units()})

    def units(self) -> Iterable[ChainPart]:
        """All units of all chains."""
        return (u for chains in self.chains.values() for chain in chains.values() for u in chain)

    def chain(self, operator: str, bucket: int) -> Chain:
        """The chain of a bucket; empty when it has no state."""
        return self.chains.get(operator, {}).get(bucket, ())

    def encode(self) -> bytes:
        """The record as compact JSON, the same bytes for equal records."""
        files = self.files
        number = {file: i for i, file in enumerate(files)}
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain |= {"format": FORMAT, "files": files}
        plain["chains"] = {
            operator: {
                str(bucket): [_plain(unit, number) for unit in chain]
                for bucket, chain in chains.items()
            }
            for operator, chains in self.chains.items()
        }
        return orjson.dumps({**plain, _SUM: _sum(plain)}, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def decode(cls, content: bytes) -> CommitRecord:
        """The record of :meth:`encode`.

        Raises:
            ValueError, TypeError, LookupError: the bytes are torn, changed, or not a record.
        """
        plain = orjson.loads(content)
        said = plain.pop(_SUM, None)  # records of before there was one have none
        if plain["format"] > FORMAT:
            raise ValueError("it was written by a newer version of Thalweg; use that version")
        if said is not None and said != _sum(plain):
            raise ValueError("its content is not what was written: the checksum differs")
        del plain["format"]
        files = plain.pop("files")
        plain["chains"] = {
            operator: {
                int(bucket): tuple(_unit(one, files) for one in chain)
                for bucket, chain in chains.items()
            }
            for operator, chains in plain["chains"].items()
        }
        return cls(**plain)


def _sum(plain: Mapping[str, Any]) -> str:
    """The checksum of a record's content."""
    content = orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
    return blake2b(content, digest_size=16).hexdigest()


def _plain(unit: ChainPart, number: Mapping[str, int]) -> list[Any]:
    row: list[Any] = [number[unit.file], unit.number, unit.kind[0], unit.bytes, unit.rows]
    return [*row, unit.same_as] if unit.same_as else row


def _unit(row: Sequence[Any], files: Sequence[str]) -> ChainPart:
    file, number, kind, size, rows, *same_as = row
    return ChainPart(files[file], number, _KINDS[kind], size, rows, *same_as)


def next_record(
    previous: CommitRecord | None,
    batch: int,
    attempt: str,
    segments: Iterable[Segment],
    added: Mapping[str, Mapping[str, int]],
    *,
    slots: int,
    clock: Mapping[str, int] | None = None,
    epoch: int = 0,
    finished: bool = False,
    plan: str = "",
    extra: Mapping[str, Any] | None = None,
) -> CommitRecord:
    """The record of a batch from the one before it and what the batch's slots saved; pure.

    A snapshot replaces its bucket's chain, a delta goes at its end, a merge takes the place of the units from
    ``start`` on; what moves to a bucket from others goes behind all that. ``added`` are this batch's counts, which
    are added to the previous ones. ``clock`` replaces the domains it names.

    Raises:
        ValueError: ``previous`` is not older, two slots wrote one bucket, or a delta has no snapshot below.
    """
    if previous is not None and previous.batch >= batch:
        raise ValueError(f"batch {batch} cannot follow the record of batch {previous.batch}")
    old = previous.chains if previous else {}
    chains = _extended(old, segments, batch)
    return CommitRecord(
        batch=batch,
        attempt=attempt,
        slots=slots,
        epoch=epoch,
        finished=finished,
        plan=plan,
        chains={name: _aged(of, old.get(name, {})) for name, of in chains.items() if of},
        counters=_sums(previous.counters if previous else {}, added),
        clock={**(previous.clock if previous else {}), **(clock or {})},
        extra=extra or {},
    )


def _extended(
    old: Mapping[str, Chains], segments: Iterable[Segment], batch: int
) -> dict[str, dict[int, Chain]]:
    chains = {operator: dict(of_operator) for operator, of_operator in old.items()}
    seen: set[tuple[str, int]] = set()
    parts = list(segments)
    for segment in parts:
        buckets = {unit.bucket for unit in segment.units if unit.kind != "moved"}
        twice = {b for b in buckets if (segment.operator, b) in seen}
        if twice:
            where = f"bucket {min(twice)} of {segment.operator}"
            raise ValueError(f"two slots saved {where} in batch {batch}")
        seen.update((segment.operator, bucket) for bucket in buckets)
        _extend(chains.setdefault(segment.operator, {}), segment)
    for segment in parts:
        _move_in(chains[segment.operator], segment)
    return chains


def _move_in(chains: dict[int, Chain], segment: Segment) -> None:
    """Keys that no unit of their new bucket has: there they are like any delta, or the first snapshot."""
    for new in segment.units:
        if new.kind == "moved" and new.number >= 0:
            chain = chains.get(new.bucket, ())
            kind: UnitKind = "delta" if chain else "snapshot"
            chains[new.bucket] = (
                *chain,
                ChainPart(segment.file, new.number, kind, new.bytes, new.rows),
            )


def _extend(chains: dict[int, Chain], segment: Segment) -> None:
    for new in segment.units:
        if new.kind == "moved":
            continue
        chain = chains.get(new.bucket, ())
        unit = ChainPart(segment.file, new.number, new.kind, new.bytes, new.rows)
        if new.kind == "snapshot":
            chain = (unit,) if new.number >= 0 else ()
        elif not chain:
            raise ValueError(
                f"bucket {new.bucket} of {segment.operator} has a {new.kind} and no snapshot"
            )
        elif new.kind == "merge":
            chain = (*chain[: new.start], unit._replace(same_as=chain[-1].tag))
        else:
            chain = (*chain, unit)
        chains[new.bucket] = chain
        if not chain:
            del chains[new.bucket]


def _aged(chains: Mapping[int, Chain], old: Chains) -> dict[int, Chain]:
    """The chains in bucket order, without the ``same_as`` of units that the previous record already had."""
    out = {}
    for bucket in sorted(chains):
        chain = chains[bucket]
        if any(unit.same_as for unit in old.get(bucket, ())):
            known = {unit for unit in old[bucket] if unit.same_as}
            chain = tuple(u._replace(same_as="") if u in known else u for u in chain)
        out[bucket] = chain
    return out


def _sums(
    old: Mapping[str, Mapping[str, int]], added: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    sums = {name: dict(counts) for name, counts in old.items()}
    for name, counts in added.items():
        mine = sums.setdefault(name, {})
        for count, value in counts.items():
            mine[count] = mine.get(count, 0) + value
    return sums


# -- files ---------------------------------------------------------------------------------------------


def record_path(batch: int) -> str:
    """The file of a record, relative to the root."""
    return f"commits/{batch}.json"


def write(fs: FileSystem, root: str, record: CommitRecord) -> None:
    """Commits a batch: from now on the record is the state after it; replaces an earlier try's record."""
    write_atomic(fs, join(root, record_path(record.batch)), record.encode())


def write_first(fs: FileSystem, root: str, record: CommitRecord) -> bool:
    """Commits a batch that has no record; False, and nothing done, if it has one."""
    return write_new(fs, join(root, record_path(record.batch)), record.encode())


def batches(fs: FileSystem, root: str) -> list[int]:
    """The batches that have a record, ascending."""
    names = stems(fs, join(root, "commits"), ".json")
    return sorted(int(name) for name in names if name.isdecimal())


def read(fs: FileSystem, root: str, batch: int) -> CommitRecord | None:
    """The record of a batch; None when it has none.

    Raises:
        CheckpointError: it is torn, or not what its name says.
    """
    path = join(root, record_path(batch))
    content = read_bytes(fs, path)
    if content is None:
        return None
    try:
        record = CommitRecord.decode(content)
        if record.batch != batch:
            raise ValueError(f"it says batch {record.batch}")
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise CheckpointError(
            f"the commit record {path} ({len(content)} bytes) cannot be read: {type(error).__name__}:"
            f" {str(error)[:200]}\n"
            "It was written whole by a rename, so the disk lost it (a power cut) or someone changed it."
            f" Bring it back from a copy of the checkpoint. Where Spark's own commits/{batch} is missing"
            " too, delete the record: the batch then runs again."
        ) from error
    return record


def attempt_of(fs: FileSystem, root: str, batch: int) -> str:
    """Which try of a batch its record is of, without the work of reading all of it; "" when it has none.

    Raises:
        CheckpointError: it is torn.
    """
    content = read_bytes(fs, join(root, record_path(batch)))
    if content is None:
        return ""
    try:
        return str(orjson.loads(content)["attempt"])
    except (ValueError, TypeError, LookupError):
        found = read(fs, root, batch)  # raises, and says what is wrong
        return found.attempt if found else ""


def latest(fs: FileSystem, root: str) -> CommitRecord | None:
    """The newest record; None in a new checkpoint. Errors as :func:`read`."""
    found = batches(fs, root)
    return read(fs, root, found[-1]) if found else None
