"""Type variables of the verbs: what a row, an output, a key and a state are to a type checker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

#: The record of the stream whose verb is called.
Row = TypeVar("Row")
#: The record that a function gives.
Out = TypeVar("Out")
#: The record of the other stream of a join.
Other = TypeVar("Other")
#: What ``key_by`` groups by; Any where it is named by fields.
KeyValue = TypeVar("KeyValue")
#: A class declared with ``tw.state``.
State = TypeVar("State")

#: Several records a call. A list or an iterator, since a record is itself iterable.
Several: TypeAlias = Iterator[Out] | list[Out]
