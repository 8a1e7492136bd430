from __future__ import annotations

import pytest

from mm2.core.copy import setup, transactions
from tests.fakes import taking

MB = 1024 * 1024
Step = transactions.Step


def mode(*, always=False):
    return transactions.TransactionMode(always=always, renew_after_s=100.0, marked_at_s=0.0)


def opened(now_s=10.0):
    active = mode()
    active.begin(now_s)
    active.opened(7)
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
    active.opened(7)
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


@pytest.mark.parametrize("delivery", list(setup.Delivery))
def test_after_a_take_the_setup_says_how_it_begins(delivery):
    where = taking.where(delivery=delivery, renew_after_s=50.0)
    begun = transactions.begun(where, 10.0)
    assert begun.active == begun.always == (delivery is setup.Delivery.TRANSACTIONAL)
    assert (begun.renewal_due(59.0), begun.renewal_due(60.0)) == (False, True)


# The next step


def step(of, *, next_is_old=None, paused=False, now_s=10.0):
    return of.next_step(next_is_old=next_is_old, paused=paused, now_s=now_s)


def test_fresh_batches_need_no_step_until_the_fence_is_due():
    plain = mode()
    for next_is_old in (None, False):
        assert step(plain, next_is_old=next_is_old, now_s=99.0) is None
        assert step(plain, next_is_old=next_is_old, now_s=100.0) is Step.RENEW
    assert not plain.active


def test_the_first_old_batch_opens_a_transaction():
    plain = mode()
    assert step(plain, next_is_old=True) is Step.OPEN
    assert plain.active


def test_what_was_sent_plainly_is_sealed_by_a_marker_first():
    plain = mode()
    plain.sent(1, old=False, now_s=9.0)
    assert step(plain, next_is_old=True) is Step.RENEW
    plain.marked(11.0)
    assert step(plain, next_is_old=True, now_s=11.0) is Step.OPEN


def test_nothing_is_opened_for_nothing_or_over_a_pause():
    always = mode(always=True)
    assert step(always) is None
    assert step(always, next_is_old=False, paused=True) is None
    assert step(always, next_is_old=False) is Step.OPEN
    assert step(always, next_is_old=False, paused=True, now_s=100.0) is Step.RENEW


@pytest.mark.parametrize(
    ("sent", "given", "due"),
    [
        (True, {"next_is_old": True}, False),
        (True, {"next_is_old": None}, True),
        (False, {"next_is_old": None}, True),
        (False, {"next_is_old": True, "paused": True}, True),
        (True, {"next_is_old": True, "now_s": 10.01 + transactions.COMMIT_EVERY_S}, True),
        (False, {"next_is_old": False}, False),
        (False, {"next_is_old": False, "now_s": 10.0 + transactions.STAY_S}, True),
    ],
    ids=["more", "idle", "empty", "paused", "long open", "fresh", "fresh for a while"],
)
def test_an_open_transaction_is_committed_before_anything_else(sent, given, due):
    active = opened(10.0)
    if sent:
        active.sent(1, old=True, now_s=10.0)
    assert step(active, **given) is (Step.COMMIT if due else None)
    assert active.active


def test_once_committed_the_mode_ends_at_a_fresh_batch():
    active = opened(10.0)
    active.sent(1, old=True, now_s=10.0)
    active.marked(11.0)
    assert step(active, next_is_old=False, now_s=11.0) is Step.OPEN
    assert step(active, next_is_old=None, now_s=13.0) is None
    assert active.active
    assert step(active, next_is_old=False, now_s=13.0) is None
    assert not active.active


def test_an_open_transaction_says_from_where_on_it_is_not_committed():
    assert opened().open_from == 7


# Without a transactional id


def impossible():
    return transactions.begun(
        taking.where(delivery=setup.Delivery.TRANSACTIONAL, renew_after_s=100.0), 0.0, fenced=False
    )


def test_without_a_fence_there_are_no_transactions_whatever_is_asked_for():
    plain = impossible()
    assert (plain.possible, plain.always, plain.active) == (False, False, False)


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("now_s", [0.0, 1000.0])
def test_without_a_fence_batches_of_every_age_go_at_any_time(old, now_s):
    plain = impossible()
    assert plain.admits(old=old, now_s=now_s)
    assert plain.next_step(next_is_old=old, paused=False, now_s=now_s) is None
    plain.sent(10, old=old, now_s=now_s)
    assert plain.admits(old=old, now_s=now_s)
    assert plain.next_step(next_is_old=old, paused=False, now_s=now_s) is None
    assert not plain.active


def test_with_a_fence_an_old_batch_waits_for_its_transaction():
    assert not mode().admits(old=True, now_s=1.0)
    assert mode().admits(old=False, now_s=1.0)
    assert not mode().admits(old=False, now_s=101.0), "the fence is renewed first"
