"""A Spark session with the settings that Thalweg's promises rest on, and a terminal that stays clean.

Each setting that matters stands in one table below with its reason; any of them can be overridden by name.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from thalweg.checks import (
    require_flag,
    require_mapping,
    require_optional_text,
    require_rows,
    require_text,
)
from thalweg.engine.machine import usable_processors
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.spark.cluster.class_archive import archive_options
from thalweg.spark.cluster.java import prepare_java
from thalweg.spark.deaths import NOTES, jvm_is_gone
from thalweg.spark.patience import told_if_slow

_LOCAL = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*\d+\s*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*(\d+)\s*,\s*\d+\s*\]")

#: The same for every master.
_ALWAYS: Final = {
    # Instants, never wall-clock times of some zone.
    "spark.sql.session.timeZone": "UTC",
    # Adaptive execution would merge the partitions that are our slots.
    "spark.sql.adaptive.enabled": "false",
    # Queries of one session, each in its own pool, share the cores instead of queueing behind each other.
    "spark.scheduler.mode": "FAIR",
    # Rows cross to Python in batches: smaller ones cost twice as much a row, larger ones gain nothing.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Wide rows, and the blobs of other stages, cross in buffers that both sides use again: 64 MB, Spark's default, are
    # fresh memory each time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
    # Arrow's allocator in Python workers keeps what it has freed for some seconds, for the next batch: fresh pages cost
    # more than the copies into them.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "10000",
    # Hot state and compiled functions live in the worker process between batches.
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # No metastore_db in the working directory.
    "spark.sql.catalogImplementation": "in-memory",
}
_FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_DAEMON_MODULE: Final = "spark.python.daemon.module"
_DAEMON: Final = "thalweg_worker_daemon"
_WORKER_PATH: Final = "spark.executorEnv.PYTHONPATH"


#: No second compiler, which is most of a young JVM's CPU time, and the collector without helper threads.
LIGHT_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(
    master: str | None = None,
    *,
    app_name: str = "thalweg",
    threads_per_slot: int | None = None,
    light_jvm: bool = False,
    conf: Mapping[str, Any] | None = None,
    **settings: Any,
) -> SparkSession:
    """Returns this process's Spark session, or starts one with Thalweg's settings.

    Args:
        master: Spark's master; by default this machine with all its cores (under spark-submit, what was submitted to).
        app_name: the name that Spark shows.
        threads_per_slot: cores that one task takes (``spark.task.cpus``). By default all cores of a local master or of
            an executor whose cores are known: then one slot at a time runs there, in one warm worker process.
        light_jvm: for a JVM that only plans and moves blocks, as with ``tw.spark.files``: a local master's JVM
            compiles quickly rather than hard and collects garbage in one thread, which halves its CPU time. Leave it
            off where DataFrames of your own do heavy work in the JVM.
        conf: Spark settings by name; they win over Thalweg's.
        **settings: the same, for names written without dots: ``spark_ui_enabled=True`` sets
            ``spark.ui.enabled``.

    Raises:
        JavaNotFound: Spark cannot start for want of Java.
        BuildError: an argument makes no sense, or there is no such.
    """
    require_optional_text("session", master=master)
    require_text("session", app_name=app_name)
    require_flag("session", light_jvm=light_jvm)
    if threads_per_slot is not None:
        require_rows("session", threads_per_slot=threads_per_slot)
    if conf is not None:
        require_mapping("session", "Spark settings by name", conf=conf)
    for name in settings:
        if not name.startswith("spark_"):
            raise BuildError(
                f"session: there is no argument {name!r}; Spark's settings begin with spark_, for example"
                " spark_ui_enabled=True, or are given in conf={'spark.ui.enabled': True}"
            )
    asked = _as_text({**_dotted(settings), **(conf or {})})
    running = SparkSession.getActiveSession()
    refuse_connect(running)
    if running is not None:
        return _checked(running, _explicit(master, threads_per_slot, asked))
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit started the JVM before us
    if master is None and not submitted:
        master = asked.get("spark.master", "local[*]")
    _set_python(master)
    java = None if submitted else prepare_java()
    settings = _all_settings(master, threads_per_slot, asked)
    if java is not None and master is not None and master.startswith("local"):
        ours = [LIGHT_JVM if light_jvm else "", archive_options(str(java), settings[_JAVA_OPTIONS])]
        settings[_JAVA_OPTIONS] = " ".join([*filter(None, ours), settings[_JAVA_OPTIONS]]).strip()
    with told_if_slow(f"starting Spark on {master or 'the cluster'}"):
        return _start(app_name, settings)


def refuse_connect(running: Any) -> None:
    """Refuses a session of Spark Connect, whose driver is another process that runs none of our code.

    Raises:
        EnvironmentProblem: saying where a query can be started.
    """
    is_connect = type(running).__module__.startswith("pyspark.sql.connect")
    if is_connect or (running is None and os.environ.get("SPARK_REMOTE")):
        raise EnvironmentProblem(
            "this is a session of Spark Connect: it sends plans to a driver elsewhere, and a query of Thalweg plans and"
            " commits each of its batches in the driver itself.\n"
            "  Start the program where the driver is: spark-submit to the same cluster, or a job of the platform's"
            " (docs/clusters.md), without SPARK_REMOTE. tw.run needs no Spark at all."
        )


def _start(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _all_settings(
    master: str | None, threads_per_slot: int | None, asked: Mapping[str, str]
) -> dict[str, str]:
    """Thalweg's settings for `master`, under those that were asked for."""
    settings = dict(_ALWAYS)
    if master is not None:
        settings["spark.master"] = _with_number(master)
    if master is not None and master.startswith("local"):
        settings |= _local_settings()
    cores = threads_per_slot or _cores(master, asked)
    if cores is not None:
        settings["spark.task.cpus"] = str(cores)
    settings |= {name: value for name, value in asked.items() if name != "spark.master"}
    settings[_JAVA_OPTIONS] = _java_options(asked.get(_JAVA_OPTIONS, ""))
    if settings.get(_DAEMON_MODULE) == _DAEMON:
        # By its own name, see there; in front of what workers find otherwise.
        found = [settings.get(_WORKER_PATH), str(Path(__file__).with_name("worker_daemon"))]
        settings[_WORKER_PATH] = os.pathsep.join(filter(None, found))
    return {name: value for name, value in settings.items() if value}


