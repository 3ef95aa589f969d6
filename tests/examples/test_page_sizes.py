"""The sizes of answers in the bundled access log."""

from __future__ import annotations

import collections
import gzip
import statistics

import pytest

from thalweg import data
from thalweg.examples import page_sizes
from thalweg.examples.web_sessions import Line, Request, parse


def requests() -> list[Request]:
    """The requests of the log that can be read, in order of time."""
    found = []
    with gzip.open(data.path("web_log"), "rt", encoding="utf-8") as lines:
        for line in lines:
            try:
                found.append(parse(Line(line.rstrip("\n"))))
            except ValueError:
                continue
    return sorted(found, key=lambda row: row.ts)


def test_sizes_are_those_of_a_plain_program() -> None:
    """By hour and status, of each client's last five requests, and of all."""
    outcome, rows = page_sizes.run(embedded=True), requests()
    groups = collections.defaultdict(list)
    last: dict[str, list[Request]] = collections.defaultdict(list)
    failing = []
    for row in rows:
        groups[row.ts // 3_600_000_000 * 3_600_000_000, row.status].append(row)
        mine = last[row.client] = [*last[row.client], row][-5:]
        number = sum(map(page_sizes.failed, mine))
        if number > 2:
            failing.append((row.client, number, max(one.size for one in mine)))
    found = outcome.rows("by_hour")
    assert len(found) == len(groups)
    for one in found:
        its = groups[one["start"], one["status"]]
        sizes = [row.size for row in its]
        assert one["requests"] == len(its)
        assert one["clients"] == len({row.client for row in its})
        assert one["largest"] == max(its, key=lambda row: row.size).client
        assert one["width"] == max(sizes) - min(sizes)
        spread = statistics.stdev(sizes) if len(sizes) > 1 else None
        assert one["spread"] == (None if spread is None else pytest.approx(spread))
    given = [(one["client"], one["failed"], one["most"]) for one in outcome.rows("failing")]
    assert given == failing
    [total] = outcome.rows("totals")
    bad = sum(map(page_sizes.failed, rows))
    assert total == {"requests": len(rows), "failed": bad, "sent": sum(row.size for row in rows)}
