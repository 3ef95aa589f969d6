"""Ranges of keys: which one a key is in, in Python and in machine code; how many there should be, from a sample.

That no output depends on them is in ``tests/property/test_parallel.py``.
"""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import thalweg as tw
from thalweg import testing
from thalweg.cli import app
from thalweg.columns.chunks import Column
from thalweg.columns.key_ranges import RangeUnits
from thalweg.columns.keys import KeySpec
from thalweg.errors import BuildError
from thalweg.plan.plan import make_plan
from thalweg.plan.ranges import Profile, by_range, choose, cut, expected
from thalweg.testing.partitions import PartitionPlan
from thalweg.workers.memory import layout as at
from thalweg.workers.options import Options


class Ints(NamedTuple):
    key: int | None
    value: int


class Floats(NamedTuple):
    key: float | None
    value: int


class Bools(NamedTuple):
    key: bool
    value: int


class Texts(NamedTuple):
    key: str | None
    value: int


class Categories(NamedTuple):
    key: tw.Category
    value: int


@tw.state
class Sum:
    total: int = 0


#: By record: keys in order, without repetition, and boundaries.
KEYS: dict[Any, tuple[list[Any], list[Any]]] = {
    Ints: ([None, -(2**63), -7, 0, 1, 2**62, 2**63 - 1], [-7, 1, 2**63 - 1]),
    Floats: ([None, -math.inf, -1.5, 0.0, 1e-300, 2.5, math.inf, math.nan], [-1.5, 0.0, 2.5, math.nan]),
    Bools: ([False, True], [True]),
    Texts: ([None, "", "a", "a\0", "ab", "z", "\u00fc", "\U0001f600"], ["a", "ab", "\u00fc"]),
    Categories: (["", "blue", "red", "\u00fc"], ["blue", "red"]),
}  # fmt: skip


def ranges_of(record: Any) -> tuple[RangeUnits, KeySpec]:
    flow = tw.Flow("spec")
    flow.source("in", record).key_by("key").process(
        lambda state, row: None, state=Sum, into=record, name="sum"
    ).sink("out")
    (node,) = make_plan(flow).keyed
    spec = KeySpec(node.key.fields)
    return RangeUnits.between("sum", spec, KEYS[record][1]), spec


@pytest.mark.parametrize("record", KEYS)
def test_a_key_is_in_one_range(record: Any) -> None:
    """Ranges go up with the keys: a key is in the range whose boundary is the last that is not above it."""
    keys, firsts = KEYS[record]
    units, spec = ranges_of(record)
    column = Column.from_python(spec.fields[0].type, keys)
    found = units.of_rows([column], spec.hashes([column], len(keys))).tolist()
    places = [next(i for i, one in enumerate(keys) if repr(one) == repr(first)) for first in firsts]
    assert found == [sum(place <= i for place in places) for i in range(len(keys))]
    assert units.count == len(firsts) + 1
    assert units.partitions(units.count).tolist() == list(range(units.count))


def test_one_zero() -> None:
    """-0.0 is the key 0.0, so it is in the same range."""
    units, spec = ranges_of(Floats)
    column = Column.from_python(spec.fields[0].type, [-0.0, 0.0])
    assert len(set(units.of_rows([column], spec.hashes([column], 2)).tolist())) == 1


def summed(state: Sum, row: Any) -> Any:
    state.total += row.value
    return type(row)(row.key, state.total)


def sum_ints(state: Sum, row: Ints) -> Ints:
    state.total += row.value
    return Ints(row.key, state.total)


def sum_floats(state: Sum, row: Floats) -> Floats:
    state.total += row.value
    return Floats(row.key, state.total)


def sum_bools(state: Sum, row: Bools) -> Bools:
    state.total += row.value
    return Bools(row.key, state.total)


SUMS: dict[Any, Any] = {Ints: sum_ints, Floats: sum_floats, Bools: sum_bools}


@pytest.mark.parametrize("record", SUMS)
def test_machine_code_finds_the_same_ranges(record: Any) -> None:
    """Each partition of an operator in machine code has got exactly the rows of its range."""
    keys, firsts = KEYS[record]
    flow = tw.Flow("native", compile="require")
    flow.source("in", record).key_by("key").process(
        SUMS[record], state=Sum, into=record, name="sum"
    ).sink("out")
    rng = random.Random(1)
    rows = [record(rng.choice(keys), n % 5) for n in range(300)]
    options = Options(threads=2, partition="range", boundaries={"sum": firsts})
    session = testing.Session(flow, options=options)
    (task,) = [one for one in session._engine.tasks if one.spec.kind == at.KEYED]  # type: ignore[union-attr]
    assert task.spec.native and task.spec.partitions == len(firsts) + 1
    session.feed("in", rows)
    session.end()
    units, spec = ranges_of(record)
    column = Column.from_python(spec.fields[0].type, keys)
    expected_units = units.of_rows([column], spec.hashes([column], len(keys))).tolist()
    held = {number: len(table) for number, table in session.by_key["sum"].tables.items()}
    assert held == {unit: expected_units.count(unit) for unit in set(expected_units)}
    assert repr(session.rows("out")) == repr(list(tw.run(flow, {"in": rows})["out"]))
    session.close()


