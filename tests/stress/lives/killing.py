"""Runs a flow in processes that are killed at seeded moments, and compares what its targets have with a serial run."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
from tests.stress.lives import flows
from tests.stress.lives.child import Life, flow_of, table_of
from thalweg_lab.brokers import Broker

import thalweg as tw
from thalweg.checkpoint.inspect import describe

DEADLINE_S = 600.0
#: Of a driver's process, those that are to be killed.
Victims = Callable[[psutil.Process], list[psutil.Process]]


def jvm_of(driver: psutil.Process) -> list[psutil.Process]:
    """Spark's JVM."""
    return driver.children()[:1]


def workers_of(driver: psutil.Process) -> list[psutil.Process]:
    """The Python workers, which the daemon has forked that the JVM has started."""
    daemons = [one for jvm in driver.children() for one in jvm.children()]
    return [one for daemon in daemons for one in daemon.children()]


# -- inputs -----------------------------------------------------------------------------------------------


def make_topics(broker: Broker, topic: str) -> None:
    """The topics of the inputs; each lane is a partition."""
    broker.create(topic, flows.LANES)
    broker.create(f"{topic}-rates", 1)


def send_events(broker: Broker, topic: str, events: Sequence[flows.Event]) -> None:
    """Sends rows behind those that are there."""
    values = [b'{"n":%d,"user":"%s","at":%d}' % (e.n, e.user.encode(), e.at) for e in events]
    _send(broker, topic, [(e.lane, e.at, value) for e, value in zip(events, values, strict=True)])


def send_rates(broker: Broker, topic: str, rates: Sequence[flows.Rate]) -> None:
    """Sends rows behind those that are there."""
    values = [json.dumps(rate._asdict()).encode() for rate in rates]
    _send(
        broker, f"{topic}-rates", [(0, r.at, value) for r, value in zip(rates, values, strict=True)]
    )


