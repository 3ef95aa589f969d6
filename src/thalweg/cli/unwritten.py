"""Sinks of ``thalweg run`` without an output: refused where their rows would be gone for good, else said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import typer

from thalweg.cli.arguments import Given
from thalweg.flow.operators.nodes import Sink
from thalweg.printing import say

#: The format of an output whose rows nobody wants.
DISCARD: Final = "discard"


def refuse_unwritten(outputs: Mapping[str, Given], sinks: Sequence[Sink], checkpoint: str) -> None:
    """Refuses sinks without an output beside a checkpoint: rows that it counts as read are never made again.

    Raises:
        typer.BadParameter: naming the sinks, and what to write.
    """
    missing = _missing(outputs, sinks) if checkpoint else []
    if missing:
        one = missing[0]
        raise typer.BadParameter(
            f"{_shown(missing)} {'has' if len(missing) == 1 else 'have'} no --output, and with --checkpoint a row is"
            f" made once: what is not written is lost; add --output {one}=FOLDER,"
            f" or --output {one}={DISCARD} where nobody wants the rows",
            param_hint="--output",
        )


def tell_unwritten(outputs: Mapping[str, Given], sinks: Sequence[Sink]) -> None:
    """Says which sinks are counted only, and how they are written."""
    if missing := _missing(outputs, sinks):
        say(
            f"{_shown(missing)}: rows are counted, not written, without --output;"
            f" add --output {missing[0]}=FOLDER to write them"
        )


def unwritten(outputs: Mapping[str, Given], sinks: Sequence[Sink]) -> list[str]:
    """The sinks whose rows go nowhere, by name."""
    discarded = [name for name, one in outputs.items() if one.format == DISCARD]
    return [*_missing(outputs, sinks), *discarded]


def _missing(outputs: Mapping[str, Given], sinks: Sequence[Sink]) -> list[str]:
    return [sink.name for sink in sinks if sink.name not in outputs]


def _shown(names: Sequence[str]) -> str:
    return f"sink{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
