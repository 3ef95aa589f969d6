"""Routing tables: where keys go, what moves between two tables, other numbers of slots, and the text form."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized

import thalweg as tw
from thalweg.errors import BuildError, CheckpointError, SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.hashing import UInt64s, bucket_of
from thalweg.locality import (
    Assignment,
    Report,
    Routes,
    RoutingTable,
    decode_table,
    encode_table,
    keyed_operators,
    moves_between,
)
from thalweg.locality.key_hash import KeyTypes, canonical_key, hash_key
from thalweg.locality.routing import routed_by
from thalweg.locality.sharing import shared, spread
from thalweg.plan.plan import make_plan

QUICK = settings(max_examples=sized(100), deadline=None, derandomize=True)

TEXT: KeyTypes = (FieldType(Kind.STR),)
MIXED: KeyTypes = (FieldType(Kind.FLOAT, True), FieldType(Kind.BYTES))
OPERATORS = {"by_text": (TEXT, 16), "by_mixed": (MIXED, 8)}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "by_text": st.sampled_from([*"abcdefgh", "", "ä", "a\n"]),
    "by_mixed": st.tuples(
        st.sampled_from([None, math.nan, math.inf, 0.0, -0.5]), st.sampled_from([b"", b"\xff"])
    ),
}
KEYS = st.one_of(*(st.tuples(st.just(name), values) for name, values in VALUES.items()))


@st.composite
def assignments(draw: st.DrawFn, slots: int) -> Assignment:
    """Any assignment of some keys and all buckets."""
    slot = st.integers(0, slots - 1)
    buckets = {
        name: tuple(draw(st.lists(slot, min_size=size, max_size=size)))
        for name, (_, size) in OPERATORS.items()
    }
    return Assignment(
        slots, draw(st.dictionaries(KEYS, slot, max_size=12)), buckets, Report(1.0, {}, 1.03)
    )


@st.composite
def tables(draw: st.DrawFn) -> RoutingTable:
    """A table that came about by rescaling and assigning a few times."""
    table = RoutingTable.hashed(OPERATORS, draw(st.integers(1, 4)), groups=draw(st.integers(4, 9)))
    for slots in draw(st.lists(st.integers(1, 6), max_size=3)):
        table = table.rescaled(slots)
        table = table.assigned(draw(assignments(slots)))
    return table


def hashes_of(name: str, keys: list[Any]) -> UInt64s:
    types = OPERATORS[name][0]
    return np.array([hash_key(types, canonical_key(types, key)) for key in keys], np.uint64)


@given(tables(), st.lists(KEYS, min_size=1))
@QUICK
def test_batches_and_single_keys_go_to_the_same_slots(
    table: RoutingTable, keys: list[tuple[str, Any]]
) -> None:
    """A key goes to its group's slot if it is pinned and to its bucket's if not, alone or among others."""
    for name in OPERATORS:
        mine = [key for operator, key in keys if operator == name]
        routes, hashes = table.operators[name], hashes_of(name, mine)
        slots = table.slots_of(name, hashes).tolist()
        units = table.units_of(name, hashes).tolist()
        assert slots == [table.slot_of(name, key) for key in mine]
        assert units == [table.unit_of(name, key) for key in mine]
        for key, slot, bucket in zip(
            mine, slots, bucket_of(hashes, len(routes.buckets)), strict=True
        ):
            pinned = routes.pins.get(canonical_key(routes.types, key))
            assert slot == (routes.buckets[bucket] if pinned is None else table.groups[pinned])


@given(tables())
@QUICK
def test_every_unit_has_one_owner(table: RoutingTable) -> None:
    """The slots share an operator's buckets and groups among them: each is owned once."""
    for name, (_, buckets) in OPERATORS.items():
        owned = [unit for slot in range(table.slots) for unit in table.owned(name, slot)]
        assert sorted(owned) == list(range(buckets + len(table.groups)))


@given(tables(), st.data())
@QUICK
def test_an_assignment_is_followed(table: RoutingTable, data: st.DataObject) -> None:
    """Keys and buckets are where the assignment says, all other keys where their bucket is; nothing else changes."""
    table = table.rescaled(min(table.slots, len(table.groups)))
    given_one = data.draw(assignments(table.slots))
    if not set(given_one.keys.values()) <= set(table.groups):
        return
    after = table.assigned(given_one)
    assert after.epoch == table.epoch + 1
    assert after.groups == table.groups
    for (name, key), slot in given_one.keys.items():
        assert after.slot_of(name, key) == slot
    for name in OPERATORS:
        assert after.operators[name].buckets == given_one.buckets[name]
        assert len(after.operators[name].pins) == sum(n == name for n, _ in given_one.keys)
    back = after.assignment()
    assert back.buckets == given_one.buckets
    assert back.keys == {
        (name, canonical_key(OPERATORS[name][0], key)): slot
        for (name, key), slot in given_one.keys.items()
    }


