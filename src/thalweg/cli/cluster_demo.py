"""``thalweg locality demo``: a flow on a cluster of this machine, with keys by hash and with keys that were learnt."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import thalweg as tw
from thalweg.cli.progress import Display, open_display
from thalweg.printing import Table, Terminal

#: Batches between two tables: often, since the demonstration is short.
_EVERY: Final = 2
_NEXT: Final = """\
What to try next
  thalweg locality demo --workers 3 --batches 24
  thalweg locality plan FILE --source flights=sample.csv --slots 6 --out table.json
  tw.spark.start(..., slots=6, locality="online")    in your own program: docs/locality.md
"""


def demo(
    workers: Annotated[
        int,
        typer.Option(min=2, max=8, help="Workers with an executor of one core and a slot each."),
    ] = 2,
    batches: Annotated[
        int, typer.Option(min=4, max=200, help="Batches that the flights are split into.")
    ] = 12,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the log.")] = False,
) -> None:
    """Start a Spark cluster on this machine, and see tuples stay where they are."""
    from thalweg.examples import destinations
    from thalweg.locality import Online
    from thalweg.spark.cluster.standalone import standalone

    display = open_display(verbose=verbose, live=False)
    display.say(f"starting a master and {workers} workers …")
    with standalone(workers=workers) as cluster, tempfile.TemporaryDirectory() as place:
        display.say(f"{cluster.master}, workers on {', '.join(cluster.hosts)}; starting a driver …")
        spark = tw.spark.session(cluster.master, conf=cluster.settings)
        try:
            source = Path(place) / "flights"
            source.mkdir()
            destinations.write_parts(source, batches)
            hashed = _run(Path(place), "by hash", workers, "off", display)
            learnt = _run(Path(place), "learnt", workers, Online(every=_EVERY), display)
        finally:
            spark.stop()
    _show(hashed, learnt, workers)


class _DemoRun:
    """What a run was like: the progress of its batches, and its output."""

    def __init__(self, progress: Sequence[Mapping[str, Any]], rows: Sequence[Any]) -> None:
        self.progress = progress
        self.rows = rows


def _run(folder: Path, name: str, slots: int, locality: Any, display: Display) -> _DemoRun:
    from thalweg.examples import destinations

    display.say(f"flights by number and then by destination, keys {name} …")
    place = str(folder / "flights")
    given = tw.spark.files(
        place, format="csv", max_files_per_trigger=1, null_values=destinations.NULL_VALUES
    )
    sink = tw.spark.memory()
    query = tw.spark.start(
        destinations.flow, {"flights": given}, {"arrivals": sink}, locality=locality, slots=slots,
        checkpoint=str(folder / name.replace(" ", "-")), trigger="available_now",
    )  # fmt: skip
    query.await_termination()
    return _DemoRun(query.recent_progress, sink.rows)


def _show(hashed: _DemoRun, learnt: _DemoRun, slots: int) -> None:
    table = Table("from the flight number to the destination: keys by hash → keys as learnt")
    for name in (
        "batch",
        "stay in their slot",
        "fullest slot",
        "kB between executors",
        "keys that move",
    ):
        table.column(name, right=True)
    for one, other in zip(hashed.progress, learnt.progress, strict=False):
        table.row(str(one["batch"]), *_cells(one["locality"], other["locality"]))
    Terminal().print(table)
    second = len(learnt.progress) // 2
    typer.echo(
        f"in the second half of the batches {_mean(hashed, second):.0%} of the tuples stayed in their slot by hash"
        f" and {_mean(learnt, second):.0%} as learnt\n"
        f"the output is {'the same' if hashed.rows == learnt.rows else 'NOT the same'}:"
        f" {len(learnt.rows):,} rows in order, from {slots} slots on {slots} executors\n"
    )
    typer.echo(_NEXT, nl=False)


def _cells(hashed: Mapping[str, Any], learnt: Mapping[str, Any]) -> list[str]:
    """Both runs of a batch, and what the next table moves."""
    both = (hashed, learnt)
    moves = f"{learnt['keys_moved']:,} ({learnt['bytes_moved'] / 1000:.1f} kB)"
    return [
        " → ".join(f"{one['stay']:.0%}" for one in both),
        " → ".join(f"{max(one['imbalance'].values()):.2f}" for one in both),
        " → ".join(map(_between, both)),
        moves if learnt["keys_moved"] else "",
    ]


def _between(locality: Mapping[str, Any]) -> str:
    """The bytes of the exchange between the two keys; the first one spreads the input over the slots."""
    remote = locality["remote_bytes"]
    return f"{remote[1] / 1000:.1f}" if len(remote) > 1 else "–"


def _mean(run: _DemoRun, first: int) -> float:
    shares = [float(one["locality"]["stay"]) for one in run.progress[first:]]
    return sum(shares) / len(shares)
