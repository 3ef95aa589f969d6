"""Where a user's caches are."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping


def user_cache(environment: Mapping[str, str]) -> pathlib.Path:
    """The user's own folder for what Thalweg can make again."""
    base = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "thalweg"
