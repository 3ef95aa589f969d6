"""The generator against the parameters that the specification publishes."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from thalweg_lab.nexmark.generator import CHANNELS, HOT_CHANNELS, _turned, side_input, stream
from thalweg_lab.nexmark.spec import FIRST_AUCTION, FIRST_PERSON, KINDS, Kind, Spec
from thalweg_lab.nexmark.written import RECORDS, batches, kept
from typer.testing import CliRunner

import thalweg as tw
from thalweg.cli import app

EVENTS = 200_000


def table(spec: Spec, kind: Kind) -> pa.Table:
    return pa.Table.from_batches(stream(spec, kind))


def share(column: pa.ChunkedArray) -> float:
    return float(pc.mean(column.cast(pa.int8())).as_py())


@pytest.mark.parametrize("seed", range(2))
def test_as_the_specification_says(seed: int) -> None:
    """Proportions, hot ones, prices, categories, lengths of auctions, channels and sizes are as published."""
    spec = Spec(EVENTS, seed)
    persons, auctions, bids = (table(spec, kind) for kind in KINDS)
    assert [len(one) for one in (persons, auctions, bids)] == [4_000, 12_000, 184_000]
    assert persons["id"].to_pylist() == list(range(FIRST_PERSON, FIRST_PERSON + 4_000))
    assert auctions["id"].to_pylist() == list(range(FIRST_AUCTION, FIRST_AUCTION + 12_000))
    # One in hot_ratio is drawn from the active ones; the hot one is in their midst now and then.
    of_hundred = np.asarray(bids["auction"]) % 100
    assert math.isclose(np.mean(of_hundred == 0), 0.5, abs_tol=0.02)
    assert math.isclose(np.mean(np.asarray(bids["bidder"]) % 100 == 1), 0.75, abs_tol=0.02)
    assert math.isclose(np.mean(np.asarray(auctions["seller"]) % 100 == 0), 0.75, abs_tol=0.02)
    # Prices: 10 ** (6 u) dollars, in cents.
    logs = np.log10(np.asarray(bids["price"]) / 100)
    assert 0 <= logs.min() < 0.01 and 5.99 < logs.max() <= 6
    assert math.isclose(logs.mean(), 3, abs_tol=0.02)
    assert math.isclose(logs.std(), 6 / math.sqrt(12), abs_tol=0.02)
    assert pc.all(pc.greater(auctions["reserve"], auctions["initial_bid"])).as_py()
    shares = np.unique(np.asarray(auctions["category"]), return_counts=True)
    assert shares[0].tolist() == [10, 11, 12, 13, 14] and np.allclose(shares[1] / 12_000, 0.2, atol=0.02)  # fmt: skip
    # An auction lasts until as many others as are in flight have come, on average.
    opened, closed = (np.asarray(auctions[name]) for name in ("date_time", "expires"))
    lasts = (closed - opened) / np.timedelta64(1, "s")
    assert math.isclose(lasts.mean(), 100 * 50 / 3 / spec.rate, rel_tol=0.03)
    assert lasts.min() >= 0.001
    channel = pc.is_in(bids["channel"], pa.array(HOT_CHANNELS))
    assert math.isclose(share(channel), 0.5, abs_tol=0.01)
    others = bids.filter(pc.invert(channel))
    assert len(others["channel"].unique()) > 0.99 * CHANNELS
    assert math.isclose(share(pc.match_substring(others["url"], "&channel_id=")), 0.9, abs_tol=0.01)
    numbers = np.asarray(pc.binary_length(bids["extra"]))
    assert numbers.min() == 54 and numbers.max() == 81 and math.isclose(numbers.mean(), 67.5, abs_tol=0.1)  # fmt: skip
    names = [name for name in persons.schema.names if name not in ("id", "date_time")]
    texts = np.sum([np.asarray(pc.binary_length(persons[name])) for name in names], axis=0)
    assert math.isclose(float(np.mean(texts)) + 8, 200, abs_tol=2)


def test_texts_are_words_of_the_alphabet() -> None:
    """Names have 3 to 19 letters a to z and spaces, one in 13 of them, and none at the ends."""
    names = pc.drop_null(table(Spec(100_000), "auctions")["item_name"])
    assert pc.all(pc.match_substring_regex(names, "^([a-z]([a-z ]*[a-z])?)?$")).as_py()
    letters = "".join(names.to_pylist())
    assert max(map(len, names.to_pylist())) == 19
    assert 0.05 < letters.count(" ") / len(letters) < 1 / 13


def test_the_same_rows_however_much_is_taken(tmp_path: Path) -> None:
    """More events begin with the same rows; another seed gives others; a side row changes every so many events."""
    spec, more = Spec(5_000, 3), Spec(5_000, 4)
    assert table(spec, "bids") == table(Spec(5_000, 3), "bids") != table(more, "bids")
    side = side_input(Spec(5_000, side_rows=10, side_every=500)).to_pylist()
    assert [row["value"] for row in side[:10]] == list(map(str, range(10))) and len(side) == 19
    assert all(row["value"] == f"{row['key']}.{n}" for n, row in enumerate(side[10:], 1))


def test_out_of_order_groups() -> None:
    """A group has the events of the group in time order, in another order, and none is later than is promised."""
    spec, sorted_one = Spec(100_000, out_of_order_group=1_000), Spec(100_000)
    numbers = spec.numbers(0)
    assert sorted(numbers.tolist()) == list(range(100_000)) != numbers.tolist()
    assert np.abs(numbers - np.arange(100_000)).max() < 1_000
    times = np.asarray(table(spec, "bids")["date_time"]).astype(np.int64)
    behind = np.maximum.accumulate(times) - times
    assert 0 < behind.max() <= spec.lateness_s * 1e6
    assert spec.count("bids") == sorted_one.count("bids") == len(times)


def test_turned_bits() -> None:
    """The numbers of channels in addresses are Java's ``Math.abs(Integer.reverse(i))``."""
    assert [_turned(number) for number in (0, 1, 2, 3, 9_999)] == [
        0, -2_147_483_648, 1_073_741_824, 1_073_741_824, 253_493_248,
    ]  # fmt: skip


