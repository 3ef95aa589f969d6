"""What round policies know operators by, and which of it must be read anew (Haren, Palyvos-Giannas et al., 3.1 and 6).

A feature says of itself what can change it, so that a host reads in each round only what a policy asks for and what
can have changed since the last.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from thalweg.errors import BuildError, SchedulingError


class FeatureKind(enum.Enum):
    """What can change a feature of an operator (Definitions 3.1 to 3.4)."""

    #: Nothing, as long as the operator is what it is.
    CONSTANT = "constant"
    #: Only that the operator runs; it can be read at any time.
    INDEPENDENT = "independent"
    #: That the operator, one that it reads or one that reads it runs.
    DEPENDENT = "dependent"
    #: Only that the operator runs, and only then can it be measured: one that has not run for long has an old value.
    INTRINSIC = "intrinsic"
    #: The world outside, so it is read in every round. Haren has no such kind.
    EXTERNAL = "external"


@dataclasses.dataclass(frozen=True, slots=True)
class Feature:
    """One measure of an operator.

    Attributes:
        name: of a built-in one, the field of ``OperatorStats`` that holds it; else its key in ``OperatorStats.own``.
        kind: what can change it.
        read: gives the value for an operator's name; None for a built-in one, which the host measures.
    """

    name: str
    kind: FeatureKind
    read: Callable[[str], float] | None = None


def _built_in() -> Iterable[tuple[str, Feature]]:
    names = {
        FeatureKind.CONSTANT: (
            "rank",
            "kind",
            "flow",
            "priority_class",
            "limit",
            "tags",
            "row_bytes",
        ),
        FeatureKind.INDEPENDENT: ("last_run_ns",),
        FeatureKind.DEPENDENT: ("worklist", "output_room", "head_ns"),
        FeatureKind.INTRINSIC: ("cost_ns", "selectivity"),
    }
    return ((name, Feature(name, kind)) for kind, group in names.items() for name in group)


#: What every host measures, by name.
BUILT_IN: Final[Mapping[str, Feature]] = MappingProxyType(dict(_built_in()))


def feature(name: str, *, kind: FeatureKind | str, read: Callable[[str], float]) -> Feature:
    """Makes a custom feature for a policy's ``features()``; policies read it from ``OperatorStats.own``.

    Args:
        name: not one of the built-in ones.
        kind: what can change it, e.g. ``"external"``; it is read only when that has happened.
        read: gives the value for an operator's name. It runs between two rounds, while no operator runs.

    Raises:
        BuildError: the name is taken or no identifier, there is no such kind, or ``read`` cannot be called.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise BuildError(f"feature: the name must be an identifier, not {name!r}")
    if name in BUILT_IN:
        raise BuildError(f"feature {name!r} is built in: give yours another name")
    try:
        of_kind = FeatureKind(kind)
    except ValueError:
        kinds = ", ".join(known.value for known in FeatureKind)
        raise BuildError(f"feature {name!r}: kind must be one of {kinds}, not {kind!r}") from None
    if not callable(read):
        raise BuildError(f"feature {name!r}: read must be a function of a name, not {read!r}")
    return Feature(name, of_kind, read)


def read_feature(feature: Feature, operator: str, policy: str) -> float:
    """A feature of a user's own now, for an operator's name.

    Raises:
        SchedulingError: reading raised; it names feature, operator and the policy that asks for it.
    """
    assert feature.read is not None, "the host measures what is built in"
    try:
        return feature.read(operator)
    except Exception as error:
        raise SchedulingError(
            f"policy {policy}: feature {feature.name!r} of {operator!r} raised {error!r}",
            policy=policy,
            operator=operator,
        ) from error


def stale(
    required: Iterable[Feature],
    ran: Collection[int],
    neighbours: Sequence[Iterable[int]],
    *,
    changed: Collection[int] = (),
) -> list[tuple[int, Feature]]:
    """The required features that may have changed since the last round (Algorithms 2 and 3).

    Args:
        required: the features that the policy asks for.
        ran: the operators that have run since the last round, sources among them.
        neighbours: by operator, those that it reads and those that read it.
        changed: operators that are new or not what they were: all of theirs is read.

    Returns:
        Pairs of operator and feature, by operator, features in the order given.
    """
    touched = set(ran) | set(changed)
    around = touched.union(*(neighbours[operator] for operator in touched))
    reach: dict[FeatureKind, Collection[int]] = {
        FeatureKind.CONSTANT: set(changed),
        FeatureKind.INDEPENDENT: touched,
        FeatureKind.INTRINSIC: touched,
        FeatureKind.DEPENDENT: around,
        FeatureKind.EXTERNAL: range(len(neighbours)),
    }
    wanted = list(required)
    return [
        (operator, one)
        for operator in range(len(neighbours))
        for one in wanted
        if operator in reach[one.kind]
    ]
