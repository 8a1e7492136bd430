from __future__ import annotations

import pytest

from mm2.formats.offset_map_records import MapSegment, MapSegmentKey
from mm2.offsets.offset_map import ResumePoint
from mm2.replication import partition_halt_messages, partition_transactions, recovery_instructions
from mm2.replication.partition_transactions import (
    TransactionMarkerWritten,
    TransactionModeTracker,
    TransactionOpened,
    TransactionStep,
)
from mm2.replication.producer_fencing import FencingDenied, FencingInterrupted, NewerOwner
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    CommitTransaction,
    InstructionRefused,
    OpenTransaction,
    OpenTransactions,
    ProducerIdentity,
    ReadRecoveredState,
    ReadTarget,
    RecoveredState,
    UnreadableStateRecord,
)
from mm2.topics.flow_config import DeliveryMode, TargetTopicAccess
from tests.fakes import scripts, taking
from tests.fakes.scripts import Log

US = ProducerIdentity(id=7, epoch=3)
ME, OTHER = taking.ME, b"other___"
OLD_ID = 5
ALONE = taking.context()
SHARED = taking.context(target_topics=TargetTopicAccess.SHARED)
for each in (ALONE, SHARED):
    each.own_producers.update((OLD_ID, US.id))


def log():
    return Log(scripts.marker(40, (7, 3), leader_epoch=5))


def answers(**changed):
    given = {
        AddToTransaction: scripts.DONE,
        CommitTransaction: scripts.DONE,
        ReadTarget: log(),
    }
    return given | {
        getattr(recovery_instructions, name): answer for name, answer in changed.items()
    }


def test_a_commit_ends_behind_its_marker():
    played = scripts.play(
        partition_transactions.commit_open_transaction(US, next_target=40, context=ALONE), answers()
    )
    assert played.outcome == TransactionMarkerWritten(next_target=41, leader_epoch=5)
    assert played.asked == [
        CommitTransaction(producer=US),
        ReadTarget(offset=40),
    ]


def test_renewing_is_an_empty_transaction():
    played = scripts.play(
        partition_transactions.renew_fence(US, next_target=40, context=ALONE), answers()
    )
    assert played.outcome == TransactionMarkerWritten(next_target=41, leader_epoch=5)
    assert played.asked == [
        AddToTransaction(producer=US),
        CommitTransaction(producer=US),
        ReadTarget(offset=40),
    ]


def test_opening_a_transaction_only_adds_the_partition():
    played = scripts.play(partition_transactions.open_transaction(US), answers())
    assert played.outcome == TransactionOpened()
    assert played.asked == [AddToTransaction(producer=US)]


@pytest.mark.parametrize(
    ("step", "same"),
    [
        (TransactionStep.OPEN, partition_transactions.open_transaction(US)),
        (
            TransactionStep.COMMIT,
            partition_transactions.commit_open_transaction(US, next_target=40, context=ALONE),
        ),
        (
            TransactionStep.RENEW,
            partition_transactions.renew_fence(US, next_target=40, context=ALONE),
        ),
    ],
    ids=lambda each: str(each)[:12],
)
def test_each_step_has_its_script(step, same):
    played = scripts.play(
        partition_transactions.create_transaction_step_script(
            step, US, next_target=40, context=ALONE
        ),
        answers(),
    )
    assert played == scripts.play(same, answers())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (InstructionRefused(code=47), NewerOwner),
        (InstructionRefused(code=53), FencingDenied),
        (InstructionRefused(code=7), FencingInterrupted),
        (scripts.LOST, FencingInterrupted),
    ],
)
def test_what_goes_wrong_is_told_and_nothing_more_is_asked(answer, kind):
    lost_commit = scripts.play(
        partition_transactions.commit_open_transaction(US, next_target=40, context=ALONE),
        answers(CommitTransaction=answer),
    )
    assert isinstance(lost_commit.outcome, kind)
    assert len(lost_commit.asked) == 1
    lost_add = scripts.play(
        partition_transactions.renew_fence(US, next_target=40, context=ALONE),
        answers(AddToTransaction=answer),
    )
    assert isinstance(lost_add.outcome, kind)
    assert len(lost_add.asked) == 1
    opened = scripts.play(
        partition_transactions.open_transaction(US), answers(AddToTransaction=answer)
    )
    assert isinstance(opened.outcome, kind)


@pytest.mark.parametrize("answer", [InstructionRefused(code=1), scripts.LOST])
def test_a_marker_that_cannot_be_read_begins_again(answer):
    for script in (
        partition_transactions.commit_open_transaction(US, next_target=40, context=ALONE),
        partition_transactions.renew_fence(US, next_target=40, context=ALONE),
    ):
        played = scripts.play(script, answers(ReadTarget=answer))
        assert isinstance(played.outcome, FencingInterrupted)


