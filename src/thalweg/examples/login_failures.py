"""Failed logins by remote host in a system log, and an alert when one host fails often within a short time.

This is the example of the IBM Streams paper (Schneider and Wu, Figure 1) as a composite: give it any stream of
lines. It reads both forms that sshd writes (``Failed password for …`` and, of older systems, ``sshd(pam_unix) …
authentication failure``), and ``message repeated 3 times: [ … ]`` counts three. System logs have no year: the first
year is told, and it goes up when the date falls back by more than half a year.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import typer

import thalweg as tw
from thalweg.examples import running


class Line(NamedTuple):
    """A line of the log with its number in the file."""

    line: str
    number: int


class Entry(NamedTuple):
    """What a line says: when, without the year, and how many logins failed (0 for other lines)."""

    number: int
    month: int
    day: int
    second: int
    failures: int
    user: str
    host: str


class Failure(NamedTuple):
    """A line that tells of failed logins from a remote host."""

    ts: tw.Timestamp
    number: int
    host: str
    user: str
    failures: int


class Alert(NamedTuple):
    """A host with so many failures in a short time."""

    host: str
    failures: int
    first: tw.Timestamp
    last: tw.Timestamp


class Found(NamedTuple):
    """The streams that :func:`login_failures` gives."""

    failures: tw.Stream[Failure]
    alerts: tw.Stream[Alert]
    rejected: tw.Stream[tw.Rejected]


_MONTHS: Final = pa.array(
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
)
_HEAD: Final = r"^(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2}) \S+ (?P<rest>.*)$"
#: The last "from" counts: a user may be called "from", or put an address into the name.
_PASSWORD: Final = (
    r"^sshd\[\d+\]: (?:message repeated (?P<times>\d+) times: \[ )?"
    r"Failed password for (?:invalid user )?(?P<user>.*) from (?P<host>\S+) port \d+(?: ssh2)?\]?$"
)
_PAM: Final = r"^sshd\(pam_unix\)\[\d+\]: authentication failure;.* rhost=(?P<host>\S+)(?: +user=(?P<user>\S*))?"


def parse(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Lines to entries, with Arrow's kernels only.

    Raises:
        ValueError: a line does not begin with a date and a time.
    """
    head = pc.extract_regex(batch.column("line"), _HEAD)
    month = pc.add(pc.index_in(pc.struct_field(head, "month"), value_set=_MONTHS), 1)
    if month.null_count:
        raise ValueError("the line does not begin with a date such as 'Dec 31 23:59:50 host'")
    h, m, s = (pc.cast(pc.struct_field(head, part), pa.int64()) for part in ("h", "m", "s"))
    rest = pc.struct_field(head, "rest")
    password, pam = pc.extract_regex(rest, _PASSWORD), pc.extract_regex(rest, _PAM)
    times = pc.replace_substring_regex(pc.struct_field(password, "times"), "^$", "1")
    failures = pc.coalesce(
        pc.cast(times, pa.int64()), pc.cast(pc.is_valid(pam), pa.int64())
    )  # a pam line counts one, any other none
    columns = {
        "number": batch.column("number"),
        "month": pc.cast(month, pa.int64()),
        "day": pc.cast(pc.struct_field(head, "day"), pa.int64()),
        "second": pc.add(pc.multiply(pc.add(pc.multiply(h, 60), m), 60), s),
        "failures": failures,
        "user": _either(password, pam, "user"),
        "host": _either(password, pam, "host"),
    }
    return pa.RecordBatch.from_pydict(columns)


def _either(first: pa.Array, second: pa.Array, name: str) -> pa.Array:
    return pc.coalesce(pc.struct_field(first, name), pc.struct_field(second, name), "")


@tw.state
class Calendar:
    """The year that the log has come to, and the last day seen, as month × 31 + day."""

    year: int = 0
    last: int = 0


