"""Docstrings have roles, as ``:class:`Flow```, and end a line before code in ``::``; the site shows neither."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(?=<code>)")


def on_page_content(html: str, **_: Any) -> str:
    """What mkdocs calls with each page that it has made."""
    return _ROLE.sub("", html).replace("::</p>", ":</p>")
