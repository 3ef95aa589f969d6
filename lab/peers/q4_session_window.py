"""Query 4 in PySpark with session_window, in batch over the Parquet files; no Python function, all in the JVM.

Batch, since in streaming the last open sessions come out only when later rows move the watermark; the work a row is
the same but for the state store, so this is the kinder measurement. A gap of exactly 60 minutes parts two sessions
here and joins them elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from common import Answer, run
from pyspark.sql import functions as F
from spark_session import session


def query(folder: Path) -> Answer:
    sessions = (
        session()
        .read.parquet(str(folder))
        .groupBy("user", F.session_window("ts", "60 minutes"))
        .agg(
            F.count("*").alias("pages"),
            (
                F.bool_or(F.col("action") == "cart") & ~F.bool_or(F.col("action") == "checkout")
            ).alias("abandoned"),
        )
    )
    row = sessions.agg(
        F.count("*"), F.count_if("abandoned"), F.avg(F.when(F.col("abandoned"), F.col("pages")))
    ).first()
    return Answer(*row)


if __name__ == "__main__":
    run(query)
