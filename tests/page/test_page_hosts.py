"""What each host shows and lets the page do: flows of this process, files, the command."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import types
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.page import kit
from tests.page.kit import request
from typer.testing import CliRunner

import thalweg as tw
from thalweg.cli import app
from thalweg.cli import page as page_command
from thalweg.embedded import running as running_module
from thalweg.embedded import watched
from thalweg.errors import BuildError, CheckpointError, ThalwegError
from thalweg.page import Page
from thalweg.scheduling import Chain
from thalweg.snapshot import Snapshot
from thalweg.spark.snapshots import links_of


class Trip(NamedTuple):
    zone: str
    fare: int


FLOW = """\
import thalweg as tw
from typing import NamedTuple

class Trip(NamedTuple):
    zone: str
    fare: int

flow = tw.Flow("trips")
flow.source("trips", Trip).filter(lambda trip: trip.fare > 0, name="paid").sink("paid")
"""


def a_flow(name: str) -> tw.Flow:
    flow = tw.Flow(name)
    flow.source("trips", Trip).filter(lambda trip: trip.fare > 0, name="paid").sink("paid")
    return flow


def now(page: Page) -> dict[str, Any]:
    page.feed.refresh()
    found: dict[str, Any] = json.loads(request(page, "GET", "/now.json")[2])
    return found


def do(page: Page, action: str, value: Any = None, flow: str = "") -> str:
    """What came of it."""
    code, _, text = request(
        page, "POST", "/do", body={"action": action, "value": value, "flow": flow}
    )
    done = json.loads(text)
    assert done["is_done"] == (code == 200)
    return str(done["text"])


def offered(page: Page) -> set[tuple[str, str]]:
    return {(one["flow"], one["name"]) for one in now(page)["actions"]}


@pytest.mark.merge
def test_flows_of_this_process(tmp_path: Path) -> None:
    """Threads and policy of all, the end of each, savepoints of a checkpoint; nothing of what has ended."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("zone,fare\nJFK,52\nEWR,0\n")
    kept: list[Any] = []
    with tw.start(threads=3, page=True, control=True) as running:
        page = running.page
        assert page is not None and now(page)["flows"] == [] and now(page)["actions"] == []
        trips = tw.push_source()
        run = running.add(a_flow("live"), {"trips": trips}, {"paid": tw.each(kept.append)})
        files = tw.files(str(folder), "csv", follow=True)
        ckpt = tmp_path / "ckpt"
        durable = running.add(
            a_flow("durable"), {"trips": files}, checkpoint=ckpt, every="20 milliseconds"
        )
        shared, each = {("", "threads"), ("", "policy")}, {"end", "stop"}
        assert offered(page) == shared | {(f, a) for f in ("live", "durable") for a in each} | {
            ("durable", "savepoint")
        }
        assert do(page, "threads", 1) == "1 thread from now on" and run.progress().threads == 1
        (change,) = run.progress().changes
        assert (change.what, change.before, change.after) == ("threads", 3, 1)
        assert change.reason == "asked for on the page by 127.0.0.1" and change.seconds >= 0
        running.set_threads(2, reason="more is coming")
        assert [one.reason for one in run.progress().changes][1:] == ["more is coming"]
        assert "threads 1 → 2: more is coming" in str(run)
        assert durable.progress().changes == ()  # it has threads of its own
        assert "from 1 to 3" in do(page, "threads", 4)
        assert do(page, "policy", "Chain") == "policy Chain from now on"
        assert isinstance(running.policy, Chain)
        assert do(page, "policy", "none (free list)") and running.policy is None
        while not durable.progress().batches:
            durable.wait(0.02)
        said = do(page, "savepoint", flow="durable")
        copied = Path(said.rpartition(" in ")[2])
        assert copied.name.startswith("ckpt-savepoint-") and any(copied.iterdir())
        trips.push(Trip("JFK", 5))
        assert do(page, "end", flow="live") == "its inputs end here"
        run.result()
        assert do(page, "end", flow="durable")
        durable.result()
        assert offered(page) == set() and "cannot be done now" in do(page, "stop", flow="live")
        flows = {one["snapshot"]["flow"]: one["snapshot"] for one in now(page)["flows"]}
        assert {
            name: Snapshot.from_json(json.dumps(one)) for name, one in flows.items()
        } == running.progress()
    assert "closed" in repr(page)


