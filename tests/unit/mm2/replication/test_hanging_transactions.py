"""Our marker stands at target offset 50; producer ids 5 and 7 are ours, 99 is somebody else's."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.formats.offset_map_records import NewEraRequest
from mm2.replication import hanging_transactions, partition_recovery
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.recovery_instructions import (
    FindOpenTransactions,
    InstructionRefused,
    OpenTransaction,
    OpenTransactions,
    ReadTarget,
)
from mm2.replication.recovery_outcomes import RetryRecovery
from mm2.topics.flow_config import TargetTopicAccess
from tests.fakes import scripts, taking
from tests.fakes.scripts import Log

MARKER = 50
OLD_ID, STRANGER = 5, 99
KNOWN = taking.known(taking.anchor(100, 40), producers={OLD_ID: 1, taking.US.id: 2})
REQUESTED = dataclasses.replace(KNOWN, request=NewEraRequest(request="r-1", position="earliest"))
SHARED = TargetTopicAccess.SHARED


def began(*found):
    """What the broker tells: (producer id, where its transaction begins)."""
    return OpenTransactions(
        transactions=tuple(
            OpenTransaction(producer_id=producer_id, start=start) for producer_id, start in found
        )
    )


def looked(*, stable, told=None, later=None, known=KNOWN, holds=True, log_start=0, **changed):
    """`stable` is told with our marker or, where there is none (not `holds`), with a read, and
    `later` when it is read once more; `told`: which are open."""
    attempt = taking.attempt(known, marker=MARKER, **changed)
    fenced = dataclasses.replace(
        attempt.fence, is_fenced=holds, last_stable_offset=stable if holds else None
    )
    answers = {
        FindOpenTransactions: [told] if told is not None else [],
        ReadTarget: scripts.records(
            log_start=log_start,
            end=MARKER + 1,
            last_stable=later if later is not None else stable,
        ),
    }
    attempt = dataclasses.replace(attempt, fence=fenced)
    return scripts.play(hanging_transactions.find_hanging_transaction(attempt), answers)


@pytest.mark.parametrize("stable", [None, MARKER, MARKER + 1])
def test_where_readers_of_committed_records_get_to_our_marker_nothing_is_asked(stable):
    played = looked(stable=stable)
    assert (played.outcome, played.asked) == (None, [])


def test_a_transaction_under_an_older_id_of_ours_stops_the_partition():
    stop = looked(stable=20, told=began((STRANGER, 45), (OLD_ID, 30), (OLD_ID, 20))).outcome
    assert (stop.cause, stop.retry_after_s) == (HaltCause.HANGING_TRANSACTION, 30.0)
    assert "this flow's transaction at offset 20, of producer id 5, is hanging" in stop.message
    assert stop.message.endswith("abort --topic a.orders --partition 4 --start-offset 20")


@pytest.mark.parametrize("changed", [{}, {"target_topics": SHARED}, {"known": REQUESTED}])
def test_one_of_our_own_id_says_that_our_marker_was_lost_and_the_next_take_ends_it(changed):
    found = looked(stable=45, told=began((taking.US.id, 45)), **changed).outcome
    assert (type(found), found.halt_if_persistent) == (RetryRecovery, None)
    assert found.reason == "the mirror's log was truncated during the acquisition"


def test_it_is_named_by_where_it_began_although_that_is_deleted():
    stop = looked(stable=49, told=began((OLD_ID, 20))).outcome
    assert stop.message.endswith("--start-offset 20")


def test_what_begins_behind_our_marker_is_a_newer_owners():
    assert looked(stable=49, told=began((OLD_ID, 51), (STRANGER, 60))).outcome is None


def test_a_broker_that_was_a_moment_late_knows_of_none():
    assert looked(stable=49, told=began()).outcome is None


def test_a_strangers_transaction_before_our_place_is_waited_for_and_lasts():
    found = looked(stable=20, told=began((STRANGER, 20))).outcome
    assert found.reason == "a.orders-4: the transaction at offset 20 has not ended"
    assert found.halt_if_persistent.cause is HaltCause.HANGING_TRANSACTION
    assert "producer id 99 does not belong to this flow" in found.halt_if_persistent.message


def test_a_strangers_transaction_that_the_tail_shows_is_met_there():
    """As a foreign write, of which there is more to say."""
    assert looked(stable=40, told=began((STRANGER, 40))).outcome is None


def test_an_era_that_was_asked_for_is_begun_only_when_readers_will_see_it():
    found = looked(stable=45, told=began((STRANGER, 45)), known=REQUESTED).outcome
    assert isinstance(found, RetryRecovery)


def test_in_a_shared_topic_only_ours_count():
    told = began((STRANGER, 20))
    assert looked(stable=20, told=told, target_topics=SHARED).outcome is None
    told = began((STRANGER, 20), (OLD_ID, 44))
    stop = looked(stable=20, told=told, target_topics=SHARED).outcome
    assert stop.message.endswith("--start-offset 44")


# Without a fence


def test_without_a_fence_it_is_asked_how_far_they_see():
    played = looked(stable=MARKER + 1, holds=False)
    assert (played.outcome, played.asked) == (None, [ReadTarget(offset=MARKER + 1)])


def test_without_a_fence_an_older_owners_coordinator_may_end_it():
    found = looked(stable=20, told=began((OLD_ID, 20)), holds=False).outcome
    assert isinstance(found, RetryRecovery)
    assert "of producer id 5," in found.halt_if_persistent.message


@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=1)])
def test_without_a_fence_a_read_that_fails_begins_again(answer):
    attempt = taking.attempt(KNOWN, marker=MARKER)
    attempt = dataclasses.replace(
        attempt, fence=dataclasses.replace(attempt.fence, is_fenced=False)
    )
    played = scripts.play(
        hanging_transactions.find_hanging_transaction(attempt), {ReadTarget: answer}
    )
    assert isinstance(played.outcome, RetryRecovery)


def test_without_a_fence_nothing_stands_open_in_an_empty_log():
    attempt = taking.attempt(KNOWN, marker=-1)
    attempt = dataclasses.replace(
        attempt, fence=dataclasses.replace(attempt.fence, is_fenced=False)
    )
    assert scripts.play(hanging_transactions.find_hanging_transaction(attempt), {}).outcome is None


# Nobody tells


def test_what_is_not_answered_is_asked_again():
    for changed in ({}, {"target_topics": SHARED}):
        found = looked(stable=20, told=scripts.LOST, **changed).outcome
        assert (type(found), found.halt_if_persistent) == (RetryRecovery, None)


REFUSED = InstructionRefused(code=35, message="speaks no such version")


@pytest.mark.parametrize(("code", "says"), [(29, "READ"), (35, "any proxy")])
def test_where_it_is_not_told_whose_it_is_an_exclusive_mirror_waits_and_says_why(code, says):
    refused = InstructionRefused(code=code, message="not that")
    found = looked(stable=20, told=refused).outcome
    assert found.reason == "listing open transactions (DescribeProducers): not that"
    for word in ("open at offset 20", "(DescribeProducers): not that", says):
        assert word in found.halt_if_persistent.message
    assert "describe-producers" not in found.halt_if_persistent.message


def test_where_it_is_not_told_how_far_they_see_is_read_once_more():
    played = looked(stable=20, later=MARKER, told=REFUSED)
    assert (played.outcome, played.slept) == (None, [0.5])
    assert played.asked[1:] == [ReadTarget(offset=MARKER)]
    assert (
        "at offset 30"
        in looked(stable=20, later=30, told=REFUSED).outcome.halt_if_persistent.message
    )


@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=1)])
def test_where_that_cannot_be_read_either_it_begins_again(answer):
    attempt = taking.attempt(KNOWN, marker=MARKER)
    fenced = dataclasses.replace(attempt.fence, last_stable_offset=20)
    attempt = dataclasses.replace(attempt, fence=fenced)
    answers = {FindOpenTransactions: REFUSED, ReadTarget: answer}
    found = scripts.play(hanging_transactions.find_hanging_transaction(attempt), answers).outcome
    assert (type(found), found.halt_if_persistent) == (RetryRecovery, None)


def test_what_begins_in_the_tail_is_named_there_although_it_is_not_told():
    assert looked(stable=40, told=REFUSED).outcome is None
    assert (
        looked(stable=0, told=REFUSED, known=taking.known(era_number=0, era=None)).outcome is None
    )


@pytest.mark.parametrize("place", [{"known": REQUESTED}, {"log_start": 45}])
def test_nor_where_nobody_reads_the_tail_or_retention_deleted_where_it_began(place):
    assert (
        "at offset 45"
        in looked(stable=45, told=REFUSED, **place).outcome.halt_if_persistent.message
    )


def test_where_it_is_not_told_whose_it_is_a_shared_mirror_goes_on():
    played = looked(stable=20, told=REFUSED, target_topics=SHARED)
    assert (played.outcome, played.slept) == (None, [])


# In a take


def test_nothing_is_written_down_before_it_has_ended():
    held = Log(scripts.marker(50, taking.OURS, leader_epoch=2), last_stable=20)
    for known in (KNOWN, REQUESTED):
        answers = taking.answers(known, ReadTarget=held, FindOpenTransactions=began((OLD_ID, 20)))
        played = scripts.play(partition_recovery.recover_partition(taking.context()), answers)
        assert played.outcome.cause is HaltCause.HANGING_TRANSACTION
        assert played.stored == []
