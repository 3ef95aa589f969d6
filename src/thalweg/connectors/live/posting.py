"""``tw.to_http``: a batch as one POST of JSON lines, tried again until it is taken, always under the same key."""

from __future__ import annotations

import dataclasses
import datetime
import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa

from thalweg.checks import known_keywords, require_seconds, require_text
from thalweg.columns.chunks import Chunk
from thalweg.connectors.live.buffering import header_pairs
from thalweg.connectors.once import shown_row
from thalweg.connectors.targets import TargetWriter
from thalweg.connectors.waiting import PeerWait, answered, patience_of
from thalweg.connectors.written.encode import check_fields, encoder
from thalweg.errors import BuildError, DataError, EnvironmentProblem, SchemaError
from thalweg.flow.operators.nodes import Sink

#: The header by which a server knows a batch again.
KEY: Final = "Idempotency-Key"
#: Answers that may be others later, beside those from 500 on.
_LATER: Final = (408, 425, 429)
#: Characters of an answer that a message shows.
_SAID: Final = 300


@dataclasses.dataclass(frozen=True, slots=True)
class HttpTarget:
    """An address that takes POSTs; made by :func:`to_http`."""

    url: str = dataclasses.field(repr=False)
    headers: tuple[tuple[str, str], ...] = dataclasses.field(repr=False)
    timeout_s: float
    patience_s: float

    made_by = "tw.to_http(...)"

    def __repr__(self) -> str:
        return f"tw.to_http({self.place!r})"

    @property
    def place(self) -> str:
        """The address without user, password and what stands behind ``?``."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def check(self, sink: Sink) -> None:
        try:
            check_fields("json", sink.record, f"sink {sink.name!r}: {self.made_by}")
        except SchemaError as error:
            raise BuildError(str(error).replace("; use Parquet", "")) from None

    def open(self, sink: Sink, query: str) -> TargetWriter:
        return HttpWriter(self, sink, query)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is sent elsewhere would become a GET without rows."""

    def redirect_request(self, *_: Any) -> None:
        return None


class HttpWriter:
    """Sends the batches of one sink."""

    def __init__(self, target: HttpTarget, sink: Sink, query: str) -> None:
        self._target, self._record = target, sink.record
        self._lines = encoder("json", sink.record, target.made_by)
        self._where = f"sink {sink.name!r}: {target.place}"
        self._query = f"{query}/{sink.name}"
        self._opener = urllib.request.build_opener(_NoRedirect)

    def write(self, batch: int, table: pa.Table) -> None:
        """Sends a batch until it is taken.

        Raises:
            DataError: the server refuses it.
            EnvironmentProblem: the server does not take it, or cannot be reached.
        """
        body = self._lines(Chunk.from_arrow(self._record, table))
        headers = {"Content-Type": "application/x-ndjson", KEY: f"{self._query}/{batch}"}
        headers |= dict(self._target.headers)
        asked = urllib.request.Request(self._target.url, body, headers, method="POST")
        wait = PeerWait(self._target.place, self._target.patience_s)
        try:
            answered(wait, lambda: self._send(asked), _may_pass)
        except urllib.error.HTTPError as error:
            raise self._refused(batch, table, error) from None

    def close(self) -> None:
        self._opener.close()

    def _send(self, asked: urllib.request.Request) -> None:
        with self._opener.open(asked, timeout=self._target.timeout_s) as answer:
            answer.read()

    def _refused(
        self, batch: int, table: pa.Table, error: urllib.error.HTTPError
    ) -> DataError | EnvironmentProblem:
        with error:
            said = error.read(_SAID).decode("utf-8", "replace").strip()
        told = f"{error.code} {error.reason}{f': {said}' if said else ''}"
        if error.code in (401, 403, 404, 405) or error.code < 400:
            return EnvironmentProblem(f"{self._where}: does not take batches: {told}")
        first = shown_row(table, 0) if table.num_rows else "none"
        return DataError(
            f"{self._where}: batch {batch} of {table.num_rows} rows is refused: {told}\n  its first row: {first}"
        )


def _may_pass(error: Exception) -> bool:
    """Whether the same again may succeed."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code in _LATER
    return isinstance(error, (OSError, http.client.HTTPException))


@known_keywords
def to_http(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    patience: str | int | datetime.timedelta = "1 minute",
) -> HttpTarget:
    """Writes a sink's batches as POSTs of JSON, an object a line, in every host.

    A POST has the header ``Idempotency-Key`` with query, sink and batch. One that may not have been taken (no answer,
    5xx, 408, 425, 429) is sent again, with growing pauses and the same key: at least once, and exactly once for a
    server that keeps the keys with the rows.

    Args:
        url: ``http://…`` or ``https://…``; what stands behind ``?`` is shown nowhere.
        headers: more headers, such as ``{"Authorization": "Bearer …"}``; never shown.
        timeout_s: how long an answer is waited for, in seconds.
        patience: how long a batch is sent again.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("to_http", url=url)
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise BuildError("to_http: url: expected http://HOST/… or https://HOST/…")
    require_seconds("to_http", above=True, timeout_s=timeout_s)
    pairs = header_pairs("to_http", headers)
    return HttpTarget(url, pairs, float(timeout_s), patience_of("to_http", patience))
