from __future__ import annotations

import pytest

from mm2.core.copy import transactions

MB = 1024 * 1024


def mode(*, always=False):
    return transactions.TransactionMode(always=always, renew_after_s=100.0, marked_at_s=0.0)


def opened(now_s=10.0):
    active = mode()
    active.begin(now_s)
    active.opened()
    return active


@pytest.mark.parametrize("always", [True, False])
def test_a_partition_begins_in_transactions_only_when_it_always_uses_them(always):
    begun = mode(always=always)
    assert (begun.active, begun.open) == (always, False)


def test_plain_batches_are_noticed_until_the_next_marker():
    plain = mode()
    assert not plain.plain_since_marker
    plain.sent(100, old=False, now_s=1.0)
    assert plain.plain_since_marker
    assert plain.open_bytes == 0
    plain.marked(2.0)
    assert not plain.plain_since_marker


def test_batches_in_a_transaction_are_not_plain():
    active = opened()
    active.sent(100, old=True, now_s=10.0)
    assert not active.plain_since_marker
    assert active.open_bytes == 100


@pytest.mark.parametrize(
    ("sizes", "after_s", "due"),
    [
        ([], 99.0, False),
        ([1], 0.0, False),
        ([1], transactions.COMMIT_EVERY_S - 0.01, False),
        ([1], transactions.COMMIT_EVERY_S + 0.01, True),
        ([8 * MB, 8 * MB - 1], 0.0, False),
        ([8 * MB, 8 * MB], 0.0, True),
    ],
    ids=["empty", "just begun", "not yet", "long enough", "not quite large", "large"],
)
def test_a_transaction_is_committed_by_age_or_size(sizes, after_s, due):
    active = opened(10.0)
    for size in sizes:
        active.sent(size, old=True, now_s=10.0)
    assert active.commit_due(10.0 + after_s) == due


def test_its_age_counts_from_its_first_batch():
    active = opened(10.0)
    active.sent(1, old=True, now_s=50.0)
    active.sent(1, old=True, now_s=50.1)
    assert not active.commit_due(50.15)
    assert active.commit_due(50.25)


def test_a_commit_starts_the_count_anew():
    active = opened(10.0)
    active.sent(16 * MB, old=True, now_s=10.0)
    active.marked(11.0)
    assert (active.open, active.open_bytes, active.commit_due(99.0)) == (False, 0, False)
    active.opened()
    active.sent(1, old=True, now_s=20.0)
    assert not active.commit_due(20.1)


@pytest.mark.parametrize(("after_s", "may_end"), [(0.0, False), (1.9, False), (2.1, True)])
def test_the_mode_ends_when_no_batch_was_old_for_a_while(after_s, may_end):
    active = opened(10.0)
    active.sent(1, old=True, now_s=20.0)
    active.sent(1, old=False, now_s=20.0 + after_s)
    assert active.may_end(20.0 + after_s) == may_end


def test_beginning_counts_as_having_seen_an_old_batch():
    active = mode()
    active.begin(10.0)
    assert active.active
    assert not active.may_end(11.0)
    assert active.may_end(12.0)


def test_a_partition_that_always_uses_transactions_never_ends_them():
    assert not mode(always=True).may_end(1e9)


@pytest.mark.parametrize(
    ("marked_at_s", "now_s", "due"), [(0, 99, False), (0, 100, True), (50, 100, False)]
)
def test_the_fence_is_renewed_by_the_age_of_its_marker(marked_at_s, now_s, due):
    fenced = mode()
    fenced.marked(marked_at_s)
    assert fenced.renewal_due(now_s) == due
