"""Which checkpoint a state folder belongs to: one identity, written in both, compared at every start.

``checkpoint.json`` lies in the checkpoint's own ``thalweg`` folder and in the folder that ``state=`` names (the same
folder by default). Written in the state folder first, and only once Spark's log and the commit records were found to
fit, so a folder that was not mounted is never taken for the state of a new checkpoint. Checkpoints of before there
were identities are given one at their next start.
"""

from __future__ import annotations

import dataclasses
import os
import uuid
from typing import Final, NamedTuple

import orjson

from thalweg.checkpoint.paths import FileSystem, is_local, join, read_bytes, resolve, write_atomic
from thalweg.errors import CheckpointError

FORMAT: Final = 1
FILE: Final = "checkpoint.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """What both parts of a checkpoint say.

    Attributes:
        id: of the checkpoint, random.
        checkpoint: the folder that was passed as ``checkpoint=``.
        state: the folder that was passed as ``state=``; "" where the state lies in the checkpoint itself.
    """

    id: str
    checkpoint: str
    state: str = ""

    def encode(self) -> bytes:
        """JSON that people can read."""
        plain = {"format": FORMAT, **dataclasses.asdict(self)}
        return orjson.dumps(plain, option=orjson.OPT_INDENT_2) + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Identity:
        """The identity of :meth:`encode`.

        Raises:
            ValueError, TypeError, LookupError: the bytes are torn or no identity.
        """
        plain = orjson.loads(content)
        if plain["format"] > FORMAT:
            raise ValueError("it was written by a newer version of Thalweg; use that version")
        if not isinstance(plain["id"], str) or not plain["id"]:
            raise ValueError("it has no id")
        return cls(plain["id"], str(plain["checkpoint"]), str(plain["state"]))


class Folder(NamedTuple):
    """A folder as Spark writes it, and where that is."""

    location: str
    fs: FileSystem
    root: str

    @classmethod
    def at(cls, location: str) -> Folder:
        """The folder of a location.

        Raises:
            CheckpointError: pyarrow cannot open it.
        """
        return cls(location, *resolve(location))

    def is_same(self, other: Folder) -> bool:
        """Whether both are one folder."""
        if self.fs.type_name != other.fs.type_name:
            return False
        if is_local(self.fs):
            return os.path.realpath(self.root) == os.path.realpath(other.root)
        return self.root == other.root


def read(folder: Folder) -> Identity | None:
    """What a folder says; None when it says nothing.

    Raises:
        CheckpointError: it is torn.
    """
    path = join(folder.root, FILE)
    content = read_bytes(folder.fs, path)
    if content is None:
        return None
    try:
        return Identity.decode(content)
    except (ValueError, TypeError, LookupError) as error:
        raise CheckpointError(
            f"{path} cannot be read: {type(error).__name__}: {str(error)[:200]}\n"
            "It says to which checkpoint the state belongs. Bring it back from a copy of the checkpoint."
        ) from error


def require_one(home: Folder, state: Folder, location: str) -> str | None:
    """The identity of a checkpoint, None where none was given yet; nothing is written.

    Args:
        home: the ``thalweg`` folder of the checkpoint.
        state: where the state is, often the same folder.
        location: the checkpoint as the user names it.

    Raises:
        CheckpointError: the two are not parts of one checkpoint.
    """
    here, there = read(home), read(state)
    if home.is_same(state):
        if here is not None and here.state:
            raise CheckpointError(
                f"the state of the checkpoint {location} is in another folder: it was started with"
                f" state={here.state!r}, and now without. Start it with that state= again."
            )
        return None if here is None else here.id
    if here is None:
        return None if there is None else _of_this_checkpoint(there, state, location)
    if there is None:
        raise _lost(here, state, location)
    if here.id != there.id:
        raise CheckpointError(
            f"the state folder {state.location} belongs to the checkpoint {there.checkpoint}, not to {location}.\n"
            "Give each checkpoint a state= of its own, the one it was started with."
        )
    return _of_this_checkpoint(there, state, location)


def _of_this_checkpoint(there: Identity, state: Folder, location: str) -> str:
    """The identity of a state folder, unless another checkpoint that still exists has it, too."""
    if there.checkpoint == location:
        return there.id
    try:
        before, now = (Folder.at(f"{one}/thalweg") for one in (there.checkpoint, location))
        if before.is_same(now):
            return there.id  # only its name is another
        other = read(before)
    except CheckpointError:
        other = None
    if other is None and read(Folder.at(f"{location}/thalweg")) is not None:
        return there.id  # the checkpoint was moved
    raise CheckpointError(
        f"the state folder {state.location} belongs to the checkpoint {there.checkpoint}, so {location} cannot use"
        " it.\nGive each checkpoint a state= of its own. If the other checkpoint is given up, delete the state folder,"
        " too."
    )


def _lost(here: Identity, state: Folder, location: str) -> CheckpointError:
    before = here.state or "the checkpoint folder itself (no state= was given)"
    if here.state == state.location:
        return CheckpointError(
            f"the state folder {state.location} does not hold the state of the checkpoint {location} any more: it was"
            " emptied, replaced, or is not mounted.\n"
            "Mount it, or bring it back from a copy that was made together with the checkpoint."
        )
    return CheckpointError(
        f"{state.location} does not hold the state of the checkpoint {location}: that lies in {before}.\n"
        + (f"Start with state={here.state!r}" if here.state else "Start without state=")
        + ", or move the folder's content to where it is looked for."
    )


def claim(home: Folder, state: Folder, location: str, known: str | None) -> str:
    """Writes the identity of a checkpoint into both parts where it is not there, or the folders were moved.

    Args:
        home, state, location: as for :func:`require_one`, which gave ``known``.
    """
    apart = not home.is_same(state)
    mine = Identity(known or uuid.uuid4().hex, location, state.location if apart else "")
    # The state first: a checkpoint that says where its state is must be right.
    for folder in (state, home) if apart else (home,):
        if read(folder) != mine:
            write_atomic(folder.fs, join(folder.root, FILE), mine.encode())
    return mine.id
