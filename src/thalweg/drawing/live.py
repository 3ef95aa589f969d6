"""A card in a notebook that follows its run until it has ended."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from thalweg.drawing.card import card
from thalweg.snapshot import Snapshot

_LOG: Final = logging.getLogger("thalweg")
#: How often the card is drawn anew, seconds.
EVERY_S: Final = 1.0


def show_live(progress: Callable[[], Snapshot]) -> threading.Thread | None:
    """Shows the card of a run in the notebook's cell; while the run goes on, a thread of its own draws it anew.

    Args:
        progress: gives the snapshot of now.

    Returns the thread; None where the run has ended already.
    """
    notebook: Any = importlib.import_module("IPython.display")  # only a notebook calls this

    first = progress()
    shown: Any = notebook.display(notebook.HTML(card(first)), display_id=True)
    if first.status != "running" or shown is None:
        return None
    follower = threading.Thread(
        target=_follow, args=(progress, lambda text: shown.update(notebook.HTML(text))),
        name="thalweg-card", daemon=True,
    )  # fmt: skip
    follower.start()
    return follower


def _follow(progress: Callable[[], Snapshot], update: Callable[[str], None]) -> None:
    try:
        while True:
            time.sleep(EVERY_S)
            snapshot = progress()
            update(card(snapshot))
            if snapshot.status != "running":
                return
    except Exception:
        # Drawing must not harm what is drawn, and nobody waits for this thread.
        _LOG.debug("a card is not drawn any more", exc_info=True)
