"""tw.run in several slots: by hash, by a table, with online reconfigurations; and what is refused."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.checkpoint.routing_files import save_table
from thalweg.locality import Assignment, Online, Report, RoutingTable, keyed_operators
from thalweg.plan.plan import make_plan


class Tweet(NamedTuple):
    region: str
    tag: str


class Seen(NamedTuple):
    tag: str
    region: str
    count: int


class Known(NamedTuple):
    tag: str
    count: int


@tw.state
class Count:
    rows: int = 0


def of_region(count: Count, tweet: Tweet) -> Seen:
    count.rows += 1
    return Seen(tweet.tag, tweet.region, count.rows)


def of_tag(count: Count, seen: Seen) -> Known:
    count.rows += 1
    return Known(seen.tag, count.rows)


def tags() -> tw.Flow:
    """Tags by region: the paper's application."""
    flow = tw.Flow("tags")
    tweets = flow.source("tweets", Tweet)
    regions = tweets.key_by("region").process(
        of_region, state=Count, name="region", compile="never"
    )
    regions.key_by("tag").process(of_tag, state=Count, name="tag", compile="never").sink("out")
    return flow


#: A region has three tags of its own.
TWEETS = [Tweet(f"r{i % 8}", f"t{i % 8}.{i * i % 3}") for i in range(4_000)]
EXPECTED = tw.testing.reference(tags(), {"tweets": TWEETS}).rows("out")


def test_by_hash() -> None:
    """The output is the serial one, and what the operators did is told for all slots together."""
    result = tw.run(tags(), {"tweets": TWEETS}, slots=3, chunk_rows=500)
    assert result.rows("out") == EXPECTED
    assert (result.counts["tag"]["in"], result.counts["tag"]["out"]) == (4_000, 4_000)
    by_name = {one.name: one.rows_in for one in result.progress.operators}
    assert by_name["region"] == by_name["tag"] == 4_000


def test_by_a_table(tmp_path: Path) -> None:
    """A table of pinned keys routes; one for other slots is refused with what to do."""
    operators = keyed_operators(make_plan(tags()))
    table = RoutingTable.hashed(operators, 3)
    keys: dict[Any, int] = {("region", "r1"): 2, ("tag", "t1.0"): 2}
    table = table.assigned(Assignment(3, keys, table.assignment().buckets, Report(1.0, {}, 1.03)))
    assert tw.run(tags(), {"tweets": TWEETS}, slots=3, routing=table).rows("out") == EXPECTED
    with pytest.raises(tw.BuildError, match="for 3 slots, and 2 are asked for: start with slots=3"):
        tw.run(tags(), {"tweets": TWEETS}, slots=2, routing=table)


def test_routing_as_users_say_it(tmp_path: Path) -> None:
    """The path of a table, and the words that Spark's locality= takes."""
    path = tmp_path / "table.json"
    save_table(str(path), RoutingTable.hashed(keyed_operators(make_plan(tags())), 3))
    for routing in (path, str(path), "online", "off"):
        result = tw.run(tags(), {"tweets": TWEETS}, slots=3, routing=routing)
        assert result.rows("out") == EXPECTED
    path.write_text("{")
    with pytest.raises(tw.CheckpointError, match=r"table\.json"):
        tw.run(tags(), {"tweets": TWEETS}, slots=3, routing=path)
    with pytest.raises(tw.CheckpointError, match=r"there is no routing table .*none\.json"):
        tw.run(tags(), {"tweets": TWEETS}, slots=3, routing=tmp_path / "none.json")


def test_far_too_many_slots() -> None:
    """Refused before anything is made for each of them."""
    with pytest.raises(tw.BuildError, match="take 128 slots or fewer"):
        tw.run(tags(), {"tweets": TWEETS}, slots=10**12)


def test_online(caplog: pytest.LogCaptureFixture) -> None:
    """Tables are made from what is counted while rows pass: keys that come together get to one slot."""
    caplog.set_level(logging.INFO, "thalweg")
    online = Online(every=1, min_tuples=100, alpha=1.5, imbalance=None)
    result = tw.run(tags(), {"tweets": TWEETS}, slots=4, routing=online, chunk_rows=20)
    assert result.rows("out") == EXPECTED
    never = dataclasses.replace(online, every=f"{len(TWEETS) + 1} rows", drop=None)
    by_rows = tw.run(tags(), {"tweets": TWEETS}, slots=4, routing=never, chunk_rows=20)
    assert by_rows.progress.changes == ()
    soon = dataclasses.replace(never, every=f"{len(TWEETS) // 2} rows")
    by_rows = tw.run(tags(), {"tweets": TWEETS}, slots=4, routing=soon, chunk_rows=20)
    assert len(by_rows.progress.changes) == 1 and by_rows.rows("out") == EXPECTED
    (first, *_) = [one.message for one in caplog.records if "routing table 1" in one.message]
    assert "to 1.00" in first
    change = result.progress.changes[0]
    assert (change.what, change.before, change.after, change.refused) == ("table", 0, 1, "")
    assert "to 1.00" in change.reason and "; moves " in change.reason
    assert 0 < change.seconds < result.progress.seconds


def test_no_changes_by_hash() -> None:
    """Without reconfigurations there is none to tell."""
    assert tw.run(tags(), {"tweets": TWEETS[:100]}, slots=2).progress.changes == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slots": 0}, "slots"),
        ({"slots": 2, "threads": 2}, "leave out threads"),
        ({"slots": 2, "threading": "manual"}, "leave out threading"),
        ({"slots": 2, "routing": 3}, r"tw\.locality\.Online\(\) or None, got int"),
        ({"routing": Online()}, "routing= needs slots="),
        ({"slots": 129}, "129 slots, but operator 'region' has 128 buckets"),
    ],
)
def test_refused(arguments: dict[str, Any], message: str) -> None:
    """Arguments that do not go together, or do not fit the flow."""
    with pytest.raises(tw.BuildError, match=message):
        tw.run(tags(), {"tweets": TWEETS}, **arguments)
