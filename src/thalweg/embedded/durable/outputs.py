"""Where the rows of a durable run go: each sink gets them batch by batch, when it is settled which rows a batch has."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.checkpoint.paths import absolute
from thalweg.columns.chunks import Chunk
from thalweg.connectors import CollectSink, RowSink, choose_sinks, opened
from thalweg.connectors.embedded.target_sink import TargetSink
from thalweg.connectors.sinks import DiscardSink
from thalweg.connectors.target_writes import TargetWrites
from thalweg.connectors.targets import Target
from thalweg.connectors.written.batch_files import BatchFiles, refuse_used
from thalweg.connectors.written.file_sink import FileSink
from thalweg.engine.contract import Leaving
from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Sink
from thalweg.plan.plan import Plan

_LOG: Final = logging.getLogger("thalweg")


class DurableOutputs:
    """The sinks of a run, with the rows of the batch that runs.

    Args:
        plan: the flow's.
        given: by sink name; those that are not named collect.

    Raises:
        BuildError: one cannot be a sink of the flow.
    """

    def __init__(self, plan: Plan, given: Mapping[str, Any]) -> None:
        self._plan = plan
        chosen = choose_sinks(plan.flow, plan.sinks, given)
        #: those that take numbered batches, and the others
        self.targets = {name: t for name, one in chosen.items() if (t := _target(one)) is not None}
        self.others = {name: one for name, one in chosen.items() if name not in self.targets}
        for node in plan.sinks:
            if node.name in self.targets:
                self.targets[node.name].check(node)
        self._writes = TargetWrites()
        self._held: dict[str, list[Chunk]] = {node.name: [] for node in plan.sinks}
        #: bytes of the rows of the batch so far
        self.nbytes = 0

    def refuse_inside(self, checkpoint: str) -> None:
        """Refuses files in the checkpoint's own folder.

        Raises:
            BuildError: naming the sink.
        """
        outer = f"{absolute(checkpoint).rstrip('/')}/"
        for name, target in self.targets.items():
            path = getattr(target, "path", None)
            if isinstance(path, str) and f"{absolute(path).rstrip('/')}/".startswith(outer):
                raise BuildError(
                    f"sink {name!r}: {path} lies in the folder of checkpoint={checkpoint!r}, which has files of its"
                    " own; give the sink a folder elsewhere"
                )

    def refuse_used(self) -> None:
        """Refuses output folders that have batches, for a checkpoint that is new."""
        for name, target in self.targets.items():
            if isinstance(target, BatchFiles):
                refuse_used(name, target.path)

    def tell_repeats(self) -> None:
        """Says which sinks get the rows of a batch again after a crash."""
        for name, sink in self.others.items():
            if not isinstance(sink, (CollectSink, DiscardSink)):
                what = getattr(sink, "made_by", type(sink).__name__)
                _LOG.warning(
                    "sink %r: %s does not know batches: after a crash it may get the rows of the last one again",
                    name, what,
                )  # fmt: skip

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """The sinks, open; at the end all are closed."""
        others = [node for node in self._plan.sinks if node.name in self.others]
        try:
            with opened(others, self.others):
                yield
        finally:
            self._writes.close()

    def take(self, leaving: Leaving) -> None:
        """Keeps what left the engine until the batch is written."""
        for edge, chunks in leaving.items():
            # They stand in order, so that what says it takes no memory.
            kept = [Chunk(one.schema, one.columns, len(one)) for one in chunks]
            self._held[self._plan.node(edge.node).name] += kept
            self.nbytes += sum(one.nbytes for one in kept)

    def write(self, batch: int, query: str) -> None:
        """Gives all sinks the rows of the batch.

        Raises:
            ThalwegError: one cannot be written; it names the sink.
        """
        for node in self._plan.sinks:
            chunks = self._held[node.name]
            if node.name in self.targets:
                table = _table(node, chunks)
                self._writes.write(node, self.targets[node.name], table, batch, query)
            else:
                for chunk in chunks:
                    self.others[node.name].write(chunk)
            self._held[node.name] = []
        self.nbytes = 0

    def collected(self) -> dict[str, list[Chunk]]:
        """The rows of this run that sinks have collected, by sink."""
        return {n: one.chunks for n, one in self.others.items() if isinstance(one, CollectSink)}


def _target(sink: RowSink) -> Target | None:
    if isinstance(sink, TargetSink):
        return sink.target
    return BatchFiles(sink.path, sink.format) if isinstance(sink, FileSink) else None


def _table(node: Sink, chunks: Sequence[Chunk]) -> pa.Table:
    schema = node.record.arrow
    return pa.Table.from_batches([chunk.to_arrow() for chunk in chunks], schema=schema)
