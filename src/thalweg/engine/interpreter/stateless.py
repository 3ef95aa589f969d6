"""Interpreted operators without state: the user's Python functions, row by row, with the compiled ones' contract.

They are the fallback for what the compiler refuses and the yardstick that compiled operators are tested by. A
function costs a call for each row, as in a plain loop; what it gave is checked and encoded by column afterwards.
Only where a column shows something unusual are the rows looked at one by one, to coerce, reject or report.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import RejectedRow, StatelessResult
from thalweg.columns.encoding import try_column, try_columns
from thalweg.flow.failures import operator_error, reason_of, shorten
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.nodes import Keyed, Stateless

#: So many rows of an operator are checked one by one before it is trusted to give plain values only: an object that
#: merely converts to a number might be changed between its row and the check of the column.
_PROBED: Final = 64

Failed = list[tuple[int, Exception]]
_Call = Callable[[Any], Any]


def _plain(call: _Call, rows: Iterable[Any], append: _Call) -> None:
    for row in rows:
        append(call(row))


def _negated(call: _Call, rows: Iterable[Any], append: _Call) -> None:
    for row in rows:
        append(not call(row))


def _several(call: _Call, rows: Iterable[Any], append: _Call) -> None:
    for row in rows:
        append(list(call(row) or ()))


def _call_each(
    loop: Callable[[_Call, Iterable[Any], _Call], None],
    call: _Call,
    rows: Iterable[Any],
    answers: list[Any],
    *,
    go_on: bool,
) -> Failed:
    """Appends what the function gives for each row, None where it raised; stops there unless told to go on."""
    failed, left = Failed(), iter(rows)
    while True:
        try:
            loop(call, left, answers.append)
        except Exception as error:
            failed.append((len(answers), error))
            answers.append(None)
            if go_on:
                continue
        return failed


class _Made(NamedTuple):
    """What an operator made of rows: its outputs, the place of the input of each (None: of all), what it rejected."""

    rows: list[Any]
    places: Int64s | None
    rejected: list[RejectedRow]
    #: of the outputs, where they are at hand
    columns: list[Column] | None = None


class _Filter:
    """filter: which rows stay."""

    def __init__(self, node: Stateless) -> None:
        self._node = node

    def run(self, rows: list[Any]) -> _Made:
        node = self._node
        lacks: list[Any] = []
        go_on = node.errors == "reject"
        failed = _call_each(_negated, node.function.call, rows, lacks, go_on=go_on)
        bad = _rejected(node, rows, failed)
        for place, _ in failed:
            lacks[place] = True
        if not any(lacks):
            return _Made(rows, None, bad)
        places = np.flatnonzero(~np.array(lacks, np.bool_))
        return _Made([rows[place] for place in places.tolist()], places, bad)


class _Map:
    """map and flat_map: what the function gives, checked by column.

    Args:
        node: the operator.
        encode: whether the columns of the outputs are of use to the caller.
    """

    def __init__(self, node: Stateless, *, encode: bool) -> None:
        self._node = node
        self._encode = encode
        self._whole = FieldType(Kind.RECORD, record=node.record)
        self._probes = _PROBED
        #: whether outputs may be checked after all calls
        self._later = node.record.stays

    def run(self, rows: list[Any]) -> _Made:
        reject = self._node.errors == "reject"
        answers: list[Any] = []
        first = min(self._probes, len(rows)) if self._later else len(rows)
        probed = itertools.islice(rows, first)
        failed = _call_each(_plain, self._at_once, probed, answers, go_on=reject)
        self._probes = max(0, self._probes - first)
        exact = len(answers)  # so many are checked
        if exact < len(rows) and (reject or not failed):
            loop, left = (
                _several if self._node.many else _plain,
                itertools.islice(rows, first, None),
            )
            failed += _call_each(loop, self._node.function.call, left, answers, go_on=reject)
        made = None if failed or exact == len(answers) else self._by_column(answers)
        return made or self._by_row(rows, answers, exact, failed)

    def _at_once(self, row: Any) -> Any:
        """What the function gives for a row, coerced."""
        fit, call = self._node.record.fit, self._node.function.call
        if not self._node.many:
            one = call(row)
            return None if one is None else self._watched(one, fit(one))
        return [self._watched(one, fit(one)) for one in list(call(row) or ()) if one is not None]

    def _watched(self, given: Any, fitted: Any) -> Any:
        """The fitted row; one that is not what was given ends the trust in the function."""
        self._later = self._later and given is fitted
        return fitted

    def _by_column(self, answers: list[Any]) -> _Made | None:
        """The outputs when all are plain, None when one is not."""
        places: Int64s | None = None
        if self._node.many:
            places = np.repeat(np.arange(len(answers)), list(map(len, answers)))
            answers = list(itertools.chain.from_iterable(answers))
        if type(None) in set(map(type, answers)):
            given = [place for place, one in enumerate(answers) if one is not None]
            places = np.array(given, np.int64) if places is None else places[given]
            answers = [one for one in answers if one is not None]
        if self._encode and answers:
            columns = try_columns(self._node.record, answers)
            return None if columns is None else _Made(answers, places, [], columns)
        return _Made(answers, places, []) if self._whole.holds(answers) else None

    def _by_row(self, rows: list[Any], answers: list[Any], exact: int, failed: Failed) -> _Made:
        """The outputs one by one; those from ``exact`` on are not checked yet."""
        many, fit, errors = self._node.many, self._node.record.fit, dict(failed)
        out: list[Any] = []
        places: list[int] = []
        for place, answer in enumerate(answers):
            if answer is None:
                continue
            made = answer if many else [answer]
            if place >= exact:
                try:
                    made = [self._watched(one, fit(one)) for one in made if one is not None]
                except Exception as error:
                    errors[place] = error
                    continue
            out += made
            places += [place] * len(made)
        bad = _rejected(self._node, rows, sorted(errors.items()))
        return _Made(out, np.array(places, np.int64), bad)


def _rejected(
    node: Stateless | Keyed, rows: Sequence[Any], failed: Iterable[tuple[int, Exception]]
) -> list[RejectedRow]:
    """The rows that failed.

    Raises:
        OperatorError: the operator does not reject rows; of the first of them.
    """
    bad = []
    for place, error in failed:
        if node.errors == "fail":
            function = node.function if isinstance(node, Stateless) else node.key.function
            assert function is not None
            raise operator_error(node.name, function, rows[place], error) from error
        bad.append(RejectedRow(place, node.name, reason_of(error), shorten(rows[place])))
    return bad


def _by_block(chunk: Chunk, run: Callable[[list[Any], int], StatelessResult]) -> StatelessResult:
    """What comes of all rows of a chunk, given some at a time, with the place of the first of them."""
    blocks, at = [], 0
    for rows in chunk.row_blocks():
        blocks.append(run(rows, at))
        at += len(rows)
    blocks = blocks or [run([], 0)]
    return StatelessResult(
        list(map(Column.concat, zip(*[one.columns for one in blocks], strict=True))),
        np.concatenate([one.source for one in blocks]),
        list(map(sum, zip(*[one.counts for one in blocks], strict=True))),
        list(itertools.chain.from_iterable(one.rejected for one in blocks)),
    )


class InterpretedChain:
    """A chain of map, filter and flat_map, one operator after the other over some thousand rows at a time."""

    def __init__(self, nodes: Sequence[Stateless]) -> None:
        self._schema = nodes[-1].record
        self._members: list[_Filter | _Map] = []
        self._maps = [place for place, node in enumerate(nodes) if node.verb != "filter"]
        for place, node in enumerate(nodes):
            last = [place] == self._maps[-1:]
            self._members.append(
                _Filter(node) if node.verb == "filter" else _Map(node, encode=last)
            )

    def __call__(self, chunk: Chunk) -> StatelessResult:
        made = _by_block(chunk, self._block)
        if not self._maps:
            is_all = len(made.source) == len(chunk)
            made.columns = chunk.columns if is_all else chunk.take(made.source).columns
        return made

    def _block(self, rows: list[Any], start: int) -> StatelessResult:
        """Some rows, the first of which stands at ``start`` in the chunk; no columns where there are only filters."""
        columns: list[Column] | None = None
        source = np.arange(start, start + len(rows))
        counts, rejected = [], []
        for member in self._members:
            made = member.run(rows)
            rejected += [
                dataclasses.replace(one, row=int(source[one.row])) for one in made.rejected
            ]
            if isinstance(member, _Map):
                columns = made.columns
            elif columns is not None and made.places is not None:
                columns = [column.take(made.places) for column in columns]
            rows = made.rows
            source = source if made.places is None else source[made.places]
            counts.append(len(rows))
        if columns is None and self._maps:
            columns = Chunk.from_rows(self._schema, rows).columns
        return StatelessResult(columns or [], source, counts, rejected)


class InterpretedKey:
    """The key function of an operator: the key as the only column."""

    def __init__(self, node: Keyed) -> None:
        assert node.key.function is not None
        self._node = node
        self._call = node.key.function.call
        self._field = node.key.fields[0]
        self._probes = _PROBED
        #: whether keys may be checked after all calls
        self._later = self._field.type.kind is not Kind.BYTES

    def __call__(self, chunk: Chunk) -> StatelessResult:
        return _by_block(chunk, self._block)

    def _block(self, rows: list[Any], start: int) -> StatelessResult:
        kind, reject = self._field.type, self._node.errors == "reject"
        values: list[Any] = []
        first = min(self._probes, len(rows)) if self._later else len(rows)
        probed = itertools.islice(rows, first)
        failed = _call_each(_plain, self._at_once, probed, values, go_on=reject)
        self._probes = max(0, self._probes - first)
        exact = len(values)
        if exact < len(rows) and (reject or not failed):
            left = itertools.islice(rows, first, None)
            failed += _call_each(_plain, self._call, left, values, go_on=reject)
        column = None if failed else try_column(kind, values)
        if column is not None:
            return StatelessResult([column], np.arange(start, start + len(rows)), [len(rows)])
        errors = dict(failed)
        for place in range(exact, len(values)):
            if place not in errors:
                try:
                    values[place] = self._coerced(values[place])
                except TypeError as error:
                    errors[place] = error
        bad = _rejected(self._node, rows, sorted(errors.items()))
        good = [place for place in range(len(values)) if place not in errors]
        column = Column.from_python(kind, [values[place] for place in good])
        bad = [dataclasses.replace(one, row=one.row + start) for one in bad]
        return StatelessResult([column], np.array(good, np.int64) + start, [len(good)], bad)

    def _at_once(self, row: Any) -> Any:
        return self._coerced(self._call(row))

    def _coerced(self, value: Any) -> Any:
        fitted = self._field.type.coerce(value)
        self._later = self._later and fitted is value
        return fitted
