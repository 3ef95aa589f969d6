"""Slots in one process that exchange tuples and the state of keys by messages (Caneill et al., 3.4)."""

from __future__ import annotations

from thalweg.slots.deciding import Decide, Placer
from thalweg.slots.slotted import SlottedEngine
from thalweg.slots.transport import Stepped, Threads, Transport

__all__ = ["Decide", "Placer", "SlottedEngine", "Stepped", "Threads", "Transport"]
