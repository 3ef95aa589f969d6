"""``thalweg bench``: the papers' experiments, and the comparison with other systems."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli.failures import told
from thalweg.cli.heartbeat import heartbeat
from thalweg_lab.figures.command import figures

if TYPE_CHECKING:
    from thalweg_lab.measure import LabReport

Quick = Annotated[bool, typer.Option("--quick", help="Small sizes, one run each: some minutes.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Workers at most; all usable cores by default.")
]
Out = Annotated[Path | None, typer.Option(help="Folder for results as JSON, and plots.")]


def _report(name: str, out: Path | None) -> LabReport:
    from thalweg.printing import Terminal
    from thalweg_lab.measure import LabReport

    report = LabReport(name, out, Terminal())
    _RUNNING[:] = [report]
    return report


#: The report of the experiment that runs.
_RUNNING: list[LabReport] = []


def _doing() -> str:
    return _RUNNING[0].doing if _RUNNING else ""


def _never_silent(does: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(does)
    def run_it(*args: Any, **kwargs: Any) -> None:
        try:
            with heartbeat(f"bench {does.__name__}", _doing):
                does(*args, **kwargs)
        except KeyboardInterrupt:
            if _RUNNING:
                _RUNNING[0].tell_partial()
            raise

    return run_it


def elastic(
    quick: Quick = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Only in virtual time, which needs no processors.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads at most: usable cores, and 176 simulated ones (16: --quick)."
        ),
    ] = None,
    spark: Annotated[
        bool,
        typer.Option("--spark", help="Only slots that change on a local cluster of two executors."),
    ] = False,
    out: Out = None,
) -> None:
    """Elastic threads and replicas (Schneider & Wu, section 5; Sahin & Gedik, section 5.2), and slots on Spark."""
    if spark:
        from thalweg_lab.elastic_spark import elastic_spark

        report = _report("elastic-spark", out)
        report.finish(elastic_spark(report, batches=10 if quick else 32))
        return
    from thalweg.elasticity.samples import PERIOD_NS
    from thalweg.engine.machine import usable_processors
    from thalweg_lab.elastic import ElasticExperiments, summary

    report = _report("elastic", out)
    most = threads if simulate and threads else 16 if quick else 176
    operators, periods, costs_us = (24, 20, (20, 140)) if quick else (1_000, 24, (20, 60, 80, 140, 200))  # fmt: skip
    bench = ElasticExperiments(
        report,
        operators=operators,
        periods=periods,
        costs_us=costs_us,
        most=most,
        all_costs=not quick,
    )
    parts = [bench.simulated]
    if not simulate:
        cores = threads or usable_processors()
        period_s = 0.25 if quick else 1.0
        watched = (2.0, 1.0, 1) if quick else (20.0, PERIOD_NS * 1e-9, 3)
        parts = [
            lambda: bench.real(cores, period_s=period_s),
            lambda: bench.overhead(cores, *watched),
            *parts,
        ]
    report.finish(summary(parts))


def caneill(
    quick: Quick = False,
    cluster: Annotated[
        bool, typer.Option(help="Also a synthetic workload on a Spark cluster of this machine.")
    ] = True,
    out: Out = None,
) -> None:
    """What Caneill et al. have no figure of: tables on later data, a hot key, costs of counting (section 4)."""
    from thalweg_lab.caneill import Caneill

    report = _report("caneill", out)
    summary = Caneill(report).all()
    if cluster:
        from thalweg_lab.caneill_cluster import FULL, QUICK, CaneillCluster

        summary += "\n" + CaneillCluster(report, QUICK if quick else FULL).all()
    report.finish(summary)


def spark_queries(
    quick: Quick = False,
    cores: Annotated[int, typer.Option(min=1, help="Of the local master.")] = 2,
    background: Annotated[
        list[int] | None, typer.Option(min=1, help="Background queries; 1 and then 3 by default.")
    ] = None,
    out: Out = None,
) -> None:
    """Latency of an urgent query on Spark beside others: its own ways to share, and a scheduler of queries."""
    from thalweg_lab.spark_queries import spark_queries as measure

    report = _report("spark-queries", out)
    counts, files = ((1,), 10) if quick else ((1, 3), 60)
    report.finish(measure(report, cores=cores, background=background or counts, files=files))


def everyday(
    quick: Quick = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Of the functions and verbs; all by default.")
    ] = None,
    keys: Annotated[list[str] | None, typer.Option(help="int or text; both by default.")] = None,
    rows: Annotated[
        list[int] | None, typer.Option(min=1, help="200,000, 1 and 5 million by default.")
    ] = None,
    way: Annotated[
        list[str] | None, typer.Option(help="Ways to run them; all that need no Java by default.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also on Spark: Thalweg, and Spark's own ways.")
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Warm runs at most; the best counts.")] = 3,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Prints the table as Markdown, too.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option(help="Puts the table into this page (docs/performance.md).")
    ] = None,
    out: Out = None,
) -> None:
    """Ten everyday functions and some verbs by default and by settings, against a plain loop and what one would use."""
    from thalweg.errors import BuildError
    from thalweg_lab.everyday.bench import TITLES, Everyday, machine, put
    from thalweg_lab.everyday.bench import markdown as table
    from thalweg_lab.everyday.ways import IN_PROCESS, WAYS

    for what, given, known in (
        ("only", only, TITLES),
        ("keys", keys, ("int", "text")),
        ("way", way, WAYS),
    ):
        for one in given or ():
            if one not in known:
                raise BuildError(f"--{what}: {one!r} is none of: {', '.join(known)}")
    report = _report("everyday", out)
    bench = Everyday(
        report,
        names=only or list(TITLES),
        keys=keys or ("int", "text"),
        sizes=rows or ((200_000,) if quick else (200_000, 1_000_000, 5_000_000)),
        ways=way or (list(WAYS) if spark else IN_PROCESS),
        repeats=1 if quick else repeats,
    )
    report.finish(bench.all())
    made = table(bench.found, machine())
    if markdown:
        report.console.print(made)
    if into is not None:
        put(made, into)


def kafka(
    quick: Quick = False,
    messages: Annotated[int, typer.Option(min=1_000, help="Messages in the topic.")] = 1_000_000,
    spark: Annotated[bool, typer.Option("--spark", help="Also on Spark.")] = False,
    out: Out = None,
) -> None:
    """From Kafka to a running sum by key and to sessions in Delta, beside what confluent-kafka alone reads."""
    from thalweg_lab.kafka_log import kafka_log

    report = _report("kafka", out)
    size, repeats = (100_000, 1) if quick else (messages, 3)
    report.finish(kafka_log(report, size, repeats, spark=spark))


def soak(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long.")] = 30.0,
    rate: Annotated[int, typer.Option(min=1, help="Rows a second.")] = 5_000,
    users: Annotated[int, typer.Option(min=1, help="Keys.")] = 20_000,
    every: Annotated[str, typer.Option(help="Between two commits.")] = "1 second",
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Rows come from a broker, not from this process.")
    ] = False,
    out: Out = None,
) -> None:
    """A durable flow over a live source for a long time: memory, and how late rows are."""
    from thalweg_lab.soak import Soak

    report = _report("soak", out)
    bench = Soak(report, minutes=minutes, rate=rate, users=users, every=every, kafka=kafka)
    report.finish(bench.all())


def quantum(quick: Quick = False, out: Out = None) -> None:
    """How long a short query waits beside a long one, with a quantum and without (Sahin & Gedik, section 3.2.4)."""
    from thalweg_lab.quantum import quantum as measure

    report = _report("quantum", out)
    report.finish(measure(report, 2.0 if quick else 8.0))


def snapshot(quick: Quick = False, out: Out = None) -> None:
    """What snapshots of a running flow cost, taken as often as the page does."""
    from thalweg_lab.snapshots import snapshots as measure

    report = _report("snapshot", out)
    report.finish(measure(report, 2.0 if quick else 6.0))


def tables(
    quick: Quick = False,
    dsn: Annotated[
        str | None,
        typer.Option(help="Also PostgreSQL at this address; or THALWEG_BENCH_DSN."),
    ] = None,
    out: Out = None,
) -> None:
    """Rows into Delta tables and PostgreSQL, beside the bare libraries, and what a batch costs."""
    from thalweg_lab.tables import Tables, dsn_of

    report = _report("tables", out)
    rows, repeats = (100_000, 1) if quick else (1_000_000, 3)
    report.finish(Tables(report, rows=rows, repeats=repeats, dsn=dsn_of(dsn)).all())


def nexmark(
    quick: Quick = False,
    events: Annotated[
        int | None, typer.Option(min=1_000, help="1 million by default; 100,000 with --quick.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Queries; all of them by default.")] = None,
    way: Annotated[
        list[str] | None,
        typer.Option(
            help="Ways to run them; all that need neither Java nor another environment by default."
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also on Spark: Thalweg, and Structured Streaming.")
    ] = False,
    flink: Annotated[
        str | None, typer.Option(help="Also Flink SQL: a Python that has apache-flink.")
    ] = None,
    bytewax: Annotated[
        str | None, typer.Option(help="Also Bytewax: a Python that has bytewax and pyarrow.")
    ] = None,
    pathway: Annotated[
        str | None, typer.Option(help="Also Pathway: a Python that has pathway.")
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="One process a way, not one a cell: faster.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the events.")] = 0,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Prints the table as Markdown, too.")
    ] = False,
    out: Out = None,
) -> None:
    """NEXMark's queries in Thalweg, Spark, Flink and others; answers compared with DuckDB's."""
    from thalweg.errors import BuildError
    from thalweg.examples.nexmark.queries import QUERIES
    from thalweg_lab.nexmark.bench import Nexmark
    from thalweg_lab.nexmark.bench import markdown as table
    from thalweg_lab.nexmark.ways import IN_PROCESS, WAYS

    for what, given, known in (("only", only, QUERIES), ("way", way, WAYS)):
        for one in given or ():
            if one not in known:
                raise BuildError(f"--{what}: {one!r} is none of: {', '.join(known)}")
    pythons = {"flink": flink, "bytewax": bytewax, "pathway": pathway}
    peers = {name: python for name, python in pythons.items() if python is not None}
    ways = way or [*IN_PROCESS, *(("spark1", "spark2", "sparksql") if spark else ()), *peers]
    count = events or (100_000 if quick else 1_000_000)
    report = _report("nexmark", out)
    bench = Nexmark(
        report,
        events=count,
        queries=only or list(QUERIES),
        ways=ways,
        pythons=peers,
        together=together,
        seed=seed,
    )
    report.finish(bench.all())
    if markdown:
        report.console.print(table(bench.found, ways, count))


def peers(context: typer.Context) -> None:
    """The comparison with other systems. Arguments are passed on."""
    runner = Path(__file__).parents[1] / "peers" / "run.py"
    if not runner.is_file():
        typer.echo("error: the peers' programs are in the source tree, folder lab/peers", err=True)
        raise typer.Exit(1)
    raise typer.Exit(subprocess.run([sys.executable, str(runner), *context.args]).returncode)


def register(group: typer.Typer) -> None:
    """Adds the experiments to the group ``thalweg bench``."""
    for function in (elastic, caneill, everyday, nexmark, kafka, soak, quantum, snapshot, tables):
        group.command(function.__name__)(told(_never_silent(function)))
    group.command("figures")(told(figures))
    group.command("spark-queries")(told(_never_silent(spark_queries)))
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    group.command("peers", context_settings=passed_on)(told(peers))


def register_datagen(group: typer.Typer) -> None:
    """Adds the generators of the lab to the group ``thalweg datagen``."""
    from thalweg_lab.nexmark.datagen_command import nexmark

    group.command("nexmark")(told(nexmark))
