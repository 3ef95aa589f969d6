"""What befalls hosts while a query runs: a link that is down in mid-batch, a worker killed, one that joins.

The output must be that of one process, row for row, whatever happens (:class:`Trouble` says what did). It runs in the
process of the cluster (:mod:`thalweg_lab.figures.caneill.runs`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet

import thalweg as tw
from thalweg import datagen
from thalweg.locality import Online
from thalweg_lab.figures.caneill.flow import make_flow

if TYPE_CHECKING:
    from thalweg.spark import Query
    from thalweg_lab.figures.caneill.runs import Lab

#: What can happen, in this order: the cluster has three workers before each.
TROUBLES: Final = ("link down", "worker killed", "worker added")
_WORKERS: Final = 3
_KEYS: Final = 200
_ROWS: Final = 500
_PADDING: Final = 8_000
#: Batches, and the one in whose middle it happens.
_BATCHES, _MIDDLE = 6, 3
#: So slow that a batch is under way for seconds; a middle may then be met.
_GBIT_S: Final = 0.005
_INTO_S: Final = 0.8
#: For so long a link is down.
_DOWN_S: Final = 4.0


class Trouble(NamedTuple):
    """What happened, and what came of it.

    Attributes:
        what: one of :data:`TROUBLES`.
        in_batch: the batch that ran when it did; None: none ran.
        seconds: that this batch took.
        usual_s: that the batches before took at most.
        executors: before, and in the last batch.
        slots: likewise.
        rows: of the output.
        is_exact: whether it is that of one process.
    """

    what: str
    in_batch: int | None
    seconds: float
    usual_s: float
    executors: tuple[int, int]
    slots: tuple[int, int]
    rows: int
    is_exact: bool


def befall(lab: Lab, what: str, folder: Path) -> Trouble:
    """Runs batches on a cluster that something happens to; tables are made anew all the while."""
    from thalweg import spark as ts

    workers = _WORKERS - 1 if what == "worker added" else _WORKERS
    lab.resize(workers)
    folder.mkdir()
    given = folder / "in"
    given.mkdir()
    pairs = datagen.key_pairs(_BATCHES * _ROWS, _KEYS, locality=0.8)
    whole = pa.Table.from_batches(pairs)
    online = Online(every=1, drop=None, imbalance=None, min_tuples=100, move_cost=0.0)
    sink = ts.memory()
    source = ts.files(str(given), format="parquet", max_files_per_trigger=1)
    query = ts.start(
        make_flow(_PADDING), {"pairs": source}, {"counts": sink}, checkpoint=str(folder / "checkpoint"),
        slots=workers, locality=online,
    )  # fmt: skip
    happened: list[int | None] = []
    try:
        for batch in range(_BATCHES):
            if batch == 1:
                lab.limit(_GBIT_S)
            lab.say(f"{what}: batch {batch + 1} of {_BATCHES}")
            part = whole.slice(batch * _ROWS, _ROWS)
            pyarrow.parquet.write_table(part, given / f".{batch}.parquet")
            (given / f".{batch}.parquet").rename(given / f"{batch}.parquet")
            if batch == _MIDDLE:
                happened.append(_in_the_middle(query, lambda: _happen(lab, what)))
            query.process_all_available()
            if batch == _MIDDLE:
                lab.wait_for_executors()
                if workers < _WORKERS:
                    query.rescale(slots=_WORKERS)
        said = [one for one in query.recent_progress if one["rows"]]
    finally:
        lab.limit(None)
        query.stop()
    rows = tw.run(make_flow(_PADDING), {"pairs": whole}).rows("counts")
    found = [tuple(row) for row in sink.rows]
    executors = tuple(one["locality"].get("executors", 0) for one in (said[_MIDDLE - 1], said[-1]))
    return Trouble(
        what, happened[0], said[_MIDDLE]["batch_s"], max(one["batch_s"] for one in said[1:_MIDDLE]),
        (executors[0], executors[1]), (said[_MIDDLE - 1]["slots"], said[-1]["slots"]), len(found),
        found == [tuple(row) for row in rows],
    )  # fmt: skip


def _in_the_middle(query: Query, does: Callable[[], None]) -> int | None:
    """Waits until a batch is under way, and does it; the batch that ran then."""
    for _ in range(600):
        if query.running_batch is not None:
            break
        time.sleep(0.02)
    time.sleep(_INTO_S)
    running = query.running_batch
    does()
    return None if running is None else running[0]


def _happen(lab: Lab, what: str) -> None:
    if what == "worker killed":
        lab.say("a worker and its executor are killed")
        lab.kill(_WORKERS - 1)
    elif what == "worker added":
        lab.say("a worker joins")
        lab.add(_WORKERS - 1)
    elif lab.cards is not None:
        lab.say(f"a link is down for {_DOWN_S:.0f} s")
        lab.cards.cut(1, down=True)
        threading.Timer(_DOWN_S, lab.cards.cut, (1,), {"down": False}).start()


def trouble_of(given: Any) -> Trouble:
    """What the program printed."""
    what, in_batch, seconds, usual_s, executors, slots, *rest = given
    return Trouble(what, in_batch, seconds, usual_s, tuple(executors), tuple(slots), *rest)
