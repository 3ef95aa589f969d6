"""Planes and their connections, against a plain program over the same file."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import itertools

from thalweg import data
from thalweg.examples import flights, running


def by_hand() -> tuple[dict[str, list[tuple[int, str, str, str]]], int]:
    """Each plane's departures (time, flight, origin, destination) in order, and how many flights did not leave."""
    planes: dict[str, list[tuple[int, str, str, str]]] = {}
    left_out = 0
    with gzip.open(data.path("nyc_flights"), "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if "NA" in (row["dep_delay"], row["tailnum"]):
                left_out += 1
                continue
            time = dt.datetime.fromisoformat(row["time_hour"]).timestamp()
            time += 60 * (int(row["sched_dep_time"][-2:]) + int(row["dep_delay"]))
            number = row["carrier"] + row["flight"]
            planes.setdefault(row["tailnum"], []).append(
                (int(time), number, row["origin"], row["dest"])
            )
    return {plane: sorted(legs, key=lambda leg: leg[0]) for plane, legs in planes.items()}, left_out


def test_connections_and_breaks() -> None:
    """Every connection is there, in time order, with its time away; the tally ends at their numbers."""
    planes, left_out = by_hand()
    expected = set()
    breaks = 0
    for plane, legs in planes.items():
        for before, after in itertools.pairwise(legs):
            same = before[2] == after[2]
            breaks += not same
            away = (after[0] - before[0]) // 60
            expected.add((plane, before[1], before[3], after[1], after[2], after[0], away, same))
    outcome = flights.run(embedded=True)
    got = [
        (*row[:5], row[5] // 1_000_000, *row[6:])
        for row in (tuple(one.values()) for one in outcome.rows("connections"))
    ]
    assert len(got) == len(expected)
    assert set(got) == expected
    assert [row[5] for row in got] == sorted(row[5] for row in got)
    last = outcome.rows("totals")[-1]
    assert last == {"connections": len(expected) - breaks, "breaks": breaks}
    assert outcome.counts["departed"]["in"] - outcome.counts["departed"]["out"] == left_out
    assert outcome.count("late") == 0


def test_delays_change_the_order() -> None:
    """The file is in another order than the departures: without lateness thousands of rows are late."""
    flow = flights.make_flow(lateness="0 seconds")
    given = running.ExampleInput(str(data.path("nyc_flights")), "csv", flights.OPTIONS)
    outcome = running.run(flow, {"flights": given}, embedded=True)
    assert outcome.count("late") > 10_000
