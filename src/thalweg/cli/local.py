"""``thalweg run --engine local``: the flow in this process, without Spark.

Without a checkpoint inputs are read once, to their end, and the end is the end: open windows close. Files are written
as Spark's host writes a first batch, ``batch=0/``, so that who reads them need not know which engine it was. With it
the run goes on where it stopped, and can follow its inputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import typer

import thalweg as tw
from thalweg.brief import counted
from thalweg.checkpoint.paths import is_here, resolve
from thalweg.cli.arguments import Given
from thalweg.cli.interrupts import interrupts
from thalweg.cli.progress import Display, embedded_line
from thalweg.cli.waiting import tell_waiting
from thalweg.columns.chunks import Chunk
from thalweg.connectors.shown import shown_table
from thalweg.connectors.sinks import DiscardSink
from thalweg.connectors.written.batch_folders import batch_folder, batches_in
from thalweg.embedded.entry import host_of
from thalweg.embedded.flow_run import FlowRun
from thalweg.embedded.showing import actions_of
from thalweg.errors import BuildError, ThalwegError
from thalweg.flow.flow import Flow
from thalweg.flow.operators.nodes import Sink
from thalweg.metrics import serve_metrics
from thalweg.page import Shown, serve_page
from thalweg.plan.plan import make_plan
from thalweg.printing import Terminal, say

#: How often the run is looked at, and how often it is said how it goes, seconds.
_LOOK_S: Final = 0.25
_SAY_S: Final = 2.0
#: The reason where no option is too many, but one is missing.
_FOLLOWS: Final = (
    "--follow, which is the default: without --checkpoint it reads what there is and ends"
)
#: The ends of the names of texts by what compresses them.
_ENDS: Final = {"none": "", "uncompressed": "", "gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst"}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What ``thalweg run`` was asked for besides inputs and outputs."""

    checkpoint: str = ""
    trigger: str = ""
    once: bool = False
    drain: bool = False
    master: str = ""
    slots: int = 1
    metrics: str = ""
    page: bool | str = False
    control: bool = False


def why_not(
    asked: Asked, inputs: Mapping[str, Given], outputs: Mapping[str, Given]
) -> Iterator[str]:
    """What of all that only Spark can do; nothing where one process is enough."""
    if asked.checkpoint:
        if asked.slots > 1:
            yield f"--slots {asked.slots}: with --checkpoint it has one"
    elif asked.trigger:
        yield "--trigger: without --checkpoint it has no batches"
    elif not asked.once:
        yield _FOLLOWS
    if asked.master:
        yield "--master: that is Spark's"
    for name, one in inputs.items():
        if one.described is not None:
            if asked.once and getattr(one.described, "follow", False):
                yield f"--input {name}: {one.path} is followed: add ,follow=false"
            continue
        if "max_files_per_trigger" in one.options:
            yield f"--input {name}: max_files_per_trigger: it has no batches"
        if not is_here(one.path):
            yield f"--input {name}: {one.path} is not on a disk of this machine"
    for name, one in outputs.items():
        if _is_folder(one):
            why_not = _why_not_in_batches if asked.checkpoint else _why_not_written
            yield from (f"--output {name}: {why}" for why in why_not(one))


def _why_not_in_batches(given: Given) -> Iterator[str]:
    if not is_here(given.path):
        yield f"{given.path} is not on a disk of this machine"
    for key in given.options:
        yield f"option {key!r}: with --checkpoint it has none"


def _why_not_written(given: Given) -> Iterator[str]:
    if not is_here(given.path):
        yield f"{given.path} is not on a disk of this machine"
    for key, value in given.options.items():
        if key.lower() != "compression":
            yield f"option {key!r}: it has only compression"
        elif given.format == "parquet" and str(value).lower() != "snappy":
            yield f"compression={value}: its Parquet is compressed by snappy"
        elif given.format != "parquet" and str(value).lower() not in _ENDS:
            yield f"compression={value}: it has {', '.join(_ENDS)}"


