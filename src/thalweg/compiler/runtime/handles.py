"""How compiled code names a value that only passes through: by the number of the column that it comes from."""

from __future__ import annotations

from typing import Final

#: The handle of a None that goes to an optional text, list or record.
NO_VALUE: Final = -(2**40)
