"""Ages of many records: of a batch, added up, and where timestamps are missing or ahead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.core.copy import ages
from mm2.formats import record_batch

NOW_MS = 1_790_000_000_000
some_ages = st.builds(ages.Ages, *[st.integers(1, 10**9)] * 4)


def header(*, attributes=0, base_ms=NOW_MS, max_ms=NOW_MS, records=1):
    empty = record_batch.BatchHeader(*[0] * 13)
    return empty._replace(
        attributes=attributes,
        base_timestamp=base_ms,
        max_timestamp=max_ms,
        record_count=records,
    )


@pytest.mark.parametrize(
    ("oldest_ms", "newest_ms", "expected"),
    [
        (NOW_MS - 900, NOW_MS - 100, ages.Ages(4, 2000, 100, 900)),
        (NOW_MS - 100, NOW_MS - 100, ages.Ages(4, 400, 100, 100)),
        (NOW_MS - 100, NOW_MS + 5000, ages.Ages(4, 200, 0, 100)),
        (NOW_MS + 100, NOW_MS + 5000, ages.Ages(4, 0, 0, 0)),
        (-1, NOW_MS - 100, ages.Ages(4, 400, 100, 100)),
        (-1, -1, ages.NONE),
    ],
    ids=["spread", "at once", "partly ahead", "a clock ahead", "no oldest", "no timestamps"],
)
def test_ages_of_a_batch(oldest_ms, newest_ms, expected):
    found = ages.of_batch(4, oldest_ms=oldest_ms, newest_ms=newest_ms, wall_ms=NOW_MS)
    assert found == expected


def test_a_batch_that_is_left_empty_has_none():
    assert not ages.of_batch(0, oldest_ms=1, newest_ms=1, wall_ms=NOW_MS)


def test_in_a_batch_that_its_broker_stamped_all_are_that_old():
    stamped = header(
        attributes=record_batch.LOG_APPEND_TIME, base_ms=NOW_MS - 900, max_ms=NOW_MS - 50, records=2
    )
    assert ages.of_source(stamped, wall_ms=NOW_MS) == ages.Ages(2, 100, 50, 50)
    own = stamped._replace(attributes=0)
    assert ages.of_source(own, wall_ms=NOW_MS) == ages.Ages(2, 950, 50, 900)


def test_nothing_is_added_by_none():
    some = ages.Ages(2, 30, 10, 20)
    assert some.plus(ages.NONE) == ages.NONE.plus(some) == some
    assert ages.NONE.plus(ages.NONE) == ages.NONE


@given(some_ages, some_ages, some_ages)
def test_in_whichever_order_they_add_up_to_the_same(one, two, three):
    assert one.plus(two).plus(three) == three.plus(one.plus(two))
    both = one.plus(two)
    assert (both.records, both.sum_ms) == (one.records + two.records, one.sum_ms + two.sum_ms)
    assert both.min_ms <= one.min_ms
    assert both.max_ms >= two.max_ms
