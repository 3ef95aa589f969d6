"""``thalweg run``: a flow of a Python file over folders of files, on Spark or in this process."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

import thalweg as tw
from thalweg.cli.arguments import Given, read_inputs, read_outputs
from thalweg.cli.interrupts import interrupts
from thalweg.cli.loading import load_flow
from thalweg.cli.local import Asked, refuse_local, run_local, why_not
from thalweg.cli.progress import Display, open_display, totals_table
from thalweg.cli.unwritten import refuse_unwritten, tell_unwritten, unwritten
from thalweg.cli.waiting import tell_waiting
from thalweg.flow.flow import Flow
from thalweg.metrics import address_of
from thalweg.page import asked_page
from thalweg.plan.plan import make_plan
from thalweg.printing import Terminal, say
from thalweg.snapshot.shown import duration_text

if TYPE_CHECKING:
    from thalweg.spark import Query

#: How often the query is looked at, in seconds.
_LOOK_S: Final = 0.25
#: After so long without a batch it is said what is waited for, seconds.
_QUIET_S: Final = 4.0

Place = Annotated[
    str, typer.Argument(metavar="FILE[:FLOW]", help="A Python file with a flow, or a module.")
]
Input = Annotated[
    list[str],
    typer.Option(
        "--input", metavar="[SOURCE=]PATH|ADDRESS[,format=F][,key=value...]",
        help="Files of a source: a folder, a file or a pattern (csv, json, text, parquet); or an address such as"
        " kafka://HOST:PORT/TOPIC.",
    ),
]  # fmt: skip
Output = Annotated[
    list[str],
    typer.Option(
        "--output", metavar="[SINK=]PATH[,format=F]|ADDRESS|console|discard",
        help="Where a sink writes: a folder (parquet, json or csv), an address such as delta:PATH, or the terminal;"
        " discard: nowhere. With --checkpoint each sink needs one.",
    ),
]  # fmt: skip


def run(
    place: Place,
    input: Input = [],  # noqa: B006 - typer copies it
    output: Output = [],  # noqa: B006 - typer copies it
    engine: Annotated[
        Literal["spark", "local", "auto"],
        typer.Option(
            help="spark; local: this process, no Java; without --checkpoint it needs --once, and ends the input as"
            " --drain does; auto: local where that gives what Spark would."
        ),
    ] = "spark",
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
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An operator of the checkpoint whose state may be given up; may be repeated.",
        ),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.", show_default="local[*]")] = "",
    metrics: Annotated[
        str,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Answer /metrics for Prometheus there while it runs; a port alone is of this machine only.",
        ),
    ] = "",
    page: Annotated[
        bool,
        typer.Option(
            "--page", help="Show it in a browser while it runs, at an address that is said."
        ),
    ] = False,
    page_at: Annotated[
        str,
        typer.Option(
            metavar="[HOST:]PORT",
            help="The same there; a port alone is of this machine only.",
        ),
    ] = "",
    control: Annotated[
        bool, typer.Option("--control", help="Let the page also change and stop what runs.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the log.")] = False,
) -> None:
    """Run a flow over files, on Spark or in this process, until there are no more or Ctrl-C."""
    flow = load_flow(place)
    if drop and not checkpoint:
        raise typer.BadParameter("--drop needs --checkpoint FOLDER, whose state it gives up")
    plan = make_plan(flow)
    inputs, outputs = read_inputs(input, plan.sources), read_outputs(output, plan.sinks)
    refuse_unwritten(outputs, plan.sinks, checkpoint)
    asked = Asked(
        checkpoint, trigger, once=once, drain=drain, master=master, slots=slots, metrics=metrics,
        page=page_at or page, control=control,
    )  # fmt: skip
    if control and not asked.page:
        raise typer.BadParameter("--control is about the page: add --page")
    asked_page("run", asked.page, control)
    if metrics:
        address_of(metrics)
    when = "" if engine == "local" else _trigger(asked)
    on_console = any(one.format == "console" for one in outputs.values())
    display = open_display(verbose=verbose, live=not on_console)
    tell_unwritten(outputs, plan.sinks)
    try:
        if _is_local(engine, asked, inputs, outputs, display):
            counts = run_local(flow, inputs, outputs, display, asked)
        else:
            counts = _run_on_spark(flow, inputs, outputs, asked, when, display, drop or ())
    finally:
        display.close()
    Terminal().print(totals_table(plan, counts, unwritten(outputs, plan.sinks)))


def _is_local(
    engine: str,
    asked: Asked,
    inputs: Mapping[str, Given],
    outputs: Mapping[str, Given],
    display: Display,
) -> bool:
    """Whether the flow runs in this process; says so where nobody asked, or where one could.

    Raises:
        typer.BadParameter: ``local`` cannot do what is asked for.
    """
    reasons = list(why_not(asked, inputs, outputs))
    if engine == "local":
        refuse_local(reasons)
        if not asked.drain and not asked.checkpoint:
            display.say("the input ends with its last row, as with --drain: open windows close")
        return True
    if engine == "auto" and not reasons and importlib.util.find_spec("pyspark") is None:
        display.say("--engine auto: in this process, since Spark is not installed")
        return True
    if asked.checkpoint:
        reasons.insert(0, "--checkpoint: it may be Spark's")
    if engine == "spark":
        if not reasons:
            ends = "" if asked.drain else "; it ends the input, as --drain does"
            say(f"one process can do this without Spark, in less time: --engine local{ends}")
        return False
    if asked.slots > 1:
        reasons.append(f"--slots {asked.slots}: on Spark each is a process of its own")
    if not asked.drain:
        reasons.append("--drain is not given: it ends the input")
    said = f"on Spark, since in one process ({reasons[0]})" if reasons else "in this process"
    display.say(f"--engine auto: {said}")
    return not reasons


def _run_on_spark(
    flow: Flow,
    inputs: Mapping[str, Given],
    outputs: Mapping[str, Given],
    asked: Asked,
    when: str | None,
    display: Display,
    drop: Sequence[str] = (),
) -> Mapping[str, Mapping[str, int]]:
    from thalweg.spark.reading.inputs import refuse_embedded_only

    refuse_embedded_only(make_plan(flow))
    with _checkpoint(asked.checkpoint, display) as folder:
        start_session(asked.master or "local[*]", display)
        display.say("starting the query …")
        query = tw.spark.start(
            flow, spark_inputs(inputs), spark_sinks(outputs), checkpoint=folder, slots=asked.slots,
            trigger=when, end="drain" if asked.drain else "keep", drop=drop,
            metrics=asked.metrics or None, page=asked.page, control=asked.control,
        )  # fmt: skip
        if query.metrics is not None:
            say(f"metrics: {query.metrics.url}")
        follow(query, display)
        if asked.once and not asked.drain:
            tell_waiting(make_plan(flow), query.counts, folder, is_kept=bool(asked.checkpoint))
    return query.counts


def _trigger(asked: Asked) -> str | None:
    """The trigger as Spark's host takes it.

    Raises:
        typer.BadParameter: it is not a duration, or the options do not go together.
    """
    if asked.once and asked.trigger:
        raise typer.BadParameter("give --once or --trigger, not both")
    if asked.drain and not asked.once:
        raise typer.BadParameter("--drain ends the input, so it needs --once")
    if not asked.checkpoint and not asked.once:
        raise typer.BadParameter("a query that goes on needs --checkpoint FOLDER for its state")
    if asked.once or not asked.trigger:
        return "available_now" if asked.once else None
    try:
        return f"{tw.duration(asked.trigger) // 1000} milliseconds"
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
        name: one.described
        if one.described is not None
        else tw.spark.files(one.path, format=one.format, **one.options)  # type: ignore[arg-type]
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
        name: one.described
        if one.described is not None
        else tw.spark.console(**one.options)
        if one.format == "console"
        else make[one.format](one.path, **one.options)
        for name, one in outputs.items()
        if one.format != "discard"
    }


def follow(query: Query, display: Display) -> None:
    """Shows batch after batch until the query ends; Ctrl-C stops it cleanly, a second one at once.

    Raises:
        ThalwegError: what stopped the query.
    """
    seen, said_s = -1, time.monotonic()
    with interrupts() as stop:
        while True:
            ended = query.await_termination(_LOOK_S)
            for progress in query.recent_progress:
                if progress["batch"] > seen:
                    seen, said_s = progress["batch"], time.monotonic()
                    display.batch(progress)
            if ended:
                return
            if math.isinf(said_s) and query.running_batch:
                said_s = time.monotonic()
            if stop.is_set():
                display.say("stopping; a batch that was not finished is repeated at the next start")
                query.stop()
                return
            if time.monotonic() - said_s > _QUIET_S and (running := query.running_batch):
                said_s = time.monotonic()
                display.say(f"batch {running[0]} runs, {duration_text(running[1])} so far …")
            elif time.monotonic() - said_s > _QUIET_S:
                said_s = math.inf  # once, until the next batch
                display.say("Spark looks for files …" if seen < 0 else "waiting for new files …")
