"""Operators and sources under other names, and without those that are given up: in manifest and record. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from thalweg.checkpoint.history import INPUTS
from thalweg.checkpoint.manifest import Manifest
from thalweg.checkpoint.record import CommitRecord

_Of = TypeVar("_Of")

#: Where a record says what the gates are at.
GATES = "gates"


def new_names(old: Manifest, new: Manifest, renamed: Mapping[str, str]) -> dict[str, str]:
    """The names in a checkpoint that are others in a flow.

    What a verb has put in front of its operator is named behind it (``name/order``), and goes with it.

    Args:
        old: of the checkpoint.
        new: of the flow.
        renamed: what the flow says.
    """
    known = [*old.operators, *old.sources]
    there = {*new.operators, *new.sources}
    found: dict[str, str] = {}
    for before, now in renamed.items():
        for name in known:
            if name == before or name.startswith(f"{before}/"):
                other = now + name[len(before) :]
                # Where the checkpoint knows the new name, it was renamed at an earlier start.
                if other in there and other not in known and name not in there:
                    found[name] = other
    return found


def renamed_manifest(manifest: Manifest, names: Mapping[str, str]) -> Manifest:
    """The manifest with other names."""
    of = _naming(names)
    return dataclasses.replace(
        manifest, operators=of(manifest.operators), sources=of(manifest.sources)
    )


def renamed_record(record: CommitRecord, names: Mapping[str, str]) -> CommitRecord:
    """The record with other names; the files stay what they are."""
    of = _naming(names)
    extra = dict(record.extra)
    if GATES in extra:
        extra[GATES] = of(extra[GATES])
    if INPUTS in extra:
        said = dict(extra[INPUTS])
        said["places"] = of(said["places"])
        said["over"] = [names.get(name, name) for name in said["over"]]
        extra[INPUTS] = said
    return dataclasses.replace(
        record, chains=of(record.chains), counters=of(record.counters), extra=extra
    )


def without(record: CommitRecord, dropped: Collection[str]) -> CommitRecord:
    """The record without the state, counts and places of some operators and sources."""

    def rest(given: Mapping[str, _Of]) -> dict[str, _Of]:
        return {name: one for name, one in given.items() if name not in dropped}

    extra = dict(record.extra)
    if GATES in extra:
        extra[GATES] = rest(extra[GATES])
    if INPUTS in extra:
        said: dict[str, Any] = dict(extra[INPUTS])
        said["places"] = rest(said["places"])
        said["over"] = [name for name in said["over"] if name not in dropped]
        extra[INPUTS] = said
    return dataclasses.replace(
        record, chains=rest(record.chains), counters=rest(record.counters), extra=extra
    )


def _naming(names: Mapping[str, str]) -> Callable[[Mapping[str, _Of]], dict[str, _Of]]:
    return lambda given: {names.get(name, name): one for name, one in given.items()}
