"""How what tasks count of their keys comes to the driver."""

from __future__ import annotations

from typing import TypeAlias

from pyspark.accumulators import AccumulatorParam

#: What tasks told: the batch's attempt, stage, slot, and a summary as bytes.
Told: TypeAlias = list[tuple[str, int, int, bytes]]


class ToldParam(AccumulatorParam[Told]):
    """Adds up what tasks tell."""

    def zero(self, value: Told) -> Told:
        return []

    def addInPlace(self, value1: Told, value2: Told) -> Told:
        value1 += value2
        return value1
