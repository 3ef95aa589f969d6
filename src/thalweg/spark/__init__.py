"""Run a flow on Spark: sessions, inputs, sinks, and the query."""

from typing import Any

from thalweg.checks import no_attribute
from thalweg.errors import missing_package

try:
    import pyspark as _pyspark  # noqa: F401
except ModuleNotFoundError:
    raise missing_package("Running on Spark needs", "pyspark", "spark") from None

from thalweg.spark.cluster.java import prepare_java
from thalweg.spark.cluster.session import session
from thalweg.spark.elastic import Elastic
from thalweg.spark.lower import lower
from thalweg.spark.query import Query
from thalweg.spark.reading.inputs import Files, files
from thalweg.spark.scheduler import BatchPlace, Scheduler, SchedulerProgress
from thalweg.spark.starting import start
from thalweg.spark.true_progress import progress_of
from thalweg.spark.writing.sinks import (
    console,
    csv,
    foreach_batch,
    foreach_table,
    json,
    memory,
    parquet,
)

__all__ = [
    "Elastic",
    "Files",
    "BatchPlace",
    "Query",
    "Scheduler",
    "SchedulerProgress",
    "console",
    "csv",
    "files",
    "foreach_batch",
    "foreach_table",
    "json",
    "lower",
    "memory",
    "parquet",
    "prepare_java",
    "progress_of",
    "session",
    "start",
]


def __getattr__(name: str) -> Any:
    raise no_attribute("tw.spark", name, __all__)
