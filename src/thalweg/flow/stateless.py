"""The verbs without state: one row after the other, each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from thalweg.checks import known_keywords_of
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.generics import Out, Row, Several
from thalweg.flow.operators import key_order
from thalweg.flow.operators.arguments import label_of, record_of
from thalweg.flow.operators.functions import Function, Returns, returns_of
from thalweg.flow.operators.nodes import Batches, Compile, Errors, Ref, Stateless
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.records import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from thalweg.flow.flow import Flow
    from thalweg.flow.streams import Stream


@known_keywords_of
class StatelessVerbs(Generic[Row]):
    """The verbs of a stream whose functions see a row, or a batch, and nothing else."""

    flow: Flow
    ref: Ref
    schema: Schema
    time: FieldType | None
    own: key_order.Own | None

    @overload
    def map(
        self,
        function: Callable[[Row], Out | None],
        *,
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Out]: ...

    @overload
    def map(
        self,
        function: Callable[[Row], Any],
        *,
        name: str | None = None,
        into: type[Out],
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Out]: ...

    def map(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Any]:
        """Maps each row to a record: ``function(row) -> R``, or ``R | None`` to drop rows."""
        return self._stateless("map", function, name, into, errors, compile)

    def filter(
        self,
        function: Callable[[Row], Any],
        *,
        name: str | None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Row]:
        """Keeps the rows for which ``function(row)`` is true."""
        return self._stateless("filter", function, name, None, errors, compile)

    @overload
    def flat_map(
        self,
        function: Callable[[Row], Several[Out]],
        *,
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Out]: ...

    @overload
    def flat_map(
        self,
        function: Callable[[Row], Any],
        *,
        name: str | None = None,
        into: type[Out],
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Out]: ...

    def flat_map(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Any]:
        """Maps each row to any number of records: ``function(row) -> Iterator[R]`` (or a list)."""
        return self._stateless("flat_map", function, name, into, errors, compile)

    @overload
    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        *,
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
    ) -> Stream[Row]: ...

    @overload
    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        *,
        name: str | None = None,
        into: type[Out],
        errors: Errors | None = None,
    ) -> Stream[Out]: ...

    def map_batches(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
    ) -> Stream[Any]:
        """Maps Arrow batches: ``function(pyarrow.RecordBatch) -> pyarrow.RecordBatch``.

        The result has as many rows as the batch, row for row, or the function returns (batch, source rows):
        for each output row the place of its input row, not decreasing. It must not depend on how the stream is
        cut into batches. ``into`` names the output record; without it the input's record is kept.
        """
        flow = self.flow
        made, label = self._function(function, name, "map_batches")
        check_takes(made, label, {"batch": "a pyarrow.RecordBatch"})
        record = self.schema if into is None else record_of(f"operator {label!r}", "into", into)
        node = Batches(
            flow._next(), flow._stateless_name(label), self.ref, made, record, flow._errors(errors)
        )
        return flow._add(node, self.time, self._own_keeping())

    # -- the common parts ---------------------------------------------------------------------------------

    def _own_keeping(self, *names: str) -> key_order.Own | None:
        """``own`` for a stream made of this one whose rows have the key in these fields."""
        return self.own and self.own.keeping(names)

    def _function(self, function: Any, name: str | None, verb: str) -> tuple[Function, str]:
        made = Function.of(function, label_of(name, verb))
        return made, label_of(name, verb if made.is_lambda else made.name)

    def _stateless(
        self,
        verb: Any,
        function: Any,
        name: str | None,
        into: Any,
        errors: Errors | None,
        compile: Compile | bool | None,
    ) -> Stream[Any]:
        made, label = self._function(function, name, verb)
        check_takes(made, label, {"row": self.schema})
        if verb == "filter":
            returns = Returns(self.schema)
        else:
            returns = returns_of(made, label, into, may_be_nothing=False)
        if verb == "map" and returns.many:
            raise BuildError(
                f"operator {label!r}: {made.where} gives several records a row; use flat_map for that"
            )
        if verb == "flat_map" and not returns.many and into is None:
            raise BuildError(
                f"operator {label!r}: {made.where} gives one record a row; annotate -> Iterator[R], or use map"
            )
        assert returns.schema is not None
        gives = None if verb == "filter" else returns.schema.whole
        made = made.adapted(Adapter((self.schema.whole,), gives, verb == "flat_map"))
        flow = self.flow
        node = Stateless(
            flow._next(),
            flow._stateless_name(label),
            verb,
            self.ref,
            made,
            returns.schema,
            verb == "flat_map",
            flow._errors(errors),
            flow._compile(compile),
        )
        kept = self.own.kept if self.own and verb == "filter" else ()
        return flow._add(node, self.time, self._own_keeping(*kept))