def told(stable):
    """Our marker at 40, and up to where readers of committed records see."""
    return scripts.records(scripts.marker(40, (7, 3), leader_epoch=5), end=41, last_stable=stable)


def open_(*found):
    """What the broker tells: (producer id, where its transaction begins)."""
    return OpenTransactions(
        transactions=tuple(
            OpenTransaction(producer_id=producer_id, start=start) for producer_id, start in found
        )
    )


def crossed(step, context, *, stable, found=None):
    """How far readers of committed records see, told with our marker, and what is open there."""
    given = answers(ReadTarget=told(stable), FindOpenTransactions=[found] if found else [])
    return scripts.play(
        partition_transactions.create_transaction_step_script(
            step, US, next_target=40, context=context
        ),
        given,
    )


COMMIT, RENEW = TransactionStep.COMMIT, TransactionStep.RENEW
HANGING = open_((OLD_ID, 12))


@pytest.mark.parametrize("step", [COMMIT, RENEW])
def test_a_marker_that_readers_of_committed_records_do_not_reach_begins_again(step):
    outcome = crossed(step, ALONE, stable=12, found=HANGING).outcome
    assert isinstance(outcome, FencingInterrupted)
    assert outcome.reason == (
        "a.orders-4: a transaction is open before the marker at 40: read_committed consumers are "
        "blocked at offset 12"
    )


@pytest.mark.parametrize("step", [COMMIT, RENEW])
def test_a_broker_may_tell_a_moment_late_how_far_they_see(step):
    played = crossed(step, ALONE, stable=40, found=open_((US.id, 41)))
    assert played.outcome == TransactionMarkerWritten(next_target=41, leader_epoch=5)


def test_where_they_see_our_marker_nobody_is_asked():
    assert crossed(COMMIT, ALONE, stable=41).outcome == TransactionMarkerWritten(
        next_target=41, leader_epoch=5
    )


@pytest.mark.parametrize("untold", [InstructionRefused(code=29), scripts.LOST])
@pytest.mark.parametrize(
    ("later", "outcome"),
    [
        (told(41), TransactionMarkerWritten),
        (told(None), TransactionMarkerWritten),
        (told(40), FencingInterrupted),
        (scripts.LOST, FencingInterrupted),
    ],
)
def test_where_it_is_not_said_which_are_open_it_is_read_once_more_how_far_they_see(
    untold, later, outcome
):
    given = answers(ReadTarget=[told(40), later], FindOpenTransactions=[untold])
    played = scripts.play(
        partition_transactions.commit_open_transaction(US, next_target=40, context=ALONE), given
    )
    assert isinstance(played.outcome, outcome)
    assert played.slept == [0.5]
    assert played.asked[-1] == ReadTarget(offset=40)


def test_where_it_cannot_be_told_whose_it_is_an_exclusive_mirror_is_taken_again():
    refused = InstructionRefused(code=35)
    assert isinstance(crossed(RENEW, ALONE, stable=12, found=refused).outcome, FencingInterrupted)
    assert isinstance(
        crossed(RENEW, SHARED, stable=12, found=refused).outcome, TransactionMarkerWritten
    )


def test_where_others_write_too_only_ours_count_and_only_at_renewals():
    theirs = open_((99, 12))
    assert isinstance(
        crossed(RENEW, SHARED, stable=12, found=theirs).outcome, TransactionMarkerWritten
    )
    assert isinstance(crossed(RENEW, SHARED, stable=12, found=HANGING).outcome, FencingInterrupted)
    assert isinstance(crossed(COMMIT, SHARED, stable=12).outcome, TransactionMarkerWritten)


# Who fenced us?


def known(ordinal, epoch, *, owner, producers=None):
    key = MapSegmentKey(topic="t", partition=0, era=1, ordinal=ordinal, epoch=epoch, first_source=0)
    segment = MapSegment(
        leader_epoch=0,
        source_epoch=0,
        owner=owner,
        acquired_from=0,
        through=0,
        target_next=1,
        last_crc=None,
        runs=(),
    )
    anchor = ResumePoint(key=key, segment=segment)
    return RecoveredState(resume_point=anchor, producers={7: 1} if producers is None else producers)


def by_another(*facts_told):
    given = list(facts_told) if len(facts_told) > 1 else facts_told[0]
    script = partition_transactions.find_new_owner(ALONE, fenced_producer=US)
    return scripts.play(script, {ReadRecoveredState: given})


def test_a_newer_anchor_of_another_owner_means_that_it_took_over():
    assert by_another(known(1, 4, owner=OTHER)).outcome is True


