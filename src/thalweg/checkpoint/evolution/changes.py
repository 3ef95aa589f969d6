"""What a flow does to each operator's and source's state in a checkpoint, in words that people read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from thalweg.brief import counted

#: *same*: nothing; *appended*: fields with a default behind the others, which files need not be rewritten for;
#: *changed*: what is asked of a library operator, or all of one that holds no state; *converted*: its rows are
#: rewritten by rules; *migrated*: by the user's function; *new* begins empty; *dropped* is forgotten; *refused*.
ChangeKind: TypeAlias = Literal[
    "same", "appended", "changed", "converted", "migrated", "new", "dropped", "refused"
]
#: Lines of an error about refused changes, before it says how many more there are.
_SHOWN: Final = 6


class StateChange(NamedTuple):
    """What happens to the state of an operator or a source.

    Attributes:
        name: its name in the flow, or in the checkpoint where it is gone.
        what: "operator" or "source"; "flow" for what concerns all.
        kind: what happens.
        why: more about it; of a refusal, what differs.
        todo: of a refusal, what would do it.
        was: its name in the checkpoint, where the flow says that it was renamed.
        rows: how many states or waiting rows are rewritten.
    """

    name: str
    what: Literal["operator", "source", "flow"]
    kind: ChangeKind
    why: str = ""
    todo: str = ""
    was: str = ""
    rows: int = 0

    @property
    def is_refused(self) -> bool:
        """Whether the flow cannot go on because of it."""
        return self.kind == "refused"

    def __str__(self) -> str:
        was = f" (was {self.was!r})" if self.was else ""
        said = [f"{self.what} {self.name!r}{was}: {self.kind}"]
        said += [counted(self.rows, "row")] if self.rows else []
        said += [part for part in (self.why, self.todo) if part]
        return "; ".join(said)

    def refusal(self) -> str:
        """The line of an error: where, what differs, what would do it."""
        where = self.why if self.what == "flow" else f"{self.what} {self.name!r}{self.why}"
        return f"{where}; {self.todo}" if self.todo else where


def refused(name: str, why: Sequence[str], todo: str = "", *, source: bool = False) -> StateChange:
    """A refusal; ``why`` are parts that go behind the operator's name."""
    return StateChange(name, "source" if source else "operator", "refused", "; ".join(why), todo)


def differs(what: str, old: object, new: object) -> str:
    """What the checkpoint has and what the flow has."""
    return f"{what}: the checkpoint has {old}, the flow has {new}"


def refusals(changes: Sequence[StateChange]) -> str:
    """The refused ones as lines of an error, not too many."""
    lines = [change.refusal() for change in changes if change.is_refused]
    more = [f"… and {len(lines) - _SHOWN} more"] if lines[_SHOWN:] else []
    return "".join(f"\n- {line}" for line in lines[:_SHOWN] + more)
