"""What the tests of all targets share: a record of every type, a sink of it, and a host that is killed."""

from __future__ import annotations

import datetime
import os
import random
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.connectors.targets import Target
from thalweg.flow.operators.nodes import Sink
from thalweg.flow.records import Schema
from thalweg.plan.plan import make_plan

ROOT = Path(__file__).resolve().parents[2]


class Inner(NamedTuple):
    n: int
    text: str | None


class Every(NamedTuple):
    """A field of each type that a record can have."""

    key: int
    number: int | None
    share: float | None
    flag: bool | None
    text: str | None
    group: tw.Category | None
    data: bytes | None
    at: tw.Timestamp | None
    due: tw.Timer | None
    many: list[int]
    inner: Inner | None


class Bill(NamedTuple):
    day: datetime.date
    total: tw.Money
    at: datetime.datetime | None
    more: dict[str, Any] | None


class Shaped(NamedTuple):
    """A field of each type that users see as one of Python's own, but timedelta, which not all tables have."""

    key: int
    at: datetime.datetime | None
    day: datetime.date | None
    total: tw.Money | None
    tiny: Annotated[Decimal, tw.decimal(18, 18)] | None
    whole: Annotated[Decimal, tw.decimal(18, 0)] | None
    odd: Annotated[Decimal, tw.decimal(7, 3)] | None
    more: dict[str, Any] | None
    bills: list[Bill]


class Spans(NamedTuple):
    key: int
    wait: datetime.timedelta | None
    waits: list[datetime.timedelta]


class Pair(NamedTuple):
    name: str
    n: int


#: An hour of 1969, and the ends of the years that all targets know: Postgres ends in 294276.
TIMES = (-3_600_000_000, -62_135_596_800_000_000, 2**62)

EVERY = [
    Every(0, None, None, None, None, None, None, None, None, [], None),
    Every(1, 2**63 - 1, -0.0, True, "", "", b"", TIMES[0], 2**63 - 1, [1], Inner(1, None)),
    Every(
        2, -(2**63), 5e-324, False, "Grüße\n\t\"';\\N,\r", "日本", bytes(range(256)), TIMES[1], 0,
        [2**63 - 1, -(2**63)], Inner(-(2**63), "ä\"\\"),
    ),
    Every(3, 0, 1.7976931348623157e308, True, "NULL", "\\.", b"\\x00", TIMES[2], 1, [0] * 9, Inner(0, "")),
    Every(4, 1, float("nan"), None, "𝄞", "a", b"x", 0, None, [], None),
    Every(5, 1, float("-inf"), None, "x" * 70_000, "a", b"\0" * 70_000, 1, None, [], None),
]  # fmt: skip


_FIRST = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, datetime.UTC)
_BILLS = [
    Bill(datetime.date(1, 1, 1), Decimal("-0.01"), _FIRST, {"n": 10**30}),
    Bill(datetime.date(1999, 12, 31), Decimal("1.10"), None, None),
]
SHAPED = [
    Shaped(0, None, None, None, None, None, None, None, []),
    Shaped(
        1, _FIRST, datetime.date(1, 1, 1), Decimal("-9999999999999999.99"), Decimal("1e-18"), Decimal(10**18 - 1),
        Decimal("-1234.567"), {"a": [1, 2.5, None, {"b": True}], "ü": "\"\\\n"}, _BILLS,
    ),
    Shaped(
        2, _LAST, datetime.date(9999, 12, 31), Decimal("0.01"), Decimal("-0.999999999999999999"), Decimal(-10_000),
        Decimal("0.001"), {"n": 10**30}, _BILLS[:1],
    ),
    Shaped(
        3, _FIRST.replace(year=1969), datetime.date(2000, 1, 1), Decimal(0), Decimal("0.1"), Decimal(0),
        Decimal("9999.999"), {}, [],
    ),
]  # fmt: skip
_WAITS = [
    datetime.timedelta(microseconds=one) for one in (2**63 - 1, -(2**63), 0, -1, 86_400_000_000)
]
SPANS = [Spans(0, None, []), *(Spans(at, one, _WAITS) for at, one in enumerate(_WAITS, 1))]


def node(record: type, name: str = "out") -> Sink:
    """A sink as a target gets it."""
    flow = tw.Flow("kit")
    flow.source("in", record).sink(name)
    return make_plan(flow).sinks[0]


def table(record: type, rows: list[Any]) -> pa.Table:
    """Rows as a host gives them to a target."""
    schema = Schema.of(record)
    inside = rows if schema.user is None else [schema.take(row) for row in rows]
    return pa.Table.from_batches([Chunk.from_rows(schema, inside).to_arrow()])


def taken(given: Any, record: type) -> list[Any]:
    """The rows of an input as users see them."""
    flow = tw.Flow("taken")
    flow.source("in", record).sink("out")
    return list(tw.run(flow, {"in": given}).rows("out"))


def plain(rows: list[Any]) -> list[Any]:
    """Rows in a form in which NaN equals itself, and -0.0 is not 0.0."""
    return [repr(row) for row in rows]


# -- a host that is killed -------------------------------------------------------------------------------

#: Batches of a run, rows of a batch, and names of rows.
BATCHES, ROWS, NAMES = 30, 400, 600


def batch_rows(batch: int, names: int = NAMES) -> list[Pair]:
    """The rows of a batch: names come again in it and in others."""
    draw = random.Random(batch)
    return [Pair(f"k{draw.randrange(names)}", batch * ROWS + n) for n in range(ROWS)]


def all_rows(names: int = NAMES) -> list[Pair]:
    return [row for batch in range(BATCHES) for row in batch_rows(batch, names)]


def last_rows() -> dict[str, int]:
    """What upsert leaves."""
    return {row.name: row.n for row in all_rows()}


def host(target: Target, state: Path, names: int) -> None:
    """Writes the batches from the first that is not committed on, and commits each in a file."""
    writer = target.open(node(Pair), "query")
    done = int(state.read_text()) if state.exists() else -1
    for batch in range(done + 1, BATCHES):
        writer.write(batch, table(Pair, batch_rows(batch, names)))
        fresh = state.with_suffix(".new")
        fresh.write_text(str(batch))
        os.replace(fresh, state)
    writer.close()


def run_killed(made: str, folder: Path, *, kills: int, names: int = NAMES, seed: int = 7) -> int:
    """Runs the host in processes that are killed at random, then to its end.

    Args:
        made: an expression of the target, with ``tw``.
        folder: for the host's state.
        kills: how many processes are killed.
        names: that rows have.
        seed: of the moments.

    Returns:
        How many kills met a host at work.
    """
    draw, state, met = random.Random(seed), folder / "committed", 0
    for kill in range(kills + 1):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.connectors.kit", made, str(state), str(names)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])},
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()  # it begins to write
        if kill == kills:
            try:
                assert process.wait(120) == 0
            finally:
                process.kill()
            break
        time.sleep(draw.random() * 0.5)
        process.kill()
        met += process.wait() != 0
        process.stdout.close()
    assert state.read_text() == str(BATCHES - 1)
    return met


if __name__ == "__main__":
    from tests.connectors import kit

    expression, place, count = sys.argv[1:]
    target = eval(expression, {"tw": tw})
    kit.node(kit.Pair)
    print("begins", flush=True)
    kit.host(target, Path(place), int(count))
