"""Approximate aggregates by the package datasketches: distinct values (HyperLogLog) and quantiles (t-digest).

The state is the sketch as bytes and the values since; they go into the sketch some at a time, since it is read and
written as a whole. When that happens depends on the number of values alone, so results do not depend on how the input
is cut. Neither sketch draws random numbers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from thalweg.errors import missing_package
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.aggregates.numeric import need_number
from thalweg.flow.operators.aggregates.ordered import reads_of
from thalweg.flow.operators.aggregates.parts import AskedAggregate, Part, is_shaped
from thalweg.flow.records import Field

#: So many values wait until they go into the sketch.
_WAITING: Final = 256


@functools.cache
def library() -> Any:
    """The package datasketches.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import datasketches
    except ImportError:
        raise missing_package("approximate aggregates need", "datasketches", "sketches") from None
    return datasketches


def _sketched(
    asked: AskedAggregate,
    kind: FieldType,
    result: FieldType,
    value: str,
    size: int,
    make: Callable[..., Any],
) -> Part:
    """A part that keeps values in a sketch; ``value`` computes of ``SKETCH(bytes, values, size)``."""
    library()
    waiting = FieldType(Kind.LIST, item=dataclasses.replace(kind, optional=False, shape=None))
    name = asked.name
    new, sketch, number = f"state.{name}_new", f"state.{name}_sketch", f"state.{name}_n"
    return Part(
        (
            Field(f"{name}_sketch", FieldType(Kind.BYTES), b""),
            Field(f"{name}_new", waiting, []),
            Field(f"{name}_n", FieldType(Kind.INT), 0),
        ),
        result,
        (
            f"{number} += 1",
            f"{new}.append({asked.given})",
            f"if len({new}) == {_WAITING}:",
            f"    {sketch} = {make.__name__}({sketch}, {new}, {size}).serialize()",
            f"    {new} = []",
        ),
        value.format(sketch=f"{make.__name__}({sketch}, {new}, {size})", number=number),
        reads=reads_of(asked),
        scope={make.__name__: make, "quantiles": quantiles, "distinct": distinct},
    )  # fmt: skip


# -- distinct values --------------------------------------------------------------------------------------

_KEYS: Final = {
    Kind.INT,
    Kind.FLOAT,
    Kind.BOOL,
    Kind.STR,
    Kind.BYTES,
    Kind.TIMESTAMP,
    Kind.CATEGORY,
}


def approx_count_distinct(asked: AskedAggregate) -> Part:
    kind = asked.kind
    if kind.kind not in _KEYS or is_shaped(kind, "json"):
        raise asked.refuse(
            f"{asked.aggregate.verb} cannot compare {asked.aggregate.field}, which is {kind}"
        )
    part = _sketched(asked, kind, FieldType(Kind.INT), "distinct({sketch})", asked.aggregate.k, hll)
    return dataclasses.replace(part, present=asked.present)


def hll(held: bytes, values: Sequence[Any], size: int) -> Any:
    """The HyperLogLog of 2**size registers, with more values."""
    datasketches = library()
    sketch = (
        datasketches.hll_sketch.deserialize(held)
        if held
        else datasketches.hll_sketch(size, datasketches.tgt_hll_type.HLL_8)
    )
    return _Serialized(_updated(sketch, [_hashed(one) for one in values]))


def _hashed(value: Any) -> Any:
    """The value as the sketch tells it apart; the package takes no bytes."""
    if isinstance(value, bytes):
        return "b" + value.hex()
    return int(value) if isinstance(value, bool) else value


def distinct(sketch: _Serialized) -> int:
    estimate: float = sketch.of.get_estimate()
    return round(estimate)


# -- quantiles --------------------------------------------------------------------------------------------


def approx_quantile(asked: AskedAggregate) -> Part:
    kind = need_number(asked, plain=True)
    shares = asked.aggregate.shares
    assert shares is not None
    several = isinstance(shares, tuple)
    result = FieldType(Kind.LIST, item=FieldType(Kind.FLOAT)) if several else FieldType(Kind.FLOAT)
    is_float = kind.kind is Kind.FLOAT
    tests = [asked.present, f"{asked.given} == {asked.given}" if is_float else ""]
    may_lack = asked.may_lack or is_float
    text = f"quantiles({{sketch}}, {shares!r})"
    part = _sketched(
        asked,
        kind,
        dataclasses.replace(result, optional=may_lack),
        f"{text} if {{number}} > 0 else None" if may_lack else text,
        asked.aggregate.k,
        tdigest,
    )
    return dataclasses.replace(part, present=" and ".join(one for one in tests if one))


def tdigest(held: bytes, values: Sequence[float], size: int) -> Any:
    """The t-digest with more values."""
    datasketches = library()
    cls = datasketches.tdigest_double
    sketch = cls.deserialize(held) if held else cls(size)
    return _Serialized(_updated(sketch, [_finite(float(one)) for one in values]))


_MOST: Final = 1e300


def _finite(value: float) -> float:
    """Centroids are means, which an infinity would spoil."""
    return _MOST if value > _MOST else -_MOST if value < -_MOST else value


def _infinite(value: float) -> float:
    return float("inf") if value >= _MOST else float("-inf") if value <= -_MOST else value


def quantiles(sketch: _Serialized, shares: float | tuple[float, ...]) -> float | list[float]:
    if isinstance(shares, tuple):
        return [_infinite(sketch.of.get_quantile(one)) for one in shares]
    return _infinite(sketch.of.get_quantile(shares))


# -- both -------------------------------------------------------------------------------------------------


def _updated(sketch: Any, values: Sequence[Any]) -> Any:
    for one in values:
        sketch.update(one)
    return sketch


@dataclasses.dataclass(slots=True)
class _Serialized:
    """A sketch under the names of this module."""

    of: Any

    def serialize(self) -> bytes:
        of = self.of
        made = of.serialize_compact() if hasattr(of, "serialize_compact") else of.serialize()
        return bytes(made)