def test_command_and_formats(tmp_path: Path) -> None:
    """Parquet and JSON lines have the same rows; kept data are found again; a wrong call is refused."""
    arguments = ["datagen", "nexmark", "--events", "1000", "--files", "2", "--out"]
    for format in ("parquet", "jsonl"):
        done = CliRunner().invoke(app, [*arguments, str(tmp_path / format), "--format", format])
        assert done.exit_code == 0, done.output
    for what in RECORDS:
        one, other = (
            duckdb.sql(
                f"select * replace (date_time::timestamp as date_time) from '{tmp_path}/{name}/{what}/*.{name}'"
            ).fetchall()
            for name in ("parquet", "jsonl")
        )
        if what != "auctions":
            assert one == other
        assert len(one) == len(other) > 10
    folder = kept(Spec(1_000), tmp_path / "cache")
    assert kept(Spec(1_000), tmp_path / "cache") == folder and (folder / "side").is_dir()
    wrong = CliRunner().invoke(app, ["datagen", "nexmark"])
    assert wrong.exit_code == 2 and "--kafka" in wrong.output


@pytest.mark.merge
def test_into_kafka() -> None:
    """``--kafka`` sends each row once to the topic of its kind, as JSON that the record reads."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from thalweg_lab import brokers

    spec = Spec(500, 3)
    with brokers.mock() as broker:
        arguments = ["datagen", "nexmark", "--events", "500", "--seed", "3", "--kafka"]
        done = CliRunner().invoke(app, [*arguments, broker.servers])
        assert done.exit_code == 0, done.output
        for what, record in RECORDS.items():
            flow = tw.Flow("read")
            flow.source("rows", record).sink("out")
            log = tw.kafka(broker.servers, f"nexmark-{what}", follow=False)
            found = tw.run(flow, {"rows": log}).rows("out")
            sent = tw.run(flow, {"rows": pa.Table.from_batches(batches(spec, what))}).rows("out")
            assert sorted(found) == sorted(sent)
