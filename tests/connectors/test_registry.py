"""Addresses become what a program would write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

import thalweg as tw
from thalweg.connectors import registry
from thalweg.connectors.registry import Connector, described, host_and_name, keywords, scheme_of


def poll(
    servers: str,
    topic: str,
    *,
    follow: bool = True,
    max_rows: int | None = None,
    format: Literal["json", "text"] = "json",
    wait_s: float = 1.0,
    names: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "servers": servers,
        "topic": topic,
        **dict(follow=follow, max_rows=max_rows, format=format, wait_s=wait_s, names=names),
    }


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        registry.BUILT_IN, "poll", Connector(poll, None, host_and_name, "poll://host:1/name")
    )


def test_an_address_is_a_call() -> None:
    """Options behind ``?`` and beside it become keywords by their types."""
    found = described(
        "poll://host:92/topic?follow=false&names=a|b", "source", {"max_rows": "5", "wait_s": "2"}
    )
    assert found == poll("host:92", "topic", follow=False, names=("a", "b"), max_rows=5, wait_s=2.0)
    assert described("poll://h:1/t", "source", {"max_rows": "none"})["max_rows"] is None


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        ("poll://host:92/topic", {"max_row": "5"}, "no option 'max_row'.*did you mean 'max_rows'"),
        ("poll://host:92/topic", {"max_rows": "many"}, "max_rows cannot be 'many'"),
        (
            "poll://host:92",
            {},
            "expected //HOST:PORT/NAME behind the scheme, like poll://host:1/name",
        ),
        ("poll:topic", {}, "expected //HOST:PORT/NAME"),
    ],
)
def test_what_is_not_known_is_named(address: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(tw.BuildError, match=said):
        described(address, "source", options)


def test_what_only_reads_is_no_output() -> None:
    with pytest.raises(tw.BuildError, match="poll is no output"):
        described("poll://host:92/topic", "sink")


def test_paths_are_no_addresses() -> None:
    """Also those with a colon, and those of file systems."""
    for path in ("data/a.csv", "/data", "file:/data", "s3a://b/c", "hdfs://n/x", "a:b", "C:/x"):
        assert scheme_of(path) is None
    assert scheme_of("poll://x/y") == "poll"


def test_keywords_of_a_function_that_takes_any_are_texts() -> None:
    def any_of(path: str, **options: Any) -> None: ...

    assert keywords(any_of, 1, {"a": "1"}) == {"a": "1"}


class EntryPoint:
    """An entry point of an installed package."""

    name = "far"
    value = "far_away:connector"

    def __init__(self, made: Any) -> None:
        self.load = lambda: made


def test_other_packages_join_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scheme counts, its functions are called; what it gives is looked at."""
    found = [EntryPoint(Connector(poll, None, host_and_name))]
    monkeypatch.setattr(
        registry, "entry_points", lambda group, name="far": found if name == "far" else []
    )
    assert scheme_of("far://h:1/t") == "far"
    assert described("far://h:1/t", "source")["topic"] == "t"
    found[0] = EntryPoint(3)
    with pytest.raises(
        tw.BuildError, match="'far': far_away:connector is int, expected a thalweg Connector"
    ):
        described("far://h:1/t", "source")


def test_addresses_of_tables() -> None:
    """Of each connector for tables: the call that its address stands for."""
    for address, role, options, wanted in (
        ("delta:/a/b?start=5", "source", {"follow": "no"}, tw.delta("/a/b", start=5, follow=False)),
        (
            "delta:/a?partition_by=x|y", "sink", {"mode": "upsert", "key": "k"},
            tw.to_delta("/a", partition_by=["x", "y"], mode="upsert", key="k"),
        ),
        (
            "postgres://u:p@h:1/d/s.t", "sink", {"key": "k", "create": "false"},
            tw.to_postgres("postgresql://u:p@h:1/d", "s.t", key="k", create=False),
        ),
        ("postgres://h/d/t", "source", {"order_by": "a"}, tw.postgres("postgresql://h/d", "t", order_by="a")),
        (
            "postgres-changes://h/d/pub?slot=s", "source", {},
            tw.postgres_changes("postgresql://h/d", "pub", slot="s"),
        ),
        ("iceberg://c/n.t", "sink", {}, tw.to_iceberg("c", "n.t")),
    ):  # fmt: skip
        assert scheme_of(address) is not None
        assert described(address, role, options) == wanted  # type: ignore[arg-type]
    with pytest.raises(tw.BuildError, match="expected //USER@HOST:PORT/DATABASE/TABLE"):
        described("postgres://h/d", "sink")


def test_addresses_of_servers() -> None:
    """Each scheme is the call that its page names."""
    for address, role, expected in (
        ("redis://h:1/orders?follow=no", "source", tw.redis_stream("redis://h:1", "orders", follow=False)),
        ("redis://me:pw@h:1/3/out?maxlen=9", "sink", tw.to_redis("redis://me:pw@h:1/3", "out", maxlen=9)),
        ("nats://h:1/S?subject=a.*&start=earliest", "source", tw.nats("nats://h:1", "S", subject="a.*")),
        ("nats://h:1/a.b", "sink", tw.to_nats("nats://h:1", "a.b")),
        ("https://h/rows?timeout_s=3", "sink", tw.to_http("https://h/rows", timeout_s=3)),
    ):  # fmt: skip
        assert described(address, role) == expected  # type: ignore[arg-type]
    assert repr(described("mqtt://h:7/a/+?qos=0", "source")) == "<tw.mqtt at mqtt://h:7/a/+>"
    assert repr(described("wss://h/feed", "source")) == "<tw.websocket at wss://h/feed>"
    for address in ("redis://h:1", "nats://h:1/", "mqtt://h"):
        with pytest.raises(tw.BuildError, match=r"expected //HOST:PORT/.* behind the scheme, like"):
            described(address, "source")
