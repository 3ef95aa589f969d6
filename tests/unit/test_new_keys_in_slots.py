"""New keys in slots of one process: placed in the step that brings them, beside their partners, while there is room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_run_slots import Count, Known, Seen, Tweet, of_tag, tags

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.connectors import as_source, never
from thalweg.engine.build import prepare
from thalweg.hashing import contains
from thalweg.locality import Online, RoutingTable
from thalweg.plan.plan import make_plan
from thalweg.slots import SlottedEngine
from thalweg.slots.new_keys import NewKeysOfSteps
from thalweg.slots.pairs import LONGEST, PairReader

#: Keys are placed, and no table is made from counts.
PLACED = Online(every=None, drop=None, imbalance=None, first_seen=True)


def another(count: Count, tweet: Tweet) -> Seen:
    """Puts something else under the name of the next key."""
    count.rows += 1
    return Seen(f"t{count.rows % 5}", tweet.region, count.rows)


def wrong() -> tw.Flow:
    """A flow whose second keys are not those that its rows have at first."""
    flow = tw.Flow("wrong")
    tweets = flow.source("tweets", Tweet)
    regions = tweets.key_by("region").process(another, state=Count, compile="never")
    regions.key_by("tag").process(of_tag, state=Count, compile="never").sink("out")
    return flow


#: Each region has three tags of its own; every 500 rows there are new ones.
TWEETS = [Tweet(f"r{i // 500}.{i % 8}", f"t{i // 500}.{i % 8}.{i * i % 3}") for i in range(4_000)]


def run(slots: int, chunk_rows: int, **options: Any) -> tuple[list[Known], RoutingTable]:
    """The output, and the table at the end."""
    plan = make_plan(tags())
    prepared = prepare(plan)
    engine = SlottedEngine(
        prepared, slots=slots, chunk_rows=chunk_rows, placer=NewKeysOfSteps(prepared, **options)
    )
    found: list[Chunk] = []
    try:
        source = plan.sources[0]
        steps = [*as_source("tweets", TWEETS).rows(source, chunk_rows, never())]
        for chunk, bad in steps:
            for leaving in (engine.feed("tweets", chunk, bad), *engine.advance()):
                found += [one for chunks in leaving.values() for one in chunks]
        for leaving in (*engine.finish(), *engine.settle()):
            found += [one for chunks in leaving.values() for one in chunks]
    finally:
        engine.stop()
    return [row for chunk in found for row in chunk.rows()], engine.table


def test_beside_their_partners() -> None:
    """All keys are pinned, tags where their region is, slots evenly full; one table for each step with new keys."""
    rows, table = run(4, 100)
    assert rows == tw.testing.reference(tags(), {"tweets": TWEETS}).rows("out")
    pairs = {(tweet.region, tweet.tag) for tweet in TWEETS}
    assert sum(len(one.pins) for one in table.operators.values()) == 64 + len(
        {tag for _, tag in pairs}
    )
    stay = [table.slot_of("region", left) == table.slot_of("tag", right) for left, right in pairs]
    assert sum(stay) / len(stay) > 0.9
    owners = [table.slot_of("region", f"r{i}.{k}") for i in range(8) for k in range(8)]
    assert np.bincount(owners, minlength=4).max() <= 20
    assert table.epoch == 8


def test_no_room() -> None:
    """The first so many keys are placed, the rest goes by hash."""
    rows, table = run(3, 100, pins=10)
    assert rows == tw.testing.reference(tags(), {"tweets": TWEETS}).rows("out")
    assert sum(len(one.pins) for one in table.operators.values()) == 10
    assert table.epoch == 1


def test_long_keys_go_by_hash() -> None:
    """A table holds no names that are longer than LONGEST, and each process would have to read them."""
    long = [one._replace(tag=one.tag + "x" * LONGEST * (n % 2)) for n, one in enumerate(TWEETS)]
    plan = make_plan(tags())
    placer = NewKeysOfSteps(prepare(plan))
    reader = PairReader(prepare(plan), placer._reader._reads)
    [(chunk, _)] = as_source("tweets", long).rows(plan.sources[0], len(long), never())
    reader.take(placer._reader._reads[0].first, chunk)
    pairs = reader.pairs()
    assert 0 < pairs.num_rows < len({(one.region, one.tag) for one in long})
    assert max(map(len, pairs.column("right").to_pylist())) <= LONGEST
    expected = tw.testing.reference(tags(), {"tweets": long}).rows("out")
    result = tw.run(tags(), {"tweets": long}, slots=4, routing=PLACED, chunk_rows=50)
    assert result.rows("out") == expected


def test_one_slot() -> None:
    """There is nothing to choose, and no table is made."""
    rows, table = run(1, 100)
    assert rows == tw.testing.reference(tags(), {"tweets": TWEETS}).rows("out")
    assert table.epoch == 0


@pytest.mark.parametrize("make_flow", [tags, wrong])
def test_run(make_flow: Callable[[], tw.Flow]) -> None:
    """As a user asks for it; also where the guess is wrong and keys come that nobody foresaw."""
    flow = make_flow()
    expected = tw.testing.reference(flow, {"tweets": TWEETS}).rows("out")
    for routing in (PLACED, Online(every=1, min_tuples=100, first_seen=True)):
        result = tw.run(flow, {"tweets": TWEETS}, slots=4, routing=routing, chunk_rows=50)
        assert result.rows("out") == expected


def test_refused() -> None:
    """A flow in which no key is known before its rows are routed."""
    flow = tw.Flow("one")
    flow.source("tweets", Tweet).key_by("tag").process(another, state=Count).sink("out")
    with pytest.raises(tw.BuildError, match=r"first_seen places keys .* no two operators by key"):
        tw.run(flow, {"tweets": TWEETS}, slots=2, routing=PLACED)


def test_contains() -> None:
    """Of ascending hashes, the first and the last one, too; and of none."""
    known = np.array([3, 5, 2**64 - 1], np.uint64)
    asked = np.array([2**64 - 1, 0, 3, 4, 5, 6], np.uint64)
    assert contains(known, asked).tolist() == [True, False, True, False, True, False]
    assert contains(known[:0], asked).tolist() == [False] * 6
