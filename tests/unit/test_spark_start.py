"""How a Spark session starts: Java's archive of classes, the workers' modules, and what is said meanwhile."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import thalweg as tw
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.spark.cluster import class_archive, session
from thalweg.spark.patience import told_if_slow


class Row(NamedTuple):
    ts: int
    key: int


def test_an_archive_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    """Java writes the head last: without it a file is left alone, and too small or second ones go."""
    half, small, whole = (tmp_path / f"spark-a.{name}.new" for name in ("1", "2", "3"))
    half.write_bytes(bytes(100))
    small.write_bytes(b"head")
    assert class_archive.adopt(tmp_path, "spark-a", 50) is None
    assert (half.exists(), small.exists()) == (True, False)
    whole.write_bytes(b"head" + bytes(100))
    archive = class_archive.adopt(tmp_path, "spark-a", 50)
    assert archive == tmp_path / "spark-a.jsa"
    whole.write_bytes(b"head" + bytes(200))
    assert class_archive.adopt(tmp_path, "spark-a", 50) == archive
    assert archive.stat().st_size == 104
    os.utime(half, (0, 0))
    class_archive.adopt(tmp_path, "spark-a", 50)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["spark-a.jsa"]
    assert class_archive.adopt(tmp_path, "spark-b", 50) is None


def test_options_for_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first session makes it, the next takes it; nothing where the user speaks of archives, or nothing is kept."""
    monkeypatch.setattr(class_archive, "own_folder", lambda: tmp_path)
    monkeypatch.setattr(class_archive.atexit, "register", lambda _: None)
    first = class_archive.archive_options("Java 17.0.1", "")
    assert first.startswith(f"-XX:ArchiveClassesAtExit={tmp_path}/spark-")
    made = Path(first.split()[0].partition("=")[2])
    made.write_bytes(b"head")
    monkeypatch.setattr(class_archive.adopt, "__defaults__", (1,))
    taken = class_archive.archive_options("Java 17.0.1", "")
    assert taken.startswith("-XX:SharedArchiveFile=")
    assert class_archive.archive_options("Java 21.0.1", "").startswith("-XX:ArchiveClassesAtExit=")
    assert class_archive.archive_options("Java 17.0.1", "-Xmx2g -Xshare:off") == ""
    monkeypatch.setattr(class_archive, "own_folder", lambda: None)
    assert class_archive.archive_options("Java 17.0.1", "") == ""


def daemon_module() -> ModuleType:
    file = Path(session.__file__).with_name("worker_daemon") / "thalweg_worker_daemon.py"
    spec = importlib.util.spec_from_file_location("thalweg_worker_daemon_under_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_workers_import_from_folders(tmp_path: Path) -> None:
    """Spark's zips leave the path where the package is behind them, and stay where Spark is another one."""
    before = list(sys.path)
    module = daemon_module()
    assert sys.path == before
    site = tmp_path / "site"
    home = site / "pyspark"
    (site / "py4j").mkdir(parents=True)
    zips = [str(home / "python" / "lib" / one) for one in ("pyspark.zip", "py4j-0.10-src.zip")]
    assert module.without_zips([*zips, "/mine", str(site)]) == ["/mine", str(site)]
    other = [str(tmp_path / "opt" / "python" / "lib" / "pyspark.zip"), str(site)]
    assert module.without_zips(other) == other
    (site / "py4j").rmdir()
    assert module.without_zips([*zips, str(site)]) == [*zips, str(site)]


def test_what_takes_long_is_said(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the log where somebody reads it, else once on stderr; what is soon done is not worth a word."""
    log = logging.getLogger("thalweg")
    with told_if_slow("starting it", after_s=60):
        pass
    before = log.level
    try:
        log.setLevel(logging.WARNING)
        with told_if_slow("starting it", after_s=0.001):
            while not (said := capsys.readouterr().err):
                time.sleep(0.001)
        assert said == "thalweg: starting it …\n"
        with caplog.at_level(logging.INFO, "thalweg"), told_if_slow("starting it", after_s=0.001):
            while len(caplog.messages) < 2:
                time.sleep(0.001)
        assert caplog.messages[0].startswith("starting it … 0 s")
    finally:
        log.setLevel(before)


def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of Spark Connect, or one that would become one, is told where a query can be started."""
    far = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(tw.EnvironmentProblem, match="spark-submit to the same cluster"):
        session.refuse_connect(far)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(tw.EnvironmentProblem, match="without SPARK_REMOTE"):
        session.refuse_connect(None)
    monkeypatch.delenv("SPARK_REMOTE")
    session.refuse_connect(None)


def test_which_tables_lower_takes(tmp_path: Path) -> None:
    """Refused before Spark is asked: learning, what is no table, a table that is not there or for other slots."""
    flow = tw.Flow("counted")
    flow.source("rows", Row, order_by="ts").key_by("key").window(10, n=tw.agg.count()).sink("out")
    given = {"rows": tw.spark.files("in", format="csv", streaming=False)}
    table = tw.locality.RoutingTable.hashed({"window": ((FieldType(Kind.INT),), 128)}, 3)
    for locality, message in (
        ("online", "learns no table"),
        (tw.locality.Online(), "learns no table"),
        (3, "locality is"),
        (None, "locality is"),
        (table, "3 slots"),
    ):
        with pytest.raises(tw.BuildError, match=message):
            tw.spark.lower(flow, given, slots=2, locality=locality)  # type: ignore[arg-type]
    with pytest.raises(tw.CheckpointError, match="no routing table"):
        tw.spark.lower(flow, given, slots=2, locality=tmp_path / "none.json")
