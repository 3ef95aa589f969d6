"""Whole numbers on their way between tasks, in as few bytes as they need: cheaper than packing them, and smaller.

Rows leave a stage in order, so times and serials are sent as the small steps between them, others by how far they are
from the least. Both forms are exact for all int64, since steps wrap around and their sums wrap back.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.columns.chunks import Int64s

#: Of fewer the saving is not worth the look; two at least.
FEW: Final = 256
_DTYPES: Final = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))
#: Steps are not looked for where distances are as narrow as this.
_NARROW_BYTES: Final = 2


class Narrow(NamedTuple):
    """Numbers in a narrower type.

    Attributes:
        values: unsigned.
        form: how to undo it, as text: the least number; for steps the first number and the least step.
    """

    values: npt.NDArray[Any]
    form: str


def narrowed(values: Int64s) -> Narrow | None:
    """The numbers in the narrowest form; None where nothing is gained."""
    if len(values) < FEW:
        return None
    least = int(values.min())
    plain = _dtype(int(values.max()) - least)
    if plain is None or plain.itemsize > _NARROW_BYTES:
        steps = np.diff(values)
        least_step = int(steps.min())
        by_steps = _dtype(int(steps.max()) - least_step)
        if by_steps is not None and (plain is None or by_steps.itemsize < plain.itemsize):
            out = np.zeros(len(values), by_steps)
            out[1:] = steps - least_step
            return Narrow(out, f"{int(values[0])} {least_step}")
    if plain is None:
        return None
    return Narrow((values - least).astype(plain), str(least))


def widened(values: npt.NDArray[Any], form: str) -> Int64s:
    """The numbers of :func:`narrowed`."""
    first, *step = map(int, form.split())
    out = values.astype(np.int64)
    if not step:
        out += first
        return out
    out += step[0]
    out[0] = first
    return np.cumsum(out, out=out)


def _dtype(distance: int) -> np.dtype[Any] | None:
    """The narrowest type that holds numbers from 0 to this."""
    return next((one for one in _DTYPES if distance <= int(np.iinfo(one).max)), None)
