from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.replication import throttle
from mm2.replication.throttle import ByteRateLimit

RATES = st.integers(1, 10**9)


def test_without_a_budget_it_is_always_open():
    free = throttle.create_limits(0, {"orders": 0})
    free.flow.spent(10**12)
    free.spent_on("orders", 10**12)
    free.spent_on("other", 10**12)
    assert free.flow.open(0.0)
    assert free.open_for("orders", 0.0)
    assert free.open_for("other", 0.0)
    assert free.most_bytes("orders", 5, sharers=1) == free.most_at_once(5) == 5


@given(
    rate=RATES,
    turns=st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 10**9)), max_size=60),
)
def test_no_more_passes_than_the_budget_a_burst_and_one_answer(rate, turns):
    bucket = ByteRateLimit(rate)
    now_s = passed = largest = 0.0
    for waited_s, size in turns:
        now_s += waited_s
        if bucket.open(now_s):
            bucket.spent(size)
            passed += size
            largest = max(largest, size)
            assert passed <= rate * (now_s + 0.25) * 1.000001 + largest + 1


@given(rate=RATES, size=st.integers(1, 10**9))
def test_a_debt_is_earned_back_in_its_time(rate, size):
    bucket = ByteRateLimit(rate)
    assert bucket.open(0.0)
    bucket.spent(size)
    due_s = max(0.0, (size - rate * 0.25) / rate)
    assert not bucket.open(due_s * 0.999 - 1e-6) or due_s < 1e-6
    assert bucket.open(due_s * 1.001 + 2e-6 + 2 / rate)


def test_a_topic_has_a_budget_of_its_own_and_small_answers():
    both = throttle.create_limits(1_000_000, {"slow": 100_000})
    assert both.open_for("slow", 0.0)
    both.spent_on("slow", 50_000)
    assert not both.open_for("slow", 0.1)
    assert both.open_for("fast", 0.1)
    assert both.flow.open(0.1)
    assert both.most_bytes("slow", 1 << 20, sharers=1) == 50_000
    assert both.most_bytes("slow", 1 << 20, sharers=2) == 25_000
    assert both.most_bytes("slow", 1000, sharers=0) == 1000
    assert both.most_bytes("fast", 1 << 20, sharers=2) == 1 << 20
    assert (
        throttle.create_limits(0, {"slow": 1}).most_bytes("slow", 1 << 20, sharers=9) == 16 * 1024
    )


def test_a_flow_with_a_small_budget_asks_for_little_at_once():
    assert throttle.create_limits(1_000_000, {}).most_at_once(32 << 20) == 500_000
    assert throttle.create_limits(1_000_000, {}).most_at_once(1000) == 1000
    assert throttle.create_limits(1, {}).most_at_once(32 << 20) == 16 * 1024
