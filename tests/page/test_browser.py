"""The page in a browser: it shows what the snapshot says, whatever that is, and does only what is confirmed."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.page.kit import SCRIPT, Showing, full, serving, wide

import thalweg as tw
from thalweg.page import Page
from thalweg.snapshot import Snapshot

pytestmark = pytest.mark.merge

ASSETS = Path(__file__).parents[2] / "docs" / "assets"


def visit(tab: Any, url: str) -> None:
    tab.goto(url)
    tab.wait_for_selector('[data-field="link"].live')
    tab.wait_for_selector('[data-field="rows_in"]')


def field(tab: Any, name: str) -> str:
    return str(tab.locator(f'[data-field="{name}"]').inner_text())


def wait(tab: Any, function: str) -> None:
    """Until a function of JavaScript gives true; the policy of the page lets nobody poll from within it."""
    while not tab.evaluate(function):
        tab.wait_for_timeout(20)


def column(tab: Any, card: str, head: str) -> list[str]:
    return [one.strip() for one in tab.locator(f'#{card} [data-column="{head}"]').all_inner_texts()]


def minutes(page: Page, snapshot: Snapshot) -> None:
    """Tells the charts what would have been in the two minutes before."""
    for n in range(-120, 0):
        rows = 8_000.0 + 4_000.0 * math.sin(n / 9) + 300 * (n % 5)
        source = dataclasses.replace(snapshot.sources[0], rows_per_s=rows)
        assert snapshot.keys is not None and snapshot.at_s is not None
        then = dataclasses.replace(
            snapshot, at_s=snapshot.at_s + n, sources=(source,), threads=1 if n < -83 else 2,
            slots=2 if n < -35 else 4, keys=dataclasses.replace(snapshot.keys, stay=0.5 if n < -50 else 0.72),
        )  # fmt: skip
        page.feed._keep(then)


@pytest.mark.slow
def test_pictures(tab: Any, tmp_path: Path) -> None:
    """The pictures of the documentation, of a flow like those of its examples; all its cards are in view."""
    folder = ASSETS if os.environ.get("THALWEG_PICTURES") else tmp_path
    snapshot = full("yellow-3", reason="asked for on the page by 127.0.0.1")
    showing = Showing()
    with serving(showing, control=True) as page:
        minutes(page, snapshot)
        showing.snapshots = [snapshot]
        page.feed.refresh()
        tab.set_viewport_size({"width": 1360, "height": 880})
        visit(tab, page.url)
        tab.wait_for_timeout(700)
        tab.screenshot(path=folder / "page.png")
        tab.locator("#keys").scroll_into_view_if_needed()
        tab.evaluate("document.querySelector('#sources').scrollIntoView(); scrollBy(0, -60)")
        tab.screenshot(path=folder / "page-tables.png")
        tab.click("#theme")
        tab.locator('[data-id="op:fare"]').click()
        tab.evaluate("scrollTo(0, 0)")
        tab.wait_for_timeout(700)
        tab.screenshot(path=folder / "page-dark.png")
    assert all(
        (folder / f"{name}.png").stat().st_size < 200_000
        for name in ("page", "page-dark", "page-tables")
    )


def test_it_shows_what_the_snapshot_says(tab: Any) -> None:
    """Each number of the snapshot stands where it belongs, texts are texts, and nobody else is asked for anything."""
    snapshot, asked = full(), []
    tab.on("request", lambda one: asked.append(one.url))
    with serving(Showing(snapshot)) as page:
        visit(tab, page.url)
        assert field(tab, "rows_in") == "1,234,567" and field(tab, "threads") == "2"
        assert (
            field(tab, "slots") == "4"
            and field(tab, "late") == "141"
            and field(tab, "rejected") == "12"
        )
        assert field(tab, "p99") == "900 ms" and field(tab, "status") == "running"
        assert "fare" in field(tab, "culprit") and "fare" in field(tab, "stuck")
        assert column(tab, "operators", "in") == [f"{one.rows_in:,}" for one in snapshot.operators]
        assert column(tab, "operators", "busy") == ["20 %", "10 %", "", "103 %"]
        assert column(tab, "sinks", "rows") == ["800,000", "12", "141"]
        (taxis, weather) = column(tab, "sources", "watermark")
        assert taxis.startswith("2026-11-30 07:58:20 UTC") and weather == f"{2**53 + 1:,}"
        assert column(tab, "sources", "held by")[0] == SCRIPT
        assert column(tab, "sources", "holds up")[0] == "others wait for it"
        assert column(tab, "bad-rows", "row") == [one.row for one in reversed(snapshot.bad_rows)]
        assert column(tab, "changes", "change") == ["0 → 1", "2 → 4", "1 → 2", "1 → 2"]
        assert column(tab, "changes", "why")[1] == SCRIPT
        assert (
            "83 %" in tab.locator("#keys").inner_text()
            and "1.60 ×" in tab.locator("#keys").inner_text()
        )
        assert column(tab, "policy", "operators, the most urgent first")[0] == "fare › zones/join"
        assert tab.locator("#batches .bars > g").count() == 20
        assert [one.get_attribute("href") for one in tab.locator(".links a").all()] == [
            "http://127.0.0.1:4040/jobs/"
        ]
        # the graph: all nodes, the culprit by itself, rates of the edges
        ids = [one.get_attribute("data-id") for one in tab.locator("[data-id]").all()]
        assert sorted(ids) == sorted(
            [f"source:{one.name}" for one in snapshot.sources] + [f"op:{one.name}" for one in snapshot.operators]
            + [f"sink:{one.name}" for one in snapshot.sinks]
        )  # fmt: skip
        assert [one.get_attribute("data-id") for one in tab.locator(".node.culprit").all()] == [
            "op:fare"
        ]
        assert (
            tab.locator(".node.pressed").count() == 4
        )  # two wait for room; one source is waited for, one idle
        assert "8.40k/s" in tab.locator('[data-edge="op:zones/join > op:fare"]').text_content()
        assert "12 rejected" in tab.locator('[data-edge="op:clean > sink:bad"]').text_content()
        tab.wait_for_selector("#details", state="detached")
        assert tab.evaluate("window.broken") is None and tab.locator("main script").count() == 0
        assert all(one.startswith(f"http://{page.address}/") for one in asked)
        assert tab.locator("#control").count() == 0


def test_keyboard_themes_and_details(tab: Any) -> None:
    """Arrows go from node to node, Enter shows all of one, Escape closes it; the theme is turned and kept."""
    with serving(Showing(full())) as page:
        visit(tab, page.url)
        tab.locator('[data-id="source:taxis"]').focus()
        for _ in range(4):
            tab.keyboard.press("ArrowRight")
            tab.wait_for_timeout(60)
        tab.keyboard.press("Enter")
        details = tab.locator("#details")
        assert (
            "its function calls eval" in details.inner_text()
            and "24,198" in details.inner_text()
            and "12,345 keys, 4.57 MB" in details.inner_text()
        )
        tab.locator("#details button", has_text="fares").click()
        assert tab.locator("#details h2").inner_text() == "fares"
        tab.locator('[data-id="sink:fares"]').focus()
        tab.keyboard.press("Escape")
        tab.wait_for_selector("#details", state="detached")
        assert tab.evaluate("document.documentElement.dataset.theme") is None
        light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        tab.click("#theme")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != light
        tab.reload()
        tab.wait_for_selector('[data-field="rows_in"]')
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        tab.locator('[data-id="op:fare"]').click()
        tab.set_viewport_size(
            {"width": 400, "height": 800}
        )  # a telephone: nothing is wider than the screen
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400


def test_rescale_is_confirmed_and_shown(tab: Any) -> None:
    """Nothing is done before it is confirmed; then the page shows the new number; what fails says why."""
    showing = Showing(full())
    with serving(showing, control=True) as page:
        visit(tab, page.url)
        tab.fill("#do-rescale", "6")
        tab.click('[data-action="rescale"]')
        tab.wait_for_selector("dialog[open]")
        assert "2 → 6" in tab.locator("dialog").inner_text() and not showing.asked
        tab.keyboard.press("Escape")
        tab.wait_for_selector("dialog", state="detached")
        assert not showing.asked
        tab.click('[data-action="rescale"]')
        tab.click("#confirm")
        tab.wait_for_selector("dialog", state="detached")
        assert showing.asked == [("rescale", 6, "127.0.0.1")]
        tab.wait_for_selector('[data-field="slots"]:text-is("6")')
        tab.wait_for_selector("#control tbody tr")
        assert column(tab, "control", "came of it") == ["6 slots from the next batch on"]
        tab.click('[data-action="stop"]')
        tab.click("#confirm")
        tab.wait_for_selector('dialog [role="alert"]')
        assert (
            SCRIPT in tab.locator("dialog").inner_text() and tab.evaluate("window.broken") is None
        )
        tab.locator("dialog button", has_text="Cancel").click()
    # a refused order is an answer, which browsers call an error
    assert len(tab.wrong) == 1 and "409" in tab.wrong.pop()


def test_a_thousand_operators(tab: Any) -> None:
    """By composite, and all apart: only what is in view is drawn, and the page follows what changes."""
    showing = Showing(wide(100, 10, composites=True))
    with serving(showing) as page:
        visit(tab, page.url)
        assert (
            "1,000 operators, 102 nodes shown"
            in tab.locator('[data-field="graph-size"]').inner_text()
        )
        assert 0 < tab.locator('[data-id^="group:"]').count() < 100
        tab.locator('[data-id="source:rows"]').focus()
        tab.keyboard.press("ArrowRight")
        wait(tab, "() => document.activeElement.dataset.id === 'group:branch0'")
        tab.keyboard.press("Enter")
        assert tab.locator("#details tbody tr").count() == 10
        tab.locator("#details button", has_text="Open it").click()
        tab.wait_for_selector('[data-id="op:branch0/step0"]')
        tab.locator("#details button", has_text="Close composite branch0").click()
        tab.wait_for_selector('[data-id="op:branch0/step0"]', state="detached")
        tab.locator("#details button", has_text="Open it").click()
        tab.locator("#details button", has_text="✕").click()
        tab.locator("button", has_text="Close composites").click()
        tab.locator("button", has_text="Open composites").click()
        tab.wait_for_selector('[data-id="op:branch0/step3"]')
        assert tab.locator("[data-id]").count() < 400
        assert tab.locator("#operators tbody tr").count() == 50
        tab.fill("#filter", "branch77/step3")
        assert column(tab, "operators", "operator") == ["branch77/step3"]
        assert column(tab, "operators", "in") == ["773"]
        tab.fill("#filter", "")
        showing.snapshots = [wide(100, 10, composites=False)]
        tab.wait_for_selector('[data-id="op:branch0_step0"]')
        tab.locator('[data-id="op:branch0_step0"]').focus()
        tab.keyboard.press("End")
        wait(tab, "() => document.activeElement.dataset.id === 'sink:out'")
        for rows in (6, 7):
            showing.snapshots = [dataclasses.replace(showing.snapshots[0], rows_in=rows)]
            tab.wait_for_selector(f'[data-field="rows_in"]:text-is("{rows}")')


def test_several_flows_and_an_end(tab: Any) -> None:
    """A flow that has failed says so; flows are chosen by name; when the server closes the last stays, and says so."""
    failed = dataclasses.replace(
        full(), flow="other", status="failed", error=SCRIPT, operators=(), edges=()
    )
    showing = Showing(full(), failed)
    with serving(showing) as page:
        visit(tab, page.url)
        tab.locator("nav button", has_text="other").click()
        assert field(tab, "status") == "failed" and field(tab, "error") == SCRIPT
        page.close()
        tab.wait_for_selector('[data-field="link"].over')
        assert field(tab, "rows_in") == "1,234,567"


def test_without_the_token(tab: Any) -> None:
    """The address without what stands behind # shows nothing of the flow, and says what is missing."""
    with serving(Showing(full())) as page:
        tab.goto(page.url.partition("#")[0])
        tab.wait_for_selector('main [role="alert"]')
        assert "token" in tab.locator("main").inner_text() and "trips" not in tab.content()
    assert "401" in tab.wrong.pop()


