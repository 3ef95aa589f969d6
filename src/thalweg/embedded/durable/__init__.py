"""Runs in this process that go on where they were after a crash."""

from thalweg.embedded.durable.asked import Checkpoint, Every, durable_host, durable_of
from thalweg.embedded.durable.batches import Durable, End
from thalweg.embedded.durable.host import DurableHost

__all__ = [
    "Checkpoint",
    "Durable",
    "DurableHost",
    "End",
    "Every",
    "durable_host",
    "durable_of",
]
