"""The figures on a cluster without one: its flow and tables, what it takes from a batch's progress, its network."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib

import pytest
from thalweg_lab import caneill_cluster, network
from thalweg_lab.figures.caneill import figure10, figure13
from thalweg_lab.figures.caneill.flow import (
    COUNTING,
    FIRST,
    SECOND,
    flight_pairs,
    hashed_table,
    local_table,
    make_flow,
    padding_of,
    worst_table,
)
from thalweg_lab.figures.caneill.measured import Batch, MeasuredRun, found_of

import thalweg as tw
from thalweg import datagen
from thalweg.locality import KeyCount, KeyLoads, Online, PairCount, RoutingTable, Statistics
from thalweg.locality.triggers import History

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
    assert MeasuredRun((batch,)).remote_bytes == MeasuredRun((batch,)).before_bytes == 0


def test_figures_of_a_run() -> None:
    """Batches without Spark's numbers have rows but no bytes; the rate is that of the median batch."""
    batches = (
        Batch(100, 1.0, 60, 40, 0.9, 0, 300, 0.001),
        Batch(100, 4.0, None, None, 0.9, 0, None, 0.001),
        Batch(100, 2.0, 0, 100, 0.9, 0, 100, 0.001),
    )
    run = MeasuredRun(batches)
    assert found_of(json.loads(json.dumps({"hashed": run}))) == {"hashed": run}
    assert run.rows_per_s == 50
    assert run.best_per_s == 100
    assert run.remote_bytes == 140 / 200
    assert run.before_bytes == 400 / 200
    assert run.cpu_us == pytest.approx(10)


def batch(wall_s: float, cpu_s: float = 0.0, *, moved: int = 0, stay: float = 0.5) -> Batch:
    return Batch(100, wall_s, 0, 0, stay, moved, 0, cpu_s)


def test_gain_behind_the_first_table() -> None:
    """Of both runs the same batches count, those that a table routed; where none came there is no gain."""
    hashed = MeasuredRun(tuple(map(batch, (9.0, 9.0, 2.0, 3.0))))
    learnt = (batch(9.0), batch(9.0, moved=5), batch(1.0, stay=0.9), batch(1.0, stay=0.9, moved=1))
    found = {"hashed": hashed, "online": MeasuredRun(learnt)}
    assert figure13.first_table(found["online"]) == 2
    assert figure13.gain_of(found) == pytest.approx(2.5)
    assert figure13.gain_of({"hashed": hashed, "online": hashed}) == 0.0


def test_costs_are_compared_turn_by_turn() -> None:
    """A machine that gets slower from turn to turn says nothing of the ways: what a turn's batches differ by counts."""
    hashed = MeasuredRun((batch(1.0, 1.0), batch(2.0, 2.0), batch(9.0, 9.0)))
    counting = MeasuredRun((batch(1.5, 1.1), batch(3.5, 2.2), batch(9.0, 9.3)))
    rows = caneill_cluster.costs_of("4 kB", {"hashed": hashed, "counting": counting})
    assert rows[1] == {
        "padding": "4 kB", "way": "counting", "turns": 3, "CPU µs a row": pytest.approx(42_000),
        "CPU to hashed": pytest.approx(1.05), "CPU ±": pytest.approx(0.1 / 3**0.5 / 4),
        "time to hashed": pytest.approx(1 + 2 / 12), "time ±": pytest.approx(0.7637626 / 3**0.5 / 4),
    }  # fmt: skip


def test_turns_that_others_disturb_are_left_out() -> None:
    plain = [1.0] * 20
    each = [*[1.1] * 18, 9.0, 0.2]
    assert caneill_cluster.ratio("CPU", each, plain) == {
        "CPU to hashed": pytest.approx(1.1), "CPU ±": pytest.approx(0.0),
    }  # fmt: skip


def test_flights_as_pairs() -> None:
    """Each flight once before any twice, in an order by chance that is always the same; numbers and places differ."""
    made = flight_pairs(1_000)
    assert made.equals(flight_pairs(1_000)) and not made.equals(flight_pairs(1_000, seed=1))
    assert set(made["first"].to_pylist()).isdisjoint(made["second"].to_pylist())


def test_who_leads_in_another_week() -> None:
    """The key whose third leader has the most; a partner leads in the week in which it comes most, one a week."""
    weekly = {
        ("a", "x"): [9, 0, 0], ("a", "y"): [0, 8, 0], ("a", "z"): [0, 0, 2], ("a", "w"): [8, 0, 0],
        ("b", "x"): [0, 5, 0], ("b", "y"): [4, 0, 0], ("b", "z"): [0, 1, 3],
    }  # fmt: skip
    assert figure10.most_volatile(weekly) == (
        "b",
        [("x", [0, 5, 0]), ("y", [4, 0, 0]), ("z", [0, 1, 3])],
    )
    assert figure10.most_volatile({("a", "x"): [1, 2]}) == ("", [])
    assert figure10.known_before({("a", "x"): [1, 3, 0, 2]}, 1) == 3 / 5
    assert figure10.known_before({("a", "x"): [1, 3, 0, 2]}, 2) == 1.0


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
    made.limit([0.05, None])
    show = ["tc", "qdisc", "show", "dev", "card"]
    shown = [subprocess.check_output([*enter, *show], text=True) for enter in made.machines.enter]
    print("rate 50Mbit" in shown[0], "tbf" in shown[1])
    made.cut(1, down=True)
    print("state DOWN" in subprocess.check_output(["ip", "link", "show", "port1"], text=True))
    made.cut(1, down=False)
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
    assert done.stdout.splitlines() == ["True", "True", "True False", "True", "False", "b'x'"]