class Trip(NamedTuple):
    zone: str
    fare: int


def held(trip: Trip) -> Trip:
    time.sleep(0.002)
    return trip


def test_a_stuck_operator_of_a_flow_that_runs(tab: Any) -> None:
    """Of a real flow whose second function waits the page shows that one as the culprit, and the counts at the end."""
    flow = tw.Flow("slow")
    rows = flow.source("trips", Trip).filter(lambda trip: trip.fare > 0, name="paid")
    rows.map(held, name="held").sink("out")
    trips = [Trip(SCRIPT, n % 10) for n in range(500_000)]
    with tw.start(threads=2, page=True, control=True) as running:
        assert running.page is not None
        run = running.add(flow, {"trips": trips}, {"out": tw.each(lambda row: None)}, chunk_rows=50)
        visit(tab, running.page.url)
        tab.wait_for_selector('[data-id="op:paid"].culprit', timeout=60_000)
        assert field(tab, "culprit") == "▶ paid"
        assert "one pass with held" in tab.locator(".verdict.hot").inner_text()
        assert "held in Python" in tab.locator(".verdict.hot").inner_text()
        assert tab.locator('[data-id="op:held"].chained').count() == 1
        tab.fill("#do-threads", "1")
        tab.click('[data-action="threads"]')
        tab.click("#confirm")
        tab.wait_for_selector('[data-field="threads"]:text-is("1")')
        assert run.progress().threads == 1
        tab.click('[data-action="stop"]')
        tab.click("#confirm")
        tab.wait_for_selector('[data-field="status"]:text-is("stopped")')
        assert (
            run.progress().status == "stopped" and tab.locator('[data-action="stop"]').count() == 0
        )
        snapshot: Snapshot = run.progress()
    tab.wait_for_selector('[data-field="link"].over')
    assert column(tab, "operators", "in") == [f"{one.rows_in:,}" for one in snapshot.operators]