def test_a_newer_producer_id_counts_whatever_its_epoch():
    assert by_another(known(2, 0, owner=OTHER)).outcome is True


def test_the_new_owner_may_take_a_while_to_store_its_anchor():
    played = by_another(known(1, 3, owner=ME), scripts.LOST, known(1, 5, owner=OTHER))
    assert played.outcome is True
    assert len(played.asked) == 3


@pytest.mark.parametrize(
    "answer",
    [
        known(1, 4, owner=ME),
        known(1, 3, owner=OTHER),
        known(1, 2, owner=OTHER),
        known(1, 4, owner=OTHER, producers={}),
        RecoveredState(),
        scripts.LOST,
        InstructionRefused(code=3),
    ],
    ids=[
        "our own newer anchor",
        "our own epoch",
        "an older owner",
        "our producer id was never recorded",
        "no anchor",
        "unanswered",
        "refused",
    ],
)
def test_anything_else_is_watched_for_a_takes_deadline_and_then_blamed_on_ourselves(answer):
    played = by_another(answer)
    assert played.outcome is False
    assert (
        len(played.asked)
        == partition_transactions.FENCE_CHECK_TIMEOUT_S
        / partition_transactions.FENCE_CHECK_INTERVAL_S
    )


def test_a_map_that_may_not_be_read_says_nothing_of_other_owners():
    unreadable = UnreadableStateRecord(offset=9, why="garbage")
    played = by_another(RecoveredState(unreadable=unreadable))
    assert played.outcome == partition_halt_messages.build_map_unreadable_halt(
        ALONE.setup, unreadable
    )
    assert len(played.asked) == 1


MB = 1024 * 1024
Step = TransactionStep


def mode(*, always=False):
    return TransactionModeTracker(is_permanent=always, renew_after_s=100.0, marked_at_s=0.0)


def opened(now_s=10.0):
    active = mode()
    active.activate(now_s)
    active.record_opened_transaction(7)
    return active


@pytest.mark.parametrize("always", [True, False])
def test_a_partition_begins_in_transactions_only_when_it_always_uses_them(always):
    begun = mode(always=always)
    assert (begun.is_active, begun.is_open) == (always, False)


def test_plain_batches_are_noticed_until_the_next_marker():
    plain = mode()
    assert not plain.plain_since_marker
    plain.record_sent_batch(100, old=False, now_s=1.0)
    assert plain.plain_since_marker
    assert plain.open_bytes == 0
    plain.record_transaction_marker(2.0)
    assert not plain.plain_since_marker


def test_batches_in_a_transaction_are_not_plain():
    active = opened()
    active.record_sent_batch(100, old=True, now_s=10.0)
    assert not active.plain_since_marker
    assert active.open_bytes == 100


@pytest.mark.parametrize(
    ("sizes", "after_s", "due"),
    [
        ([], 99.0, False),
        ([1], 0.0, False),
        ([1], partition_transactions.COMMIT_INTERVAL_S - 0.01, False),
        ([1], partition_transactions.COMMIT_INTERVAL_S + 0.01, True),
        ([8 * MB, 8 * MB - 1], 0.0, False),
        ([8 * MB, 8 * MB], 0.0, True),
    ],
    ids=["empty", "just begun", "not yet", "long enough", "not quite large", "large"],
)
def test_a_transaction_is_committed_by_age_or_size(sizes, after_s, due):
    active = opened(10.0)
    for size in sizes:
        active.record_sent_batch(size, old=True, now_s=10.0)
    assert active.is_commit_due(10.0 + after_s) == due


def test_its_age_counts_from_its_first_batch():
    active = opened(10.0)
    active.record_sent_batch(1, old=True, now_s=50.0)
    active.record_sent_batch(1, old=True, now_s=50.1)
    assert not active.is_commit_due(50.15)
    assert active.is_commit_due(50.25)


def test_a_commit_starts_the_count_anew():
    active = opened(10.0)
    active.record_sent_batch(16 * MB, old=True, now_s=10.0)
    active.record_transaction_marker(11.0)
    assert (active.is_open, active.open_bytes, active.is_commit_due(99.0)) == (False, 0, False)
    active.record_opened_transaction(7)
    active.record_sent_batch(1, old=True, now_s=20.0)
    assert not active.is_commit_due(20.1)


@pytest.mark.parametrize(("after_s", "may_end"), [(0.0, False), (1.9, False), (2.1, True)])
def test_the_mode_ends_when_no_batch_was_old_for_a_while(after_s, may_end):
    active = opened(10.0)
    active.record_sent_batch(1, old=True, now_s=20.0)
    active.record_sent_batch(1, old=False, now_s=20.0 + after_s)
    assert active.may_deactivate(20.0 + after_s) == may_end


