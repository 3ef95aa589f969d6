"""A flow for a container: orders from a topic, each user's running total into another, each order counted once."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

import thalweg as tw


class Order(NamedTuple):
    """A message of the topic ``orders``, such as ``{"user": "ann", "cents": 250}``."""

    user: str
    cents: int


class Total(NamedTuple):
    """A message of the topic ``totals``."""

    user: str
    cents: int


@tw.state
class Sum:
    """What a user has spent."""

    cents: int = 0


def add(total: Sum, order: Order) -> Total:
    """The total behind an order."""
    total.cents += order.cents
    return Total(order.user, total.cents)


flow = tw.Flow("totals", errors="reject")
orders = flow.source("orders", Order)
orders.key_by("user").process(add, state=Sum).sink("totals")
orders.rejected.sink("bad")


def tell(bad: tw.Rejected) -> None:
    """A message that is no order goes to the container's log."""
    print(f"rejected {bad.position}: {bad.reason}", flush=True)


def main(*, follow: bool = True) -> None:
    """Reads until it is told to end, or with ``follow=False`` what is there."""
    servers = os.environ.get("BROKERS", "localhost:9092")
    with tw.start() as running:
        run = running.add(
            flow,
            {"orders": tw.kafka(servers, "orders", follow=follow)},
            {"totals": tw.to_kafka(servers, "totals", key="user"), "bad": tw.each(tell)},
            checkpoint=os.environ.get("STATE", "ckpt"),
            every="1 second",
            end="keep",
        )
        if follow:
            # The first process of a container ignores signals that it has no function for.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: run.end())
        run.result()


if __name__ == "__main__":
    main()
