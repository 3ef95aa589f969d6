"""The pages on connectors run as they stand there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.connectors import postgres_server, small_servers
from tests.docs.test_docs import ROOT, run_page

#: The address that the page on PostgreSQL has.
_DSN = "postgresql://thalweg@127.0.0.1:5432/postgres"


@pytest.mark.parametrize(
    ("page", "package"),
    [
        ("delta", "deltalake"),
        ("iceberg", "pyiceberg"),
        ("files", "pyarrow"),
        ("http", "pyarrow"),
        ("mqtt", "pyarrow"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_page(page: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of the page runs and its assertions hold."""
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "connectors" / f"{page}.md", monkeypatch)


def test_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, with the address of a server of the test's own."""
    text = (ROOT / "docs" / "connectors" / "postgres.md").read_text(encoding="utf-8")
    assert _DSN in text
    with postgres_server.running() as server:
        page = tmp_path / "postgres.md"
        page.write_text(text.replace(_DSN, server.dsn), encoding="utf-8")
        run_page(page, monkeypatch)


def test_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same."""
    with small_servers.valkey() as server:
        server.client.xadd("orders", {"user": "ann", "amount": 1.5})
        server.client.xadd("orders", {"user": "ann", "amount": "2"})
        _run_at("redis", "redis://localhost:6379/0", server.url, tmp_path, monkeypatch)
        totals = [entry["total"] for _, entry in server.client.xrange("totals")]
        assert totals == ["1.5", "3.5"]


def test_nats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same."""

    async def make(js: Any) -> None:
        await js.add_stream(name="ORDERS", subjects=["orders.*"])
        await js.add_stream(name="TOTALS", subjects=["totals.*"])
        for amount in (1.5, 2):
            await js.publish("orders.a", json.dumps({"user": "ann", "amount": amount}).encode())

    with small_servers.nats() as server:
        server.do(make)
        _run_at("nats", "nats://localhost:4222", server.url, tmp_path, monkeypatch)
        last = server.do(lambda js: js.get_last_msg("TOTALS", "totals.all"))
        assert json.loads(last.data) == {"user": "ann", "total": 3.5}


def _run_at(
    page: str, address: str, here: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs a page with another address in place of its own."""
    text = (ROOT / "docs" / "connectors" / f"{page}.md").read_text(encoding="utf-8")
    assert address in text
    made = folder / f"{page}.md"
    made.write_text(text.replace(address, here), encoding="utf-8")
    run_page(made, monkeypatch)