class Watcher:
    """Who looks at the page of a run that the test's own thread waits for, and does something there."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        looks: Callable[[Page], None],
        lets_go: Callable[[], Any],
    ) -> None:
        self._pages: queue.Queue[Page] = queue.Queue()
        self._looks, self._lets_go = looks, lets_go
        self.failures: list[BaseException] = []
        serve = watched.serve_page
        monkeypatch.setattr(watched, "serve_page", lambda *a, **k: self._made(serve(*a, **k)))
        monkeypatch.setattr(
            running_module, "serve_page", lambda *a, **k: self._made(serve(*a, **k))
        )
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _made(self, page: Page) -> Page:
        self._pages.put(page)
        return page

    def _look(self) -> None:
        try:
            self._looks(self._pages.get(timeout=60))
        except BaseException as error:
            self.failures.append(error)
        finally:
            self._lets_go()

    def end(self) -> None:
        self._thread.join(60)
        assert not self.failures, self.failures


@pytest.mark.parametrize("more", [{}, {"threads": 2}, {"slots": 2}])
def test_a_run_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    """``tw.run(page=True)`` is shown as long as it runs; the page ends its inputs, and the caller has the result."""
    trips, seen = tw.push_source(), []

    def looks(page: Page) -> None:
        trips.push(Trip("JFK", 5))
        seen.append(page)
        assert offered(page) >= {("a", "end"), ("a", "stop")}
        assert (("", "threads") in offered(page)) == ("slots" not in more)
        if "threads" in more:
            assert do(page, "threads", 1) and do(page, "policy", "Chain")
        while not now(page)["flows"][0]["snapshot"]["rows_in"]:
            pass
        assert do(page, "end", flow="a") == "its inputs end here"

    watcher = Watcher(monkeypatch, looks, trips.close)
    result = tw.run(a_flow("a"), {"trips": trips}, page=True, control=True, **more)
    watcher.end()
    assert result.rows("paid") == [Trip("JFK", 5)] and "closed" in repr(seen[0])
    reasons = [one.reason for one in result.progress.changes]
    assert reasons == ["asked for on the page by 127.0.0.1"] * ("threads" in more)


def test_a_run_that_is_stopped_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets an error, of inputs that are there already, too; without control nothing can be done."""

    def fare(trip: Trip) -> int:
        kit.BEGAN.set()
        kit.GOES_ON.wait(60)
        return trip.fare

    flow = tw.Flow("a")
    flow.source("trips", Trip).filter(lambda trip: fare(trip) > 0).sink("paid")

    def looks(page: Page) -> None:
        assert kit.BEGAN.wait(60) and do(page, "stop", flow="a") == "stopped"

    for more in ({"threading": "manual"}, {"checkpoint": tmp_path / "ckpt"}):
        kit.BEGAN.clear()
        kit.GOES_ON.clear()
        watcher = Watcher(monkeypatch, looks, kit.GOES_ON.set)
        given: dict[str, Any] = {"chunk_rows": 1, "page": True, "control": True, **more}
        files = tmp_path / "a.csv"
        files.write_text("zone,fare\nJFK,52\nEWR,1\n")
        with pytest.raises(ThalwegError, match="flow 'a' was stopped on its page before its end"):
            tw.run(flow, {"trips": tw.files(str(files), "csv")}, **given)
        watcher.end()
    with pytest.raises(BuildError, match="add page=True"):
        tw.run(flow, {"trips": []}, control=True)