def test_a_key_that_stays_in_its_slot_stays_in_its_group() -> None:
    """A key moves between groups only when its slot changes; new keys go to the emptiest group of their slot."""
    table = RoutingTable.hashed({"a": (TEXT, 4)}, 2, groups=4)
    first = table.assigned(assigned({"x": 0, "y": 0, "z": 1}))
    assert first.operators["a"].pins == {"x": 0, "y": 1, "z": 2}
    second = first.assigned(assigned({"w": 0, "y": 0, "x": 1}))
    assert second.operators["a"].pins == {"y": 1, "w": 0, "x": 2}
    assert {move.key for move in moves_between(first, second).keys} == {"x", "w", "z"}


def assigned(keys: dict[str, int]) -> Assignment:
    pinned = {("a", key): slot for key, slot in keys.items()}
    return Assignment(2, pinned, {"a": (0, 0, 1, 1)}, Report(1.0, {}, 1.03))


@given(st.integers(1, 40), st.integers(1, 12), st.lists(st.integers(1, 12), max_size=3))
@QUICK
def test_sharing_moves_as_little_as_can_be(count: int, first: int, later: list[int]) -> None:
    """Shares that differ by one at most still do, and no fewer moves would have made them so."""
    owners, before = spread(count, first), first
    for slots in later:
        after = shared(owners, before, slots)
        moved = sum(a != b for a, b in zip(owners, after, strict=True))
        sizes = sorted((owners.count(slot) for slot in range(slots)), reverse=True)
        shares = [(count + slots - 1 - place) // slots for place in range(slots)]
        assert moved == count - sum(map(min, sizes, shares))
        assert sorted((after.count(slot) for slot in range(slots)), reverse=True) == shares
        owners, before = after, slots


@given(tables(), st.integers(1, 8))
@QUICK
def test_rescaling_keeps_pins(table: RoutingTable, slots: int) -> None:
    """Another number of slots moves buckets and groups only: every key stays in its unit."""
    after = table.rescaled(slots)
    assert after.slots == slots
    assert len(after.groups) >= slots
    assert {n: one.pins for n, one in after.operators.items()} == {
        n: one.pins for n, one in table.operators.items()
    }
    assert moves_between(table, after).keys == ()
    assert table.rescaled(table.slots, epoch=table.epoch) == table or len(table.groups) < slots


@given(tables(), tables(), st.lists(KEYS, min_size=1))
@QUICK
def test_moves_are_all_that_changes(
    before: RoutingTable, after: RoutingTable, keys: list[tuple[str, Any]]
) -> None:
    """A key has another unit iff it is among the moves; a unit another owner iff it is; lists of slots join to all."""
    if len(after.groups) < len(before.groups):
        before, after = after, before
    moves = moves_between(before, after)
    moved = {(one.operator, one.key): one for one in moves.keys}
    units = {(one.operator, one.unit): one for one in moves.units}
    for name, key in keys:
        left, entered = before.unit_of(name, key), after.unit_of(name, key)
        found = moved.get((name, canonical_key(OPERATORS[name][0], key)))
        assert (found is not None) == (left != entered)
        if found is not None:
            assert (found.left, found.entered) == (left, entered)
            assert found.sender == before.slot_of(name, key)
            assert found.receiver == after.slot_of(name, key)
        else:
            assert ((name, left) in units) == (
                before.slot_of(name, key) != after.slot_of(name, key)
            )
    told = [moves.message(after, slot) for slot in range(max(before.slots, after.slots))]
    for side in ("send", "receive"):
        parts = [getattr(one, side) for one in told]
        assert sum(len(one.keys) for one in parts) == len(moves.keys)
        assert sum(len(one.units) for one in parts) == len(moves.units)


# -- text --------------------------------------------------------------------------------------------------


@given(tables())
@QUICK
def test_the_text_gives_the_table_back(table: RoutingTable) -> None:
    """Encoded and decoded, a table is the same, with typed keys; equal tables have equal texts."""
    text = encode_table(table)
    back = decode_table(text)
    assert back == table
    assert encode_table(back) == text


def test_the_text_is_readable() -> None:
    """A member a line, keys sorted, by group."""
    table = RoutingTable(
        3, 2, (0, 1), {"at": Routes(TEXT, (0, 1), {"b": 1, "a": 1}), "n": Routes(MIXED, (1, 0))}
    )
    assert encode_table(table).decode() == (
        "{\n"
        '  "format": 1,\n'
        '  "epoch": 3,\n'
        '  "slots": 2,\n'
        '  "groups": [0,1],\n'
        '  "operators": {\n'
        '    "at": {\n'
        '      "key": ["str"],\n'
        '      "buckets": [0,1],\n'
        '      "pins": {\n'
        '        "1": ["a","b"]\n'
        "      }\n"
        "    },\n"
        '    "n": {\n'
        '      "key": ["float | None","bytes"],\n'
        '      "buckets": [1,0],\n'
        '      "pins": {}\n'
        "    }\n"
        "  },\n"
        '  "checksum": "247d89e825f83cda"\n'
        "}\n"
    )


@given(tables(), st.data())
@QUICK
def test_torn_and_changed_texts_are_refused(table: RoutingTable, data: st.DataObject) -> None:
    """A text that lacks its end or has another byte is an error that names the file."""
    text = encode_table(table)
    cut = data.draw(st.integers(0, len(text) - 3))
    with pytest.raises(CheckpointError, match=r"routing/7\.json \(\d+ bytes\) cannot be read"):
        decode_table(text[:cut], "routing/7.json")
    changed = text.replace(b'"epoch": ', b'"epoch": 1')
    with pytest.raises(CheckpointError, match="torn or changed by hand"):
        decode_table(changed, "routing/7.json")


def test_a_text_of_a_newer_version_is_refused() -> None:
    """A format that this version does not know is said to be newer, not torn."""
    text = encode_table(RoutingTable.hashed(OPERATORS, 2)).replace(b'"format": 1', b'"format": 2')
    with pytest.raises(CheckpointError, match="newer version of Thalweg"):
        decode_table(text)


def signed(**fields: Any) -> bytes:
    """A text with its checksum, however odd its fields are."""
    plain = {"format": 1, "epoch": 3, "slots": 2, "groups": [0, 1], "operators": {}, **fields}
    digest = hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return orjson.dumps({**plain, "checksum": digest[:16]})


def operator(**fields: Any) -> dict[str, Any]:
    return {"at": {"key": ["str"], "buckets": [0, 1], "pins": {}, **fields}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{}", "it is no routing table: it lacks format"),
        (b"[]", "it is no routing table: expected an object, got an array"),
        (b"{nonsense", "it is not JSON: "),
        (b'{"format": "1"}', "expected format to be a whole number, got a text"),
        (b'{"format": 1, "epoch": 3}', "it lacks slots, groups, operators, checksum"),
        (signed(slots=None), "expected slots to be a whole number, got null"),
        (signed(groups=[0, "1"]), "expected groups to be numbers of slots"),
        (signed(operators={"at": 5}), "operator 'at' is no routing table: expected an object"),
        (signed(operators={"at": {}}), "operator 'at' is no routing table: it lacks key, buckets"),
        (signed(operators=operator(key=[1])), "expected the key of 'at' to be names of types"),
        (signed(operators=operator(key=["word"])), "'word' is not a valid Kind"),
        (signed(operators=operator(buckets=[0.5, 1])), "the buckets of 'at' to be numbers"),
        (signed(operators=operator(pins={"0": [{"x": 1}]})), "cannot have the key {'x': 1}"),
        (signed(operators=operator(pins={"0": 5})), "the keys in group '0' of 'at' to be an array"),
        (signed(operators=operator(pins={"x": ["a"]})), "cannot have the key 'a' in group 'x'"),
    ],
)
def test_texts_that_are_no_tables(text: bytes, message: str) -> None:
    """What is missing or odd is named, also under a right checksum."""
    with pytest.raises(CheckpointError, match=re.escape(message)) as raised:
        decode_table(text, "table.json")
    assert str(raised.value).startswith(f"table.json ({len(text)} bytes) cannot be read: ")
    assert "KeyError" not in str(raised.value)


