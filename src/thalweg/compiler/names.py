"""Names of functions that the source of a function and its compiled form share."""

from __future__ import annotations

from typing import Final

#: Functions of ``math`` of one float that are C's.
ONE_FLOAT: Final = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "exp", "exp2", "expm1", "log", "log10",
    "log1p", "log2", "sin", "sinh", "tan", "tanh",
)  # fmt: skip
