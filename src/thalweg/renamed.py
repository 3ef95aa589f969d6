"""Names of the last version, which warn for one version."""

from __future__ import annotations

import warnings


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Tells whoever uses a name that it has another one now."""
    told = f"{old} is {new} now; the old name goes with the next version"
    warnings.warn(told, DeprecationWarning, stacklevel=stacklevel)
