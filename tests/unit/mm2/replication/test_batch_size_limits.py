from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.replication import batch_size_limits
from mm2.replication.batch_size_limits import BatchMergeLimits, PartitionBatchLimits
from mm2.replication.in_flight_batches import SentBatch
from tests.fakes import copying

TINY = (batch_size_limits.ALWAYS_MERGED_RECORDS, batch_size_limits.ALWAYS_MERGED_BYTES)
LARGE = (batch_size_limits.DECODE_PART_RECORDS, batch_size_limits.ENCODED_BATCH_BYTES_MAX // 2)


# Joining


def joined(*looks, start=TINY, slow_acks=True):
    """Which batches are joined after each look: (seconds waited, seconds gone by)."""
    joining = BatchMergeLimits()
    joining.records, joining.bytes = start
    now_s, found = 0.0, []
    for waited_s, elapsed_s in looks:
        now_s += elapsed_s
        joining.record_idle_time(waited_s, now_s, slow_acks=slow_acks)
        found.append((joining.records, joining.bytes))
    return found


def test_tiny_batches_are_joined_from_the_beginning():
    joining = BatchMergeLimits()
    assert (joining.records, joining.bytes) == TINY


@pytest.mark.parametrize(
    ("share", "start", "after"),
    [
        (0.0, LARGE, TINY),
        (batch_size_limits.IDLE_SHARE_LOW - 0.01, LARGE, TINY),
        (batch_size_limits.IDLE_SHARE_LOW + 0.01, LARGE, LARGE),
        (batch_size_limits.IDLE_SHARE_LOW + 0.01, TINY, TINY),
        (batch_size_limits.IDLE_SHARE_HIGH - 0.01, TINY, TINY),
        (batch_size_limits.IDLE_SHARE_HIGH + 0.01, TINY, LARGE),
        (1.0, TINY, LARGE),
    ],
)
def test_larger_ones_are_joined_while_the_copy_mostly_waits(share, start, after):
    assert joined((share, 1.0), start=start) == [after]


@pytest.mark.parametrize("start", [TINY, LARGE])
def test_where_acknowledgements_are_fast_only_tiny_ones_are_joined(start):
    assert joined((1.0, 1.0), start=start, slow_acks=False) == [TINY]


def test_short_times_are_added_up_before_anything_is_concluded():
    part_s = batch_size_limits.MERGE_LIMIT_INTERVAL_S / 5
    assert joined(*[(part_s, part_s)] * 4) == [TINY] * 4
    assert joined(*[(part_s, part_s * 1.01)] * 5)[-1] == LARGE


def test_each_look_is_at_the_time_since_the_one_before():
    assert joined((1.0, 1.0), (0.0, 1.0), (1.0, 1.0)) == [LARGE, TINY, LARGE]


# Limits


def test_nothing_is_known_of_a_target_that_refused_nothing():
    allowed = PartitionBatchLimits()
    assert (allowed.refused_bytes, allowed.get_record_limit(0)) == (
        batch_size_limits.NO_RECORD_LIMIT,
        batch_size_limits.NO_RECORD_LIMIT,
    )
    assert allowed.reencoded_bytes_max == batch_size_limits.ENCODED_BATCH_BYTES_MAX


def test_what_is_too_large_is_halved_as_long_as_it_can_be():
    allowed = PartitionBatchLimits()
    assert allowed.halve_size_limit(size=400_000, count=10)
    assert (allowed.refused_bytes, allowed.reencoded_bytes_max) == (400_000, 200_000)
    assert allowed.halve_size_limit(size=150_000, count=4)
    assert (allowed.refused_bytes, allowed.reencoded_bytes_max) == (150_000, 75_000)
    assert not allowed.halve_size_limit(size=90_000, count=1)
    assert (allowed.refused_bytes, allowed.reencoded_bytes_max) == (150_000, 75_000)


def test_a_batch_larger_than_what_we_make_is_first_made_smaller_than_that():
    allowed = PartitionBatchLimits()
    assert allowed.halve_size_limit(size=10 << 20, count=10)
    assert (allowed.refused_bytes, allowed.reencoded_bytes_max) == (
        10 << 20,
        batch_size_limits.ENCODED_BATCH_BYTES_MAX // 2,
    )


@pytest.mark.parametrize(("count", "then"), [(1000, 500), (3, 2), (2, 1)])
def test_an_unknown_bad_record_is_looked_for_in_half_of_the_batch(count, then):
    allowed = PartitionBatchLimits()
    assert allowed.halve_record_limit(count=count, until=50)
    assert allowed.get_record_limit(49) == then


def test_a_bad_record_that_stands_alone_is_known():
    assert not PartitionBatchLimits().halve_record_limit(count=1, until=50)


@given(st.integers(1, 100_000))
def test_any_batch_is_halved_to_single_records_in_few_steps(count):
    allowed, steps = PartitionBatchLimits(), 0
    while allowed.halve_record_limit(count=count, until=50):
        count = min(count, allowed.get_record_limit(0))
        steps += 1
    assert count == 1
    assert steps <= 18


def test_behind_what_was_refused_batches_are_whole_again():
    allowed = PartitionBatchLimits()
    allowed.halve_record_limit(count=8, until=50)
    assert [allowed.get_record_limit(at) for at in (10, 49, 50, 10)] == [
        4,
        4,
        batch_size_limits.NO_RECORD_LIMIT,
        batch_size_limits.NO_RECORD_LIMIT,
    ]


def test_another_refusal_within_the_first_does_not_end_the_search_sooner():
    allowed = PartitionBatchLimits()
    allowed.halve_record_limit(count=8, until=50)
    allowed.halve_record_limit(count=4, until=46)
    assert (allowed.get_record_limit(49), allowed.record_limit_end) == (2, 50)


def test_what_was_learned_is_forgotten():
    allowed = PartitionBatchLimits()
    allowed.halve_size_limit(size=1000, count=9)
    allowed.halve_record_limit(count=8, until=50)
    allowed.reset()
    assert (allowed.refused_bytes, allowed.reencoded_bytes_max) == (
        batch_size_limits.NO_RECORD_LIMIT,
        batch_size_limits.ENCODED_BATCH_BYTES_MAX,
    )
    assert allowed.get_record_limit(0) == batch_size_limits.NO_RECORD_LIMIT


def refused(allowed, code, *sources, now_s):
    sent = SentBatch(copying.outgoing_of(*sources), target=0, crc=0, size=1000)
    return allowed.on_batch_refused(code, sent, now_s)


@pytest.mark.parametrize("code", [10, 18, 32, 87])
def test_a_refusal_counts_for_a_while_and_a_later_one_for_as_long_again(code):
    allowed = PartitionBatchLimits()
    assert refused(allowed, code, 0, 1, 2, 3, now_s=50.0)
    assert refused(allowed, code, 0, 1, now_s=100.0)
    learned = dataclasses.replace(allowed)
    allowed.expire_limits(99.9 + batch_size_limits.LEARNED_LIMIT_TTL_S)
    assert allowed == learned != PartitionBatchLimits()
    allowed.expire_limits(100.0 + batch_size_limits.LEARNED_LIMIT_TTL_S)
    assert allowed == PartitionBatchLimits()
    allowed.expire_limits(1e9)
    assert allowed == PartitionBatchLimits()


def test_what_is_not_divided_is_not_remembered():
    allowed = PartitionBatchLimits()
    assert not refused(allowed, 10, 0, now_s=50.0)
    assert not refused(allowed, 45, 0, 1, now_s=50.0)
    assert allowed == PartitionBatchLimits()


def test_partitions_of_a_task_share_what_is_joined_and_not_what_was_refused():
    joining = BatchMergeLimits()
    one, other = (
        PartitionBatchLimits(merge_limits=joining),
        PartitionBatchLimits(merge_limits=joining),
    )
    one.halve_size_limit(size=1000, count=9)
    joining.record_idle_time(1.0, 1.0, slow_acks=True)
    assert (other.merge_limits.records, other.refused_bytes) == (
        batch_size_limits.DECODE_PART_RECORDS,
        batch_size_limits.NO_RECORD_LIMIT,
    )
