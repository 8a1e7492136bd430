from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.replication import throttle
from mm2.replication.throttle import ByteRateLimit

RATES = st.integers(1, 10**9)


def test_without_a_budget_it_is_always_open():
    free = throttle.create_byte_rate_limits(0, {"orders": 0})
    free.flow.deduct_bytes(10**12)
    free.deduct_topic_bytes("orders", 10**12)
    free.deduct_topic_bytes("other", 10**12)
    assert free.flow.may_fetch(0.0)
    assert free.may_fetch_topic("orders", 0.0)
    assert free.may_fetch_topic("other", 0.0)
    assert (
        free.limit_partition_bytes("orders", 5, partition_count=1)
        == free.limit_response_bytes(5)
        == 5
    )


@given(
    rate=RATES,
    turns=st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 10**9)), max_size=60),
)
def test_no_more_passes_than_the_budget_a_burst_and_one_answer(rate, turns):
    bucket = ByteRateLimit(rate)
    now_s = passed = largest = 0.0
    for waited_s, size in turns:
        now_s += waited_s
        if bucket.may_fetch(now_s):
            bucket.deduct_bytes(size)
            passed += size
            largest = max(largest, size)
            assert passed <= rate * (now_s + 0.25) * 1.000001 + largest + 1


@given(rate=RATES, size=st.integers(1, 10**9))
def test_a_debt_is_earned_back_in_its_time(rate, size):
    bucket = ByteRateLimit(rate)
    assert bucket.may_fetch(0.0)
    bucket.deduct_bytes(size)
    due_s = max(0.0, (size - rate * 0.25) / rate)
    assert not bucket.may_fetch(due_s * 0.999 - 1e-6) or due_s < 1e-6
    assert bucket.may_fetch(due_s * 1.001 + 2e-6 + 2 / rate)


def test_a_topic_has_a_budget_of_its_own_and_small_answers():
    both = throttle.create_byte_rate_limits(1_000_000, {"slow": 100_000})
    assert both.may_fetch_topic("slow", 0.0)
    both.deduct_topic_bytes("slow", 50_000)
    assert not both.may_fetch_topic("slow", 0.1)
    assert both.may_fetch_topic("fast", 0.1)
    assert both.flow.may_fetch(0.1)
    assert both.limit_partition_bytes("slow", 1 << 20, partition_count=1) == 50_000
    assert both.limit_partition_bytes("slow", 1 << 20, partition_count=2) == 25_000
    assert both.limit_partition_bytes("slow", 1000, partition_count=0) == 1000
    assert both.limit_partition_bytes("fast", 1 << 20, partition_count=2) == 1 << 20
    assert (
        throttle.create_byte_rate_limits(0, {"slow": 1}).limit_partition_bytes(
            "slow", 1 << 20, partition_count=9
        )
        == 16 * 1024
    )


def test_a_flow_with_a_small_budget_asks_for_little_at_once():
    assert throttle.create_byte_rate_limits(1_000_000, {}).limit_response_bytes(32 << 20) == 500_000
    assert throttle.create_byte_rate_limits(1_000_000, {}).limit_response_bytes(1000) == 1000
    assert throttle.create_byte_rate_limits(1, {}).limit_response_bytes(32 << 20) == 16 * 1024
