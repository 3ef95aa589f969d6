"""No pickle is read from a place where others can write: unpickling runs what is in it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any, Final

import pyarrow.fs as pafs
import pytest

import thalweg as tw
from thalweg.checkpoint import inspect as state_inspect
from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.manifest import Manifest, ManifestOperator
from thalweg.checkpoint.segments import SegmentReader
from thalweg.locality.table_text import decode_table

SOURCE: Final = Path(tw.__file__).parent
#: Calls that run what they read.
_READS: Final = re.compile(
    r"\b(c?loud)?(pickle|dill|marshal|shelve|joblib)\.(loads?|Unpickler|open)\b|\bUnpickler\b|allow_pickle=True"
    r"|\bpd\.read_pickle|yaml\.(unsafe_)?load\b"
)
#: Where they may stand: what the driver and its own tasks send each other inside Spark, and no file of ours holds.
ALLOWED: Final = {
    "spark/tasks/worker.py": "the plan, which the driver put into the task",
    "spark/reading/log_stream.py": "what describes an input, which the driver put into the query and the task",
    "spark/told.py": "the error that a task reports to its driver",
    "jit/kernels.py": "compiled functions, from a folder that only its owner, or an administrator, can write",
}


def test_who_reads_pickles() -> None:
    """By the source: between a driver and its own tasks, and from the guarded folder of kernels (test_jit.py)."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if _READS.search(path.read_text(encoding="utf-8"))
    }
    assert found == {*ALLOWED}


class Bomb:
    """What runs when it is unpickled, and leaves a file as a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A file that is there only after a bomb went off; the bomb itself works."""
    path = tmp_path / "went off"
    pickle.loads(pickle.dumps(Bomb(path)))
    assert path.exists()
    path.unlink()
    return path


def test_files_of_a_checkpoint(tmp_path: Path, trace: Path) -> None:
    """A pickle in place of the manifest, a commit record, a segment or a routing table is refused, and not run."""
    fs, root = pafs.LocalFileSystem(), f"{tmp_path}/ck/thalweg"
    manifests.write(
        fs, root, Manifest("words", "0.1", {"n": ManifestOperator("keyed", (), 1, "S", ())}, {})
    )
    bomb = pickle.dumps(Bomb(trace))
    (tmp_path / "ck/thalweg/commits").mkdir(parents=True)
    (tmp_path / "ck/thalweg/commits/0.json").write_bytes(bomb)
    (tmp_path / "ck/thalweg/part.arrow").write_bytes(bomb)
    with pytest.raises(tw.CheckpointError):
        records.latest(fs, root)
    with pytest.raises(tw.CheckpointError):
        SegmentReader(fs, root, "part.arrow")
    with pytest.raises(tw.CheckpointError):
        decode_table(bomb, "table.json")
    (tmp_path / "ck/thalweg" / manifests.FILE).write_bytes(bomb)
    with pytest.raises(tw.CheckpointError):
        state_inspect.describe(f"{tmp_path}/ck")
    assert not trace.exists()


@pytest.mark.parametrize("format", ["csv", "json", "text", "parquet"])
def test_inputs(tmp_path: Path, trace: Path, format: Any) -> None:
    """A pickle in place of an input is data that does not fit, whatever it is read as."""
    from typing import NamedTuple

    class Line(NamedTuple):
        line: str

    (tmp_path / "in").write_bytes(pickle.dumps(Bomb(trace)))
    flow = tw.Flow("lines", errors="reject")
    flow.source("lines", Line).sink("out")
    files = tw.files(tmp_path / "in", format=format)
    try:
        tw.run(flow, {"lines": files}, threading="manual")
    except tw.ThalwegError:
        pass
    assert not trace.exists()
