"""The place of a flow in the memory of a node runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from thalweg.workers.memory.layout import OpSpec


@dataclasses.dataclass(slots=True)
class Placed:
    """Where a flow stands: its operators ``first`` to ``first + len(ops) - 1``, the first of them its ingress."""

    ops: Sequence[OpSpec]
    first: int
    first_port: int
    submitter: int
    #: the first of the workers that its operators with threads of their own have
    owners: int
    handles: int
    #: where its queues and buffers stand, how many words they take, and where the next of them is put
    queues: int
    words: int
    next: int
    #: by worker, the turns of its loop when the flow was removed
    passes: list[int] = dataclasses.field(default_factory=list)

    @property
    def ports(self) -> int:
        return sum(len(op.reads) for op in self.ops)

    @property
    def places(self) -> range:
        return range(self.first, self.first + len(self.ops))
