"""``with flow.tags(...)``: what a flow's author says of its operators, for policies that choose among them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from thalweg.checks import require_class
from thalweg.errors import BuildError
from thalweg.flow.blocks import Block

#: What a tag may be: it goes to other processes, and a policy computes with it.
Tag: TypeAlias = bool | int | float | str
#: By operator, its tags.
Tags: TypeAlias = tuple[tuple[int, tuple[tuple[str, Tag], ...]], ...]
#: The tag that is the operator's priority class, in place of the flow's.
PRIORITY_CLASS: Final = "priority_class"


class TagVerbs:
    """The part of a flow that tags operators."""

    name: str
    _tagged: dict[int, dict[str, Tag]]
    _blocks: list[Block]

    def _next(self) -> int:
        raise NotImplementedError

    def tags(self, **tags: Tag) -> Block:
        """Tags all operators that are defined in the block: round policies see them as ``operator.tags``.

        ``priority_class`` is the class of these operators, 0 the most urgent, in place of the flow's own. Inner blocks
        add to outer ones, and overrule them. Operators with other tags are not fused with their neighbours, so that a
        policy can choose among them. Nothing else reads tags, and no output depends on them::

            with flow.tags(urgent=1):
                readings.filter(too_hot).sink("alarms")

        Raises:
            BuildError: there are none, or a value is no bool, int, float or str, or NaN.
        """
        if not tags:
            raise BuildError(f"flow {self.name!r}: tags() needs a tag, such as urgent=1")
        for tag, value in tags.items():
            if tag == PRIORITY_CLASS:
                require_class(f"flow {self.name!r}, tags", value)
            elif not isinstance(value, (bool, int, float, str)):
                raise BuildError(
                    f"flow {self.name!r}: tag {tag!r} must be a bool, int, float or str, not {value!r}"
                )
            elif value != value:
                raise BuildError(
                    f"flow {self.name!r}: tag {tag!r} must be a value that a policy can compare, not NaN"
                )

        def hold(indexes: range) -> None:
            for index in indexes:
                self._tagged[index] = {**tags, **self._tagged.get(index, {})}

        said = ", ".join(f"{tag}={value!r}" for tag, value in tags.items())
        return Block(f"tags({said})", self._blocks, self._next, hold)


def tags_of(tagged: Mapping[int, Mapping[str, Tag]]) -> Tags:
    """What was said of operators, as a value that can be compared."""
    return tuple((index, tuple(sorted(found.items()))) for index, found in sorted(tagged.items()))


#: Those of an operator without tags.
NO_TAGS: Final[Mapping[str, Tag]] = MappingProxyType({})
