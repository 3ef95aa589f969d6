"""Leaves explorations out that were done before, on the very same sources."""

from __future__ import annotations

import pathlib

import pytest
from tests.interleavings.explored import is_explored


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = pathlib.Path(__file__).parent
    ours = [item for item in items if here in item.path.parents]
    repeats = any(map(config.getoption, ("--explore", "--slow", "--exhaustive")))
    if not ours or repeats or not is_explored():
        return
    known = pytest.mark.skip(reason="explored before, on the same sources: runs with --explore")
    for item in ours:
        item.add_marker(known)
