"""Failed logins out of system logs."""

from __future__ import annotations

import collections
import datetime as dt
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import thalweg as tw
from thalweg.examples import running
from thalweg.examples.login_failures import Alert, Failure, Line, make_flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
CASE = HERE.parent / "cases" / "16_syslog_ssh"
LOGHUB = HERE.parents[1].parent / "shared" / "data" / "loghub"


def run(lines: list[str], year: int = 2023, **arguments: Any) -> dict[str, list[Any]]:
    flow = make_flow(year, **arguments)
    result = tw.run(flow, {"lines": [Line(line, i + 1) for i, line in enumerate(lines)]})
    return {name: result.rows(name) for name in running.sink_schemas(flow)}


def by_host(failures: list[Failure]) -> dict[str, int]:
    out: collections.Counter[str] = collections.Counter()
    for one in failures:
        out[one.host] += one.failures
    return dict(out)


def test_the_case() -> None:
    """New Year, Feb 29, repeated messages, IPv6, a user called "from", both forms."""
    expected = json.loads((CASE / "expected.json").read_text())
    path = CASE / "input" / "messages.log"
    flow = make_flow(expected["assumed_first_year"])
    given = running.ExampleInput(str(path), "text")
    outcome = running.run(flow, {"lines": given}, embedded=True)
    failures = [Failure(**one) for one in outcome.rows("failures")]
    assert by_host(failures) == expected["failed_by_host"]
    alerts = [
        {
            "host": one["host"],
            "count": one["failures"],
            "first": tw.times.text(one["first"]).removesuffix("Z"),
            "last": tw.times.text(one["last"]).removesuffix("Z"),
        }
        for one in outcome.rows("alerts")
    ]
    assert alerts == expected["alert_5_in_20s"]
    lines = range(1, len(path.read_text().splitlines()) + 1)
    read = {one.number for one in failures}
    assert [n for n in lines if n not in read] == expected["ignored_lines"]
    assert outcome.count("rejected") == outcome.count("late") == 0
    days = collections.Counter[str]()
    for one in outcome.rows("days"):
        days[one["host"]] += one["failures"]
    assert dict(days) == expected["failed_by_host"]
    assert tw.times.text(failures[-1].ts) == "2024-02-29T10:00:00Z"


@pytest.mark.spark
def test_the_case_on_spark(spark: SparkSession) -> None:
    """State with lists and rows that are dated on the way go through Spark's workers as through this process."""
    given = running.ExampleInput(str(CASE / "input" / "messages.log"), "text")
    outcomes = [
        running.run(make_flow(2023), {"lines": given}, embedded=embedded, slots=2)
        for embedded in (True, False)
    ]
    for sink in ("failures", "alerts", "days"):
        assert outcomes[0].rows(sink) == outcomes[1].rows(sink)


def failed(second: int, host: str = "192.0.2.1", user: str = "root") -> str:
    time = dt.datetime(2023, 5, 1) + dt.timedelta(seconds=second)
    return f"May  1 {time:%H:%M:%S} h sshd[1]: Failed password for {user} from {host} port 1 ssh2"


def test_one_alert_a_burst() -> None:
    """A burst that goes on is one alert; after a pause in which the window empties, the next is another."""
    lines = [failed(second) for second in (0, 1, 2, 3, 4, 5, 20, 100, 101, 102, 103, 104)]
    first, second = run(lines)["alerts"]
    start = tw.timestamp("2023-05-01")
    assert first == Alert("192.0.2.1", 5, start, start + tw.seconds(4))
    assert second.last - start == tw.seconds(104)


def test_the_window_slides() -> None:
    """Five failures count when the first is 20 seconds before the last, not when it is 21 seconds before."""
    assert run([failed(s) for s in (0, 5, 10, 15, 20)])["alerts"]
    assert not run([failed(s) for s in (0, 5, 10, 15, 21)])["alerts"]
    assert not run([failed(s, f"192.0.2.{s}") for s in range(10)])["alerts"]


def test_a_user_who_writes_a_line_into_the_name() -> None:
    """Only the last "from" is sshd's own."""
    [failure] = run([failed(0, "2001:db8::1", "x from 192.0.2.9 port 22")])["failures"]
    assert (failure.host, failure.user) == ("2001:db8::1", "x from 192.0.2.9 port 22")


def test_bad_lines_are_named() -> None:
    """A line without a date and a day that there is not are rejected, each with its reason."""
    lines = ["no date at all", failed(0).replace("May  1", "Feb 29"), failed(0)]
    out = run(lines, year=2023)
    assert [one.operator for one in out["rejected"]] == ["sshd/parse", "sshd/dated"]
    assert "does not begin with a date" in out["rejected"][0].reason
    assert len(out["failures"]) == 1


def test_loghub() -> None:
    """Two real logs, counted by a plain program that reads a line at a time."""
    if not LOGHUB.is_dir():
        pytest.skip("needs the Loghub files in ../shared/data/loghub, which are for research only")
    for name in ("OpenSSH_2k.log", "Linux_2k.log"):
        lines = (LOGHUB / name).read_text().splitlines()
        hosts: collections.Counter[str] = collections.Counter()
        for line in lines:
            text = line.split(": ", 1)[1]
            times = re.match(r"message repeated (\d+) times: \[ ", text)
            password = re.search(r"Failed password for .* from (\S+) port", text)
            if password:
                hosts[password[1]] += int(times[1]) if times else 1
            elif "sshd(pam_unix)" in line and text.startswith("authentication failure"):
                host = re.search(r"rhost=(\S+)", text)
                hosts[host[1] if host else ""] += 1
        out = run(lines, year=2015)
        assert by_host(out["failures"]) == dict(hosts)
        assert sum(hosts.values()) > 350
        assert not out["rejected"]
        assert {one.host for one in out["alerts"]} <= hosts.keys()
