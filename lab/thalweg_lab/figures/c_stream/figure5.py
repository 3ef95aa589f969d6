"""Latency by the number of threads: four topologies under the plug-ins (Figure 5)."""

from __future__ import annotations

from thalweg_lab.figures.c_stream.base import chain_here
from thalweg_lab.figures.c_stream.shape import PAPER, above, falls, lines
from thalweg_lab.figures.c_stream.virtual import by_threads
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time over threads; here, by how many tuples are on their way."""
    found = by_threads(effort, progress)
    here = chain_here(effort, progress)
    checks = [
        falls(
            f"{topology}, {name}: latency falls with threads",
            [one.mean_ms for one in at.values()],
            slack=0.15,
        )
        for topology, of in found.items()
        for name, at in of.items()
        if topology in ("chain", "tree")
    ]
    for topology in ("chain", "tree"):
        at = found[topology]
        checks += [
            above(
                f"{topology}, four threads: MaxQueue has more latency than Random",
                at["MaxQueue"][4].mean_ms,
                at["Random"][4].mean_ms,
                1.2,
            ),
            above(
                f"{topology}, four threads: LeastRecently has less than Random",
                at["Random"][4].mean_ms,
                at["LeastRecently"][4].mean_ms,
                1.05,
            ),
        ]
    most, usual, least = (here[name, 1] for name in ("MaxQueue", "Random", "LeastRecently"))
    checks += [
        above(
            "here, one thread: MaxQueue has more tuples on their way than Random",
            most.in_flight,
            usual.in_flight,
            1.2,
        ),
        above(
            "here, one thread: LeastRecently has fewer than Random",
            usual.in_flight,
            least.in_flight,
            1.2,
        ),
    ]
    panels = [
        Panel(
            f"{topology}, virtual time",
            "threads",
            "mean latency, ms",
            lines(of, "mean_ms"),
            log="y",
        )
        for topology, of in found.items()
    ]
    names = tuple(dict.fromkeys(name for name, _ in here))
    flight = tuple(
        Line(name, (1.0, 2.0), (here[name, 1].in_flight, here[name, 2].in_flight)) for name in names
    )
    panels.append(Panel("chain, this machine", "threads", "tuples on their way", flight))
    times = found["tree"]["MaxQueue"][4].mean_ms / max(found["tree"]["Random"][4].mean_ms, 1e-9)
    ours = (
        f"tree, four threads: MaxQueue {times:.1f}x Random's latency, LeastRecently "
        f"{found['tree']['LeastRecently'][4].mean_ms:.0f} ms; here, a chain has "
        f"{most.in_flight:.0f}, {usual.in_flight:.0f} and "
        f"{least.in_flight:.0f} tuples on their way under MaxQueue, Random and LeastRecently"
    )
    return FigureResult(ours, tuple(panels), tuple(checks), {"MaxQueue / Random, tree": times})


FIGURE = PaperFigure(
    paper=PAPER,
    number=5,
    claim="Latency falls with threads; LeastRecently has the lowest of the plug-ins shown, MaxQueue the highest",
    published="tree: MaxQueue up to 3.5x Random's latency; LeastRecently best in chain, data parallel and tree",
    kind="real and simulated",
    through="thalweg.simulate.simulate, tw.run",
    on="chain of 12, data parallel of 12, trees of 63 busy operators of 100 µs",
    measure=measure,
)
