"""What makes an exploration due again: code that runs, and nothing that is only said."""

from __future__ import annotations

from tests.interleavings.explored import code_of

CODE = '''"""A module."""
from a import b

def f(x):
    """Says what it does."""
    return b(x) + 1  # why
'''


def test_what_counts_is_code() -> None:
    """Comments, docstrings and where a name comes from do not; a changed number does."""
    same = CODE.replace("# why", "").replace("from a", "from c.d").replace("A module", "Another")
    assert code_of(same) == code_of(CODE)
    assert code_of(CODE.replace("+ 1", "+ 2")) != code_of(CODE)
    assert code_of(CODE.replace("b(x)", "b(-x)")) != code_of(CODE)