# -- errors ------------------------------------------------------------------------------------------------


def test_more_slots_than_buckets() -> None:
    """Slots that could own no bucket of any operator are refused; the error names the most that there can be."""
    message = r"17 slots, but operator 'by_text' has 16 buckets.*16 slots or fewer"
    with pytest.raises(BuildError, match=message):
        RoutingTable.hashed(OPERATORS, 17)
    with pytest.raises(BuildError, match="17 slots, but operator"):
        RoutingTable.hashed(OPERATORS, 2).rescaled(17)
    assert RoutingTable.hashed(OPERATORS, 9).slots == 9


def test_tables_for_another_query() -> None:
    """Other slots, operators, key types or buckets are refused, and the error says which."""
    table = RoutingTable.hashed(OPERATORS, 3)
    table.require(OPERATORS, 3)
    with pytest.raises(BuildError, match=r"for 3 slots, and 4 are asked for: start with slots=3"):
        table.require(OPERATORS, 4)
    with pytest.raises(
        BuildError, match="another flow: it knows the operators by_mixed, by_text, the flow has x"
    ):
        table.require({"x": (TEXT, 16)}, 3)
    with pytest.raises(
        BuildError, match="'by_text': the routing table has keys of str, the flow of float"
    ):
        table.require({**OPERATORS, "by_text": (MIXED, 16)}, 3)
    with pytest.raises(BuildError, match="'by_text': 32 buckets, but its routing table has 16"):
        table.require({**OPERATORS, "by_text": (TEXT, 32)}, 3)
    wrong = Assignment(2, {}, {}, Report(1.0, {}, 1.03))
    with pytest.raises(BuildError, match="assignment to 2 parts for 3 slots"):
        table.assigned(wrong)
    with pytest.raises(BuildError, match=r"no keyed operator 'z' in the routing table"):
        table.assigned(Assignment(3, {("z", "a"): 0}, {}, Report(1.0, {}, 1.03)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": 0}, "one slot or more, got 0"),
        ({"groups": (0, 2)}, "pin groups belong to slots 0 to 1, got 2"),
        (
            {"operators": {"a": Routes(TEXT, (0, 2))}},
            "buckets of operator 'a' belong to slots 0 to 1, got 2",
        ),
        ({"operators": {"a": Routes(TEXT, (0, 1), {"k": 2})}}, "key 'k' is in pin group 2 of 2"),
        ({"operators": {"a": Routes(TEXT, (0, 1), {7: 0})}}, "pinned key 7: expected str, got int"),
    ],
)
def test_tables_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    """Owners and groups must exist, and pinned keys have the operator's types."""
    sound: dict[str, Any] = {"epoch": 0, "slots": 2, "groups": (0, 1), "operators": {}}
    with pytest.raises(BuildError, match=message):
        RoutingTable(**{**sound, **changes})


