"""The numbers of snapshots under names that monitoring keeps: Prometheus text over HTTP, and OpenTelemetry's meters."""

from __future__ import annotations

from thalweg.metrics.names import METRICS, Metric, Sample, Snapshots, samples_of
from thalweg.metrics.open_telemetry import to_opentelemetry
from thalweg.metrics.prometheus import MetricsServer, address_of, serve_metrics

__all__ = [
    "METRICS",
    "Metric",
    "MetricsServer",
    "Sample",
    "Snapshots",
    "address_of",
    "samples_of",
    "serve_metrics",
    "to_opentelemetry",
]