def _local_settings() -> dict[str, str]:
    """Nothing of this session is seen outside this machine, or left in the working directory."""
    folder = tempfile.mkdtemp(prefix="thalweg-spark-")
    atexit.register(_clean_up, folder)
    deaths = Path(folder) / "deaths"
    deaths.mkdir()
    return {
        # By which signal a Python worker died, which Spark's own daemon forgets.
        _DAEMON_MODULE: _DAEMON,
        NOTES: str(deaths),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": folder,
        # Blobs are as small as they get already, and what one process writes and reads again on this machine need not
        # be checked. On a cluster a user's own rows would cross the network unpacked.
        "spark.shuffle.compress": "false",
        "spark.shuffle.checksum.enabled": "false",
        "spark.sql.warehouse.dir": (Path(folder) / "warehouse").as_uri(),
        # Its default forks two chmods a batch; both write a temporary file and rename it, and kill -9 is tested.
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    }


def _clean_up(folder: str) -> None:
    """Stop the session first: Spark complains of files that vanish under it."""
    if not jvm_is_gone():
        running = SparkSession.getActiveSession()
        if running is not None:
            running.stop()
    shutil.rmtree(folder, ignore_errors=True)


def _java_options(asked: str) -> str:
    """The user's Java options after ours; a log4j2.properties of the user's own is left in charge."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if "log4j2.configurationFile" in asked or (
        folder and (Path(folder) / "log4j2.properties").is_file()
    ):
        return asked
    quiet = Path(__file__).with_name("log4j2.properties").as_uri()
    return f"-Dlog4j2.configurationFile={quiet} {asked}".strip()


def _with_number(master: str) -> str:
    """``local[*]`` with the number in it, so that Spark and ``spark.task.cpus`` mean the same cores."""
    return master.replace("*", str(usable_processors())) if master.startswith("local[") else master


def _cores(master: str | None, asked: Mapping[str, str]) -> int | None:
    """The cores of one executor, where that can be known before it starts."""
    if master is not None and (found := _LOCAL.fullmatch(master)):
        number = found[1] or "1"
        return usable_processors() if number == "*" else int(number)
    if master is not None and (found := _LOCAL_CLUSTER.fullmatch(master)):
        return int(found[1])
    known = asked.get("spark.executor.cores")
    return int(known) if known else None


def _set_python(master: str | None) -> None:
    """Workers run this very Python; on a cluster a PYSPARK_PYTHON that is set knows better."""
    local = master is not None and master.startswith("local")
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        if local or name not in os.environ:
            os.environ[name] = sys.executable
    if local:
        _share_source()


def _share_source() -> None:
    """Workers of this machine find the library where this process does, also in a source tree that is not installed."""
    home = str(Path(__file__).resolve().parents[3])
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if "site-packages" not in home and home not in found:
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, found)])


def _checked(running: SparkSession, asked: Mapping[str, str]) -> SparkSession:
    """The running session in UTC, with a warning for everything asked that it cannot take on any more."""
    zone = running.conf.get("spark.sql.session.timeZone")
    if zone not in ("UTC", "Etc/UTC", "Z", "+00:00"):
        warnings.warn(
            f"the time zone of the running Spark session was {zone!r}; it is UTC now", stacklevel=3
        )
        running.conf.set("spark.sql.session.timeZone", "UTC")
    differing = [
        line for name, value in asked.items() if (line := _difference(running, name, value))
    ]
    if differing:
        warnings.warn(
            "the Spark session was running already, with other settings: "
            + "; ".join(differing)
            + ". Stop it first to have yours.",
            stacklevel=3,
        )
    return running


def _difference(running: SparkSession, name: str, value: str) -> str:
    """What differs, as text; "" where the session has the value, or takes it on now."""
    has = running.conf.get(name, None)
    if has == value:
        return ""
    if running.conf.isModifiable(name):
        running.conf.set(name, value)
        return ""
    return f"{name} is {has}, not {value}"


def _explicit(
    master: str | None, threads_per_slot: int | None, asked: Mapping[str, str]
) -> dict[str, str]:
    explicit = dict(asked)
    if master is not None:
        explicit["spark.master"] = _with_number(master)
    if threads_per_slot is not None:
        explicit["spark.task.cpus"] = str(threads_per_slot)
    return explicit


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def _as_text(settings: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
