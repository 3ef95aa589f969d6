"""Routing tables on stable storage: written whole, read back, missed by name, pruned."""

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg.checkpoint.paths import resolve
from thalweg.checkpoint.routing_files import (
    epochs,
    load_table,
    read_table,
    save_table,
    write_table,
)
from thalweg.errors import CheckpointError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.locality import Routes, RoutingTable

ROUTES = {"at": Routes((FieldType(Kind.STR),), (0, 1, 1), {"ä": 1})}


def table(epoch: int) -> RoutingTable:
    return RoutingTable(epoch, 2, (0, 1), ROUTES)


def test_written_read_replaced_and_pruned(tmp_path: Path) -> None:
    """A table comes back as it was written, a later try replaces it, no other file is left."""
    fs, root = resolve(str(tmp_path))
    assert epochs(fs, root) == []
    for epoch in (0, 2, 10):
        write_table(fs, root, table(epoch))
    write_table(fs, root, RoutingTable(2, 1, (0, 0), {}))
    assert epochs(fs, root) == [0, 2, 10]
    assert read_table(fs, root, 2).slots == 1
    assert read_table(fs, root, 10) == table(10)
    names = sorted(path.name for path in (tmp_path / "routing").iterdir())
    assert names == ["0.json", "10.json", "2.json"]


def test_a_lost_table(tmp_path: Path) -> None:
    """A missing file is named, with the epochs that are there."""
    fs, root = resolve(str(tmp_path))
    write_table(fs, root, table(3))
    with pytest.raises(CheckpointError, match=r"routing/4\.json is missing.*epochs: 3\.\n.*copy"):
        read_table(fs, root, 4)


def test_a_corrupt_table(tmp_path: Path) -> None:
    """A file that is short, or another epoch's, is an error that names it."""
    fs, root = resolve(str(tmp_path))
    write_table(fs, root, table(3))
    file = tmp_path / "routing" / "3.json"
    file.rename(tmp_path / "routing" / "4.json")
    with pytest.raises(CheckpointError, match=r"routing/4\.json says that it is of epoch 3"):
        read_table(fs, root, 4)
    file.write_text("")
    with pytest.raises(CheckpointError, match=r"routing/3\.json \(0 bytes\) cannot be read"):
        read_table(fs, root, 3)


def test_a_table_of_the_user(tmp_path: Path) -> None:
    """A table in a file of any name; a missing one says how to make it."""
    save_table(str(tmp_path / "x" / "table.json"), table(1))
    assert load_table(str(tmp_path / "x" / "table.json")) == table(1)
    with pytest.raises(
        CheckpointError, match=r"no routing table .*nope\.json; thalweg locality plan"
    ):
        load_table(str(tmp_path / "nope.json"))
