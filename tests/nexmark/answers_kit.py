"""NEXMark's inputs for the tests: 100 seconds or a midnight of few events, out of order by half a second at most."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pyarrow as pa
from thalweg_lab.nexmark.spec import Spec
from thalweg_lab.nexmark.written import batches

from thalweg.examples.nexmark.queries import SOURCES, sources_of


def spec_of(events: int, seed: int) -> Spec:
    """Odd seeds are in time order and run over midnight."""
    rate = events / 100
    late = seed % 2
    group = 1 if late else max(int(rate / 2), 1)
    start = "2026-01-05T23:59:10Z" if late else "2026-01-05T12:00:00Z"
    return Spec(
        events, seed, rate, out_of_order_group=group, start=start, side_rows=1_000 + events // 40, side_every=50,
    )  # fmt: skip


@functools.cache
def tables(events: int, seed: int) -> Mapping[str, pa.Table]:
    """All sources; the table of query 13 has few keys, so some bids find none."""
    spec = spec_of(events, seed)
    return {source: pa.Table.from_batches(batches(spec, source)) for source in SOURCES}


def inputs(query: str, events: int, seed: int) -> dict[str, pa.Table]:
    """What a query reads."""
    return {
        source: tables(events, seed)[source].select(
            [name for name in record._fields if name != "arrived"]
        )
        for source, record in sources_of(query).items()
    }
