from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.app import rates
from tests.support import statuses


def snapshot(records: int, size: int = 0):
    return [statuses.flow(statuses.partition("orders", records=records, bytes=size))]


def test_nothing_is_known_before_two_snapshots():
    made = rates.Rates()
    assert made.of("east->west", "orders") == rates.NOTHING
    made.observe(snapshot(500), 1.0)
    assert made.of("east->west", "orders") == rates.NOTHING


def test_partitions_of_a_topic_add_up_and_topics_do_not():
    made = rates.Rates()
    before = [
        statuses.flow(
            statuses.partition("orders", 0, records=10, bytes=100),
            statuses.partition("orders", 1, records=20, bytes=200),
            statuses.partition("other", 0, records=5, bytes=5),
        )
    ]
    after = [
        statuses.flow(
            statuses.partition("orders", 0, records=30, bytes=300),
            statuses.partition("orders", 1, records=40, bytes=400),
            statuses.partition("other", 0, records=5, bytes=5),
        )
    ]
    made.observe(before, 10.0)
    made.observe(after, 12.0)
    assert made.of("east->west", "orders") == rates.Rate(20.0, 200.0)
    assert made.of("east->west", "other") == rates.NOTHING
    assert made.of("west->east", "orders") == rates.NOTHING


def test_the_rate_is_that_of_the_window_not_of_all_time():
    made = rates.Rates()
    made.observe(snapshot(0), 0.0)
    made.observe(snapshot(1_000_000), 1.0)
    for second in range(2, 20):
        made.observe(snapshot(1_000_000 + second), float(second))
        made.check_invariants()
    assert made.of("east->west", "orders").records_s == 1.0


def test_the_same_moment_again_changes_nothing():
    made = rates.Rates()
    made.observe(snapshot(0), 0.0)
    made.observe(snapshot(10), 1.0)
    made.observe(snapshot(99), 1.0)
    assert made.of("east->west", "orders").records_s == 10.0


@given(st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 1000)), min_size=2, max_size=50))
def test_rates_are_never_negative(steps):
    made = rates.Rates()
    now_s = 0.0
    for passed_s, records in steps:
        now_s += passed_s
        made.observe(snapshot(records), now_s)
        made.check_invariants()
        assert made.of("east->west", "orders").records_s >= 0
