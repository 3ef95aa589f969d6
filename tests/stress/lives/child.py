"""A run that the tests kill: ``python -m tests.stress.lives.child LIFE``, where LIFE is JSON of :class:`Life`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.stress.lives import flows

import thalweg as tw
from thalweg.embedded.durable import reading


class Life(NamedTuple):
    """How one process runs the flow.

    Attributes:
        folder: of checkpoint, targets and, without a broker, inputs.
        servers: the broker; empty: files.
        topic: of the events; that of the rates has ``-rates`` behind it.
        rich: which of the flows.
        dsn: of PostgreSQL; empty: its rows go to Delta, too.
        host: ``process`` or ``spark``.
        threads: of the engine; None: as many as pay.
        slots: on Spark.
        end: ``keep`` or ``drain``.
        max_rows: of a batch on Spark, and of a round in a process, about.
        every: between commits in a process.
        chunk_rows: that move at once.
    """

    folder: str
    servers: str = ""
    topic: str = "events"
    rich: bool = False
    dsn: str = ""
    host: str = "process"
    threads: int | None = 1
    slots: int = 1
    end: str = "drain"
    max_rows: int = 25_000
    every: str = "1 ms"
    chunk_rows: int = 4_096


def flow_of(life: Life) -> tw.Flow:
    return flows.rich_flow() if life.rich else flows.sessions_flow()


def inputs(life: Life) -> dict[str, Any]:
    names = ("events", "rates") if life.rich else ("events",)
    if not life.servers:
        files = {name: f"{life.folder}/in/{name}" for name in names}
        a_batch = 1 if life.host == "spark" else None
        return {
            name: tw.files(path, "csv", epoch_unit="us", max_files_per_trigger=a_batch)
            for name, path in files.items()
        }
    ends = life.host == "process"  # on Spark the trigger says so
    how: dict[str, Any] = {"follow": not ends, "epoch_unit": "us", "max_rows": life.max_rows}
    logs = {"events": tw.kafka(life.servers, life.topic, partition="lane", **how)}
    if life.rich:
        logs["rates"] = tw.kafka(life.servers, f"{life.topic}-rates", **how)
    return logs


def outputs(life: Life) -> dict[str, Any]:
    found: dict[str, Any] = {"late": tw.to_files(f"{life.folder}/out/late.parquet")}
    found["sessions"] = tw.to_delta(f"{life.folder}/out/sessions")
    if not life.rich:
        return found
    for name in flows.FILES:
        found[name] = tw.to_files(f"{life.folder}/out/{name}.parquet")
    for name in flows.DELTA if life.dsn else (*flows.DELTA, *flows.POSTGRES):
        found[name] = tw.to_delta(f"{life.folder}/out/{name}")
    if life.dsn:
        found |= {name: tw.to_postgres(life.dsn, table_of(life, name)) for name in flows.POSTGRES}
    return found


def table_of(life: Life, sink: str) -> str:
    """The table of PostgreSQL that has a sink's rows."""
    return f"{sink}_{Path(life.folder).name}".replace("-", "_").lower()


def run(life: Life) -> None:
    """Runs the flow over what there is."""
    checkpoint = f"{life.folder}/ckpt"
    if life.host == "process":
        reading.ROUND_ROWS = life.max_rows  # type: ignore[misc]  # so that few rows make many batches
        tw.run(
            flow_of(life), inputs(life), outputs(life), checkpoint=checkpoint, every=life.every,
            threads=life.threads, chunk_rows=life.chunk_rows, end="keep" if life.end == "keep" else "drain",
        )  # fmt: skip
        return
    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    tw.spark.session("local[2]", threads_per_slot=life.threads or 1, conf=conf)
    query = tw.spark.start(
        flow_of(life), inputs(life), outputs(life), checkpoint=checkpoint, slots=life.slots,
        end="keep" if life.end == "keep" else "drain", trigger="available_now",
    )  # fmt: skip
    query.await_termination()


if __name__ == "__main__":
    given = Life(**json.loads(sys.argv[1]))
    print("begins", flush=True)
    run(given)
    print("ended", flush=True)
