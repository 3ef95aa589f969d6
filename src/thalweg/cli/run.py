"""``thalweg run``: a flow of a Python file over folders of files, on Spark."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

import thalweg as tw
from thalweg.cli.arguments import Given, read_inputs, read_outputs
from thalweg.cli.loading import load_flow
from thalweg.cli.progress import Display, open_display, totals_table
from thalweg.plan.plan import make_plan
from thalweg.printing import Terminal, say

if TYPE_CHECKING:
    from thalweg.spark import Query

#: How often the query is looked at, in seconds.
_LOOK_S = 0.25

Place = Annotated[
    str, typer.Argument(metavar="FILE[:FLOW]", help="A Python file with a flow, or a module.")
]
Input = Annotated[
    list[str],
    typer.Option(
        "--input", metavar="[SOURCE=]PATH[,format=F][,key=value...]",
        help="Files of a source: a folder, a file or a pattern. Formats: csv, json, text, parquet.",
    ),
]  # fmt: skip
Output = Annotated[
    list[str],
    typer.Option(
        "--output", metavar="[SINK=]PATH[,format=F]|[SINK=]console",
        help="Where a sink writes: a folder (parquet, json or csv), or the terminal.",
    ),
]  # fmt: skip


def run(
    place: Place,
    input: Input = [],  # noqa: B006 - typer copies it
    output: Output = [],  # noqa: B006 - typer copies it
    checkpoint: Annotated[
        str, typer.Option(help="Folder of offsets and state; kept between starts.")
    ] = "",
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    trigger: Annotated[str, typer.Option(help='Time between batches, such as "5 seconds".')] = "",
    once: Annotated[
        bool, typer.Option("--once/--follow", help="Stop when all there is was read, or go on.")
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="With --once: end the input; open windows close.")
    ] = False,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the log.")] = False,
) -> None:
    """Run a flow on Spark over files, until there are no more or Ctrl-C."""
    from thalweg.spark.inputs import refuse_embedded_only

    flow = load_flow(place)
    plan = make_plan(flow)
    refuse_embedded_only(plan)
    inputs, outputs = read_inputs(input, plan.sources), read_outputs(output, plan.sinks)
    when = _trigger(trigger, once=once, drain=drain, checkpoint=checkpoint)
    on_console = any(one.format == "console" for one in outputs.values())
    display = open_display(verbose=verbose, live=not on_console)
    try:
        with _checkpoint(checkpoint, display) as folder:
            start_session(master, display)
            query = tw.spark.start(
                flow, spark_inputs(inputs), spark_sinks(outputs), checkpoint=folder, slots=slots,
                trigger=when, end="drain" if drain else "keep",
            )  # fmt: skip
            follow(query, display)
    finally:
        display.close()
    Terminal().print(totals_table(plan, query.counts))


def _trigger(trigger: str, *, once: bool, drain: bool, checkpoint: str) -> str | None:
    """The trigger as Spark's host takes it.

    Raises:
        typer.BadParameter: it is not a duration, or the options do not go together.
    """
    if once and trigger:
        raise typer.BadParameter("give --once or --trigger, not both")
    if drain and not once:
        raise typer.BadParameter("--drain ends the input, so it needs --once")
    if not checkpoint and not once:
        raise typer.BadParameter("a query that goes on needs --checkpoint FOLDER for its state")
    if once or not trigger:
        return "available_now" if once else None
    try:
        return f"{tw.duration(trigger) // 1000} milliseconds"
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--trigger") from None


@contextlib.contextmanager
def _checkpoint(folder: str, display: Display) -> Iterator[str]:
    if folder:
        yield folder
        return
    display.say("no --checkpoint: the state is kept in a temporary folder and then forgotten")
    with tempfile.TemporaryDirectory(prefix="thalweg-") as temporary:
        yield temporary


def start_session(master: str, display: Display) -> None:
    """Starts Spark, and says with which Java."""
    from thalweg.spark.cluster.java import prepare_java

    say(f"Spark runs on {prepare_java()}")
    display.say("starting Spark …")
    tw.spark.session(master, light_jvm=True)  # inputs are files, which the JVM only lists


def spark_inputs(inputs: Mapping[str, Given]) -> dict[str, Any]:
    """The inputs as Spark's host takes them."""
    return {
        name: tw.spark.files(one.path, format=one.format, **one.options)  # type: ignore[arg-type]
        for name, one in inputs.items()
    }


def spark_sinks(outputs: Mapping[str, Given]) -> dict[str, Any]:
    """The outputs as Spark's host takes them."""
    make: Mapping[str, Any] = {
        "parquet": tw.spark.parquet,
        "json": tw.spark.json,
        "csv": tw.spark.csv,
    }
    return {
        name: tw.spark.console(**one.options)
        if one.format == "console"
        else make[one.format](one.path, **one.options)
        for name, one in outputs.items()
    }


def follow(query: Query, display: Display) -> None:
    """Shows batch after batch until the query ends; Ctrl-C stops it cleanly, a second one at once.

    Raises:
        ThalwegError: what stopped the query.
    """
    seen = -1
    with _interrupts() as stop:
        while True:
            ended = query.await_termination(_LOOK_S)
            for progress in query.recent_progress:
                if progress["batch"] > seen:
                    seen = progress["batch"]
                    display.batch(progress)
            if ended:
                return
            if stop.is_set():
                display.say("stopping; a batch that was not finished is repeated at the next start")
                query.stop()
                return


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second raises KeyboardInterrupt."""
    stop = threading.Event()

    def asked(signal_number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {one: signal.signal(one, asked) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
