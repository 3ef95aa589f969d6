"""``with flow.threading(...)``: which threads run a part of a flow (Schneider & Wu, section 2.2: ``@threading``)."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from thalweg.errors import BuildError
from thalweg.flow.blocks import Block

#: Who runs an operator: who feeds it, a thread of its own, or the workers that a policy sends.
ThreadingModel: TypeAlias = Literal["manual", "dedicated", "dynamic"]
THREADING_MODELS: Final = ("manual", "dedicated", "dynamic")


class Region(NamedTuple):
    """A block of operators that are run alike; each ``with`` is one of its own, by its number in the flow."""

    model: ThreadingModel
    number: int


#: By operator, its region.
Regions: TypeAlias = tuple[tuple[int, Region], ...]


class ThreadingVerbs:
    """The part of a flow that says which threads run its operators."""

    name: str
    _regions: dict[int, Region]
    _region_count: int
    _blocks: list[Block]

    def _next(self) -> int:
        raise NotImplementedError

    def threading(self, model: ThreadingModel) -> Block:
        """Says which threads run the operators that are defined in the block, in a run that has threads.

        ``"manual"``: who feeds them, by the same call, without a queue between; behind a source that is the thread
        which brings the rows. ``"dedicated"``: each has a thread of its own. ``"dynamic"``: the workers, sent by the
        policy. For all other operators ``threading=`` of :func:`thalweg.run` says it. An inner block overrules the
        outer one; operators of different blocks are not fused. No output depends on it::

            with flow.threading("dedicated"):
                parsed = lines.map(parse)
            with flow.threading("manual"):
                parsed.filter(is_failed).sink("failures")

        Here the filter and the sink are run by the thread of ``parse`` (docs/runtime.md).

        Raises:
            BuildError: the model is none of the three.
        """
        if model not in THREADING_MODELS:
            known = ", ".join(map(repr, THREADING_MODELS))
            raise BuildError(f"flow {self.name!r}: threading() takes {known}, not {model!r}")
        self._region_count += 1
        region = Region(model, self._region_count)

        def hold(indexes: range) -> None:
            for index in indexes:
                self._regions.setdefault(index, region)

        return Block(f"threading({model!r})", self._blocks, self._next, hold)
