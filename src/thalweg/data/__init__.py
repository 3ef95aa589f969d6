"""The real data that come with the package, for the demo, the examples and the tests.

Each set is a folder with a README that says where the data are from, under which licence, and what was changed.
"""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Final

_FILES: Final = {
    "call_records": "call_records.csv.gz",
    "web_log": "access_log_2015-05.txt.gz",
    "nyc_flights": "nyc_flights_2013_01-02.csv.gz",
}
#: The names of the sets, in alphabetical order.
NAMES: Final = tuple(sorted(_FILES))


def path(name: str) -> Path:
    """The file of a set, gzip-compressed, as a path that any reader can open.

    Raises:
        ValueError: there is no such set; the message lists those there are.

    Example::

        >>> path("web_log").name
        'access_log_2015-05.txt.gz'
    """
    if name not in _FILES:
        raise ValueError(f"no data set is named {name!r}, expected one of {', '.join(NAMES)}")
    # Wheels are installed as files; nobody runs this package out of a zip file, since Numba could not either.
    return Path(str(importlib.resources.files(__name__).joinpath(name, _FILES[name])))
