"""A source's offsets become what its tasks would read."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from connect_runtime.core.offsets import source_offsets


def test_they_are_what_a_store_gives_back():
    given = [
        ({"a": 1, "b": None}, {"n": 1.5, "raw": b"\x00", "far": float("inf"), "yes": True}),
        ({}, None),
        (None, {"n": 2**63 - 1}),
    ]
    assert source_offsets.normalised(given) == [
        ({"a": 1, "b": None}, {"n": 1.5, "raw": "AA==", "far": "Infinity", "yes": True}),
        ({}, None),
        (None, {"n": 2**63 - 1}),
    ]


def test_fields_are_in_the_order_of_javas_maps():
    [(partition, _)] = source_offsets.normalised(
        [({"topic": "t", "partition": 0, "cluster": "a"}, None)]
    )
    assert partition is not None
    assert list(partition) == ["cluster", "partition", "topic"]


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "called"),
    [
        ([1], "ARRAY"),
        ({"a": 1}, "MAP"),
        (2**63, "class java.math.BigInteger"),
        (-(2**63) - 1, "class java.math.BigInteger"),
        (Odd(), "class Odd"),
    ],
)
def test_what_is_not_flat_is_refused(value, called):
    told = f"Offsets may only contain primitive types as values, but field f contains {called}"
    for pair in (({"f": value}, {"n": 1}), ({"n": 1}, {"ok": 1, "f": value})):
        with pytest.raises(errors.DataError) as raised:
            source_offsets.normalised([pair])
        assert str(raised.value) == told
