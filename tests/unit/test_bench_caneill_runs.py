"""The bench on a cluster without one: its flow and tables, what it takes from a batch's progress, its network."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from thalweg_lab import caneill_cluster, network
from thalweg_lab.caneill_flow import (
    COUNTING,
    FIRST,
    SECOND,
    hashed_table,
    local_table,
    make_flow,
    padding_of,
    worst_table,
)
from thalweg_lab.caneill_runs import Batch, CaneillSetting, MeasuredRun
from thalweg_lab.measure import LabReport

import thalweg as tw
from thalweg import datagen
from thalweg.locality import KeyCount, KeyLoads, Online, PairCount, RoutingTable, Statistics
from thalweg.locality.triggers import History
from thalweg.printing import Terminal

KEYS = 400


def partners_together(table: RoutingTable) -> float:
    """The share of keys whose partner is in their slot."""
    same = [table.slot_of(FIRST, key) == table.slot_of(SECOND, KEYS + key) for key in range(KEYS)]
    return sum(same) / KEYS


@pytest.mark.parametrize("slots", [2, 3])
def test_tables(slots: int) -> None:
    """A table brings all partners together, the worst one none, hashing a slot's share; both fill slots alike."""
    table, worst, hashed = local_table(KEYS, slots), worst_table(KEYS, slots), hashed_table(slots)
    assert partners_together(table) == 1.0
    assert partners_together(worst) == 0.0
    assert abs(partners_together(hashed) - 1 / slots) < 0.1
    for made in (table, worst):
        for operator, start in ((FIRST, 0), (SECOND, KEYS)):
            slots_of = [made.slot_of(operator, key) for key in range(start, start + KEYS)]
            counts = [slots_of.count(slot) for slot in range(slots)]
            assert max(counts) - min(counts) <= 1


def test_the_flow_counts_both_keys() -> None:
    rows = [datagen.KeyPair(0, 2, b"a"), datagen.KeyPair(1, 2, b"b"), datagen.KeyPair(1, 3, b"c")]
    result = tw.run(make_flow(), {"pairs": rows})
    assert [tuple(row) for row in result.rows("counts")] == [(2, 1), (2, 2), (3, 1)]


def test_the_first_operator_may_make_the_padding() -> None:
    """It goes with every tuple to the second operator, where nobody looks at it: the counts are the same."""
    rows = [datagen.KeyPair(i % 3, 3 + i % 2, b"") for i in range(9)]
    plain = tw.run(make_flow(), {"pairs": rows}).rows("counts")
    assert tw.run(make_flow(100), {"pairs": rows}).rows("counts") == plain


def test_paddings_do_not_compress() -> None:
    """Those of a block of 64 kB, which is as far back as LZ4 looks, are all different; nothing in one repeats."""
    made = [padding_of(4_000, number) for number in range(16)]
    assert [len(one) for one in made] == [4_000] * 16
    assert len(zlib.compress(b"".join(made))) > 0.99 * 16 * 4_000
    assert padding_of(4_000, 3) == made[3]


def test_counting_never_moves_a_key() -> None:
    """Statistics that call for a table, and many batches: none is made."""
    table = hashed_table(2)
    pairs = tuple(PairCount((FIRST, key), (SECOND, KEYS + key), 100) for key in range(KEYS))
    loads = {}
    for name, start in ((FIRST, 0), (SECOND, KEYS)):
        keys = tuple(KeyCount(start + key, 0, 100) for key in range(KEYS))
        loads[name] = KeyLoads(name, 100 * KEYS, keys, (0,) * 128)
    statistics = Statistics((FIRST, SECOND), loads, pairs)
    assert Online(every=1)(statistics, table, History(batches=1_000)).assignment is not None
    decision = COUNTING(statistics, table, History(batches=1_000, promised=1.0))
    assert decision.assignment is None and decision.cause is None


def progress(remote: list[int], *, moved: int = 0) -> dict[str, object]:
    said = {
        "local_bytes": [7, 60, 1][: len(remote)], "remote_bytes": remote, "stay": 0.9, "keys_moved": moved,
    }  # fmt: skip
    return {"rows": 10, "batch_s": 0.5, "locality": said}


def test_only_the_hop_between_the_keys_counts() -> None:
    """Of three exchanges the first one spreads the input, the last one gathers; late numbers are none."""
    batch = Batch.of(progress([90, 40, 5], moved=3))
    assert batch == Batch(10, 0.5, 60, 40, 0.9, 3, before=90)
    assert Batch.of(progress([])) == Batch(10, 0.5, None, None, 0.9, 0, before=None)


def test_one_slot_exchanges_nothing() -> None:
    batch = Batch.of({"rows": 10, "batch_s": 0.5, "locality": {}})
    assert batch == Batch(10, 0.5, None, None, 1.0, 0, before=None)
    assert MeasuredRun((batch,), 0.0).remote_bytes == MeasuredRun((batch,), 0.0).before_bytes == 0


