"""Several streams as one: joins, lookups, barriers, merges."""
