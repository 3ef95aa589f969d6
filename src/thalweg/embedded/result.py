"""What an embedded run gave: rows by sink, counts, and how it went."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Final

import pyarrow as pa

from thalweg.brief import brief, counted
from thalweg.checks import require_count
from thalweg.columns.chunks import Chunk
from thalweg.errors import BuildError
from thalweg.flow.failures import shorten
from thalweg.snapshot import Snapshot

#: Sinks that a result shows of itself.
_SHOWN: Final = 10


@dataclasses.dataclass(slots=True, repr=False)
class Result:
    """What an embedded run gave.

    ``sinks`` has a pyarrow table for each sink that collects, in the order of the flow; ``counts`` rows in, out, late
    and rejected by operator, also of those that no row has reached; ``progress`` throughput, latency by sink (p50,
    p99), and what each operator did.
    """

    sinks: dict[str, pa.Table]
    counts: dict[str, dict[str, int]]
    progress: Snapshot
    _chunks: dict[str, list[Chunk]]

    def rows(self, sink: str) -> list[Any]:
        """A sink's output as records of the flow's classes.

        Raises:
            BuildError: there is no sink of that name, or its rows went elsewhere.
        """
        if sink not in self._chunks:
            known = ", ".join(sorted(self._chunks)) or "none"
            raise BuildError(f"no rows of a sink {sink!r} are kept; they are of: {known}")
        chunks = self._chunks[sink]
        return [row for chunk in chunks for row in chunk.schema.shown(chunk.rows())]

    def show(self, sink: str, *, rows: int = 20) -> None:
        """Prints the first rows of a sink as a table, with times as ISO 8601.

        Raises:
            BuildError: as :meth:`rows`.
        """
        # rich takes longer to load than a small flow to run
        from thalweg.connectors.shown import shown_table
        from thalweg.printing import Terminal

        require_count("show: rows", rows)
        title = f"{sink}: {counted(len(self.rows(sink)), 'row')}"
        if not self._chunks[sink]:
            Terminal().print(title)
            return
        record, table = self._chunks[sink][0].schema, self.sinks[sink]
        Terminal().print(shown_table(title, record, table.slice(0, rows), table.num_rows))

    def __repr__(self) -> str:
        """What came in and out, in some lines; the rows are in ``sinks`` and ``rows(sink)``."""
        lines = [
            f"<Result: {counted(self.progress.rows_in, 'row')} in, {self.progress.seconds:.3g} s"
        ]
        for name, table in itertools.islice(self.sinks.items(), _SHOWN):
            lines.append(
                f"  sink {name!r}: {counted(table.num_rows, 'row')} ({', '.join(table.column_names)})"
            )
        if len(self.sinks) > _SHOWN:
            lines.append(f"  … {len(self.sinks) - _SHOWN:,} more sinks")
        for what in ("late", "rejected", "idle"):
            some = {name: its[what] for name, its in self.counts.items() if its.get(what)}
            if some:
                lines.append(f"  {what}: {brief(some)}")
        return "\n".join(shorten(line, 200) for line in lines) + ">"