def dated(year: int) -> Callable[[Calendar, Entry], Failure | None]:
    """A function that gives each entry its year, beginning with ``year``, and drops lines without a failure."""

    def date(calendar: Calendar, entry: Entry) -> Failure | None:
        day = entry.month * 31 + entry.day
        if calendar.year == 0:
            calendar.year = year
        elif calendar.last - day > 6 * 31:
            calendar.year += 1
        calendar.last = day
        if entry.failures == 0:
            return None
        midnight = dt.datetime(calendar.year, entry.month, entry.day)
        time = tw.timestamp(midnight) + tw.seconds(entry.second)
        return Failure(time, entry.number, entry.host, entry.user, entry.failures)

    return date


@tw.state
class Recent:
    """A host's failures within the window, and whether its burst has been reported."""

    timer: tw.Timer
    times: list[int] = []  # noqa: RUF012 - tw.state copies it for each key
    counts: list[int] = []  # noqa: RUF012
    alerted: bool = False


def watch(threshold: int, within: int) -> Callable[[Recent, Failure], Alert | None]:
    """A function that alerts once a burst: when the failures of the last ``within`` reach the threshold."""

    def burst(recent: Recent, failure: Failure) -> Alert | None:
        while recent.times and recent.times[0] < failure.ts - within:
            del recent.times[0], recent.counts[0]
        if sum(recent.counts) < threshold:
            recent.alerted = False
        recent.times.append(failure.ts)
        recent.counts.append(failure.failures)
        recent.timer = failure.ts + within
        count = sum(recent.counts)
        if count < threshold or recent.alerted:
            return None
        recent.alerted = True
        return Alert(failure.host, count, recent.times[0], failure.ts)

    return burst


def forget(recent: Recent, host: str, time: tw.Timestamp) -> None:
    """Nothing of the host lies in the window any more."""


def login_failures(
    lines: tw.Stream[Line],
    *,
    year: int,
    threshold: int = 5,
    within: str = "20 seconds",
    lateness: str = "10 seconds",
) -> Found:
    """Failures by remote host and alerts, from lines of a system log in the order of the file.

    Args:
        lines: the log, line by line.
        year: the year of the first line.
        threshold: how many failures make an alert.
        within: the length of the window; a failure exactly so long ago still counts.
        lateness: how far the log's times may fall back.
    """
    entries = lines.map_batches(parse, into=Entry, errors="reject")
    marked = entries.process(dated(year), state=Calendar, name="dated", errors="reject")
    failures = marked.order_by("ts", lateness=lateness, name="in_time")
    alerts = failures.key_by("host").process(
        watch(threshold, tw.duration(within)), state=Recent, on_timer=forget, name="bursts"
    )
    rejected = entries.rejected.union(marked.rejected, name="bad_lines")
    return Found(failures, alerts, rejected)


def make_flow(year: int, **arguments: Any) -> tw.Flow:
    """A log to alerts, failures by host and day, and the lines that make no sense."""
    flow = tw.Flow("login_failures")
    lines = flow.source("lines", Line)
    found = lines.apply(login_failures, name="sshd", year=year, **arguments)
    found.alerts.sink("alerts")
    found.failures.sink("failures")
    days = found.failures.key_by("host").window(
        "1 day", name="by_day", failures=tw.agg.sum("failures")
    )
    days.sink("days")
    found.rejected.sink("rejected")
    return flow


#: For ``thalweg run``; give another first year with ``make_flow(year)`` in a file of your own.
flow = make_flow(dt.date.today().year)


def main(
    log: Annotated[Path, typer.Argument(exists=True, help="A system log, say /var/log/auth.log.")],
    year: Annotated[
        int | None, typer.Option(help="The year of the first line; the file's, without it.")
    ] = None,
    threshold: Annotated[int, typer.Option(min=1, help="Failures that make an alert.")] = 5,
    within: Annotated[str, typer.Option(help="The length of the window.")] = "20 seconds",
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
) -> None:
    """Find bursts of failed logins in a system log."""
    first = year or dt.datetime.fromtimestamp(log.stat().st_mtime).year
    made = make_flow(first, threshold=threshold, within=within)
    given = running.ExampleInput(str(log), "text")
    outcome = running.run(made, {"lines": given}, slots=slots, embedded=embedded)
    running.show(outcome, "days")
    running.show(outcome, "alerts")


if __name__ == "__main__":
    running.command(main)