def test_several_flows_of_one_run_are_on_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a list of flows all are shown, and the page goes with the last."""
    sources = {name: tw.push_source() for name in ("a", "b")}
    pages = []

    def looks(page: Page) -> None:
        pages.append(page)
        while len(now(page)["flows"]) < 2:
            pass
        assert "actions" not in now(page)

    watcher = Watcher(monkeypatch, looks, lambda: [one.close() for one in sources.values()])
    given = {name: {"trips": one} for name, one in sources.items()}
    tw.run([a_flow("a"), a_flow("b")], given, page=True)
    watcher.end()
    assert "closed" in repr(pages[0])


def test_programs_read_what_the_page_shows() -> None:
    """``page.headers`` opens /now.json; who asks without it, or elsewhere, is told how."""
    with tw.start(page=True) as running:
        running.add(a_flow("a"), {"trips": tw.push_source()})
        page = running.page
        assert page is not None
        page.feed.refresh()
        base = page.url.partition("#")[0]
        asked = urllib.request.Request(f"{base}now.json", headers=page.headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert json.load(answer)["flows"][0]["snapshot"]["flow"] == "a"
        code, _, told = request(page, "GET", "/now.json", token=False)
        assert code == 401 and "'Authorization: Bearer …'" in told
        code, _, told = request(page, "GET", "/snapshot")
        assert code == 404 and "/now.json" in told


def test_what_is_not_left_to_the_page() -> None:
    """Threads that a controller sets, or each operator has one of, are not offered; without control nothing is."""
    with tw.start(threads="auto", page=True, control=True) as running:
        running.add(a_flow("a"), {"trips": tw.push_source()})
        assert running.page is not None and ("", "threads") not in offered(running.page)
    with tw.start(threads=2, page=True) as running:
        run = running.add(a_flow("a"), {"trips": tw.push_source()})
        assert running.page is not None and "actions" not in now(running.page)
        assert request(running.page, "POST", "/do", body={"action": "stop", "flow": "a"})[0] == 403
        assert run.is_active


def test_a_query_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``thalweg page`` serves what the file says, with its age and its process, until it is interrupted."""
    place = str(tmp_path / "ckpt")
    with pytest.raises(CheckpointError):
        page_command.shown(place)
    assert CliRunner().invoke(app, ["page", place]).exit_code == 1
    (tmp_path / "a.csv").write_text("zone,fare\nJFK,52\n")
    tw.run(a_flow("a"), {"trips": tw.files(str(tmp_path / "a.csv"), "csv")}, checkpoint=place)
    stop, said, made = threading.Event(), [], []

    @contextlib.contextmanager
    def interrupts() -> Iterator[threading.Event]:
        yield stop

    def serve(*given: Any) -> Page:
        made.append(page_of(*given))
        return made[-1]

    page_of = page_command.serve_page
    monkeypatch.setattr(page_command, "interrupts", interrupts)
    monkeypatch.setattr(page_command, "say", said.append)
    monkeypatch.setattr(page_command, "serve_page", serve)
    command = threading.Thread(target=page_command.page, args=(place, ""))
    command.start()
    while not said:
        command.join(0.01)
    (flow,) = now(made[0])["flows"]
    assert flow["snapshot"]["sources"][0]["rows_in"] == 1 and flow["seen"]["is_alive"] is True
    assert said[0] == f"page: {made[0].url}" and "actions" not in now(made[0])
    stop.set()
    command.join(30)
    assert "closed" in repr(made[0])


@pytest.mark.slow
def test_the_command_shows_its_run(tmp_path: Path) -> None:
    """``thalweg run --page`` says the address; ``--control`` alone is refused."""
    (tmp_path / "flow.py").write_text(FLOW)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("zone,fare\nJFK,52\n")
    run = [
        "run",
        str(tmp_path / "flow.py"),
        "--input",
        str(tmp_path / "in"),
        "--once",
        "--engine",
        "local",
    ]
    for more in (
        ["--page", "--control"],
        ["--page-at", "127.0.0.1:0", "--checkpoint", str(tmp_path / "ckpt"), "--output", "discard"],
    ):
        result = CliRunner().invoke(app, [*run, *more])
        assert result.exit_code == 0 and "page: http://127.0.0.1:" in result.output, result.output
    result = CliRunner().invoke(app, [*run, "--control"])
    assert result.exit_code == 2 and "add --page" in result.output


def test_links_to_the_pages_of_spark() -> None:
    """Where Spark has an interface its pages of the query and of the jobs; none where it has none."""

    def spark(address: str | None) -> Any:
        return types.SimpleNamespace(sparkContext=types.SimpleNamespace(uiWebUrl=address))

    assert links_of(spark(None), "r") == {}
    links = links_of(spark("http://driver:4040"), "r-1")
    assert links["this query in Spark"] == "http://driver:4040/StreamingQuery/statistics/?id=r-1"
    assert links["jobs in Spark"] == "http://driver:4040/jobs/"
