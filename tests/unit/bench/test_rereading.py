"""The judge of what a group reads again: whoever misses a record is found out."""

from __future__ import annotations

import pytest

from tests.bench import rereading
from tests.support.offset_oracle import Oracle

SOURCE = {0: b"a", 1: b"b", 4: b"c", 5: b"d"}
TARGET = {10: b"a", 11: b"b", 12: b"c", 14: b"d"}


@pytest.fixture
def oracle():
    return Oracle(SOURCE, TARGET, source_end=6, target_end=15)


@pytest.mark.parametrize(
    ("offset", "place", "again", "misses"),
    [
        (4, 12, 0, False),
        (2, 12, 0, False),
        (4, 11, 1, False),
        (6, 10, 4, False),
        (6, None, 4, False),
        (4, 13, 0, True),
        (0, 11, 0, True),
        (6, 15, 0, False),
    ],
)
def test_what_is_read_again_is_counted_and_what_is_missed_is_wrong(
    oracle, offset, place, again, misses
):
    found = rereading.judge(oracle, offset, place)
    assert found.again == again
    assert bool(found.wrong) is misses
