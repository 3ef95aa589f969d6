"""Departures by flight number and by destination: embedded, and counted once more without Thalweg."""

from __future__ import annotations

import collections
import csv
import gzip
from pathlib import Path

from thalweg import data
from thalweg.examples import destinations


def test_counts() -> None:
    """Each departure is the next one of its destination, which knows how many flight numbers have gone there first."""
    with gzip.open(data.path("nyc_flights"), "rt") as file:
        flights = [
            (row["carrier"], int(row["flight"]), row["dest"]) for row in csv.DictReader(file)
        ]
    departures: collections.Counter[str] = collections.Counter()
    numbers: collections.Counter[str] = collections.Counter()
    seen: set[tuple[str, int]] = set()
    wanted = []
    for carrier, flight, dest in flights:
        departures[dest] += 1
        numbers[dest] += (carrier, flight) not in seen
        seen.add((carrier, flight))
        wanted.append((dest, carrier, flight, departures[dest], numbers[dest]))
    rows = destinations.run(embedded=True).rows("arrivals")
    assert [tuple(row.values()) for row in rows] == wanted


def test_parts(tmp_path: Path) -> None:
    """The parts are the file, cut, each with the header."""
    destinations.write_parts(tmp_path, 7)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 7
    with gzip.open(data.path("nyc_flights"), "rt") as file:
        header, *lines = file.readlines()
    parts = [one.read_text().splitlines(keepends=True) for one in files]
    assert {part[0] for part in parts} == {header}
    assert [line for part in parts for line in part[1:]] == lines
