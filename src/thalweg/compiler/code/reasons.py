"""Why a function stays interpreted: the one exception that the analysis throws and `explain()` shows."""

from __future__ import annotations


class NotCompilable(Exception):
    """A function uses something whose compiled result is not proven to agree with Python.

    Never reaches a user as an exception: the caller interprets the function, or turns the reason
    into a refusal under ``compile="require"``.
    """

    @property
    def reason(self) -> str:
        """Names function, line and construct, and what to write instead where there is something."""
        return str(self)
