"""Tuples of two keys: what goes together how often, what is carried along, and what is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg import datagen


def table(rows: int, keys: int = 50, **arguments: object) -> pa.Table:
    made = datagen.key_pairs(rows, keys, **arguments)
    return pa.Table.from_batches(made, schema=datagen.KEY_PAIR_SCHEMA)


def partners(made: pa.Table, keys: int = 50) -> np.ndarray:
    return made["second"].to_numpy() == made["first"].to_numpy() + keys


@pytest.mark.parametrize("locality", [0.0, 0.6, 1.0])
def test_partners_come_as_often_as_asked(locality: float) -> None:
    """The share of partners is the locality, within 5 deviations; first keys and the rest of the second are uniform."""
    rows = 20_000
    made = table(rows, locality=locality, seed=3)
    share = partners(made).mean()
    assert abs(share - locality) <= 5 * np.sqrt(locality * (1 - locality) / rows)
    first, second = made["first"].to_numpy(), made["second"].to_numpy()
    assert first.min() == 0 and first.max() == 49
    assert second.min() == 50 and second.max() == 99
    for values in (first, second):
        counts = np.unique(values, return_counts=True)[1]
        assert len(counts) == 50 and abs(counts - 400).max() < 5 * np.sqrt(400)


def test_others_are_every_key_but_the_partner() -> None:
    made = table(20_000, keys=4, locality=0.0)
    found = set(zip(made["first"].to_pylist(), made["second"].to_pylist(), strict=True))
    assert found == {(i, 4 + j) for i in range(4) for j in range(4) if i != j}


def test_padding_is_carried_and_random() -> None:
    """Each tuple has its own bytes, as many as asked; batches stay small."""
    batches = list(datagen.key_pairs(1_000, padding=20_000))
    assert len(batches) > 1 and sum(map(len, batches)) == 1_000
    assert max(batch.nbytes for batch in batches) < 9 << 20
    paddings = [one for batch in batches for one in batch["padding"].to_pylist()]
    assert {len(one) for one in paddings} == {20_000} and len(set(paddings)) == 1_000
    assert set(table(3)["padding"].to_pylist()) == {b""}


def test_the_seed_makes_the_tuples() -> None:
    assert table(500, padding=3, seed=7) == table(500, padding=3, seed=7)
    assert table(500, seed=7) != table(500, seed=8)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"rows": -1}, "rows is -1"),
        ({"rows": 1, "keys": 1}, "keys is 1"),
        ({"rows": 1, "locality": 1.1}, "locality is 1.1"),
        ({"rows": 1, "padding": -1}, "padding is -1"),
    ],
)
def test_refused(arguments: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        datagen.key_pairs(**arguments)
