"""The generators: same arguments same rows, whatever the blocks; bounds and shares hold; files are whole."""

from __future__ import annotations

import collections
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
import typer
from typer.testing import CliRunner

from thalweg import data, datagen
from thalweg.datagen.cli import register
from thalweg.datagen.frames import ids

GAP_US = 60 * 60 * 1_000_000


def clicks(rows, **arguments):
    return pa.Table.from_batches(
        datagen.clickstream(rows, **arguments), schema=datagen.CLICK_SCHEMA
    )


def sales(rows, **arguments):
    return pa.Table.from_batches(datagen.store_sales(rows, **arguments), schema=datagen.SALE_SCHEMA)


def calls(rows, **arguments):
    return pa.Table.from_batches(
        datagen.call_records(rows, **arguments), schema=datagen.CALL_SCHEMA
    )


each = pytest.mark.parametrize("made", [clicks, sales, calls])


def times(table):
    return table["ts"].cast(pa.int64()).to_numpy()


def sessions(table):
    """Of each session its clicks and whether it filled a cart and did not buy; the obvious way."""
    opened, closed = {}, []
    for ts, user, action in zip(
        times(table).tolist(),
        table["user"].to_pylist(),
        table["action"].to_pylist(),
        strict=True,
    ):
        if user in opened and ts - opened[user][0] > GAP_US:
            closed.append(opened.pop(user)[1])
        opened.setdefault(user, [ts, []])[0] = ts
        opened[user][1].append(action)
    closed.extend(actions for _, actions in opened.values())
    return [(len(actions), "cart" in actions and "checkout" not in actions) for actions in closed]


@pytest.fixture(scope="module")
def day():
    """As dense as 5 million clicks in 7 days, one tenth of them."""
    return clicks(500_000, users=10_000)


@each
def test_rows_and_types(made):
    """Exactly the rows asked for come out, in the columns of the record, times in UTC."""
    for rows in (0, 1, 65_536, 70_001):
        assert made(rows).num_rows == rows
    assert made(1).schema.field("ts").type == pa.timestamp("us", tz="UTC")


@each
def test_deterministic(made):
    """The same arguments give the same rows, another seed others."""
    assert made(20_000, seed=3).equals(made(20_000, seed=3))
    assert not made(20_000, seed=3).equals(made(20_000, seed=4))


@each
@pytest.mark.parametrize("block_rows", [997, 65_536, 10**9])
def test_block_size_independent(made, block_rows):
    """How many rows a batch holds changes no row, also with disorder and duplicates."""
    arguments = {"seed": 1, "disorder_s": 90, "duplicates": 0.05}
    expected = made(100_000, block_rows=10_000, **arguments)
    assert made(100_000, block_rows=block_rows, **arguments).equals(expected)


def test_blocks_are_full():
    """Every batch but the last has the size that was asked for."""
    sizes = [batch.num_rows for batch in datagen.clickstream(10_500, block_rows=1000)]
    assert sizes == [1000] * 10 + [500]


def test_in_time_order(day):
    """Without disorder the rows are in time order and span about the days asked for."""
    ts = times(day)
    assert (np.diff(ts) >= 0).all()
    assert (ts[-1] - ts[0]) / 86_400e6 == pytest.approx(7, rel=0.02)


@each
def test_disorder_is_bounded(made):
    """Rows are out of order, and none is behind the latest time by more than the bound."""
    ts = times(made(200_000, days=7, disorder_s=30, duplicates=0.02))
    behind = np.maximum.accumulate(ts) - ts
    assert 0 < behind.max() <= 30_000_000
    assert (behind > 0).mean() > 0.5


@each
def test_disorder_changes_only_the_order(made):
    """But for the cut at the end, the rows are those of the ordered stream."""
    ordered, shuffled = made(50_000), made(50_000, disorder_s=30)
    rows = [
        collections.Counter(zip(*t.to_pydict().values(), strict=True)) for t in (ordered, shuffled)
    ]
    assert (rows[0] - rows[1]).total() < 100


def test_duplicates():
    """About the asked share of the rows came before."""
    table = clicks(50_000, duplicates=0.1)
    seen = table.group_by(["ts", "user", "item"]).aggregate([([], "count_all")])["count_all"]
    assert (seen.to_numpy() == 2).mean() == pytest.approx(0.1, abs=0.01)


def test_shares(day):
    """Sessions, abandoned carts and the users' activity are those of the benchmark's data."""
    found = sessions(day)
    assert len(found) == pytest.approx(46_500, rel=0.03)
    assert np.mean([abandoned for _, abandoned in found]) == pytest.approx(0.22, abs=0.01)
    assert np.mean([pages for pages, abandoned in found if abandoned]) == pytest.approx(11, abs=0.5)
    counts = np.sort(np.unique(day["user"].to_numpy(), return_counts=True)[1])
    assert len(counts) == pytest.approx(9_300, rel=0.02)
    assert counts[-1] / day.num_rows < 0.01


def test_top_user_at_full_size():
    """With 100,000 users the busiest has about 0.36 % of the clicks."""
    counts = np.unique(clicks(500_000)["user"].to_numpy(), return_counts=True)[1]
    assert counts.max() / 500_000 == pytest.approx(0.0036, abs=0.0005)


