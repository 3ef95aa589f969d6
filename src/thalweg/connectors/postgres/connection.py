"""Connections with PostgreSQL through psycopg 3, and which of their failures pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from thalweg.connectors import waiting
from thalweg.connectors.waiting import PeerWait
from thalweg.errors import BuildError, EnvironmentProblem, missing_package

Result = TypeVar("Result")

#: Classes of SQLSTATE, or whole ones, whose cause may be over at the next try: lost connections, conflicts of
#: transactions, too few resources, a server that starts, ends or is a standby yet, a table that others make just now.
_PASSING: Final = ("08", "40", "53", "57P", "55P03", "55006", "42P07", "25006")
#: What a refused connection says that no patience helps.
_LASTING: Final = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba\.conf entry"
    r"|could not translate host name|permission denied|SSL (is required|was required)|not supported"
)
#: How long one try to connect takes, and one to get a lock, seconds: then it is said, and tried again.
_CONNECT_S: Final = 5
LOCK_S: Final = 5.0
_SECRET: Final = re.compile(r"(?i)\b(password|sslpassword|passfile)\s*=\s*('(?:[^'\\]|\\.)*'|\S*)")
_PAIR: Final = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|\S*)")


def package() -> Any:
    """The package psycopg.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import psycopg
    except ImportError:
        raise missing_package("PostgreSQL needs", "psycopg", "postgres") from None
    return psycopg


def server_of(dsn: str) -> str:
    """Host, port and database of an address, without user and password: ``host:5432/db``."""
    if re.match(r"postgres(ql)?://", dsn):
        parts = urlsplit(dsn)
        hosts = parts.netloc.rpartition("@")[2]
        return f"{hosts or 'local'}/{parts.path.lstrip('/')}"
    pairs = {name: value.strip("'") for name, value in _PAIR.findall(dsn)}
    host = pairs.get("host") or pairs.get("hostaddr") or "local"
    port = f":{pairs['port']}" if "port" in pairs else ""
    return f"{host}{port}/{pairs.get('dbname', '')}"


def connect(dsn: str, **settings: str) -> Any:
    """A connection in which each statement is a transaction, unless it stands in one.

    Args:
        dsn: a URI or ``key=value`` pairs.
        settings: of the session.

    Raises:
        BuildError: the address cannot be read.
        psycopg.OperationalError: the server cannot be reached.
    """
    psycopg = package()
    try:
        given = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise BuildError(  # what libpq says may show a part of the password
            "postgres: the address cannot be read; expected postgresql://user@host:5432/database"
        ) from None
    given.setdefault("connect_timeout", str(_CONNECT_S))
    given.setdefault("application_name", "thalweg")
    given["client_encoding"] = "utf8"
    # Not as options of the start, nor prepared statements: poolers of connections know neither.
    connection = psycopg.connect(**given, autocommit=True, prepare_threshold=None)
    try:
        for pair in settings.items():
            connection.execute("select set_config(%s, %s, false)", pair)
    except BaseException:
        connection.close()
        raise
    return connection


def may_pass(error: Exception) -> bool:
    """Whether the same again may succeed."""
    psycopg = package()
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is not None:
        return str(error.sqlstate).startswith(_PASSING)
    lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return lost and not _LASTING.search(str(error))


def essence(error: Exception) -> str:
    """What an error says: its first lines, and no password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _SECRET.sub(r"\1=…", "; ".join(lines[:3]))[:500]


def answered(place: str, patience_s: float, call: Callable[[], Result]) -> Result:
    """What the call gets from the server, tried again while its failures may pass.

    Raises:
        EnvironmentProblem: patience is over.
        psycopg.Error: one that will not pass.
    """
    return waiting.answered(PeerWait(place, patience_s), call, may_pass, essence)


def unreachable(place: str, error: Exception) -> EnvironmentProblem:
    """The error of a server that more tries would not reach."""
    return EnvironmentProblem(f"{place} cannot be reached or written: {essence(error)}")
