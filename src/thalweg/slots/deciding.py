"""Who decides on the next table of slots in one process: by counts, or by what is about to be routed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from thalweg.engine.contract import Leaving
from thalweg.locality import RoutingTable, Statistics

#: The next table by what was counted since the last reconfiguration (None if nothing was) and the table of now; None to
#: leave it.
Decide: TypeAlias = Callable[[Statistics | None, RoutingTable], RoutingTable | None]


class Placer(Protocol):
    """Makes the next table by what is about to be routed."""

    def look(self, leaving: Leaving) -> bool:
        """Whether rows that leave the ingress call for another table.

        Args:
            leaving: what the ingress gives in a step.
        """

    def table(self, table: RoutingTable) -> RoutingTable | None:
        """The table that they call for; None to leave it.

        Args:
            table: the one that holds.
        """
