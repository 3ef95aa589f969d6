"""Aggregates bound to a record: the state fields that each needs, and the source texts of update, merge and result."""

from thalweg.flow.operators.aggregates.binding import bind, bind_all
from thalweg.flow.operators.aggregates.parts import Part

__all__ = ["Part", "bind", "bind_all"]
