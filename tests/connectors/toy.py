"""A log and a target in memory, with all that hosts may ask of them, and a count of what they asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa

from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.logs import LogReader, Positions, spread
from thalweg.connectors.messages import MessageParser, message_options
from thalweg.connectors.targets import TargetWriter
from thalweg.errors import EnvironmentProblem
from thalweg.flow.operators.nodes import Sink, Source


@dataclasses.dataclass(frozen=True)
class ToyLog:
    """Numbers from 0 on in lanes "0", "1", …; ``rows`` says how many each has."""

    rows: tuple[int, ...]
    follow: bool = False
    max_rows: int | None = None
    lane: str | None = "lane"

    made_by = "toy(...)"

    def check(self, source: Source) -> None:
        MessageParser(source, self.options, self.made_by)

    @property
    def options(self) -> Any:
        return message_options("toy", {"lane": self.lane})

    def open(self) -> LogReader:
        return ToyReader(self)


class ToyReader:
    def __init__(self, log: ToyLog) -> None:
        self._log = log

    def begin(self) -> Positions:
        return {str(lane): 0 for lane in range(len(self._log.rows))}

    def end(self, since: Positions) -> Positions:
        return {str(lane): rows for lane, rows in enumerate(self._log.rows)}

    def upto(self, start: Any, end: Any, rows: int) -> Positions:
        return spread(start, end, rows)

    def read(
        self, source: Source, start: Any, end: Mapping[str, Any], chunk_rows: int, stop: Stop
    ) -> Feed:
        parser = MessageParser(source, self._log.options, self._log.made_by)
        for lane, upto in end.items():
            numbers = range(start.get(lane, 0), upto)
            values = [orjson.dumps({"n": n}) for n in numbers]
            beside = {"lane": [int(lane)] * len(numbers)}
            yield parser.parse(values, beside, lambda row, lane=lane: f"lane {lane} row {row}")

    def close(self) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class ToyTarget:
    """Keeps batches by number, and fails at those that it is told to."""

    batches: dict[int, pa.Table] = dataclasses.field(default_factory=dict)
    fails_at: frozenset[int] = frozenset()
    queries: list[str] = dataclasses.field(default_factory=list)
    closed: list[bool] = dataclasses.field(default_factory=list)

    made_by = "to_toy(...)"

    @property
    def place(self) -> str:
        return f"toy:{id(self.batches)}"

    def check(self, sink: Sink) -> None:
        pass

    def open(self, sink: Sink, query: str) -> TargetWriter:
        self.queries.append(query)
        return ToyWriter(self)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in sorted(self.batches) for row in self.batches[batch].to_pylist()]


class ToyWriter:
    def __init__(self, target: ToyTarget) -> None:
        self._target = target

    def write(self, batch: int, table: pa.Table) -> None:
        if batch in self._target.fails_at:
            raise EnvironmentProblem(f"no batch {batch} today")
        self._target.batches.setdefault(batch, table)

    def close(self) -> None:
        self._target.closed.append(True)
