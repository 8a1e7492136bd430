"""Latencies by buckets, clocks that are ahead, and what is said of when.

Ages of many records: of a batch, added up, and where timestamps are missing or ahead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import record_batch
from mm2.formats.record_batch import BatchHeader
from mm2.replication import replication_latency
from mm2.replication.replication_latency import LatencyHistogram, LatencySnapshot, RecordAges

NOW_MS = 1_790_000_000_000
NOW_S = 70.0
NEVER_S = replication_latency.NEVER_S


def found(*batches: tuple[int, int, int]) -> LatencyHistogram:
    """Batches of so many records, of these ages from the youngest to the oldest."""
    made = LatencyHistogram()
    for records, youngest, oldest in batches:
        late = replication_latency.compute_batch_ages(
            records, oldest_ms=NOW_MS - oldest, newest_ms=NOW_MS - youngest, wall_ms=NOW_MS
        )
        made.record_acknowledged_batch(late, NOW_S)
    return made


def by_bound(made: LatencyHistogram) -> dict[float, int]:
    bounds = [*replication_latency.BUCKET_BOUNDS_MS, float("inf")]
    return {bound: count for bound, count in zip(bounds, made.counts, strict=True) if count}


def test_a_bound_is_in_its_bucket():
    made = found((1, 0, 0), (2, 5, 5), (4, 6, 6), (8, 300_000, 300_000), (16, 300_001, 10**9))
    assert by_bound(made) == {5: 3, 10: 4, 300_000: 8, float("inf"): 16}


def test_a_batch_is_spread_over_what_is_between_its_ends():
    assert by_bound(found((100, 1, 100))) == {5: 5, 10: 5, 25: 15, 50: 25, 100: 50}
    assert by_bound(found((3, 1, 10**6)))[float("inf")] == 3
    assert by_bound(found((2, 1, 10))) == {5: 1, 10: 1}


def test_the_bucket_of_the_batch_before_is_not_that_of_the_next():
    for first in (0, 7, 400_000):
        for then in ((1, 5, 5), (1, 6, 6), (1, 300_001, 300_001), (2, 4, 6)):
            both = by_bound(found((10, first, first), then))
            alone = by_bound(found(then))
            ten = by_bound(found((10, first, first)))
            expected = {bound: alone.get(bound, 0) + ten.get(bound, 0) for bound in alone | ten}
            assert both == expected, (first, then)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 10**6), st.integers(0, 10**6))))
def test_every_record_is_counted_once(batches):
    made = found(*((count, min(one, other), max(one, other)) for count, one, other in batches))
    assert sum(made.counts) == sum(count for count, _, _ in batches)
    assert min(made.counts) >= 0


def test_records_without_timestamps_cross_and_have_no_age():
    made = LatencyHistogram()
    made.record_acknowledged_batch(replication_latency.NO_AGES, NOW_S)
    assert made.take_snapshot(caught_up_at_s=NEVER_S) == LatencySnapshot(replicated_at_s=NOW_S)


def test_a_clock_that_is_ahead_is_told_once_and_one_that_is_mad_never():
    made = LatencyHistogram()
    for ahead_ms in (300, 700, 10, -5, replication_latency.AHEAD_MAX_MS + 1):
        made.record_fetched_batch(NOW_MS + ahead_ms, NOW_MS)
    assert [made.take_snapshot(caught_up_at_s=NEVER_S).ahead_ms for _ in range(2)] == [700, 0]


def test_when_all_was_copied_last_is_remembered():
    made = LatencyHistogram()
    idle = (NEVER_S, 50, NEVER_S, 60, NEVER_S)
    taken = [made.take_snapshot(caught_up_at_s=each).caught_up_at_s for each in idle]
    assert taken == [NEVER_S, 50, 50, 60, 60]


def test_what_a_pulse_has_counted_since_another():
    def pulse(count: int, life: int = 1) -> LatencySnapshot:
        counts = (count, *[0] * (replication_latency.BUCKET_COUNT - 1))
        return LatencySnapshot(counts=counts, sum_ms=10 * count, incarnation=life)

    assert pulse(7).subtract(pulse(5)) == pulse(2)
    assert pulse(3).subtract(pulse(5)) == pulse(3)
    assert pulse(7, life=2).subtract(pulse(5)) == pulse(7, life=2)


some_ages = st.builds(RecordAges, *[st.integers(1, 10**9)] * 4)


def header(*, attributes=0, base_ms=NOW_MS, max_ms=NOW_MS, records=1):
    empty = BatchHeader(*[0] * 13)
    return empty._replace(
        attributes=attributes,
        base_timestamp=base_ms,
        max_timestamp=max_ms,
        record_count=records,
    )


@pytest.mark.parametrize(
    ("oldest_ms", "newest_ms", "expected"),
    [
        (NOW_MS - 900, NOW_MS - 100, RecordAges(4, 2000, 100, 900)),
        (NOW_MS - 100, NOW_MS - 100, RecordAges(4, 400, 100, 100)),
        (NOW_MS - 100, NOW_MS + 5000, RecordAges(4, 200, 0, 100)),
        (NOW_MS + 100, NOW_MS + 5000, RecordAges(4, 0, 0, 0)),
        (-1, NOW_MS - 100, RecordAges(4, 400, 100, 100)),
        (-1, -1, replication_latency.NO_AGES),
    ],
    ids=["spread", "at once", "partly ahead", "a clock ahead", "no oldest", "no timestamps"],
)
def test_ages_of_a_batch(oldest_ms, newest_ms, expected):
    found = replication_latency.compute_batch_ages(
        4, oldest_ms=oldest_ms, newest_ms=newest_ms, wall_ms=NOW_MS
    )
    assert found == expected


def test_a_batch_that_is_left_empty_has_none():
    assert not replication_latency.compute_batch_ages(0, oldest_ms=1, newest_ms=1, wall_ms=NOW_MS)


def test_in_a_batch_that_its_broker_stamped_all_are_that_old():
    stamped = header(
        attributes=record_batch.LOG_APPEND_TIME, base_ms=NOW_MS - 900, max_ms=NOW_MS - 50, records=2
    )
    assert replication_latency.compute_source_ages(stamped, wall_ms=NOW_MS) == RecordAges(
        2, 100, 50, 50
    )
    own = stamped._replace(attributes=0)
    assert replication_latency.compute_source_ages(own, wall_ms=NOW_MS) == RecordAges(
        2, 950, 50, 900
    )


def test_nothing_is_added_by_none():
    some = RecordAges(2, 30, 10, 20)
    assert (
        some.merge(replication_latency.NO_AGES) == replication_latency.NO_AGES.merge(some) == some
    )
    assert (
        replication_latency.NO_AGES.merge(replication_latency.NO_AGES)
        == replication_latency.NO_AGES
    )


@given(some_ages, some_ages, some_ages)
def test_in_whichever_order_they_add_up_to_the_same(one, two, three):
    assert one.merge(two).merge(three) == three.merge(one.merge(two))
    both = one.merge(two)
    assert (both.records, both.sum_ms) == (one.records + two.records, one.sum_ms + two.sum_ms)
    assert both.min_ms <= one.min_ms
    assert both.max_ms >= two.max_ms