def refuse_local(reasons: list[str]) -> None:
    """Refuses ``--engine local`` where it cannot do what is asked for.

    Raises:
        typer.BadParameter: it cannot; all reasons are named.
    """
    if reasons:
        said = "\n  ".join(reasons)
        raise typer.BadParameter(
            f"local runs in this process, without Spark, and cannot do:\n  {said}\n"
            f"{_way_out(reasons)}, or leave out --engine local",
            param_hint="--engine",
        )


def _way_out(reasons: list[str]) -> str:
    """What to do: where only ``--once`` is missing there is nothing to leave out."""
    others = [reason for reason in reasons if reason != _FOLLOWS]
    return " and ".join(["leave these out"] * bool(others) + ["add --once"] * (_FOLLOWS in reasons))


def run_local(
    flow: Flow,
    inputs: Mapping[str, Given],
    outputs: Mapping[str, Given],
    display: Display,
    asked: Asked,
) -> Mapping[str, Mapping[str, int]]:
    """Runs the flow to the end of its inputs, and gives the counts by operator.

    Raises:
        ThalwegError: what stopped it; without a checkpoint Ctrl-C, too: then no output appears.
    """
    if asked.checkpoint:
        return _run_on_checkpoint(flow, inputs, outputs, display, asked)
    _refuse_used_folders(outputs)
    slots = asked.slots
    sinks = _sinks(flow, {name: _sink(one) for name, one in outputs.items()})
    sources = {name: _source(one) for name, one in inputs.items()}
    run = FlowRun(host_of(flow, sources, sinks, slots=slots if slots > 1 else None), 0)
    run.begin()

    def give_up() -> None:
        display.say("stopping")
        run.stop()
        raise ThalwegError("stopped before the end of the input: nothing was written")

    try:
        _follow(run, display, give_up, asked)
        counts = run.result().counts
    except BaseException:
        _remove_empty(outputs)
        raise
    _show(sinks)
    return counts


def _run_on_checkpoint(
    flow: Flow,
    inputs: Mapping[str, Given],
    outputs: Mapping[str, Given],
    display: Display,
    asked: Asked,
) -> Mapping[str, Mapping[str, int]]:
    """Goes on from the checkpoint until the inputs end, or Ctrl-C ends it behind a commit."""
    sinks = _sinks(flow, {name: _batch_sink(one, asked) for name, one in outputs.items()})
    sources = {name: _source(one, follow=not asked.once) for name, one in inputs.items()}
    with tw.start() as running:
        run = running.add(
            flow, sources, sinks, checkpoint=asked.checkpoint, every=asked.trigger or None,
            end="drain" if asked.drain else "keep",
        )  # fmt: skip

        def end() -> None:
            display.say("stopping behind a commit …")
            run.end()

        _follow(run, display, end, asked)
        counts = run.result().counts
    _show(sinks)
    if asked.once and not asked.drain:
        tell_waiting(make_plan(flow), counts, asked.checkpoint, is_kept=True)
    return counts


def _sinks(flow: Flow, given: Mapping[str, Any]) -> dict[str, Any]:
    """The sinks of all outputs; rows of those that nobody asked for are let go."""
    nodes = (node for node in flow.nodes if isinstance(node, Sink))
    return {node.name: given.get(node.name) or DiscardSink() for node in nodes}


def _show(sinks: Mapping[str, Any]) -> None:
    for sink in sinks.values():
        if isinstance(sink, TerminalSink):
            sink.show()


def _batch_sink(given: Given, asked: Asked) -> Any:
    """An output that gets the rows of batch after batch."""
    if given.described is not None:
        return given.described
    if given.format == "discard":
        return DiscardSink()
    if given.format == "console":
        most = given.options.get("max_rows", 20)
        return TerminalSink(most) if asked.once else BatchesOnTerminal(most)
    return tw.to_files(resolve(given.path)[1], given.format)  # type: ignore[call-overload]


