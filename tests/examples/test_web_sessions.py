"""The sessions of the bundled access log."""

from __future__ import annotations

import datetime as dt
import gzip
import re
from typing import TYPE_CHECKING

import pytest

from thalweg import data
from thalweg.examples import running, web_sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def by_hand() -> list[tuple[str, int, int, int]]:
    """The sessions as a plain program finds them: sort, then cut at gaps of more than 30 minutes."""
    rows = []
    with gzip.open(data.path("web_log"), "rt", encoding="utf-8") as lines:
        for line in lines:
            found = re.match(r'(\S+) .*?\[(.*?)\] ".*?" \d+ (\S+) ".*?" ".*"$', line)
            if found:
                time = dt.datetime.strptime(found[2], "%d/%b/%Y:%H:%M:%S %z")
                rows.append((found[1], int(time.timestamp()), found[3]))
    sessions: list[tuple[str, int, int, int]] = []
    last: tuple[str, int] | None = None
    for client, time, _ in sorted(rows, key=lambda row: row[:2]):
        if last is not None and last[0] == client and time - last[1] <= 1800:
            _, start, _, count = sessions[-1]
            sessions[-1] = (client, start, time, count + 1)
        else:
            sessions.append((client, time, time, 1))
        last = (client, time)
    return sessions


def shown(outcome: running.ExampleOutcome) -> list[tuple[str, int, int, int]]:
    return [
        (one["client"], one["start"] // 1_000_000, one["end"] // 1_000_000, one["requests"])
        for one in outcome.rows("sessions")
    ]


def check(outcome: running.ExampleOutcome) -> None:
    """3,052 sessions of 1,753 clients, one rejected line, nothing late, in the order in which sessions end."""
    sessions = shown(outcome)
    assert len(sessions) == 3052
    assert len({one[0] for one in sessions}) == 1753
    assert outcome.count("rejected") == 1
    assert outcome.count("late") == 0
    assert outcome.rows_in == 10_000
    assert sorted(sessions) == sorted(by_hand())
    assert sessions == sorted(sessions, key=lambda one: (one[2], one[0].encode()))
    [bad] = outcome.rows("rejected")
    assert bad["operator"] == "parse"
    assert "not a line of an access log" in bad["reason"]
    assert "10.0.4.44" in bad["row"]


def test_embedded() -> None:
    """The sessions are those that a plain program finds."""
    check(web_sessions.run(embedded=True))


def test_late_rows_are_counted() -> None:
    """With 10 seconds of lateness 7,812 rows are late: the serial definition, counted by a plain program, too."""
    with gzip.open(data.path("web_log"), "rt", encoding="utf-8") as lines:
        found = [re.match(r'\S+ .*?\[(.*?)\] ".*?" \d+ \S+ ".*?" ".*"$', line) for line in lines]
    times = [
        dt.datetime.strptime(one[1], "%d/%b/%Y:%H:%M:%S %z").timestamp() for one in found if one
    ]
    late, greatest = 0, 0.0
    for time in times:
        late += time < greatest - 10
        greatest = max(greatest, time)
    outcome = web_sessions.run(embedded=True, lateness="10 seconds")
    assert outcome.count("late") == late == 7812


@pytest.mark.spark
@pytest.mark.parametrize("slots", [1, 2])
def test_on_spark(spark: SparkSession, slots: int) -> None:
    """The same on Spark, from one slot and from two."""
    check(web_sessions.run(slots=slots))
