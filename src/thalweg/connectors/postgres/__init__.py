"""PostgreSQL: tables as outputs, exactly once; tables and their changes as inputs."""

from thalweg.connectors.postgres.target import PostgresTarget, to_postgres

__all__ = ["PostgresTarget", "to_postgres"]
