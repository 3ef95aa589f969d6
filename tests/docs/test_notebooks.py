"""The notebooks run from their first cell to their last."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def test_a_notebook_is_kept_without_what_it_gave() -> None:
    """Outputs would be figures of some machine, which nobody checks."""
    import json

    found = sorted(NOTEBOOKS.glob("*.ipynb"))
    assert found
    for path in found:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs"), path.name


@pytest.mark.merge
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    """In a kernel of its own; a flow is shown as a picture, a result and a run as HTML."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    book = nbformat.read(path, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=300, resources=resources).execute()
    kinds = {
        kind
        for cell in book.cells
        for output in cell.get("outputs", ())
        for kind in output.get("data", ())
    }
    if path.stem == "first_flow":
        assert {"image/svg+xml", "text/html", "text/plain"} <= kinds