def test_keys_without_a_stable_hash() -> None:
    """A key type that has no stable hash is refused by name."""
    listed = (FieldType(Kind.LIST, item=FieldType(Kind.INT)),)
    with pytest.raises(SchemaError, match=r"'a': field 1 of its key is list\[int\]"):
        RoutingTable.hashed({"a": (listed, 8)}, 2)


class Row(NamedTuple):
    region: str
    tag: tw.Category


class Count(NamedTuple):
    rows: int


@tw.state
class Seen:
    rows: int = 0


def count(seen: Seen, row: Row) -> Count:
    seen.rows += 1
    return Count(seen.rows)


def test_keyed_operators_of_a_flow() -> None:
    """They come with key types and buckets; an operator without a key runs in one slot and is none of them."""
    flow = tw.Flow("tags")
    rows = flow.source("rows", Row)
    rows.key_by("region", "tag", buckets=32).process(count, state=Seen, name="both").sink("both")
    rows.process(count, state=Seen, name="all").sink("all")
    found = keyed_operators(make_plan(flow))
    assert found == {"both": ((FieldType(Kind.STR), FieldType(Kind.CATEGORY)), 32)}


def test_an_operator_behind_one_that_orders_has_no_routes_of_its_own() -> None:
    """Where time is each key's own, rows are brought once, to where they are put in order; both states are there."""
    flow = tw.Flow("own")
    rows = flow.source("rows", Timed, order_by="at", order="key")
    rows.key_by("tag").process(last, state=Seen, name="last").sink("out")
    plan = make_plan(flow)
    (home,) = keyed_operators(plan)
    assert home != "last"
    assert routed_by(plan) == {home: home, "last": home}


class Timed(NamedTuple):
    at: int
    tag: str


def last(seen: Seen, row: Timed) -> Count:
    seen.rows += 1
    return Count(seen.rows)


def test_a_pin_that_stays_in_its_slot_keeps_its_group() -> None:
    """Its state is written where it was: another group of the slot would be a move for nothing."""
    text = (FieldType(Kind.STR),)
    table = RoutingTable(1, 2, (0, 0, 0, 1), {"at": Routes(text, (0, 1), {"a": 2, "b": 2, "c": 2})})
    wanted = Assignment(
        2, {("at", "a"): 0, ("at", "b"): 0, ("at", "c"): 1, ("at", "d"): 0}, {"at": (0, 1)}, Report(1.0, {}, 1.0)
    )  # fmt: skip
    pins = table.assigned(wanted).operators["at"].pins
    assert pins == {"a": 2, "b": 2, "c": 3, "d": 0}
