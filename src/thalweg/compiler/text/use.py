"""What a kernel does with texts, as its module says it: whoever runs it prepares just that."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Collection

from thalweg.compiler.code.unit import ModuleParts


@dataclasses.dataclass(frozen=True, slots=True)
class TextUse:
    """``reads``: it looks at texts of columns; ``arena``: it makes texts; ``made``: the output fields that get some."""

    reads: bool = False
    arena: bool = False
    made: frozenset[int] = frozenset()

    @classmethod
    def of(cls, module: types.ModuleType) -> TextUse:
        """That of a generated module."""
        known = vars(module)
        made = frozenset(known.get("TEXTS_MADE", ()))
        return cls(bool(known.get("READS_TEXTS")), bool(known.get("USES_ARENA")), made)


def text_use_lines(unit: ModuleParts, made: Collection[int]) -> list[str]:
    """Lines of a module that :meth:`TextUse.of` reads; none where texts only pass through."""
    lines = []
    if unit.reads_text:
        lines.append("READS_TEXTS = True\n")
    if unit.uses_arena:
        lines.append("USES_ARENA = True\n")
    if made:
        lines.append(f"TEXTS_MADE = ({''.join(f'{one}, ' for one in sorted(made))})\n")
    return lines
