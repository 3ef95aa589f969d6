"""Outputs of a run: tables in memory, functions of the user's, and the choice of one for each sink of a flow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from thalweg.brief import counted
from thalweg.checks import kind_of, known_keywords, meant, require_function
from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import RowSink
from thalweg.connectors.embedded.target_sink import TargetSink
from thalweg.connectors.targets import Target
from thalweg.connectors.tcp.sink import TcpSink
from thalweg.connectors.written.file_sink import FileSink
from thalweg.errors import BuildError, OperatorError
from thalweg.flow.failures import reason_of, shorten
from thalweg.flow.operators.functions import Function, check_parameters
from thalweg.flow.operators.nodes import Sink


class CollectSink(RowSink):
    """Keeps the rows: what a sink does that is given nothing else."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def __repr__(self) -> str:
        return f"<collected rows, {sum(map(len, self.chunks)):,}>"

    def open(self, sink: Sink) -> None:
        self.chunks = []

    def write(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    def close(self, *, failed: bool) -> None:
        pass


class DiscardSink(RowSink):
    """Lets the rows of a sink go that nobody asked for; the engine has counted them."""

    def open(self, sink: Sink) -> None:
        pass

    def write(self, chunk: Chunk) -> None:
        pass

    def close(self, *, failed: bool) -> None:
        pass


class EachSink(RowSink):
    """Calls a function with each record; made by :func:`each`."""

    made_by = "tw.each(...)"

    def __init__(self, function: Function) -> None:
        self._function = function
        self._name = ""

    def __repr__(self) -> str:
        return f"each({self._function.where})"

    def open(self, sink: Sink) -> None:
        self._name = sink.name

    def write(self, chunk: Chunk) -> None:
        call = self._function.call
        for row in chunk.schema.shown(chunk.rows()):
            try:
                call(row)
            except Exception as error:
                raise _failure(self._name, self._function, shorten(row), error) from error

    def close(self, *, failed: bool) -> None:
        pass


class BatchSink(RowSink):
    """Calls a function with record batches; made by :func:`batches`."""

    made_by = "tw.batches(...)"

    def __init__(self, function: Function) -> None:
        self._function = function
        self._name = ""

    def __repr__(self) -> str:
        return f"batches({self._function.where})"

    def open(self, sink: Sink) -> None:
        self._name = sink.name

    def write(self, chunk: Chunk) -> None:
        try:
            self._function.call(chunk.to_arrow())
        except Exception as error:
            given = f"a RecordBatch of {counted(len(chunk), 'row')}"
            raise _failure(self._name, self._function, given, error) from error

    def close(self, *, failed: bool) -> None:
        pass


def _failure(sink: str, function: Function, row: str, error: Exception) -> OperatorError:
    text = (
        f"sink {sink!r} failed: {reason_of(error)}\n"
        f"  function: {function.name} in {function.file}:{function.line}\n"
        f"  row:      {row}"
    )
    return OperatorError(text, operator=f"sink:{sink}", row=row)


@known_keywords
def each(function: Callable[[Any], Any]) -> EachSink:
    """Calls ``function(record)`` for each row of a sink, in order; what it returns is ignored.

    Raises:
        BuildError: it cannot be called like that.
    """
    return EachSink(_checked(function, "each", "record"))


@known_keywords
def batches(function: Callable[[pa.RecordBatch], Any]) -> BatchSink:
    """Calls ``function(batch)`` with the rows of a sink, in order, as they come: a pyarrow.RecordBatch at a time.

    How the rows are cut into batches is not promised. A bare function given for a sink means the same.

    Raises:
        BuildError: it cannot be called like that.
    """
    return BatchSink(_checked(function, "batches", "batch"))


def _checked(function: Any, verb: str, wanted: str) -> Function:
    require_function(verb, function=function)
    made = Function.of(function, verb)
    check_parameters(made, verb, [wanted])
    return made


def as_sink(name: str, given: Any) -> RowSink:
    """What was given for a sink; a bare function gets record batches.

    Raises:
        BuildError: it is none of the kinds.
    """
    if isinstance(given, RowSink):
        return given
    if isinstance(given, Target):
        return TargetSink(given)
    if isinstance(given, (str, os.PathLike)):
        raise BuildError(f"sink {name!r}: got a path; write tw.to_files({os.fspath(given)!r})")
    if callable(given):
        return BatchSink(_checked(given, f"sink:{name}", "batch"))
    raise BuildError(
        f"sink {name!r}: expected tw.to_files(...), tw.to_kafka(...), tw.to_tcp(...), tw.each(function),"
        f" tw.batches(function) or a function of a pyarrow.RecordBatch, got {kind_of(given)}"
    )


def choose_sinks(flow: str, sinks: Sequence[Sink], given: Mapping[str, Any]) -> dict[str, RowSink]:
    """A row sink for each sink of a flow, by name; those that are given none collect.

    Raises:
        BuildError: there is no sink of a name, or two have the same output.
    """
    names = [sink.name for sink in sinks]
    for extra in sorted(given.keys() - set(names), key=str):
        known = ", ".join(sorted(names)) or "none"
        raise BuildError(
            f"flow {flow!r} has no sink {extra!r}; it has {known}{meant(extra, names)}"
        )
    chosen = {
        name: as_sink(name, given[name]) if name in given else CollectSink() for name in names
    }
    places: dict[Any, str] = {}
    for name, sink in chosen.items():
        place = _place(sink)
        if place in places:
            raise BuildError(f"sinks {places[place]!r} and {name!r} have the same output")
        places[place] = name
    return chosen


def _place(sink: RowSink) -> Any:
    """What no two sinks can share."""
    if isinstance(sink, TargetSink):
        return sink.target.place
    return sink.path if isinstance(sink, FileSink) else id(sink)


@contextlib.contextmanager
def opened(sinks: Sequence[Sink], chosen: Mapping[str, RowSink]) -> Iterator[None]:
    """The sinks, open; at the end all are closed, as failed if the body, or the close of one, failed.

    Raises:
        BuildError, EnvironmentProblem: one cannot be opened; those that were are closed.
    """
    with contextlib.ExitStack() as stack:
        for sink in sinks:
            row_sink = chosen[sink.name]
            row_sink.open(sink)
            stack.push(_closer(row_sink))
        yield


def _closer(sink: RowSink) -> Any:
    def close(kind: type[BaseException] | None, *_: object) -> None:
        sink.close(failed=kind is not None)

    return close


def runs_user_code(sink: RowSink) -> bool:
    """Whether writing calls Python code of the user's."""
    return not isinstance(sink, (CollectSink, FileSink, TargetSink, TcpSink))
