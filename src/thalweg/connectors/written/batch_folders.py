"""The folders ``batch=<n>`` in an output folder: one a batch, whichever host wrote it."""

from __future__ import annotations

import re
from typing import Final

from thalweg.checkpoint.paths import list_folders, resolve

_BATCH: Final = re.compile(r"batch=\d+")


def batch_folder(location: str, batch: int) -> str:
    """Where the files of a batch lie."""
    return f"{location.rstrip('/')}/batch={batch}"


def batches_in(location: str) -> list[str]:
    """The batches that an output folder has already; none where it is missing."""
    fs, path = resolve(location)
    names = [one.rsplit("/", 1)[-1] for one in list_folders(fs, path)]
    return [name for name in names if _BATCH.fullmatch(name)]
