"""TCP connections whose every wait ends soon after somebody gives up."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from typing import Final

from thalweg.connectors.contracts import POLL_S
from thalweg.errors import BuildError

#: How long one try to connect lasts at most.
CONNECT_S: Final = 10.0
GivenUp = Callable[[], bool]


def check_address(verb: str, host: object, port: object, *, any_port: bool = False) -> None:
    """Refuses what is no host or no port.

    Raises:
        BuildError: one of them is not.
    """
    if not isinstance(host, str) or not host:
        raise BuildError(f"{verb}: host is a name or an address, not {host!r}")
    lowest = 0 if any_port else 1
    if not isinstance(port, int) or isinstance(port, bool) or not lowest <= port <= 65535:
        raise BuildError(f"{verb}: port is a number from {lowest} to 65535, not {port!r}")


def connect(host: str, port: int, given_up: GivenUp) -> socket.socket | None:
    """A connection, to the first of the host's addresses that takes it; None once it is given up.

    Raises:
        OSError: none of them does.
    """
    problem = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        made = socket.socket(family, kind, protocol)
        try:
            if not _connected(made, address, given_up):
                made.close()
                return None
            made.settimeout(POLL_S)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return made
        except OSError as error:
            made.close()
            problem = error
    raise problem


def _connected(made: socket.socket, address: object, given_up: GivenUp) -> bool:
    made.setblocking(False)
    try:
        made.connect(address)  # type: ignore[arg-type]
        return True
    except BlockingIOError:
        pass
    deadline = time.monotonic() + CONNECT_S
    with selectors.DefaultSelector() as selector:
        selector.register(made, selectors.EVENT_WRITE)
        while not given_up():
            if selector.select(POLL_S):
                number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if number:
                    raise OSError(number, os.strerror(number))
                return True
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {CONNECT_S:g} seconds")
    return False


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free.

    Raises:
        OSError: the address is not of this machine, or is taken.
    """
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    made = socket.create_server((address[0], port), family=family)
    made.settimeout(POLL_S)
    return made


def accept(listener: socket.socket, given_up: GivenUp) -> socket.socket | None:
    """The next connection; None once it is given up."""
    while not given_up():
        try:
            made, _ = listener.accept()
        except TimeoutError:
            continue
        made.settimeout(POLL_S)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return made
    return None


def reset(connection: socket.socket) -> None:
    """Closes so that the peer sees a broken connection, not an end."""
    # The option's value is a C struct of two ints: linger, and for 0 seconds.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def problem_of(error: OSError) -> str:
    """The error in a few words."""
    return error.strerror or str(error) or type(error).__name__
