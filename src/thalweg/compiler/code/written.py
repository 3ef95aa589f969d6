"""Texts that were written before: a flow is checked, explained and run with one writing of its functions.

What is written depends on sources, captured values and schemas alone, so the same of these give the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from thalweg.compiler.code.reasons import NotCompilable
from thalweg.compiler.code.source import Captured, FunctionSource, RecordClass

#: By all that a text depends on, the text or the refusal.
_known: Final[dict[str, str | NotCompilable]] = {}
#: Then it starts anew.
_MOST: Final = 512


def written_once(
    sources: Sequence[FunctionSource | None], rest: object, write: Callable[[], str]
) -> str:
    """What ``write`` gives for these sources and whatever else it reads, which its ``repr`` must tell whole.

    A source of None is one that is described when it is written, so nothing is kept.

    Raises:
        NotCompilable: as ``write`` does.
    """
    given = [one for one in sources if one is not None]
    if len(given) < len(sources):
        return write()
    key = repr((rest, given, [list(_defaults(one)) for one in given]))
    if key not in _known:
        if len(_known) >= _MOST:
            _known.clear()
        try:
            _known[key] = write()
        except NotCompilable as refusal:
            _known[key] = refusal
    found = _known.get(key)
    if found is None:  # another thread began anew
        return write()
    if isinstance(found, str):
        return found
    raise NotCompilable(found.reason)


def _defaults(value: Captured) -> Iterator[object]:
    """The defaults of the record classes that a function makes, which their schemas do not tell."""
    if isinstance(value, RecordClass):
        yield [field.default for field in value.schema.fields]
    elif isinstance(value, FunctionSource):
        for _, one in (*value.captured, *value.defaults):
            yield from _defaults(one)