def test_beginning_counts_as_having_seen_an_old_batch():
    active = mode()
    active.activate(10.0)
    assert active.is_active
    assert not active.may_deactivate(11.0)
    assert active.may_deactivate(12.0)


def test_a_partition_that_always_uses_transactions_never_ends_them():
    assert not mode(always=True).may_deactivate(1e9)


@pytest.mark.parametrize(
    ("marked_at_s", "now_s", "due"), [(0, 99, False), (0, 100, True), (50, 100, False)]
)
def test_the_fence_is_renewed_by_the_age_of_its_marker(marked_at_s, now_s, due):
    fenced = mode()
    fenced.record_transaction_marker(marked_at_s)
    assert fenced.is_fence_renewal_due(now_s) == due


@pytest.mark.parametrize("delivery", list(DeliveryMode))
def test_after_a_take_the_setup_says_how_it_begins(delivery):
    where = taking.where(delivery=delivery, renew_after_s=50.0)
    begun = partition_transactions.create_transaction_mode(where, 10.0)
    assert begun.is_active == begun.is_permanent == (delivery is DeliveryMode.TRANSACTIONAL)
    assert (begun.is_fence_renewal_due(59.0), begun.is_fence_renewal_due(60.0)) == (False, True)


# The next step


def step(of, *, next_is_old=None, paused=False, now_s=10.0):
    return of.switch_to_next_transaction_step(next_is_old=next_is_old, paused=paused, now_s=now_s)


def test_fresh_batches_need_no_step_until_the_fence_is_due():
    plain = mode()
    for next_is_old in (None, False):
        assert step(plain, next_is_old=next_is_old, now_s=99.0) is None
        assert step(plain, next_is_old=next_is_old, now_s=100.0) is Step.RENEW
    assert not plain.is_active


def test_the_first_old_batch_opens_a_transaction():
    plain = mode()
    assert step(plain, next_is_old=True) is Step.OPEN
    assert plain.is_active


def test_what_was_sent_plainly_is_sealed_by_a_marker_first():
    plain = mode()
    plain.record_sent_batch(1, old=False, now_s=9.0)
    assert step(plain, next_is_old=True) is Step.RENEW
    plain.record_transaction_marker(11.0)
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
        (
            True,
            {"next_is_old": True, "now_s": 10.01 + partition_transactions.COMMIT_INTERVAL_S},
            True,
        ),
        (False, {"next_is_old": False}, False),
        (False, {"next_is_old": False, "now_s": 10.0 + partition_transactions.MODE_HOLD_S}, True),
    ],
    ids=["more", "idle", "empty", "paused", "long open", "fresh", "fresh for a while"],
)
def test_an_open_transaction_is_committed_before_anything_else(sent, given, due):
    active = opened(10.0)
    if sent:
        active.record_sent_batch(1, old=True, now_s=10.0)
    assert step(active, **given) is (Step.COMMIT if due else None)
    assert active.is_active


def test_once_committed_the_mode_ends_at_a_fresh_batch():
    active = opened(10.0)
    active.record_sent_batch(1, old=True, now_s=10.0)
    active.record_transaction_marker(11.0)
    assert step(active, next_is_old=False, now_s=11.0) is Step.OPEN
    assert step(active, next_is_old=None, now_s=13.0) is None
    assert active.is_active
    assert step(active, next_is_old=False, now_s=13.0) is None
    assert not active.is_active


def test_an_open_transaction_says_from_where_on_it_is_not_committed():
    assert opened().open_from == 7


# Without a transactional id


def impossible():
    return partition_transactions.create_transaction_mode(
        taking.where(delivery=DeliveryMode.TRANSACTIONAL, renew_after_s=100.0), 0.0, fenced=False
    )


def test_without_a_fence_there_are_no_transactions_whatever_is_asked_for():
    plain = impossible()
    assert (plain.is_possible, plain.is_permanent, plain.is_active) == (False, False, False)


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("now_s", [0.0, 1000.0])
def test_without_a_fence_batches_of_every_age_go_at_any_time(old, now_s):
    plain = impossible()
    assert plain.may_send(old=old, now_s=now_s)
    assert plain.switch_to_next_transaction_step(next_is_old=old, paused=False, now_s=now_s) is None
    plain.record_sent_batch(10, old=old, now_s=now_s)
    assert plain.may_send(old=old, now_s=now_s)
    assert plain.switch_to_next_transaction_step(next_is_old=old, paused=False, now_s=now_s) is None
    assert not plain.is_active


def test_with_a_fence_an_old_batch_waits_for_its_transaction():
    assert not mode().may_send(old=True, now_s=1.0)
    assert mode().may_send(old=False, now_s=1.0)
    assert not mode().may_send(old=False, now_s=101.0), "the fence is renewed first"
