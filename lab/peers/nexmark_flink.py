"""NEXMark's queries in Flink SQL: ``nexmark_flink.py FOLDER BEGAN QUERY ...``, a line of JSON for each query.

Started by ``thalweg bench nexmark --flink PYTHON``; the figures are those of its cells. Flink as pip has it reads no
Parquet, so the rows come as CSV files; its sink takes all and keeps nothing. Streaming mode, default settings, as many
slots as cores.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from nexmark_usage import Tree
from pyflink.table import EnvironmentSettings, TableEnvironment

TEXTS = dict(
    part.split("\n", 1)
    for part in Path(__file__).with_suffix(".sql").read_text().split("\n-- ")[1:]
)
#: What Flink cannot express, and why.
REFUSED = {"q6": "no rows-between over rows that change (FLINK-19059)"}


def environment(folder: Path) -> TableEnvironment:
    """Tables over the files, and a view of the side table's versions."""
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", str(os.cpu_count()))
    made.get_config().set("table.local-time-zone", "UTC")
    for name, text in TEXTS.items():
        if name.startswith("table "):
            made.execute_sql(text.replace("{folder}", str(folder)))
    return made


def run(made: TableEnvironment, query: str, number: int) -> None:
    """Runs a query to its end."""
    fields = made.sql_query(TEXTS[query]).get_schema()
    types = [type_of(fields.get_field_data_type(n)) for n in range(fields.get_field_count())]
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(types))
    name = f"out_{query}_{number}"
    made.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'blackhole')")
    made.execute_sql(f"INSERT INTO {name} {TEXTS[query]}").wait()


def type_of(field: object) -> str:
    """A column's type in a statement: without its role as event time, and texts of any length."""
    text = str(field).split(" *")[0].removesuffix(" NOT NULL")
    text = text.replace("LOCALZONEDTIMESTAMP", "TIMESTAMP_LTZ")  # as statements have it
    return "STRING" if "CHAR" in text else text


def main(folder: str, began: str, *queries: str) -> None:
    """Prints a line a query."""
    tree = Tree()
    made = environment(Path(folder))
    start = time.time() - float(began), tree.cpu_s()
    for query in queries:
        if query in REFUSED:
            print(json.dumps({"query": query, "cannot": REFUSED[query]}), flush=True)
            continue
        found: dict[str, object] = {"query": query}
        try:
            for number in (1, 2):
                wall, used = time.perf_counter(), tree.cpu_s()
                run(made, query, number)
                wall, used = time.perf_counter() - wall, tree.cpu_s() - used
                if number == 1:
                    found |= {
                        "whole_s": start[0] + wall,
                        "whole_cpu_s": start[1] + used,
                        "peak_mb": tree.peak_mb(),
                    }
                found |= {"wall_s": wall, "cpu_s": used}
                if used > 60:
                    break
        except Exception as error:  # a line for each query, whatever becomes of it
            text = str(error).replace("\n", " ")
            found = {"query": query, "failed": text[:300]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
