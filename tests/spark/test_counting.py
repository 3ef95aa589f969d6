"""What tasks count of keys and pairs is what a serial run counts exactly, while the sketches have room."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import kill_driver as driver
import pyarrow as pa
import pytest
from slots_host import SlotsHost, Told

import thalweg as tw
from thalweg.columns.keys import KeySpec
from thalweg.locality import KeySummary, Statistics
from thalweg.plan.plan import make_plan
from thalweg.testing.sampling import sample


class Post(NamedTuple):
    ts: tw.Timestamp
    user: int
    tags: str


class Tag(NamedTuple):
    user: int
    tag: str
    n: int


class Seen(NamedTuple):
    tag: str
    user: int
    n: int


@tw.state
class Count:
    n: int = 0


def words(seen: Count, post: Post) -> Tag | None:
    """Some posts lead to nothing."""
    seen.n += 1
    return None if seen.n % 5 == 0 else Tag(post.user, post.tags, seen.n)


def split(tag: Tag) -> list[Tag]:
    return [Tag(tag.user, one, tag.n) for one in tag.tag.split()]


def hear(seen: Count, tag: Tag) -> Seen:
    seen.n += 1
    return Seen(tag.tag, tag.user, seen.n)


def again(seen: Count, one: Seen) -> Seen:
    seen.n += 1
    return one


def posts_flow() -> tw.Flow:
    """Three keyed operators one behind the other, stateless ones that drop and multiply between them."""
    flow = tw.Flow("posts")
    posts = flow.source("posts", Post, order_by="ts", lateness="1 minute")
    tags = posts.key_by("user").process(words, state=Count).flat_map(split)
    heard = (
        tags.filter(lambda tag: tag.tag != "c", name="no_c")
        .key_by("tag")
        .process(hear, state=Count)
    )
    heard.key_by("user").process(again, state=Count).sink("seen")
    return flow


def posts(count: int) -> list[Post]:
    tags = ["a b", "b c d", "c", "a", "d a b"]
    return [Post(1_000_000 * n, n * 7 % 11, tags[n * 3 % 5]) for n in range(count)]


def counted(flow: tw.Flow, folder: Path, rows: list[Any], slots: int, threads: int) -> KeySummary:
    """By tasks, over three batches."""
    host, told = SlotsHost(flow, str(folder), threads), Told()
    host.told = told
    share = len(rows) // 3
    for place in range(3):
        part = rows[place * share : (place + 1) * share] if place < 2 else rows[2 * share :]
        host.batch(part, slots=slots, ends=place == 2)
    host.forget()
    return KeySummary.merged([KeySummary.from_bytes(data) for _, _, _, data in told.value])


def compare(flow: tw.Flow, found: KeySummary, wanted: Statistics) -> None:
    """Equal pairs, and equal tuples of every key."""
    specs = {node.name: KeySpec(node.key.fields) for node in make_plan(flow).keyed}

    def keys_of(name: str, names: pa.BinaryArray) -> list[Any]:
        return specs[name].python_keys(specs[name].decode_ordered(names), len(names))

    statistics = found.statistics(keys_of)
    pairs = {(one.left, one.right): one.count for one in wanted.pairs}
    assert {(one.left, one.right): one.sure for one in statistics.pairs} == pairs
    assert statistics.operators == wanted.operators
    for name in wanted.operators:
        hashes, names = found.names[name]
        keys = dict(zip(hashes.tolist(), keys_of(name, names), strict=True))
        counts = found.keys[name]
        tuples = {
            keys[h]: n
            for h, n in zip(counts.items[:, 0].tolist(), counts.counts.tolist(), strict=True)
        }
        assert tuples == {one.key: one.count for one in wanted.loads[name].keys}
        assert statistics.loads[name].total == wanted.loads[name].total


@pytest.mark.parametrize(("slots", "threads"), [(2, 1), (3, 1), (2, 2)])
def test_rows(tmp_path: Path, slots: int, threads: int) -> None:
    """Pairs of rows over two links, with rows that are dropped and multiplied on the way."""
    rows = posts(300)
    wanted = sample(posts_flow(), {"posts": rows}).statistics()
    assert len({one.left[0] for one in wanted.pairs}) == 2
    compare(posts_flow(), counted(posts_flow(), tmp_path, rows, slots, threads), wanted)


def test_timers(tmp_path: Path) -> None:
    """Sessions end by timers and go on by their size: the timer's key is the left one."""
    rows = driver.make_rows(3, 600)
    wanted = sample(driver.make_flow(), {"clicks": rows}).statistics()
    assert {one.left[0] for one in wanted.pairs} == {"track"}
    compare(driver.make_flow(), counted(driver.make_flow(), tmp_path, rows, 3, 1), wanted)
