"""Where the outputs of a checkpoint lie: kept beside it, and told where a start names other places."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import orjson

from thalweg.checkpoint.paths import FileSystem, absolute, join, read_bytes, write_atomic

_LOG: Final = logging.getLogger("thalweg")
FILE: Final = "outputs.json"


def places_of(sinks: Mapping[str, Any]) -> dict[str, str]:
    """By sink, the place of each output that has one: a target's, or the folder."""
    out = {}
    for name, sink in sinks.items():
        place, path = getattr(sink, "place", None), getattr(sink, "path", None)
        if isinstance(path, str):
            out[name] = absolute(path)  # a folder of batches is the same in both hosts
        elif isinstance(place, str) and "#" not in place:
            out[name] = place
    return out


def tell_moved(fs: FileSystem, root: str, sinks: Mapping[str, Any]) -> None:
    """Says of which outputs a checkpoint has written another place until now, and keeps where they are now.

    Going on is allowed: it is how an output is moved by hand. But rows are then in two places, and a target that counts
    batches begins anew in the second one.
    """
    path = join(root, FILE)
    content = read_bytes(fs, path)
    before = {} if content is None else dict(orjson.loads(content))
    now = places_of(sinks)
    for name in now.keys() & before.keys():
        if now[name] != before[name]:
            _LOG.warning(
                "sink %r: the checkpoint has written to %s until now, and from here on writes to %s; what was written"
                " stays where it is, and is not written again", name, before[name], now[name],
            )  # fmt: skip
    after = before | now
    if after != before:
        write_atomic(fs, path, orjson.dumps(after, option=orjson.OPT_INDENT_2) + b"\n")
