"""Which slot owns which key on Spark: routes, statistics, tables, and keys that come for the first time."""
