"""PostgreSQL: tables as outputs, exactly once; tables and their changes as inputs."""

from thalweg.connectors.postgres.changes import PostgresChanges, postgres_changes
from thalweg.connectors.postgres.reading import PostgresRows, postgres
from thalweg.connectors.postgres.target import PostgresTarget, to_postgres

__all__ = [
    "PostgresChanges",
    "PostgresRows",
    "PostgresTarget",
    "postgres",
    "postgres_changes",
    "to_postgres",
]
