"""Machines with network cards of a given rate, made of Linux network namespaces on this one.

Each machine is a namespace with a virtual card at a common switch. What its processes say to each other stays on its
own loopback device, as between processes of a machine; all else passes the card, which sends and takes so many bits a
second, each way (a token bucket, tc-tbf(8)). No privileges are needed where users may have namespaces of their own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from thalweg.spark.cluster.standalone import Machines

_SWITCH: Final = "switch"
_CARD: Final = "card"
_SWITCH_ADDRESS: Final = "10.77.0.254"
#: Jumbo frames, as in Caneill et al., 4.1.
_MTU: Final = "9000"
#: The kernel hands over segments of up to 64 KiB; a smaller bucket would have to cut them.
_BURST: Final = "256kb"
_QUEUED: Final = "100ms"
_TRY: Final = (
    "ip link add switch type bridge && ip link add card type veth peer name port"
    " && tc qdisc add dev card root tbf rate 1gbit burst 256kb latency 100ms"
)


def own_network(command: Sequence[str]) -> list[str]:
    """A command that runs in a network namespace of its own, where :func:`machines` can be used."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ["unshare", *user, "--net", *command]


def is_possible() -> bool:
    """Whether this system has namespaces, switches, cards and token buckets for us."""
    if sys.platform != "linux":
        return False
    try:
        tried = subprocess.run(own_network(["sh", "-c", _TRY]), capture_output=True, check=False)
    except OSError:
        return False
    return tried.returncode == 0


class SwitchedMachines:
    """Machines at a switch.

    Attributes:
        machines: for :func:`thalweg.spark.cluster.standalone.standalone`; the driver is at the switch itself.
    """

    def __init__(self, workers: int) -> None:
        self._held: list[subprocess.Popen[bytes]] = []
        self.machines = Machines(
            _SWITCH_ADDRESS,
            tuple(f"10.77.0.{i + 1}" for i in range(workers)),
            tuple(self._machine() for _ in range(workers)),
        )

    def _machine(self) -> tuple[str, ...]:
        """A namespace, which lasts as long as a process in it; the command that enters it."""
        holding = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat"]
        held = subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._held.append(held)
        assert held.stdout is not None
        if held.stdout.readline() != b"up\n":
            raise OSError("a network namespace could not be made")
        return ("nsenter", "--target", str(held.pid), "--net")

    def connect(self) -> None:
        """Connects all machines with the switch."""
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", _SWITCH, "mtu", _MTU, "type", "bridge")
        _run("ip", "addr", "add", f"{_SWITCH_ADDRESS}/24", "dev", _SWITCH)
        _run("ip", "link", "set", _SWITCH, "up")
        for number, held in enumerate(self._held):
            port, pid = f"port{number}", str(held.pid)
            peer = ("peer", "name", _CARD, "mtu", _MTU, "netns", pid)
            _run("ip", "link", "add", port, "mtu", _MTU, "type", "veth", *peer)
            _run("ip", "link", "set", port, "master", _SWITCH, "up")
            enter, address = self.machines.enter[number], self.machines.workers[number]
            _run(*enter, "ip", "addr", "add", f"{address}/24", "dev", _CARD)
            _run(*enter, "ip", "link", "set", _CARD, "up")

    def limit(self, gbit_s: float | Sequence[float | None] | None) -> None:
        """The rate of the cards from now on, each way; None: what the processor can do.

        Args:
            gbit_s: of every card, or of each in turn.
        """
        each = gbit_s if isinstance(gbit_s, Sequence) else [gbit_s] * len(self.machines.enter)
        for number, (enter, rate) in enumerate(zip(self.machines.enter, each, strict=True)):
            for reach, device in (((), f"port{number}"), (enter, _CARD)):
                _limit((*reach, "tc", "qdisc"), device, rate)

    def cut(self, number: int, *, down: bool) -> None:
        """Takes a machine's link down, as a pulled cable would, or up again."""
        _run("ip", "link", "set", f"port{number}", "down" if down else "up")

    def close(self) -> None:
        """Ends the machines; cards, and in the end the switch, go with their namespaces."""
        for held in self._held:
            held.communicate()


def _limit(tc: Sequence[str], device: str, gbit_s: float | None) -> None:
    if gbit_s is None:
        # There is nothing to delete where there was no limit.
        _run(*tc, "del", "dev", device, "root", check=False)
        return
    rate = ("rate", f"{gbit_s * 1_000:g}mbit", "burst", _BURST, "latency", _QUEUED)
    _run(*tc, "replace", "dev", device, "root", "tbf", *rate)


@contextlib.contextmanager
def network(workers: int) -> Iterator[SwitchedMachines]:
    """So many machines at a switch, in a process that :func:`own_network` has started.

    Raises:
        OSError: this is not possible here, see :func:`is_possible`.
    """
    made = SwitchedMachines(workers)
    try:
        made.connect()
        yield made
    finally:
        made.close()


def _run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
