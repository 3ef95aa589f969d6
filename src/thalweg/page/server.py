"""The page over HTTP: its files, events of snapshots, and what may be done; the standard library serves it.

The files are the library's own and the same everywhere, so they need no token. What a flow does is behind it.
"""

from __future__ import annotations

import http.server
import importlib.resources
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import orjson

from thalweg.checks import require_flag
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.metrics import address_of, shown_host
from thalweg.page.actions import Action, Performer
from thalweg.page.feed import Feed, Shown
from thalweg.page.guard import (
    HEADS,
    is_everywhere,
    is_known_host,
    is_same_origin,
    is_token,
)

_LOG: Final = logging.getLogger("thalweg")
_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
#: How many viewers there may be, and how large a request is that asks for something, bytes.
_VIEWERS: Final = 32
_MOST_BYTES: Final = 4_096
#: After so long without a message a viewer is sent a sign of life; a peer that says nothing is left after as long.
_QUIET_S: Final = 10.0
#: How often it is looked whether to end, seconds.
_LOOK_S: Final = 0.1
#: How long viewers may take to read the last message, seconds.
_GRACE_S: Final = 1.0


class _File(NamedTuple):
    kind: str
    content: bytes


def _files() -> dict[str, _File]:
    """The page's files by their paths."""
    found: dict[str, _File] = {}
    top = importlib.resources.files("thalweg.page") / "static"
    for folder, path in ((top, "/"), (top / "vendor", "/vendor/")):
        for one in folder.iterdir():
            kind = _KINDS.get(one.name.rpartition(".")[2])
            if one.is_file() and kind is not None:
                found[path + one.name] = _File(kind, one.read_bytes())
    found["/"] = found["/index.html"]
    return found


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    #: so that a port is free again at once
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], page: Page) -> None:
        self.page = page
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Requests)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A viewer that went away is no event; anything else is logged, not printed."""
        _LOG.debug("page: a request failed", exc_info=True)


class _Requests(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _QUIET_S
    server: _Server

    def version_string(self) -> str:
        """Who answers, without versions."""
        return "Thalweg"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Plain text, so that nothing of a request can come back as markup."""
        self._answer(code, message or HTTPStatus(code).phrase)

    def do_GET(self) -> None:
        page, path = self.server.page, self.path.partition("?")[0]
        if not self._is_for_us():
            return
        if path in page.files:
            one = page.files[path]
            self._send(HTTPStatus.OK, one.kind, one.content)
        elif path not in ("/events", "/now.json"):
            self._answer(
                HTTPStatus.NOT_FOUND,
                "there is nothing at this path: programs ask for /now.json or /events",
            )
        elif not self._has_token():
            return
        elif path == "/now.json":
            self._send(HTTPStatus.OK, "application/json", page.feed.next(-1, 0.0).text)
        else:
            self._events(page)

    def do_POST(self) -> None:
        page = self.server.page
        # Its body is not read unless it is wanted: the connection cannot go on.
        self.close_connection = True
        if not self._is_for_us():
            return
        if not is_same_origin(self._heads):
            self._answer(HTTPStatus.FORBIDDEN, "this comes from another site")
        elif self.path != "/do":
            self._answer(HTTPStatus.NOT_FOUND, "there is nothing to do at this path")
        elif not self._has_token():
            return
        elif page.performer is None:
            self._answer(HTTPStatus.FORBIDDEN, "this page only shows; start it with control=True")
        elif (asked := self._asked()) is not None:
            done = page.performer.perform(asked, self.client_address[0])
            page.feed.refresh()
            code = HTTPStatus.OK if done.is_done else HTTPStatus.CONFLICT
            self._send(code, "application/json", orjson.dumps(done._asdict()))

    # -- what is asked --------------------------------------------------------------------------------------

    @property
    def _heads(self) -> Mapping[str, str]:
        return dict(self.headers.items())

    def _is_for_us(self) -> bool:
        if is_known_host(self.headers.get("Host"), self.server.page.host):
            return True
        self.close_connection = True
        self._answer(
            HTTPStatus.FORBIDDEN, "this server has another name: open the address that it printed"
        )
        return False

    def _has_token(self) -> bool:
        if is_token(self.headers.get("Authorization"), self.server.page.token):
            return True
        self._answer(
            HTTPStatus.UNAUTHORIZED,
            "the token is missing or wrong: open the address that was printed; a program sends what is behind its # as"
            " the header 'Authorization: Bearer …'",
        )
        return False

    def _asked(self) -> Mapping[str, Any] | None:
        """The body as a JSON object; None where it is none, which was answered."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MOST_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {_MOST_BYTES} bytes")
            return None
        try:
            asked = orjson.loads(self.rfile.read(int(length)))
        except orjson.JSONDecodeError:
            asked = None
        if not isinstance(asked, dict):
            self._answer(HTTPStatus.BAD_REQUEST, "expected a JSON object")
            return None
        return asked

    # -- answers --------------------------------------------------------------------------------------------

    def _answer(self, code: int, text: str) -> None:
        self._send(code, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _send(self, code: int, kind: str, content: bytes) -> None:
        self._begin(code, kind, {"Content-Length": str(len(content))})
        self.wfile.write(content)

    def _begin(self, code: int, kind: str, more: Mapping[str, str]) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": kind, **HEADS, **more}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _events(self, page: Page) -> None:
        """The minutes before, and then message after message until either side ends it."""
        if not page.viewers.acquire(blocking=False):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"there are {_VIEWERS} viewers already")
            return
        try:
            self.close_connection = True
            self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8", {})
            self._event("history", page.feed.history())
            seen, is_last = -1, False
            while not is_last:
                message = page.feed.next(seen, _QUIET_S)
                if message.number == seen:
                    self.wfile.write(b": still here\n\n")
                else:
                    seen, is_last = message.number, message.is_last
                    self._event("last" if is_last else "now", message.text)
        except OSError:
            return  # it has gone
        finally:
            page.viewers.release()

    def _event(self, name: str, data: bytes) -> None:
        self.wfile.write(b"event: %s\ndata: %s\n\n" % (name.encode(), data))


class Page:
    """Shows flows to browsers until it is closed; made by :func:`serve_page`.

    Args:
        address: host and port; port 0 takes one that is free.
        flows: gives those that there are.
        actions: what can be done now; None where the page only shows.

    Raises:
        EnvironmentProblem: the address is not free.
    """

    def __init__(
        self,
        address: tuple[str, int],
        flows: Callable[[], Iterable[Shown]],
        actions: Callable[[], Iterable[Action]] | None,
    ) -> None:
        self.host = address[0]
        self.token = secrets.token_urlsafe(24)
        self.files = _files()
        self.performer = None if actions is None else Performer(actions)
        self.feed = Feed(flows, self.performer)
        self.viewers = threading.BoundedSemaphore(_VIEWERS)
        self._is_closed = False
        try:
            self._server = _Server(address, self)
        except OSError as error:
            raise EnvironmentProblem(
                f"page: {address[0]}:{address[1]}: {error.strerror or error}"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_S,), name="thalweg-page", daemon=True
        )

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{shown_host(self.host)}:{self._server.server_port}"

    @property
    def url(self) -> str:
        """What to open; who has it sees the flows, and with ``control=True`` changes them."""
        host = socket.gethostname() if is_everywhere(self.host) else shown_host(self.host)
        return f"http://{host}:{self._server.server_port}/#{self.token}"

    @property
    def headers(self) -> dict[str, str]:
        """What a program sends with its requests: the token, as browsers get it behind ``#`` of the address."""
        return {"Authorization": f"Bearer {self.token}"}

    def start(self) -> None:
        """Begins to answer; once."""
        self.feed.start()
        self._thread.start()

    def close(self) -> None:
        """Ends it: viewers get a last message, and keep what they see; harmless twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self.feed.close()
        self._let_viewers_go()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_GRACE_S)

    def _let_viewers_go(self) -> None:
        deadline = time.monotonic() + _GRACE_S
        for _ in range(_VIEWERS):
            if not self.viewers.acquire(timeout=max(0.0, deadline - time.monotonic())):
                return

    def __repr__(self) -> str:
        return f"<Page http://{self.address}/{', closed' if self._is_closed else ''}>"


def serve_page(
    address: Any,
    flows: Callable[[], Iterable[Shown]],
    *,
    actions: Callable[[], Iterable[Action]] | None = None,
) -> Page:
    """Begins to show flows.

    Args:
        address: True for a free port of this machine alone; or ``"HOST:PORT"``, or a port of this machine alone.
        flows: gives those that there are, at each look.
        actions: what can be done now; None where the page only shows.

    Raises:
        BuildError: that is no address.
        EnvironmentProblem: it is not free.
    """
    page = Page(page_address(address), flows, actions)
    page.start()
    return page


def asked_page(where: str, page: Any, control: Any) -> None:
    """Refuses what ``page=`` and ``control=`` cannot be, before anything is started.

    Raises:
        BuildError: it is no address, or nothing is shown that could be controlled.
    """
    require_flag(where, control=control)
    if page is not False:
        page_address(page)
    elif control:
        raise BuildError(f"{where}: control=True is about the page: add page=True")


def page_address(given: Any) -> tuple[str, int]:
    """Host and port that ``page=`` asks for.

    Raises:
        BuildError: it is no address.
    """
    return ("127.0.0.1", 0) if given is True else address_of(given, "page")
