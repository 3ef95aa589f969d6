"""A headless browser for the page's tests; where there is none they are skipped, and say what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium of the system, or playwright's own; a loop of asyncio runs in this thread until the module ends."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the package playwright is not installed"
    )
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_api.sync_playwright() as started:
        try:
            made = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except sync_api.Error:
            pytest.skip(
                "there is no Chromium: apt-get install chromium, or playwright install chromium"
            )
        yield made
        made.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A page of the browser in which nothing may go wrong: an error, or a breach of the policy, fails the test."""
    context = chromium.new_context(
        viewport={"width": 1440, "height": 960}, color_scheme="light", timezone_id="UTC"
    )
    made, wrong = context.new_page(), []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    made.wrong = wrong
    yield made
    context.close()
    assert wrong == []
