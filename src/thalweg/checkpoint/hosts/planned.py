"""Which rows a batch has, written before any output of the batch is: a repeat reads those and no others.

The file ``planned/<n>.json`` says where each input stood at the beginning of batch n, and what was read of it, round
after round. So what a batch puts out follows from this file and the record before it, whenever and however often it
is run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from thalweg.checkpoint.paths import FileSystem, delete, join, read_bytes, stems, write_atomic
from thalweg.errors import CheckpointError

FORMAT: Final = 1
_FOLDER: Final = "planned"


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """What a batch reads.

    Attributes:
        batch: its number.
        start: by source, where it stood, as the source's kind of input writes it.
        rounds: what was read, by source, one round after the other.
        over: sources that end with the batch.
        ends: whether the streams end with it.
        decisions: what was decided of idle sources and lanes: in front of which round, and the decision's values.
    """

    batch: int
    start: Mapping[str, Any]
    rounds: Sequence[Mapping[str, Any]]
    over: Sequence[str] = ()
    ends: bool = False
    decisions: Sequence[tuple[int, Sequence[Any]]] = ()

    @property
    def does_something(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.rounds or self.over or self.ends or self.decisions)


def write(fs: FileSystem, root: str, planned: Planned) -> None:
    """Writes what a batch reads; it is on the disk when this returns."""
    plain = {"format": FORMAT, **dataclasses.asdict(planned)}
    write_atomic(fs, path_of(root, planned.batch), orjson.dumps(plain))


def read(fs: FileSystem, root: str, batch: int) -> Planned | None:
    """What a batch reads; None where that was not said yet.

    Raises:
        CheckpointError: the file is torn, or newer than this library.
    """
    path = path_of(root, batch)
    content = read_bytes(fs, path)
    if content is None:
        return None
    try:
        plain = orjson.loads(content)
        if plain.pop("format") > FORMAT:
            raise ValueError("it was written by a newer version of Thalweg; use that version")
        return Planned(**plain)
    except (ValueError, TypeError, LookupError) as error:
        raise CheckpointError(
            f"{path} cannot be read: {type(error).__name__}: {str(error)[:200]}\n"
            f"It says which rows batch {batch} has. Bring it back from a copy of the checkpoint; where no output has"
            " anything of that batch, it may be deleted: the batch is then planned anew."
        ) from error


def clean(fs: FileSystem, root: str, before: int) -> None:
    """Deletes what was planned of batches before one; they are committed."""
    for name in stems(fs, join(root, _FOLDER), ".json"):
        if name.isdecimal() and int(name) < before:
            delete(fs, path_of(root, int(name)))


def path_of(root: str, batch: int) -> str:
    """The file of a batch."""
    return join(root, _FOLDER, f"{batch}.json")
