"""A flow for a container: orders from a topic, each user's running total into another, each order counted once."""

from __future__ import annotations

import os
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
    """Reads until the process ends, or with ``follow=False`` what is there."""
    servers = os.environ.get("BROKERS", "localhost:9092")
    tw.run(
        flow,
        {"orders": tw.kafka(servers, "orders", follow=follow)},
        {"totals": tw.to_kafka(servers, "totals", key="user"), "bad": tw.each(tell)},
        checkpoint=os.environ.get("STATE", "ckpt"),
        every="1 second",
        end="keep",
    )


if __name__ == "__main__":
    main()
