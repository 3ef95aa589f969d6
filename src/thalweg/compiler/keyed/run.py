"""What one run of a compiled keyed operator reads and puts out: the split of a chunk, and a run of its ranges."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from thalweg.columns.chunks import Chunk, Int64s
from thalweg.columns.contracts import RejectedRow
from thalweg.columns.keys import KeyBytes, KeyRows
from thalweg.compiler.code.columns import Buffers, address
from thalweg.compiler.keyed import layout
from thalweg.compiler.keyed.shape import KeyedSpec
from thalweg.compiler.runtime.arena import free_arena
from thalweg.compiler.runtime.undo import UndoLog
from thalweg.compiler.text.use import TextUse


@dataclasses.dataclass(slots=True)
class Split:
    """A chunk split into ranges: what every run of some of its ranges reads."""

    chunk: Chunk
    keys: KeyRows | None
    times: Int64s | None
    #: rows in the order of their buckets; entry of each, filled by the run of its range
    order: Int64s
    entries: Int64s
    #: int64[n, RANGE_WIDTH]: bucket, start and end in ``order``
    ranges: Int64s
    #: arrays that addresses point into
    keep: list[Any]
    columns: list[int]


class Run:
    """The outputs of some ranges; runs of different ranges may go on at the same time."""

    def __init__(
        self,
        spec: KeyedSpec,
        default: npt.NDArray[Any],
        capacity: int,
        *,
        ending: bool,
        texts: TextUse,
    ) -> None:
        self.buffers = Buffers(spec.out, layout.OUT_WORDS + spec.words, capacity, texts.made)
        self.ctl = np.zeros(layout.CONTROL_SIZE, np.int64)
        if texts.arena:
            weakref.finalize(self, _free, self.ctl)
        self.ctl[layout.ENDING] = ending
        #: the state as the function saw it
        size = default.dtype.itemsize
        place = layout.log_place(size)
        # Behind the copy stands the address of the log of the call.
        memory = np.zeros(place + 8, np.uint8)
        self.backup = memory[:size].view(default.dtype)
        self.backup_place = address(memory)
        self.log = UndoLog()
        memory[place:].view(np.int64)[0] = self.log.place
        self.rejected: list[RejectedRow] = []
        #: rows that Python runs at the next one that raises
        self.interpreted = 1
        #: the place behind the last of them
        self.left_at = -1
        #: of the keys of the timers whose outputs these are, a row a row, where tables may have changed since
        self.identities: KeyBytes | None = None

    @property
    def used(self) -> int:
        return int(self.ctl[layout.OUT])


def _free(ctl: Int64s) -> None:
    free_arena(address(ctl[layout.ARENA :]))
