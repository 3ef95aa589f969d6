"""NEXMark's events into folders of files, or topics of Kafka."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import thalweg as tw
from thalweg import datagen
from thalweg.examples.nexmark.records import Auction, Bid, Person, SideRow
from thalweg_lab.nexmark.generator import side_input, stream
from thalweg_lab.nexmark.spec import KINDS, Spec

#: The folders, and what is in them.
RECORDS: Final[dict[str, type[Any]]] = {
    "persons": Person,
    "auctions": Auction,
    "bids": Bid,
    "side": SideRow,
}
#: Called with the rows that were written since the last call.
OnRows = Callable[[int], None]


def batches(spec: Spec, what: str) -> Iterator[pa.RecordBatch]:
    """The rows of one of the folders."""
    for kind in KINDS:
        if kind == what:
            return stream(spec, kind)
    return iter([side_input(spec)])


def write(
    spec: Spec,
    folder: Path,
    *,
    format: str = "parquet",
    files: int = 1,
    on_rows: OnRows | None = None,
) -> dict[str, Path]:
    """Writes ``persons``, ``auctions``, ``bids`` and ``side`` below a folder, in order of arrival; gives the paths.

    Raises:
        ValueError: an unknown format, or a folder that has such files already.
    """
    for what in RECORDS:
        rows = spec.count(what) if what in KINDS else side_input(spec).num_rows
        datagen.write_files(
            batches(spec, what), folder / what, rows=rows, files=files if what in KINDS else 1, format=format,
            on_file=lambda path, done: on_rows(done) if on_rows else None,
        )  # fmt: skip
    return {what: folder / what for what in RECORDS}


def kept(spec: Spec, cache: Path, *, format: str = "parquet", on_rows: OnRows | None = None) -> Path:  # fmt: skip
    """A folder with the events in ``cache``, written the first time; it appears whole."""
    name = f"nexmark-{spec.events}-{spec.seed}-{spec.out_of_order_group}-{spec.rate:g}-{format}"
    folder = cache / name
    if not folder.exists():
        hidden = cache / f".{name}.{os.getpid()}"
        hidden.mkdir(parents=True)
        write(spec, hidden, format=format, files=max(spec.events // 250_000, 1), on_rows=on_rows)
        # Another process may have been faster; its files are the same.
        with contextlib.suppress(OSError):
            hidden.rename(folder)
        shutil.rmtree(hidden, ignore_errors=True)
    return folder


def publish(spec: Spec, servers: str, *, prefix: str = "nexmark-") -> None:
    """Sends the events as JSON to the topics ``nexmark-persons``, ``nexmark-auctions`` and so on."""
    for what, record in RECORDS.items():
        flow = tw.Flow(f"nexmark_{what}")
        flow.source(what, record).sink("out")
        tw.run(flow, {what: batches(spec, what)}, {"out": tw.to_kafka(servers, f"{prefix}{what}")})