def test_items_follow_each_other():
    """A cart has the item of the click before; what is bought is what went into the cart last."""
    table = clicks(50_000, users=1_000_000, skew=0)  # hardly a user has two sessions at once
    columns = [times(table).tolist(), *(table[name].to_pylist() for name in ("user", "item"))]
    before, carted, bought, related = {}, {}, 0, 0
    for ts, user, item, action in zip(*columns, table["action"].to_pylist(), strict=True):
        last, its = before.get(user, (ts, item))
        if action == "cart":
            assert item == its or ts - last > GAP_US
            carted[user] = item
        elif action == "checkout":
            assert item == carted[user]
            bought += 1
        else:
            related += abs(item - its) == 10
        before[user] = (ts, item)
    assert bought == pytest.approx(0.12 * table.num_rows / 9.2, rel=0.2)
    assert related / table.num_rows == pytest.approx(0.17, abs=0.03)


def test_user_ids_are_permuted():
    """Different users have different, positive ids that are not dense and not in order of activity."""
    found = ids(np.arange(200_000), 7)
    assert len(np.unique(found)) == len(found)
    assert found.min() >= 0
    assert found.max() > 100 * len(found)
    assert abs(np.corrcoef(np.arange(len(found)), found)[0, 1]) < 0.01


@pytest.mark.parametrize(
    ("name", "value"),
    [("rows", -1), ("users", 0), ("days", 0), ("seed", -1), ("duplicates", 2), ("block_rows", 0)],
)
def test_wrong_arguments(name, value):
    """A value out of range is refused at once, by name."""
    with pytest.raises(ValueError, match=name):
        datagen.clickstream(**{"rows": 1, name: value})


def test_parquet_files(tmp_path):
    """Files hold the rows in order, in equal shares, under rising modification times."""
    paths = datagen.write_files(datagen.clickstream(10_001), tmp_path, rows=10_001, files=4)
    tables = [pyarrow.parquet.read_table(path) for path in paths]
    assert [table.num_rows for table in tables] == [2500, 2500, 2500, 2501]
    assert pa.concat_tables(tables).equals(clicks(10_001))
    stamps = [path.stat().st_mtime_ns // 1_000_000 for path in paths]
    assert stamps == sorted(set(stamps))
    assert sorted(tmp_path.iterdir()) == paths


def test_text_files(tmp_path):
    """CSV and JSON lines hold the same rows, times as ISO 8601."""
    expected = clicks(500)
    (path,) = datagen.write_files(datagen.clickstream(500), tmp_path, rows=500, format="csv")
    assert pyarrow.csv.read_csv(path)["ts"].cast(pa.timestamp("us", "UTC")).equals(expected["ts"])
    (path,) = datagen.write_files(datagen.clickstream(500), tmp_path, rows=500, format="jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["user"] for line in lines] == expected["user"].to_pylist()
    assert lines[0]["ts"].startswith("2026-01-05T")
    assert lines[0]["ts"].endswith("Z")


def test_folder_in_use(tmp_path):
    """Files of an earlier run are never mixed with new ones."""
    datagen.write_files(datagen.clickstream(10), tmp_path, rows=10)
    with pytest.raises(ValueError, match="already"):
        datagen.write_files(datagen.clickstream(10), tmp_path, rows=10)


def test_drip(tmp_path):
    """Each file appears when its last row is due, and nothing half-written shows before."""
    now, seen = [100.0], []

    def sleep(seconds):
        seen.append((now[0], len(list(tmp_path.glob("[!.]*")))))
        now[0] += seconds

    paths = datagen.drip(
        datagen.clickstream(2500), tmp_path, 1000, clock=lambda: now[0], sleep=sleep
    )
    assert seen == [(100.0, 0), (101.0, 1), (102.0, 2)]
    assert now == [102.5]
    assert sum(pyarrow.parquet.read_metadata(path).num_rows for path in paths) == 2500


def test_command(tmp_path):
    """The commands write what they were asked for, and say what was wrong."""
    app = typer.Typer()
    register(app)
    run = CliRunner().invoke
    schemas = {
        "clicks": datagen.CLICK_SCHEMA,
        "sales": datagen.SALE_SCHEMA,
        "calls": datagen.CALL_SCHEMA,
    }
    for what, schema in schemas.items():
        folder = tmp_path / what
        done = run(app, [what, "--rows", "1000", "--files", "2", "--out", str(folder)])
        assert done.exit_code == 0
        assert f"1,000 {what} in 2 files" in done.stdout
        written = pyarrow.dataset.dataset(folder)
        assert written.count_rows() == 1000
        assert written.schema.equals(schema)
    wrong = run(app, ["clicks", "--rows", "10", "--format", "xml", "--out", str(tmp_path / "b")])
    assert wrong.exit_code == 2


@pytest.mark.parametrize(
    ("name", "lines"), [("web_log", 10_000), ("nyc_flights", 51_956), ("call_records", 500)]
)
def test_bundled_data(name, lines):
    """The sets that come with the package are there, whole, and say where they are from."""
    path = data.path(name)
    with gzip.open(path, "rb") as file:
        assert sum(1 for _ in file) == lines
    readme = (path.parent / "README.md").read_text()
    assert "Origin" in readme
    assert "Licence" in readme


def test_unknown_data():
    """A wrong name lists the right ones."""
    with pytest.raises(ValueError, match="call_records, nyc_flights, web_log"):
        data.path("nothing")