def test_what_is_refused() -> None:
    """Boundaries without ranges and ranges without boundaries, names and values that are none, and a wrong order."""
    flow = tw.Flow("refused")
    keyed = flow.source("in", Ints).key_by("key")
    keyed.process(sum_ints, state=Sum, name="sum").sink("out")
    for given, says in (
        ({"partition": "range"}, "needs boundaries="),
        ({"boundaries": {"sum": [1]}}, "needs boundaries="),
        ({"partition": "rage", "boundaries": {"sum": [1]}}, "partition: expected 'hash' or 'range'"),
        ({"partition": "range", "boundaries": {"sums": [1]}}, "no operator by key 'sums'; did you mean 'sum'"),
        ({"partition": "range", "boundaries": {"sum": [1, "a"]}}, r"'sum': .* 'key', .* int.*; got 'a' \(str\)"),
        ({"partition": "range", "boundaries": {"sum": "abz"}}, "operator 'sum': expected a list of keys, .* got 'abz'"),
        ({"partition": "range", "boundaries": {"sum": 5}}, "operator 'sum': expected a list of keys, .* got 5"),
        ({"partition": "range", "boundaries": ["a"]}, "boundaries: expected a dict of lists"),
        ({"partition": "range", "boundaries": {"sum": [2, 1]}}, "must ascend"),
        ({"partition": "range", "boundaries": {"sum": [1, 1]}}, "must ascend"),
    ):  # fmt: skip
        with pytest.raises(BuildError, match=says):
            tw.run(flow, {"in": [Ints(1, 1)]}, options=tw.Options(**given))  # type: ignore[arg-type]


# -- how many, and which ---------------------------------------------------------------------------------------


def test_the_fullest_range_is_as_small_as_can_be() -> None:
    """Against all ways to cut; no key is cut, no range is empty."""
    rng = random.Random(3)
    for _ in range(60):
        counts = [rng.choice([1, 2, 3, 20]) for _ in range(rng.randint(1, 8))]
        for parts in range(1, 6):
            starts = cut(counts, parts)
            assert len(starts) < parts and list(starts) == sorted({*starts} - {0, len(counts)})
            mine = max(sum(one) for one in pieces(counts, starts))
            ways = itertools.combinations(range(1, len(counts)), min(parts, len(counts)) - 1)
            assert mine == min(max(map(sum, pieces(counts, way))) for way in ways)


def pieces(counts: list[int], starts: Any) -> list[list[int]]:
    bounds = [0, *starts, len(counts)]
    return [counts[a:b] for a, b in itertools.pairwise(bounds)]


def test_what_is_expected() -> None:
    """No more than threads, no more than the heaviest range allows; units cost, so there can be too many."""
    even = Profile([10] * 100, 1_000.0, 0.0, 100, 4)
    assert expected(even, [250] * 4).speed_up == pytest.approx(4.0)
    assert expected(even, [500, 250, 250]).speed_up == pytest.approx(2.0)
    dear = Profile([10] * 100, 1_000.0, 20_000.0, 100, 4)
    assert by_range(dear, 100).speed_up < by_range(dear, 8).speed_up
    assert (
        choose(even).parts == 4 < choose(Profile([1, 5, 60, 20, 9, 5] * 9, 1e3, 0.0, 100, 4)).parts
    )
    assert choose(dear).parts < 16
    one = Profile([1, 1_000, 1], 1_000.0, 0.0, 100, 4)
    assert choose(one).parts == 1, "no partitioning cuts a key"


def skewed(rows: int) -> list[Ints]:
    """A few neighbours have most of the rows."""
    rng = np.random.default_rng(2)
    keys = np.clip(rng.normal(500, 8, rows), 0, 999).astype(int)
    return [Ints(int(key), n) for n, key in enumerate(keys)]


def a_flow() -> tw.Flow:
    flow = tw.Flow("planned")
    flow.source("in", Ints).key_by("key").process(sum_ints, state=Sum, name="sum").sink("out")
    return flow


def test_a_plan_from_a_sample() -> None:
    """It counts all rows, gives boundaries that a run takes, and the run's output is the same."""
    rows = skewed(3_000)
    plan = testing.plan_partitions(a_flow(), {"in": rows}, threads=16)
    (found,) = plan.operators
    assert (found.name, found.key, found.tuples) == ("sum", "key", 3_000)
    assert found.values == sorted({row.key for row in rows})
    (top, share), *_ = found.top(1)
    assert 490 < top < 510 and share == max(found.profile.counts) / 3_000
    assert found.ranged.fullest <= min(
        one.fullest for one in found.compared if one.parts <= found.ranged.parts
    )
    assert "partition=" in found.advice() and isinstance(plan, PartitionPlan)
    boundaries = {"sum": found.boundaries or [500]}
    ranged = tw.run(
        a_flow(), {"in": rows}, options=tw.Options(partition="range", boundaries=boundaries)
    )
    assert list(ranged["out"]) == list(tw.run(a_flow(), {"in": rows})["out"])
    assert (plan.options().partition == "range") == bool(plan.boundaries)


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    """``thalweg plan --sample`` shows the skew, what is expected, and what to set; it needs an operator by key."""
    import pyarrow.parquet as pq

    place, module = tmp_path / "in.parquet", tmp_path / "flows.py"
    pq.write_table(tw.run(keyless(), {"in": skewed(900)})["out"].table, place)
    module.write_text(
        "import thalweg as tw\nfrom tests.unit.test_key_ranges import a_flow, keyless\n"
        "planned, other = a_flow(), keyless()\n"
    )
    said = CliRunner().invoke(app, ["plan", "--sample", "800", f"{module}:planned", str(place)])
    assert said.exit_code == 0, said.output
    assert "sum: 800 tuples" in said.output and "by range, the fewest that are best" in said.output
    assert "tw.Options(" in said.output or "nothing to set" in said.output
    said = CliRunner().invoke(app, ["plan", f"{module}:other", str(place)])
    assert said.exit_code == 1 and "no operator by key" in said.output


def keyless() -> tw.Flow:
    flow = tw.Flow("keyless")
    flow.source("in", Ints).filter(lambda row: row.value >= 0).sink("out")
    return flow
