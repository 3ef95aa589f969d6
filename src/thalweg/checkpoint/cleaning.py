"""Removing what no batch can need any more: files of old batches and of tries that were not committed.

Only what the kept records name is state. Spark may run batch n again as long as its own commit of n can be
lost, so records n and n − 1 and their files stay. Everything newer than n stays too: it may be a batch
that is running. One listing finds all garbage, also what a try left that was written off long ago. Records that
are not those this driver knows are another driver's: then nothing is deleted, since it may need any file.
"""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.checkpoint.durable import TEMPORARY
from thalweg.checkpoint.paths import FileSystem, delete, delete_folder, join, list_files
from thalweg.checkpoint.record import CommitRecord, attempt_of, batches
from thalweg.checkpoint.segments import segment_batch


def garbage(fs: FileSystem, root: str, keep: Sequence[CommitRecord]) -> list[str]:
    """What :func:`clean` would delete, relative to the root: state files first, then records.

    Args:
        keep: records n and, unless n is the first batch, n − 1 (the one before n).
    """
    if not keep or _others(fs, root, keep):
        return []
    newest, oldest = max(r.batch for r in keep), min(r.batch for r in keep)
    named = {file for record in keep for file in record.files}
    state = []
    for name in list_files(fs, join(root, "state"), recursive=True):
        file = f"state/{name}"
        batch = segment_batch(file)
        if batch is not None and batch <= newest and file not in named:
            state.append(file)
    records = [
        f"commits/{name}"
        for name in list_files(fs, join(root, "commits"))
        if _old_record(name, oldest, newest)
    ]
    return state + records


def _others(fs: FileSystem, root: str, keep: Sequence[CommitRecord]) -> bool:
    """Whether another driver has written records: newer ones, or one in the place of one of these."""
    if any(batch > max(r.batch for r in keep) for batch in batches(fs, root)):
        return True
    return any(attempt_of(fs, root, r.batch) != r.attempt for r in keep)


def _old_record(name: str, oldest: int, newest: int) -> bool:
    batch, _, rest = name.partition(".")
    if not batch.isdecimal():
        return False
    return int(batch) < oldest or (rest.endswith(TEMPORARY) and int(batch) <= newest)


def clean(fs: FileSystem, root: str, keep: Sequence[CommitRecord]) -> int:
    """Deletes the garbage and the folders that it leaves empty; gives the number of files deleted.

    To be called by the driver alone, after Spark has committed the newest batch in ``keep``. A crash in
    the middle is harmless: the next call goes on.
    """
    doomed = garbage(fs, root, keep)
    gone = sum(delete(fs, join(root, file)) for file in doomed)
    touched = {segment_batch(file) for file in doomed} - {None}
    if touched:
        left = {
            segment_batch(f"state/{f}") for f in list_files(fs, join(root, "state"), recursive=True)
        }
        newest = max(record.batch for record in keep)
        for batch in sorted(b for b in touched if b is not None and b not in left and b < newest):
            delete_folder(fs, join(root, "state", str(batch)))
    return gone
