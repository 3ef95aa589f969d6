"""The page's server: who may ask, what is answered, what may be done; without a browser."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.page.kit import SCRIPT, Showing, full, request, serving

import thalweg as tw
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.page import Action, page_address, serve_page
from thalweg.page.actions import Performer
from thalweg.page.guard import is_known_host, is_same_origin, is_token
from thalweg.page.server import Page
from thalweg.snapshot import Snapshot, bottleneck

STATIC = Path(tw.__file__).parent / "page" / "static"


def events(page: Page, most: int, into: list[Any] | None = None) -> list[tuple[str, Any]]:
    """The first events of the stream, or all up to the last, also into a list while they come."""
    asked = urllib.request.Request(
        f"http://{page.address}/events", headers={"Authorization": f"Bearer {page.token}"}
    )
    found: list[Any] = [] if into is None else into
    name = ""
    with urllib.request.urlopen(asked, timeout=30) as answer:
        for line in answer:
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                found.append((name, json.loads(line[6:])))
                if len(found) == most or name == "last":
                    return found
    return found


def test_who_may_ask() -> None:
    """A foreign Host gets nothing; without the token there is nothing of a flow; every answer has the heads."""
    with serving(Showing(full())) as page:
        assert page.address.startswith("127.0.0.1:")
        assert page.url == f"http://{page.address}/#{page.token}"
        for path in ("/", "/page.js", "/now.json", "/events", "/do"):
            code, heads, text = request(page, "GET", path, Host="evil.example")
            assert code == 403 and "trips" not in text
        for path in ("/now.json", "/events"):
            for wrong in ("", "Bearer ", "Bearer x", f"Basic {page.token}", "Bearer é"):
                code, heads, text = request(page, "GET", path, token=False, Authorization=wrong)
                assert code == 401 and "trips" not in text, wrong
        assert request(page, "GET", f"/now.json?token={page.token}", token=False)[0] == 401
        for path in ("/", "/page.js", "/nowhere", "/now.json", "/../guard.py", "/%2e%2e/guard.py"):
            code, heads, text = request(page, "GET", path)
            assert code == (404 if "nowhere" in path or "guard" in path else 200)
            assert heads["Content-Security-Policy"].startswith(
                "default-src 'none'; script-src 'self'"
            )
            assert "unsafe" not in heads["Content-Security-Policy"]
            assert (
                heads["X-Content-Type-Options"] == "nosniff"
                and heads["Cache-Control"] == "no-store"
            )
            assert heads["Server"] == "Thalweg" and "Set-Cookie" not in heads
        port = page.address.rpartition(":")[2]
        assert request(page, "GET", "/now.json", Host=f"localhost:{port}")[0] == 200
        assert request(page, "BREW", "/")[0] == 501


def test_hosts_tokens_origins() -> None:
    """The checks by themselves: names with and without port, addresses of all kinds, tokens, sites."""
    for given, bound, good in [
        ("127.0.0.1:80", "127.0.0.1", True), ("LOCALHOST", "127.0.0.1", True), ("[::1]:9", "::1", True),
        ("", "127.0.0.1", False), (None, "127.0.0.1", False), ("127.0.0.1.evil.example:80", "127.0.0.1", False),
        ("evil.example:127", "0.0.0.0", False), ("10.1.2.3:80", "0.0.0.0", True), ("10.1.2.3", "127.0.0.1", False),
        ("[fe80::1]", "::", True), ("box.lan:1", "box.lan", True), ("other.lan", "box.lan", False),
    ]:  # fmt: skip
        assert is_known_host(given, bound) == good, (given, bound)
    assert is_token("Bearer abc", "abc")
    assert not any(is_token(one, "abc") for one in (None, "", "abc", "Bearer ab", "bearer abc"))
    host = {"Host": "127.0.0.1:80"}
    assert is_same_origin(host) and is_same_origin({**host, "Origin": "http://127.0.0.1:80"})
    assert not is_same_origin({**host, "Origin": "http://evil.example"})
    assert not is_same_origin({**host, "Origin": "null"})
    assert not is_same_origin({**host, "Sec-Fetch-Site": "cross-site"})


def test_events_are_the_snapshots() -> None:
    """First the points of the charts, then snapshot after snapshot with the culprit; the last says so."""
    showing = Showing(full())
    with serving(showing) as page:
        (first, history), (then, now) = events(page, 2)
        assert (first, then) == ("history", "now")
        assert history == {"trips": [[full().at_s, 12_000.5, 2, 4, 0.72]]}
        (flow,) = now["flows"]
        assert Snapshot.from_json(json.dumps(flow["snapshot"])) == full()
        assert flow["culprit"] == bottleneck(full()) == "fare"
        assert flow["watermarks"]["weather"] == f"{2**53 + 1:,}" and "actions" not in now
        found: list[Any] = []
        viewer = threading.Thread(target=events, args=(page, 1_000, found))
        viewer.start()
        while len(found) < 2:  # until it has got something
            viewer.join(0.01)
        page.close()
        viewer.join(30)
    assert found[-1][0] == "last" and found[-1][1]["flows"] == now["flows"]
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://{page.address}/", timeout=1)


def test_nothing_is_done_without_control(caplog: pytest.LogCaptureFixture) -> None:
    """A page that shows refuses every order; one that controls takes those of its own origin, and logs them."""
    showing, rescale = Showing(full()), {"action": "rescale", "flow": "trips", "value": 4}
    with serving(showing) as page:
        assert request(page, "POST", "/do", body=rescale)[0] == 403
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert request(page, method, "/do", body=rescale)[0] == 501
    with serving(showing, control=True) as page:
        assert request(page, "POST", "/do", body=rescale, token=False)[0] == 401
        assert request(page, "POST", "/do", body=rescale, Origin="http://evil.example")[0] == 403
        assert request(page, "POST", "/do", body=rescale, Host="evil.example")[0] == 403
        assert request(page, "POST", "/elsewhere", body=rescale)[0] == 404
        assert request(page, "POST", "/do", body="[")[0] == 400
        assert request(page, "POST", "/do", body="[1]")[0] == 400
        assert request(page, "POST", "/do", body="x" * 5_000)[0] == 413
        assert not showing.asked
        code, _, text = request(page, "POST", "/do", body=rescale, Origin=f"http://{page.address}")
        assert (
            code == 200
            and json.loads(text)["is_done"]
            and showing.asked == [("rescale", 4, "127.0.0.1")]
        )
        for wrong in (
            {"value": 9},
            {"value": 0},
            {"value": "4"},
            {"value": True},
            {"value": None},
            {"action": "threads"},
            {"flow": "other"},
        ):
            code, _, text = request(page, "POST", "/do", body={**rescale, **wrong})
            assert code == 409 and not json.loads(text)["is_done"], wrong
        assert request(page, "POST", "/do", body={"action": "policy", "value": "Mine"})[0] == 409
        assert (
            request(page, "POST", "/do", body={"action": "stop", "flow": "trips", "value": 1})[0]
            == 409
        )
        code, _, text = request(page, "POST", "/do", body={"action": "stop", "flow": "trips"})
        assert (
            code == 409 and SCRIPT in json.loads(text)["text"]
        )  # what it raised is told, not thrown
        now = json.loads(request(page, "GET", "/now.json")[2])
        assert [one["name"] for one in now["actions"]] == ["rescale", "policy", "stop"]
        assert now["log"][0]["text"] == "4 slots from the next batch on"
    assert len(showing.asked) == 1
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "page: flow 'trips': 4 slots from the next batch on, asked by 127.0.0.1" in told


def test_actions_check_what_they_are_given() -> None:
    """A number, a choice or nothing, and only what can be done now."""
    action = Action(
        name="a", label="A", explains="", does=lambda value, who: str(value), choices=("x",)
    )
    performer = Performer(lambda: [action])
    assert performer.perform({"action": "a", "value": "x"}, "me").text == "x"
    assert "one of x" in performer.perform({"action": "a", "value": "y"}, "me").text
    assert "what can be is: a" in performer.perform({"action": "b"}, "me").text
    assert [one["is_done"] for one in performer.log()] == [True, False, False]


def test_a_look_that_fails_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """Where no snapshot can be made viewers are told, it is logged once, and it goes on."""
    showing = Showing(full())
    with serving(showing) as page:
        good, showing.snapshots = showing.snapshots, [None]  # type: ignore[list-item]
        page.feed.refresh()
        page.feed.refresh()
        assert "trouble" in json.loads(request(page, "GET", "/now.json")[2])
        showing.snapshots = good
        page.feed.refresh()
        assert json.loads(request(page, "GET", "/now.json")[2])["flows"]
    assert sum("could not be made" in one.getMessage() for one in caplog.records) == 1


def test_addresses() -> None:
    """True is a free port of this machine; what is no address, or taken, is refused before anything starts."""
    assert page_address(True) == ("127.0.0.1", 0) and page_address("0.0.0.0:80") == ("0.0.0.0", 80)
    for wrong in ("here", 70_000, 1.5, None):
        with pytest.raises(BuildError, match="page"):
            page_address(wrong)
    with pytest.raises(BuildError, match="add page=True"):
        tw.start(control=True)
    with pytest.raises(BuildError, match="control"):
        tw.start(page=True, control="yes")  # type: ignore[arg-type]
    with serving(Showing(full())) as page, pytest.raises(EnvironmentProblem, match=page.address):
        serve_page(page.address, list)
    page.close()


def test_what_others_wrote_is_theirs() -> None:
    """The files of others are those of the list, byte for byte, with licences, and small; ours make no markup."""
    vendor = STATIC / "vendor"
    listed = dict(
        re.findall(
            r"^\| `([^`]+)` .*`([0-9a-f]{64})` \|$", (vendor / "README.md").read_text(), re.M
        )
    )
    files = {one.name: one for one in vendor.iterdir() if one.suffix in (".js", ".css")}
    assert listed == {
        name: hashlib.sha256(one.read_bytes()).hexdigest() for name, one in files.items()
    }
    assert sum(one.stat().st_size for one in files.values()) <= 150_000
    licences = (vendor / "LICENSES.txt").read_text()
    assert all(name in licences for name in ("uPlot", "dagre", "Preact", "htm", "Apache License"))
    for one in STATIC.glob("*.*"):
        text = one.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerously|\beval\(", text
        ), one
        assert not re.search(r"https?://(?!www\.w3\.org)[a-z]", text), one
