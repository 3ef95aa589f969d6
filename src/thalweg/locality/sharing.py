"""Who owns what when things of equal worth are shared out among slots; pure."""

from __future__ import annotations

from collections.abc import Sequence


def spread(count: int, slots: int) -> list[int]:
    """The slot of each of ``count`` things: equal runs, one after the other."""
    return [thing * slots // count for thing in range(count)]


def shared(owners: Sequence[int], before: int, slots: int) -> list[int]:
    """New owners for another number of slots, as few things moved as possible.

    Things of slots that are gone go one by one to the slot that has the fewest. Slots that are new take from the one
    that has the most while that has two more than they. What the others have among themselves stays, be it
    equal or not. Ties go by the lower slot.

    Args:
        owners: the slot of each thing.
        before: how many slots there were.
        slots: how many there are to be.
    """
    have: list[list[int]] = [[] for _ in range(slots)]
    orphans: list[int] = []
    for thing, owner in enumerate(owners):
        (have[owner] if owner < slots else orphans).append(thing)
    for thing in orphans:
        min(have, key=len).append(thing)
    new = have[before:]
    while new and len(max(have, key=len)) > len(min(new, key=len)) + 1:
        min(new, key=len).append(max(have, key=len).pop())
    found = [0] * len(owners)
    for slot, things in enumerate(have):
        for thing in things:
            found[thing] = slot
    return found
