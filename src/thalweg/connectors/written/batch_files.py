"""A folder of files by batch, ``batch=<n>/``, as the output of a run in batches: what Spark's sinks write, too."""

from __future__ import annotations

import dataclasses
import os
from typing import Final

import pyarrow as pa

from thalweg.brief import counted
from thalweg.checkpoint import durable
from thalweg.checkpoint.paths import delete_folder, resolve
from thalweg.columns.chunks import Chunk
from thalweg.connectors.written.batch_folders import batch_folder, batches_in
from thalweg.connectors.written.encode import FileFormat, check_fields
from thalweg.connectors.written.file_sink import FileSink
from thalweg.errors import BuildError, CheckpointError
from thalweg.flow.operators.nodes import Sink

_PART: Final = "part-00000"


@dataclasses.dataclass(frozen=True, slots=True)
class BatchFiles:
    """A file a batch, in folders by batch."""

    path: str
    format: FileFormat

    made_by = "tw.to_files(...)"

    @property
    def place(self) -> str:
        return self.path

    def check(self, sink: Sink) -> None:
        check_fields(self.format, sink.record, f"sink {sink.name!r}")
        if os.path.isfile(self.path):
            raise BuildError(
                f"sink {sink.name!r}: {self.path} is a file; a run with checkpoint= writes a folder of this name with"
                " a file for each batch. Move the file, or give another name"
            )

    def open(self, sink: Sink, query: str) -> BatchFilesWriter:
        return BatchFilesWriter(self, sink)


class BatchFilesWriter:
    """Writes the batches of one sink; one that comes again replaces what it left."""

    #: an earlier try may have had rows, by another version of the flow
    takes_empty = True

    def __init__(self, target: BatchFiles, sink: Sink) -> None:
        self._target, self._sink = target, sink

    def write(self, batch: int, table: pa.Table) -> None:
        """Writes the folder of a batch, which is on the disk then; none for no rows."""
        folder = batch_folder(self._target.path, batch)
        fs, root = resolve(folder)
        delete_folder(fs, root)
        if not table.num_rows:
            return
        file = FileSink(f"{root}/{_PART}{_ending(self._target)}", self._target.format)
        file.open(self._sink)
        try:
            file.write(Chunk.from_arrow(self._sink.record, table))
        except BaseException:
            file.close(failed=True)
            raise
        file.close(failed=False)
        durable.sync_tree(root)

    def close(self) -> None:
        pass  # files are closed as they are written


def _ending(target: BatchFiles) -> str:
    """The end of a file's name: that of the path, which tells the compression, too."""
    _, dot, ending = os.path.basename(target.path).partition(".")
    return f"{dot}{ending}" if dot else f".{target.format}"


def refuse_used(sink: str, path: str) -> None:
    """Refuses a new checkpoint over an output folder that already has batches.

    Raises:
        CheckpointError: old and new batches would mix.
    """
    old = batches_in(path)
    if old:
        raise CheckpointError(
            f"sink {sink!r}: {path} already has {counted(len(old), 'batch')}, but the checkpoint is new;"
            " old and new rows would mix.\nUse the checkpoint that wrote them or another output folder, or delete"
            f" {path} to begin anew."
        )
