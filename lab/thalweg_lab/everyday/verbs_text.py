"""The verbs with keys of text: the file of the others, read under this name."""

from pathlib import Path

_SOURCE = Path(__file__).with_name("verbs.py")
# Its code names that file, so the source of its functions is found there.
exec(compile(_SOURCE.read_text(), str(_SOURCE), "exec"))
