"""Routing tables on stable storage: a file an epoch, written before the epoch holds.

A file that no commit record names is what a batch left that did not end; it is replaced by the next try.
"""

from __future__ import annotations

import os
from typing import Any

from thalweg.checkpoint.paths import (
    FileSystem,
    join,
    read_bytes,
    resolve,
    stems,
    write_atomic,
)
from thalweg.checks import meant
from thalweg.errors import CheckpointError
from thalweg.locality.routing import RoutingTable
from thalweg.locality.table_text import decode_table, encode_table


def table_path(epoch: int) -> str:
    """The file of a table, relative to the root."""
    return f"routing/{epoch}.json"


def write_table(fs: FileSystem, root: str, table: RoutingTable) -> None:
    """Puts a table on stable storage; it appears whole, and replaces an earlier try's."""
    write_atomic(fs, join(root, table_path(table.epoch)), encode_table(table))


def read_table(fs: FileSystem, root: str, epoch: int) -> RoutingTable:
    """The table of an epoch, which a commit record names.

    Raises:
        CheckpointError: it is missing or torn.
    """
    path = join(root, table_path(epoch))
    content = read_bytes(fs, path)
    if content is None:
        known = ", ".join(map(str, epochs(fs, root))) or "none"
        raise CheckpointError(
            f"the routing table {path} is missing: a commit record says that its epoch holds, and the state of pinned"
            f" keys cannot be found without it. There are tables of the epochs: {known}.\n"
            "Bring the file back from a copy of the checkpoint."
        )
    table = decode_table(content, path)
    if table.epoch != epoch:
        raise CheckpointError(f"the routing table {path} says that it is of epoch {table.epoch}")
    return table


def epochs(fs: FileSystem, root: str) -> list[int]:
    """The epochs that have a file, ascending."""
    names = stems(fs, join(root, "routing"), ".json")
    return sorted(int(name) for name in names if name.isdecimal())


def asked_path(asked: Any) -> str | None:
    """The path of a table, where it is one that is asked for."""
    if not isinstance(asked, str | os.PathLike) or asked in ("off", "online"):
        return None
    return os.fspath(asked) or None


def load_table(location: str) -> RoutingTable:
    """A table in a file of the user's, such as ``thalweg locality plan`` writes.

    Raises:
        CheckpointError: it is missing or torn.
    """
    fs, path = resolve(location)
    content = read_bytes(fs, path)
    if content is None:
        raise CheckpointError(
            f"there is no routing table {location}{meant(location, ('online', 'off'))}; thalweg locality plan makes one"
        )
    return decode_table(content, location)


def save_table(location: str, table: RoutingTable) -> None:
    """Puts a table into a file of the user's."""
    fs, path = resolve(location)
    write_atomic(fs, path, encode_table(table))
