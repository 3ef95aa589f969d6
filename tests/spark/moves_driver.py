"""Keys that come in pairs, and a program that runs a flow over them: keys placed, moved, and slots changed on the way.

The tests start this file as a process of its own, so that they can kill it; they also import it for the input.

    python moves_driver.py INPUT OUTPUT CHECKPOINT SLOTS END MASTER THREADS LOCALITY

SLOTS is a number, or with commas those that batches have in turn behind the first one, which has the least. LOCALITY is
``off``, ``online`` (new keys are placed) or ``learnt`` (from counts alone).
"""

from __future__ import annotations

import itertools
import random
import sys
from typing import Any

import new_keys_host
from kill_driver import Click, settings

import thalweg as tw
from thalweg.elasticity import Controller, Sample, Suggestion

SINKS = ("late", "seen", "shares")
#: Operators whose state is compared.
STATEFUL = ("number", "see", "windows", "add")
ITEMS = 23


def make_rows(seed: int, files: int, rows_per_file: int) -> list[Click]:
    """Clicks, most of a user's on one item; with each file come new users, with every second one other items."""
    rng = random.Random(seed)
    rows, now = [], 1_700_000_000_000_000
    for file, _ in itertools.product(range(files), range(rows_per_file)):
        now += rng.randrange(400_000)
        user = 8 * file + rng.randrange(24)
        item = user + 5 * (file // 2) if rng.random() < 0.8 else rng.randrange(ITEMS)
        back = rng.choice((0, 0, 2, 9, 14)) if rng.random() > 0.02 else rng.randrange(15, 60)
        rows.append(Click(now - back * 1_000_000, user, f"i{item % ITEMS}", 0))
    return rows


class EachBatch(Controller):
    """Another number after each batch."""

    def __init__(self, *levels: int) -> None:
        super().__init__()
        self.levels = itertools.cycle(levels)

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        return (Suggestion("threads", None, sample.threads, next(self.levels), "its turn"),)


def slots_of(text: str) -> int | tw.spark.Elastic:
    """What the argument SLOTS means."""
    levels = [int(word) for word in text.split(",")]
    if len(levels) == 1:
        return levels[0]
    return tw.spark.Elastic(
        minimum=min(levels), maximum=max(levels), controller=EachBatch(*levels), least_rows=1
    )


def main(arguments: list[str]) -> None:
    folder, output, checkpoint, slots, end, master, threads, locality = arguments
    tw.spark.session(master, threads_per_slot=int(threads), conf=settings())
    files = tw.spark.files(folder, format="parquet", max_files_per_trigger=1)
    sinks = {name: tw.spark.parquet(f"{output}/{name}") for name in SINKS}
    given: dict[str, Any] = {
        "trigger": "available_now", "end": end, "locality": ASKED.get(locality, locality),
    }  # fmt: skip
    query = tw.spark.start(
        new_keys_host.FLOW, {"clicks": files}, sinks, checkpoint=checkpoint,
        slots=slots_of(slots), **given,
    )  # fmt: skip
    query.await_termination()
    for one in query.recent_progress:
        said = one["locality"]
        print(one["batch"], one["slots"], *[said.get(name) for name in SAID], flush=True)


#: What LOCALITY may mean; a driver that is killed soon has to learn early.
ASKED = {
    "online": tw.locality.Online(
        every=2, drop=None, imbalance=None, move_cost=0.1, min_tuples=10, first_seen=True
    ),
    "learnt": tw.locality.Online(every=1, drop=None, imbalance=None, move_cost=0.0, min_tuples=10),
}
#: Of a batch's locality, what the program prints.
SAID = ("epoch", "keys_placed", "keys_moved", "states_moved", "decision")


if __name__ == "__main__":
    main(sys.argv[1:])
