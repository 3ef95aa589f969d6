"""What an embedded run gave: rows by sink, counts, and how it went."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from thalweg.brief import brief, counted
from thalweg.checks import Guessable, meant, require_count
from thalweg.columns.chunks import Chunk
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.flow.failures import shorten
from thalweg.snapshot import Snapshot

#: Sinks that a result shows of itself.
_SHOWN: Final = 10
#: Rows that a table shows of itself.
_ROWS: Final = 20
#: Letters of a text that a table shows.
_TEXT: Final = 120
#: The counts of an operator that a notebook shows.
_COUNTS: Final = ("in", "out", "late", "rejected")


@dataclasses.dataclass(slots=True, repr=False)
class Result(Guessable):
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
        return [row for chunk in self._chunks_of(sink) for row in chunk.schema.shown(chunk.rows())]

    def __getitem__(self, sink: str) -> SinkRows:
        """A sink's output as a table: ``result["visits"].to_pandas()``; a notebook shows it.

        Raises:
            BuildError: as :meth:`rows`.
        """
        self._chunks_of(sink)
        return SinkRows(sink, self)

    def _meant_by(self, name: str) -> str:
        kept = object.__getattribute__(self, "_chunks")
        return f'result["{name}"], or result.rows("{name}")' if name in kept else ""

    def __iter__(self) -> Iterator[str]:
        """The sinks whose rows are kept."""
        return iter(self._chunks)

    def __contains__(self, sink: object) -> bool:
        return sink in self._chunks

    def _chunks_of(self, sink: str) -> list[Chunk]:
        if sink not in self._chunks:
            known = ", ".join(sorted(self._chunks)) or "none"
            raise BuildError(
                f"no rows of a sink {sink!r} are kept; they are of: {known}{meant(sink, self._chunks)}"
            )
        return self._chunks[sink]

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

    def _repr_html_(self) -> str:
        from thalweg.drawing import html_table

        head = [("operator", False), *((what, True) for what in _COUNTS)]
        rows = [
            [name, *(f"{its.get(what, 0):,}" for what in _COUNTS)]
            for name, its in self.counts.items()
        ]
        said = f"{counted(self.progress.rows_in, 'row')} in, {self.progress.seconds:.3g} s"
        tables = [self[name]._repr_html_() for name in itertools.islice(self._chunks, _SHOWN)]
        return f"<div>{html_table(head, rows, caption=said)}{''.join(tables)}</div>"

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


@dataclasses.dataclass(frozen=True, slots=True, repr=False, eq=False)
class SinkRows(Guessable):
    """The output of a sink, as the caller wants it: records, an Arrow table, pandas or Polars.

    It equals a list or tuple of its rows, and another sink's output with the same rows.

    Attributes:
        name: of the sink.
        result: of which it is.
    """

    name: str
    result: Result

    @property
    def table(self) -> pa.Table:
        """The rows as a pyarrow table."""
        return self.result.sinks[self.name]

    @property
    def rows(self) -> list[Any]:
        """The rows as records of the flow's classes."""
        return self.result.rows(self.name)

    def to_pandas(self) -> Any:
        """The rows as a DataFrame of pandas.

        Raises:
            EnvironmentProblem: pandas is not installed.
        """
        try:
            return self.table.to_pandas()
        except ModuleNotFoundError:
            raise EnvironmentProblem(
                "to_pandas needs the package pandas: pip install pandas"
            ) from None

    def to_polars(self) -> Any:
        """The rows as a DataFrame of Polars.

        Raises:
            EnvironmentProblem: Polars is not installed.
        """
        try:
            import polars
        except ModuleNotFoundError:
            raise EnvironmentProblem(
                "to_polars needs the package polars: pip install polars"
            ) from None
        return polars.from_arrow(self.table)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SinkRows):
            return self.rows == other.rows
        return self.rows == list(other) if isinstance(other, (list, tuple)) else NotImplemented

    #: as a list, which it equals, it has none
    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __getitem__(self, place: int | slice) -> Any:
        """A row, or some of them."""
        return self.rows[place]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        columns = ", ".join(self.table.column_names)
        return shorten(
            f"<rows of sink {self.name!r}: {counted(len(self), 'row')} ({columns})>", 200
        )

    def _repr_html_(self) -> str:
        from thalweg.connectors.shown import shown_cells
        from thalweg.drawing import html_table

        chunks = self.result._chunks[self.name]
        if not chunks:
            empty = [(name, False) for name in self.table.column_names]
            return html_table(empty, [], caption=f"{self.name}: no rows")
        head, cells = shown_cells(chunks[0].schema, self.table.slice(0, _ROWS))
        rows = [[shorten(text, _TEXT) for text in row] for row in cells]
        more = len(self) - _ROWS
        return html_table(
            head,
            rows,
            caption=f"{self.name}: {counted(len(self), 'row')}",
            note=f"… {more:,} more" if more > 0 else "",
        )