def test_figures_of_a_run() -> None:
    """Batches without Spark's numbers have rows but no bytes; the rate is that of the median batch."""
    batches = (
        Batch(100, 1.0, 60, 40, 0.9, 0, 300),
        Batch(100, 4.0, None, None, 0.9, 0, None),
        Batch(100, 2.0, 0, 100, 0.9, 0, 100),
    )
    run = MeasuredRun(batches, cpu_s=0.003)
    assert run.rows_per_s == 50
    assert run.best_per_s == 100
    assert run.remote_bytes == 140 / 200
    assert run.remote_share == 140 / 200
    assert run.before_bytes == 400 / 200
    assert run.cpu_us == pytest.approx(10)


def batch(wall_s: float, moved: int = 0) -> Batch:
    return Batch(100, wall_s, 0, 0, 0.5, moved, 0)


def test_means_behind_the_first_reconfiguration() -> None:
    """Of both runs the same batches count, the mean is of all their rows; without a reconfiguration all count."""
    setting = CaneillSetting(("hashed", "online"), 4_000, 24.0, batches=4)
    hashed = MeasuredRun(tuple(map(batch, (9.0, 9.0, 1.0, 3.0))), 0.0)
    online = MeasuredRun((batch(9.0), batch(9.0, moved=5), batch(1.0), batch(1.0, moved=1)), 0.0)
    found = {"hashed": [hashed], "online": [online]}
    plain, routed = caneill_cluster._means(setting, found)
    assert (plain["routing"], plain["rows/s"], plain["batches"]) == ("hashed", 50, 2)
    assert (routed["routing"], routed["rows/s"], routed["batches"]) == ("online", 100, 2)
    [alone] = caneill_cluster._means(setting, {"hashed": [hashed]})
    assert alone["batches"] == 4


def test_costs_are_compared_turn_by_turn(tmp_path: Path) -> None:
    """A machine that gets slower from turn to turn says nothing of the ways: what a turn's runs differ by counts."""

    def run(wall_s: float, cpu_s: float) -> MeasuredRun:
        return MeasuredRun((batch(wall_s),), cpu_s)

    found = {
        "hashed": [run(1.0, 1.0), run(2.0, 2.0), run(9.0, 9.0)],
        "counting": [run(1.5, 1.1), run(3.5, 2.2), run(9.0, 9.3)],
    }
    report = LabReport("caneill", tmp_path, Terminal(quiet=True))
    setting = CaneillSetting(("hashed", "counting"), 4_000, 24.0, batches=3, by_batch=True)
    size = caneill_cluster.QUICK
    text = caneill_cluster.CaneillCluster(report, size)._costs([setting], [found])
    assert text == "CPU time of counting by none: 4 kB 1.05x"
    report.finish(text)
    [rows] = json.loads((tmp_path / "caneill.json").read_text()).values()
    assert rows[1] == {
        "padding": "4 kB", "way": "counting", "turns": 3, "CPU µs a row": pytest.approx(42_000),
        "CPU to hashed": pytest.approx(1.05), "CPU ±": pytest.approx(0.1 / 3**0.5 / 4),
        "time to hashed": pytest.approx(1 + 2 / 12), "time ±": pytest.approx(0.7637626 / 3**0.5 / 4),
    }  # fmt: skip


def test_turns_that_others_disturb_are_left_out() -> None:
    plain = [1.0] * 20
    each = [*[1.1] * 18, 9.0, 0.2]
    assert caneill_cluster._ratio("CPU", each, plain) == {
        "CPU to hashed": pytest.approx(1.1), "CPU ±": pytest.approx(0.0),
    }  # fmt: skip


_TALK = """
import subprocess, sys
from thalweg_lab.network import network
server = "import socket, sys; s = socket.create_server((sys.argv[1], 5000)); print(flush=True);"
server += "s.accept()[0].sendall(b'x')"
client = "import socket, sys; print(socket.create_connection((sys.argv[1], 5000)).recv(1))"
with network(2) as made:
    made.limit(1.0)
    first, second = made.machines.enter
    for enter in made.machines.enter:
        print("rate 1Gbit" in subprocess.check_output([*enter, "tc", "qdisc", "show", "dev", "card"], text=True))
    made.limit(None)
    print("tbf" in subprocess.check_output(["tc", "qdisc", "show"], text=True))
    python = [sys.executable, "-c"]
    address = made.machines.workers[1]
    listening = subprocess.Popen([*second, *python, server, address], stdout=subprocess.PIPE)
    listening.stdout.readline()
    print(subprocess.check_output([*first, *python, client, address], text=True).strip())
    listening.wait()
"""


@pytest.mark.skipif(not network.is_possible(), reason="no network namespaces here")
def test_machines_of_a_network() -> None:
    """They reach each other by their cards, which have a limit exactly while there is to be one."""
    done = subprocess.run(
        network.own_network([sys.executable, "-c", _TALK]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True", "True", "False", "b'x'"]
