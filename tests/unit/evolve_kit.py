"""A checkpoint by one flow, and what another makes of it: its values, or a refusal that leaves every byte as it was."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.checkpoint.inspect import read_state

Make = Callable[[], tw.Flow]


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files but the lock, whose content is the process."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


@dataclasses.dataclass(frozen=True)
class StateChange:
    """A change of a flow.

    Attributes:
        before, after: what makes the flows.
        kinds: what the difference says, by name.
        state: by operator, what its state then is, as rows without field names.
        refused: or else what the refusal says, a pattern.
        drop: the argument.
        rows: of the other flow, the rows of each source, where they are others.
    """

    before: Make
    after: Make
    kinds: Mapping[str, str] = dataclasses.field(default_factory=dict)
    state: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    refused: str = ""
    drop: tuple[str, ...] = ()
    rows: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)

    def check(self, checkpoint: Path, inputs: Mapping[str, Sequence[Any]]) -> None:
        """Makes a checkpoint, and starts the other flow on it."""
        before = self.before()
        tw.run(before, _inputs(before, inputs), checkpoint=checkpoint, end="keep", every=0)
        there = bytes_of(checkpoint)
        after, inputs = self.after(), {**inputs, **self.rows}
        found = tw.checkpoint.diff(str(checkpoint), after, drop=self.drop)
        assert bytes_of(checkpoint) == there
        said = {change.name: change.kind for change in found.changes}
        assert self.kinds.items() <= said.items(), (said, found.changes)
        assert found.accepted == (not self.refused), str(found)
        if self.refused:
            with pytest.raises(tw.CheckpointMismatch) as caught:
                _again(after, inputs, checkpoint, self.drop)
            message = str(caught.value)
            assert re.search(self.refused, message), message
            assert "nothing was written" in message
            assert len(message.splitlines()) <= 10
            assert bytes_of(checkpoint) == there
            return
        _again(after, inputs, checkpoint, self.drop)
        for name, rows in self.state.items():
            held = read_state(str(checkpoint), name)
            columns = [_plain(column).to_pylist() for column in held.columns]
            assert list(zip(*columns, strict=True)) == list(rows), name
        # A second start has nothing left to do, and drops nothing.
        now = tw.checkpoint.diff(str(checkpoint), after, drop=self.drop)
        assert {change.kind for change in now.changes} <= {"same"}, str(now)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as numbers."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _inputs(flow: tw.Flow, inputs: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    names = [node.name for node in flow.nodes if node.kind.value == "source"]
    return {name: inputs[name] for name in names}


def _again(flow: tw.Flow, inputs: Any, checkpoint: Path, drop: tuple[str, ...]) -> None:
    tw.run(flow, _inputs(flow, inputs), checkpoint=checkpoint, end="keep", drop=drop)


def check_all(
    changes: Mapping[str, StateChange], folder: Path, inputs: Mapping[str, Sequence[Any]]
) -> None:
    """Each on a checkpoint of its own."""
    for name, change in changes.items():
        place = folder / name.replace(" ", "_")
        try:
            change.check(place, inputs)
        except BaseException as error:
            error.add_note(f"in the change {name!r}")
            raise
        shutil.rmtree(place)
