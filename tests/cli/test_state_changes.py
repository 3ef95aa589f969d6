"""``thalweg state diff`` and ``thalweg state copy``: what is said, and the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import thalweg as tw
from thalweg.cli import app

_FLOW = """
import thalweg as tw
from typing import NamedTuple

class Row(NamedTuple):
    key: str
    n: int

@tw.state{migrate}
class Sum:
    {fields}

def add(state: Sum, row: Row) -> Row:
    return row

flow = tw.Flow("sums", compile="never")
flow.source("rows", Row).key_by("key").process(add, state=Sum, name="{name}").sink("out")
"""


def written(folder: Path, file: str, **of: str) -> str:
    """The file of a flow."""
    given = {"migrate": "", "fields": "n: int = 0", "name": "sums", **of}
    path = folder / f"{file}.py"
    path.write_text(_FLOW.format(**given))
    return str(path)


def test_diff_and_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepted is 0, refused is 1 and says what would do it; a copy is a checkpoint."""
    from thalweg.cli.loading import load_flow

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    old = written(tmp_path, "old_sums")
    checkpoint, copy = str(tmp_path / "ckpt"), str(tmp_path / "copy")
    rows = [("a", 1), ("b", 2)]
    tw.run(load_flow(old), {"rows": rows}, checkpoint=checkpoint, end="keep")

    def call(*arguments: str, code: int = 0) -> str:
        made = CliRunner().invoke(app, ["state", *arguments])
        assert made.exit_code == code, made.output
        return " ".join(re.sub("[│┃]", " ", made.output).split())

    assert "a start goes on with it; nothing was written" in call("diff", checkpoint, old)
    new = written(tmp_path, "new_sums", name="totals")
    said = call("diff", checkpoint, new, code=1)
    assert "sums refused" in said
    assert "--drop sums" in said
    assert "sums dropped" in call("diff", checkpoint, new, "--drop", "sums")
    new = written(tmp_path, "text_sums", migrate="(migrate=dict)", fields='n: str = ""')
    said = call("diff", checkpoint, new, code=1)
    assert "expected str, got int 0" in said
    new = written(tmp_path, "more_sums", fields="n: float = 0.0")
    found: dict[str, Any] = json.loads(call("diff", checkpoint, new, "--json"))
    assert found["accepted"]
    assert [(one["name"], one["kind"], one["rows"]) for one in found["changes"]] == [
        ("rows", "same", 0),
        ("sums", "converted", 2),
    ]
    assert "copied batch 0" in call("copy", checkpoint, copy)
    assert tw.checkpoint.read_state(copy, "sums").num_rows == 2
    assert "give a folder that is new or empty" in call("copy", checkpoint, copy, code=1)
    assert "has not the batch 7" in call("copy", checkpoint, f"{copy}2", "--batch", "7", code=1)