@contextlib.contextmanager
def _served(run: FlowRun, asked: Asked) -> Iterator[None]:
    """Answers ``/metrics`` and shows the page where that is asked for."""
    with contextlib.ExitStack() as stack:
        if asked.metrics:
            server = serve_metrics(asked.metrics, lambda: [run.progress()])
            stack.callback(server.close)
            say(f"metrics: {server.url}")
        if asked.page is not False:
            actions = functools.partial(actions_of, run) if asked.control else None
            page = serve_page(asked.page, lambda: [Shown(run.progress())], actions=actions)
            stack.callback(page.close)
            say(f"page: {page.url}")
        yield


def _is_folder(given: Given) -> bool:
    return given.format not in ("console", "discard") and given.described is None


def _remove_empty(outputs: Mapping[str, Given]) -> None:
    """A folder of a batch without files would look like one that was written."""
    for one in outputs.values():
        if _is_folder(one):
            with contextlib.suppress(OSError):
                os.rmdir(batch_folder(resolve(one.path)[1], 0))


def _follow(run: FlowRun, display: Display, interrupted: Callable[[], None], asked: Asked) -> None:
    """Says how it goes until it ends, also to scrapes and browsers; ``interrupted`` does what Ctrl-C asks for."""
    looks = 0
    with _served(run, asked), interrupts() as stop:
        while not run.wait(_LOOK_S):
            looks += 1
            run.look()
            if looks % round(_SAY_S / _LOOK_S) == 0:
                display.say(embedded_line(run.progress()))
            if stop.is_set():
                interrupted()
                stop.clear()


def _source(given: Given, *, follow: bool = False) -> Any:
    if given.described is not None:
        return given.described
    options: Any = {**given.options, "follow": True} if follow else given.options
    return tw.files(resolve(given.path)[1], given.format, **options)  # type: ignore[arg-type]


def _sink(given: Given) -> Any:
    if given.described is not None:
        return given.described
    if given.format == "discard":
        return DiscardSink()
    if given.format == "console":
        return TerminalSink(given.options.get("max_rows", 20))
    compression = next((str(v).lower() for k, v in given.options.items()), "none")
    end = "" if given.format == "parquet" else _ENDS[compression]
    folder = batch_folder(resolve(given.path)[1], 0)
    return tw.to_files(os.path.join(folder, f"part-00000.{given.format}{end}"), given.format)  # type: ignore[call-overload]


def _refuse_used_folders(outputs: Mapping[str, Given]) -> None:
    for name, one in outputs.items():
        if _is_folder(one) and (old := batches_in(one.path)):
            raise BuildError(
                f"sink {name!r}: {one.path} already has the output of {counted(len(old), 'batch')}, of a run before;"
                " old and new rows would mix.\n"
                f"Delete it (rm -r {shlex.quote(one.path)}) to have it written anew, name another output folder, or"
                " add --checkpoint FOLDER from the first run on: then the next one goes on where that one stopped."
            )


class TerminalSink:
    """Keeps the first rows of a sink, and how many there were, to print them at the end."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._node: Sink | None = None
        self._kept: list[pa.RecordBatch] = []
        self._total = 0

    def open(self, sink: Sink) -> None:
        self._node = sink

    def write(self, chunk: Chunk) -> None:
        missing = self._max_rows - self._total
        if missing > 0:
            self._kept.append(chunk.slice(0, min(missing, len(chunk))).to_arrow())
        self._total += len(chunk)

    def close(self, *, failed: bool) -> None:
        pass

    def show(self) -> None:
        """Prints them; a sink without rows is not worth a line."""
        if self._node is None or not self._total:
            return
        record = self._node.record
        rows = pa.Table.from_batches(self._kept, schema=record.arrow)
        Terminal().print(
            shown_table(
                f"{self._node.name}: {counted(self._total, 'row')}", record, rows, self._total
            )
        )


class BatchesOnTerminal(TerminalSink):
    """Prints rows as they come."""

    def write(self, chunk: Chunk) -> None:
        super().write(chunk)
        self.show()
        self._kept, self._total = [], 0
