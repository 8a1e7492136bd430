"""The judge of two clusters that mirror each other, with a fault of every kind."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support import both_ways
from tests.support.kafka import Record


def log(*values: str) -> list[Record]:
    return [
        Record(
            offset=place,
            key=b"k",
            value=value.encode(),
            headers=(),
            timestamp_type=1,
            timestamp=17,
        )
        for place, value in enumerate(values)
    ]


E1, E2, W1 = "east plain 1", "east plain 2", "west plain 1"


def test_each_has_all_of_both_in_whichever_order_they_met():
    assert both_ways.wrong({"east": log(E1, E2, W1), "west": log(W1, E1, E2)}) == []


@pytest.mark.parametrize(
    ("east", "west", "told"),
    [
        ((E1, W1), (W1, E1, E1), "1 of east stand twice on west"),
        ((E1, W1, E1), (W1, E1), "1 of east came back"),
        ((E1, E2, W1), (W1, E2), "1 of east miss on west"),
        ((E1,), (W1, E1), "1 of west miss on east"),
        ((E1, E2, W1), (W1, E2, E1), "in another order"),
        ((W1,), (W1,), "nothing was born on east"),
        ((E1, W1), (W1, E1, "east aborted 3"), "was aborted"),
        ((E1, W1, "north plain 1"), (W1, E1), "strangers on east"),
        ((E1, W1), (W1, E1, E2), "or others with them"),
    ],
)
def test_every_fault_is_seen(east, west, told):
    found = both_ways.wrong({"east": log(*east), "west": log(*west)})
    assert [each for each in found if told in each], found


def test_another_content_is_another_record():
    east, west = log(E1, W1), log(W1, E1)
    west[1] = dataclasses.replace(west[1], timestamp=18)
    assert both_ways.wrong({"east": east, "west": west})
