"""Latencies by buckets, clocks that are ahead, and what is said of when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.copy import ages, crossing

NOW_MS = 1_790_000_000_000
NOW_S = 70.0
NEVER_S = crossing.NEVER_S


def found(*batches: tuple[int, int, int]) -> crossing.Crossing:
    """Batches of so many records, of these ages from the youngest to the oldest."""
    made = crossing.Crossing()
    for records, youngest, oldest in batches:
        late = ages.of_batch(
            records, oldest_ms=NOW_MS - oldest, newest_ms=NOW_MS - youngest, wall_ms=NOW_MS
        )
        made.acknowledged(late, NOW_S)
    return made


def by_bound(made: crossing.Crossing) -> dict[float, int]:
    bounds = [*crossing.BOUNDS_MS, float("inf")]
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
    made = crossing.Crossing()
    made.acknowledged(ages.NONE, NOW_S)
    assert made.take(idle_s=NEVER_S) == crossing.Pulse(crossed_s=NOW_S)


def test_a_clock_that_is_ahead_is_told_once_and_one_that_is_mad_never():
    made = crossing.Crossing()
    for ahead_ms in (300, 700, 10, -5, crossing.AHEAD_MAX_MS + 1):
        made.came(NOW_MS + ahead_ms, NOW_MS)
    assert [made.take(idle_s=NEVER_S).ahead_ms for _ in range(2)] == [700, 0]


def test_when_all_was_copied_last_is_remembered():
    made = crossing.Crossing()
    assert [made.take(idle_s=each).idle_s for each in (NEVER_S, 50, NEVER_S, 60, NEVER_S)] == [
        NEVER_S, 50, 50, 60, 60,
    ]  # fmt: skip


def test_what_a_pulse_has_counted_since_another():
    def pulse(count: int, life: int = 1) -> crossing.Pulse:
        counts = (count, *[0] * (crossing.BUCKETS - 1))
        return crossing.Pulse(counts=counts, sum_ms=10 * count, life=life)

    assert pulse(7).since(pulse(5)) == pulse(2)
    assert pulse(3).since(pulse(5)) == pulse(3)
    assert pulse(7, life=2).since(pulse(5)) == pulse(7, life=2)
