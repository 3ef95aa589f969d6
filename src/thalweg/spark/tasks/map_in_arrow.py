"""``DataFrame.mapInArrow`` that asks for pyarrow only.

PySpark 4.3 builds the Arrow function by way of its pandas decorator, which refuses to work without pandas although
neither the driver nor the worker uses it on this path. The same function made one level below needs no pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
from py4j.java_gateway import java_import
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.util import PythonEvalType

#: What PySpark asks the JVM for at each function, by the last part of the name: found at once where imported by its
#: full name, else searched in the jars under each package that it has imported.
_ASKED: Final = (
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.api.python.SimplePythonFunction",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def import_names(spark: SparkSession) -> None:
    """Makes the JVM find at once what :func:`map_in_arrow` asks it for."""
    for name in _ASKED:
        java_import(spark._jvm, name)


def map_in_arrow(
    frame: DataFrame, function: ArrowFunction, schema: StructType | str, *, barrier: bool = False
) -> DataFrame:
    """The rows that `function` yields, called once per partition with an iterator of its record batches.

    Args:
        frame: a batch or a streaming frame.
        function: runs in the Python worker; it goes there by cloudpickle.
        schema: of what it yields; types must match exactly.
        barrier: run all partitions at once, or none.
    """
    try:
        from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
    except ImportError:  # another minor version of Spark: its public way, which wants pandas
        return frame.mapInArrow(function, schema, barrier)
    made = vectorized_udf(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF, "pandas")
    columns = made(*[frame[name] for name in frame.columns])
    java_frame = frame._jdf.mapInArrow(columns._jc, barrier, None)
    return DataFrame(java_frame, frame.sparkSession)
