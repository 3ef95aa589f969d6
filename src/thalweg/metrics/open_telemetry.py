"""The same metrics for OpenTelemetry: observable instruments, which read a snapshot whenever a reader collects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from thalweg.errors import EnvironmentProblem
from thalweg.metrics.names import METRICS, Metric, Snapshots, samples_of
from thalweg.snapshot import Snapshot
from thalweg.version import __version__

_MISSING: Final = (
    "to_opentelemetry needs the package opentelemetry-sdk: pip install 'thalweg[otel]'"
)
#: The instruments of one collection share a snapshot: they are read within so many seconds.
_SHARED_S: Final = 0.2


class _Collected:
    """Snapshots that all instruments of a collection read."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._at = -1.0
        self._taken: Sequence[Snapshot] = ()

    def __call__(self) -> Sequence[Snapshot]:
        if time.monotonic() - self._at > _SHARED_S:
            self._taken, self._at = list(self._snapshots()), time.monotonic()
        return self._taken


def to_opentelemetry(snapshots: Snapshots, provider: Any = None) -> None:
    """Registers the metrics with a meter provider; names have dots, as is usual there: ``thalweg.operator.rows_in``.

    Args:
        snapshots: gives those of the flows that there are: ``lambda: [run.progress()]``.
        provider: OpenTelemetry's MeterProvider; None: the global one.

    Raises:
        EnvironmentProblem: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError:
        raise EnvironmentProblem(_MISSING) from None
    meter = (provider or metrics.get_meter_provider()).get_meter("thalweg", __version__)
    shared = _Collected(snapshots)
    for metric in METRICS:
        is_counter = metric.kind == "counter"
        make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        make(
            dotted(metric), callbacks=[_callback(metric, shared, metrics)], description=metric.help
        )


def dotted(metric: Metric) -> str:
    """The name in OpenTelemetry's form: where the thing ends that is measured there is a dot.

    Example::

        >>> dotted(METRICS[2])
        'thalweg.operator.rows_in'
    """
    return ".".join(metric.name.split("_", 2))


def _callback(metric: Metric, shared: _Collected, metrics: Any) -> Callable[[Any], Iterator[Any]]:
    def observe(_: Any) -> Iterator[Any]:
        for labels, value in samples_of(metric, shared()):
            yield metrics.Observation(value, dict(labels))

    return observe
