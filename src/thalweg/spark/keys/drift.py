"""Whether what was counted is worth a look: told by what each batch reports anyway, which costs nothing to read.

A look joins the counts of all slots and weighs a table, some tens of milliseconds on the driver. Where its turn has not
come it can only find that locality fell or an operator got imbalanced, and both show in the batches' own numbers: what
is counted over batches cannot be worse than the worst of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from thalweg.locality import Online
from thalweg.locality.triggers import History

#: Looks are so many batches apart, but where they come in turn more often.
LOOK: Final = 5
#: Reports and counts differ by so much: sketches forget rare pairs.
_MARGIN: Final = 0.02


class DriftSigns:
    """What the batches since the last look say.

    Args:
        online: says what would call for a table.
    """

    def __init__(self, online: Online) -> None:
        self._online = online
        self._look = min(LOOK, online.turn.batches or LOOK)
        self._seen: list[tuple[float, int]] = []
        self._worst = 1.0
        #: of the last look, since the last new table
        self._rows_then = 0

    def batch_done(self, rows: int, locality: Mapping[str, Any]) -> None:
        """Takes what a batch reports.

        Args:
            rows: of its sources.
            locality: the entry of its progress.
        """
        if locality.get("stay") is not None:
            self._seen.append((locality["stay"], rows))
        self._worst = max([self._worst, *locality.get("imbalance", {}).values()])

    def is_due(self, batches: int, rows: int, history: History) -> bool:
        """Whether a look may lead to another table; the signs begin anew where it may.

        Args:
            batches, rows: since the last new table.
            history: what was decided so far.
        """
        turn = self._online.turn
        if turn.rows is not None:
            in_turn = rows - self._rows_then >= turn.rows
        else:
            in_turn = batches % self._look == 0 and turn.has_come(batches, rows)
        if not in_turn and not (batches % self._look == 0 and self._drifts(history)):
            return False
        self._seen.clear()
        self._worst, self._rows_then = 1.0, rows
        return True

    def new_table(self) -> None:
        """Another table holds from here on."""
        self._seen.clear()
        self._worst, self._rows_then = 1.0, 0

    def _drifts(self, history: History) -> bool:
        online, promised = self._online, history.promised
        if online.imbalance is not None and self._worst > online.imbalance:
            return True
        if online.drop is None or promised is None or not self._seen:
            return False
        rows = sum(rows for _, rows in self._seen)
        stay = sum(share * rows for share, rows in self._seen) / max(rows, 1)
        return stay < promised - online.drop + _MARGIN