def _send(broker: Broker, topic: str, messages: Sequence[tuple[int, int, bytes]]) -> None:
    """The last message of each partition goes by itself, see lab/thalweg_lab/brokers.py."""
    last = {lane: place for place, (lane, _, _) in enumerate(messages)}
    first = [one for place, one in enumerate(messages) if last[one[0]] != place]
    for part in (first, [messages[place] for place in sorted(last.values())]):
        for lane, at, value in part:
            broker.send(topic, value, lane, timestamp=at // 1_000)
        broker.flush()


def write_files(folder: Path, name: str, rows: Sequence[Any], files: int) -> None:
    """The rows in CSV files, whose times of change give the order."""
    place = folder / "in" / name
    place.mkdir(parents=True)
    share = -(-len(rows) // files)
    for number in range(files):
        path = place / f"{number}.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(rows[0]._fields)
            writer.writerows(rows[number * share : (number + 1) * share])
        os.utime(path, (number + 1, number + 1))


# -- processes --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def living(life: Life) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs the flow, in a session of its own; whatever is left of it at the end is killed."""
    command = [sys.executable, "-m", "tests.stress.lives.child", json.dumps(life._asdict())]
    root = Path(__file__).parents[3]
    path = os.pathsep.join(filter(None, [str(root), *sys.path]))
    with open(f"{life.folder}/said.txt", "ab") as said:
        process = subprocess.Popen(
            command, cwd=root, env={**os.environ, "PYTHONPATH": path},
            stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        _kill_tree(process)


def to_the_end(life: Life) -> None:
    """Runs until the process ends by itself; not at all where the input has ended in an earlier one."""
    if Path(life.folder, "ckpt").is_dir() and describe(f"{life.folder}/ckpt").finished:
        return
    with living(life) as process:
        assert process.wait(DEADLINE_S) == 0, said(life)


def killed(
    life: Life, draw: random.Random, *, commits: int = 3, later_s: float = 0.3,
    victims: Victims | None = None,
) -> bool:  # fmt: skip
    """Kills the process behind a commit to come; False where it ended before.

    Args:
        life: how it runs.
        draw: gives the moment.
        commits: at most so many batches it commits before.
        later_s: and at most so long after the last of them; it has begun its next batch then.
        victims: which of its processes are killed; then it must end by itself. None: all.
    """
    before, wanted = committed(life), draw.randint(1, commits)
    with living(life) as process:
        deadline = time.monotonic() + DEADLINE_S
        while process.poll() is None and committed(life) < before + wanted:
            assert time.monotonic() < deadline, said(life)
            time.sleep(0.002)
        time.sleep(draw.random() * later_s)
        if victims is not None and process.poll() is None:
            _bereave(life, process, victims)
        elif process.poll() is None:
            process.kill()
        code = process.wait()
    assert code in (0, -signal.SIGKILL) or victims is not None, said(life)
    return not said(life).endswith("ended\n")


def killed_often(life: Life, draw: random.Random, kills: int, **how: Any) -> int:
    """Kills processes that run with other numbers each; gives how many were at work."""
    done = 0
    while done < kills and killed(any_numbers(life, draw), draw, **how):
        done += 1
    return done


def any_numbers(life: Life, draw: random.Random) -> Life:
    """The same with other threads, slots and chunks."""
    return life._replace(
        threads=draw.choice((1, 2, None)), slots=draw.choice((1, 2, 3)),
        chunk_rows=draw.choice((300, 1_000, 4_096)),
    )  # fmt: skip


def _bereave(life: Life, process: subprocess.Popen[bytes], victims: Victims) -> None:
    """Kills some of its processes as soon as there are such; it must end by itself."""
    died = 0
    while not died and process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):  # some come and go while they are listed
            for one in victims(psutil.Process(process.pid)):
                one.kill()
                died += 1
        time.sleep(0.01)
    assert process.wait(DEADLINE_S) in (0, 1), said(life)


def committed(life: Life) -> int:
    """The newest batch that is committed; -1: none."""
    folder = Path(life.folder, "ckpt", "thalweg", "commits")
    names = os.listdir(folder) if folder.is_dir() else []
    numbers = [one.removesuffix(".json") for one in names]
    return max((int(one) for one in numbers if one.isdecimal()), default=-1)


def said(life: Life) -> str:
    """The last words of its processes."""
    path = Path(life.folder, "said.txt")
    return path.read_text(errors="replace")[-4_000:] if path.exists() else ""


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive, f"still there after kill -9: {alive}"


# -- what is there ----------------------------------------------------------------------------------------


def expected(life: Life, rows: Mapping[str, Sequence[Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """What a serial run of the rows gives, by sink."""
    result = tw.run(flow_of(life), dict(rows), threading="manual")
    names = flows.FILES + flows.DELTA + flows.POSTGRES if life.rich else ("late", "sessions")
    return {name: [tuple(row) for row in result.rows(name)] for name in names}


def compare(
    life: Life, wanted: Mapping[str, Sequence[tuple[Any, ...]]], server: Any = None
) -> None:
    """Each target has each row once, files and tables of Delta in order."""
    for name, rows in wanted.items():
        if name in flows.POSTGRES and life.dsn:
            found = sorted(server.query(f"select * from {table_of(life, name)}"))
            assert found == sorted(rows), name
            continue
        found = file_rows(life, name) if name in flows.FILES else delta_rows(life, name)
        assert len(found) == len(rows), (name, len(found), len(rows), said(life))
        assert found == list(rows), (
            name,
            next((a, b) for a, b in zip(found, rows, strict=True) if a != b),
        )


def file_rows(life: Life, sink: str) -> list[tuple[Any, ...]]:
    """The rows of the batches in their order."""
    folder = Path(life.folder, "out", f"{sink}.parquet")
    batches = sorted(folder.glob("batch=*"), key=lambda one: int(one.name.removeprefix("batch=")))
    return [row for one in batches for file in sorted(one.glob("*.parquet")) for row in _rows(file)]


def delta_rows(life: Life, sink: str) -> list[tuple[Any, ...]]:
    """The rows of the versions in their order."""
    folder = Path(life.folder, "out", sink)
    found = []
    for version in sorted((folder / "_delta_log").glob("*.json")):
        actions = map(json.loads, version.read_text().splitlines())
        added = [one["add"]["path"] for one in actions if "add" in one]
        assert len(added) <= 1, version
        found += [row for path in added for row in _rows(folder / path)]
    return found


def _rows(file: Path) -> list[tuple[Any, ...]]:
    table = pq.ParquetFile(file).read()
    columns = [
        (one.cast("int64") if str(one.type).startswith("timestamp") else one).to_pylist()
        for one in table.columns
    ]
    return list(zip(*columns, strict=True))
