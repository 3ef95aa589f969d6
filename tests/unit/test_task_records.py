"""What a task starts from: the very record that the driver has read, or nothing at all is run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from state_fakes import FS

from thalweg.checkpoint import record as records
from thalweg.checkpoint.record import next_record
from thalweg.errors import CheckpointError
from thalweg.spark.tasks.worker import StageJob, _previous


def job(root: Path, **changes: Any) -> StageJob:
    """A task of batch 1."""
    made = StageJob(
        plan=b"", fingerprint="f", root=str(root), batch=1, attempt=root.name, previous=0,
        previous_attempt="a", slots=1, ends=False, options={}, defaults={}, chunk_rows=1,
        wanted=frozenset(),
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def test_a_process_without_the_record(tmp_path: Path) -> None:
    """A host on which the state folder is not mounted does not start from empty state; it is named with the folder."""
    with pytest.raises(
        CheckpointError, match=rf"batch 0 in {tmp_path} is not here \(host"
    ) as refused:
        _previous(job(tmp_path))
    assert "mounted" in str(refused.value)


def test_a_record_that_was_replaced(tmp_path: Path) -> None:
    """Nor does a task mix the driver's record with one that another driver has put in its place."""
    records.write(FS, str(tmp_path), next_record(None, 0, "b", [], {}, slots=1))
    with pytest.raises(CheckpointError, match="not the one that the driver has read"):
        _previous(job(tmp_path))
    found = _previous(job(tmp_path, previous_attempt="b"))
    assert found is not None
    assert found.attempt == "b"
    assert _previous(job(tmp_path, previous=None)) is None
