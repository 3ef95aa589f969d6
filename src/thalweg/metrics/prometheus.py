"""``/metrics`` in Prometheus' text form: snapshots are taken when somebody asks, and by nobody else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from thalweg.checks import refuse
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.metrics.names import METRICS, Snapshots, samples_of

_MISSING: Final = "metrics= needs the package prometheus-client: pip install 'thalweg[metrics]'"


class _Collector:
    """What Prometheus' registry asks at each scrape."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        snapshots = list(self._snapshots())
        for metric in METRICS:
            made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            labels = ("flow", *metric.labels)
            family = made(metric.name, metric.help, labels=labels)
            for found, value in samples_of(metric, snapshots):
                family.add_metric([found[name] for name in labels], value)
            yield family

    def describe(self) -> list[Any]:
        """Nothing is collected to find out the names."""
        return []


class MetricsServer:
    """Answers ``GET /metrics`` until it is closed; made by :func:`serve_metrics`."""

    def __init__(self, address: str, server: Any, thread: Any) -> None:
        self.address = address
        self._server, self._thread = server, thread

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.address}/metrics"

    def close(self) -> None:
        """Ends it; harmless twice."""
        if self._server is not None:
            server, self._server = self._server, None
            server.shutdown()
            server.server_close()
            self._thread.join(2.0)

    def __repr__(self) -> str:
        return f"<MetricsServer {self.url}{'' if self._server else ', closed'}>"


def address_of(given: Any) -> tuple[str, int]:
    """Host and port of ``"127.0.0.1:9464"``, ``":9464"`` or ``9464``: this machine alone unless a host is named.

    Raises:
        BuildError: it is no such address.
    """
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise refuse("metrics", "address", 'such as "127.0.0.1:9464", or a port', given)
    host, colon, port = str(given).rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65_535 or (colon and "/" in host):
        raise BuildError(
            f'metrics: expected HOST:PORT such as "127.0.0.1:9464", or a port alone, got {given!r}'
        )
    return host, int(port)


def serve_metrics(address: str | int, snapshots: Snapshots) -> MetricsServer:
    """Begins to answer ``GET /metrics``; port 0 takes one that is free.

    Args:
        address: ``"HOST:PORT"``, or a port of this machine alone.
        snapshots: gives those of the flows that there are, at each scrape.

    Raises:
        BuildError: that is no address.
        EnvironmentProblem: prometheus-client is not installed, or the address is not free.
    """
    host, port = address_of(address)
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise EnvironmentProblem(_MISSING) from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshots))  # type: ignore[arg-type, unused-ignore]
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise EnvironmentProblem(f"metrics: {host}:{port}: {error.strerror or error}") from None
    shown = f"[{host}]" if _is_v6(host) else host
    return MetricsServer(f"{shown}:{server.server_port}", server, thread)


def _is_v6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
