"""The package itself: its names."""

from __future__ import annotations

import importlib

import thalweg as tw
from thalweg import records


def test_the_state_decorator_keeps_its_name() -> None:
    """``tw.state`` is the decorator, also after the package of that name was imported."""
    importlib.import_module("thalweg.state.paths")
    assert tw.state is records.state
