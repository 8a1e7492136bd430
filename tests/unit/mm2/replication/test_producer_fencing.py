from __future__ import annotations

import pytest

from mm2.replication import producer_fencing, recovery_instructions
from mm2.replication.producer_fencing import (
    FencingDenied,
    FencingInterrupted,
    NewerOwner,
    ProducerFence,
    TransactionMarker,
)
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    CommitTransaction,
    FindTargetEnd,
    InitIdempotentProducer,
    InitProducer,
    InstructionRefused,
    ProducerIdentity,
    ReadTarget,
    RequestAcquisition,
    TargetEnd,
)
from tests.fakes import scripts
from tests.fakes.scripts import Log

US = ProducerIdentity(id=7, epoch=3)
OURS = (7, 3)
REFUSED = [1, 14, 15, 16, 51, 47, 90, 48, 29, 53]
BUSY = [14, 15, 16, 51]

QUESTIONS = [
    RequestAcquisition,
    FindTargetEnd,
    InitProducer,
    AddToTransaction,
    CommitTransaction,
    ReadTarget,
]
COORDINATOR = QUESTIONS[2:5]
AS_OURSELVES = QUESTIONS[3:5]


def answers(**changed):
    given = {
        FindTargetEnd: TargetEnd(offset=10, leader_epoch=2),
        InitProducer: US,
        AddToTransaction: scripts.DONE,
        CommitTransaction: scripts.DONE,
        ReadTarget: target(scripts.marker(10, OURS, leader_epoch=2)),
    }
    return given | {
        getattr(recovery_instructions, name): answer for name, answer in changed.items()
    }


def target(*held):
    return Log(*held, start=0)


def test_a_fence_asks_in_this_order_and_stands_where_its_marker_stands():
    played = scripts.play(producer_fencing.fence_partition(), answers())
    assert played.outcome == ProducerFence(producer=US, marker_offset=10, leader_epoch=2)
    assert played.asked == [
        RequestAcquisition(),
        FindTargetEnd(),
        InitProducer(),
        AddToTransaction(producer=US),
        CommitTransaction(producer=US),
        ReadTarget(offset=10),
    ]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_nobody_answers_begins_the_take_again(question):
    played = scripts.play(producer_fencing.fence_partition(), answers() | {question: scripts.LOST})
    assert isinstance(played.outcome, FencingInterrupted)
    assert "connection lost" in played.outcome.reason
    assert played.kinds == QUESTIONS[: QUESTIONS.index(question) + 1]


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (question, code)
        for question in QUESTIONS
        for code in REFUSED
        if (question, code) != (InitProducer, producer_fencing.TRANSACTIONAL_ID_DENIED)  # see below
    ],
)
def test_a_refused_question_means_what_its_code_says(question, code):
    refused = InstructionRefused(code=code, message=f"said {code}")
    played = scripts.play(producer_fencing.fence_partition(), answers() | {question: refused})
    assert played.asked[-1] == next(e for e in played.asked if isinstance(e, question))
    if question in COORDINATOR and code in BUSY:
        assert isinstance(played.outcome, FencingInterrupted)
        assert "busy" in played.outcome.reason
        assert played.kinds.count(question) == producer_fencing.COORDINATOR_RETRIES
        return
    assert played.kinds.count(question) == 1
    if question in AS_OURSELVES and code in (47, 90, 48):
        assert played.outcome == NewerOwner(fenced_producer=US)
    elif code in (29, 53):
        assert isinstance(played.outcome, FencingDenied)
        assert f"said {code}" in played.outcome.message
    else:
        assert isinstance(played.outcome, FencingInterrupted)
        assert f"said {code}" in played.outcome.reason


@pytest.mark.parametrize("question", AS_OURSELVES)
def test_an_unknown_producer_id_means_a_newer_owner_too(question):
    refused = InstructionRefused(code=49)
    played = scripts.play(producer_fencing.fence_partition(), answers() | {question: refused})
    assert played.outcome == NewerOwner(fenced_producer=US)


@pytest.mark.parametrize("code", BUSY)
@pytest.mark.parametrize("question", COORDINATOR)
def test_a_busy_coordinator_is_asked_again_until_it_answers(question, code):
    given = answers()
    busy = InstructionRefused(code=code)
    played = scripts.play(
        producer_fencing.fence_partition(), given | {question: [busy, busy, given[question]]}
    )
    assert isinstance(played.outcome, ProducerFence)
    assert played.kinds.count(question) == 3


def test_waiting_for_a_busy_coordinator_grows_up_to_a_bound():
    busy = {AddToTransaction: InstructionRefused(code=51)}
    slept = scripts.play(producer_fencing.add_partition_to_transaction(US), busy).slept
    assert slept == sorted(slept)
    assert (slept[0], slept[-1]) == (
        producer_fencing.COORDINATOR_RETRY_DELAY_S,
        producer_fencing.COORDINATOR_RETRY_DELAY_MAX_S,
    )
    assert 30 < sum(slept) < 60


def test_without_a_message_the_code_is_named():
    refused = InstructionRefused(code=6)
    played = scripts.play(producer_fencing.fence_partition(), answers(InitProducer=refused))
    assert played.outcome == FencingInterrupted(reason="InitProducerId: error 6")


# The marker


def test_what_others_wrote_before_our_marker_is_read_over():
    log = target(
        scripts.data(10, b"a", b"b", producer=(5, 0), leader_epoch=2),
        scripts.marker(12, (5, 9), leader_epoch=2),
        scripts.marker(13, (7, 2), commit=False, leader_epoch=2),
        scripts.marker(14, OURS, leader_epoch=2),
    )
    assert (
        scripts.play(
            producer_fencing.fence_partition(), answers(ReadTarget=log)
        ).outcome.marker_offset
        == 14
    )


def test_data_of_our_own_epoch_is_no_marker():
    log = [
        scripts.records(scripts.data(10, b"a", producer=OURS), end=11),
        scripts.records(scripts.marker(11, OURS, leader_epoch=2), end=12),
    ]
    played = scripts.play(producer_fencing.fence_partition(), answers(ReadTarget=log))
    assert played.outcome.marker_offset == 11
    assert [each.offset for each in played.asked[-2:]] == [10, 11]


def test_the_marker_is_waited_for_because_the_coordinator_answers_before_it_is_written():
    log = [scripts.records(end=10), scripts.records(scripts.marker(10, OURS, leader_epoch=2))]
    played = scripts.play(producer_fencing.fence_partition(), answers(ReadTarget=log))
    assert isinstance(played.outcome, ProducerFence)
    assert [each.offset for each in played.asked[-2:]] == [10, 10]


def test_a_marker_of_a_newer_epoch_means_a_newer_owner_even_with_ours_behind_it():
    log = target(scripts.marker(10, (7, 4), leader_epoch=2), scripts.marker(11, OURS))
    played = scripts.play(producer_fencing.fence_partition(), answers(ReadTarget=log))
    assert played.outcome == NewerOwner(fenced_producer=US)


def test_data_of_a_newer_epoch_means_a_newer_owner_too():
    read = {ReadTarget: target(scripts.data(10, b"x", producer=(US.id, US.epoch + 1)))}
    assert scripts.play(
        producer_fencing.read_transaction_marker(US, start=10), read
    ).outcome == NewerOwner(fenced_producer=US)


def test_a_marker_written_under_another_leader_begins_again():
    log = target(scripts.marker(10, OURS, leader_epoch=3))
    played = scripts.play(producer_fencing.fence_partition(), answers(ReadTarget=log))
    assert played.outcome == FencingInterrupted(
        reason="the mirror partition's leader epoch changed during the acquisition: from 2 to 3"
    )


def test_a_marker_that_never_becomes_readable_ends_the_attempt():
    played = scripts.play(
        producer_fencing.fence_partition(), answers(ReadTarget=scripts.records(end=10))
    )
    assert isinstance(played.outcome, FencingInterrupted)
    assert played.kinds.count(ReadTarget) == producer_fencing.MARKER_READS_MAX


def test_an_earlier_marker_of_the_same_epoch_is_not_this_one():
    both = [scripts.marker(at, OURS, leader_epoch=2) for at in (9, 10)]
    read = {ReadTarget: scripts.records(*both, end=11)}
    marked = scripts.play(producer_fencing.read_transaction_marker(US, start=10), read)
    assert marked.outcome == TransactionMarker(offset=10, leader_epoch=2)


def test_the_marker_is_found_behind_compaction_gaps():
    log = target(
        scripts.data(10, b"a", producer=(5, 0), last_delta=6),
        scripts.marker(20, OURS, leader_epoch=2),
    )
    assert (
        scripts.play(
            producer_fencing.fence_partition(), answers(ReadTarget=log)
        ).outcome.marker_offset
        == 20
    )


def test_an_answer_of_the_wrong_kind_is_a_bug_and_said_to_be_one():
    with pytest.raises(AssertionError):
        producer_fencing.classify_fencing_failure("asking", scripts.DONE)


# Without the right to a transactional id

PLAIN = ProducerIdentity(id=99, epoch=0)
UNFENCED = ProducerFence(producer=PLAIN, marker_offset=9, leader_epoch=2, is_fenced=False)


def test_without_the_right_to_a_transactional_id_nobody_is_fenced():
    denied = {InitProducer: InstructionRefused(code=producer_fencing.TRANSACTIONAL_ID_DENIED)}
    plain = {InitIdempotentProducer: PLAIN}
    played = scripts.play(producer_fencing.fence_partition(), answers() | denied | plain)
    assert played.outcome == UNFENCED
    assert played.kinds == [*QUESTIONS[:3], InitIdempotentProducer]


def test_where_no_fence_is_wanted_the_right_is_not_even_tried():
    plain = {InitIdempotentProducer: PLAIN}
    played = scripts.play(producer_fencing.fence_partition(use_fence=False), answers() | plain)
    assert played.outcome == UNFENCED
    assert played.kinds == [*QUESTIONS[:2], InitIdempotentProducer]


def test_a_producer_id_may_be_refused_too():
    refused = {InitIdempotentProducer: InstructionRefused(code=31, message="cluster")}
    played = scripts.play(producer_fencing.fence_partition(use_fence=False), answers() | refused)
    assert isinstance(played.outcome, FencingDenied)
    lost = {InitIdempotentProducer: scripts.LOST}
    played = scripts.play(producer_fencing.fence_partition(use_fence=False), answers() | lost)
    assert isinstance(played.outcome, FencingInterrupted)


def test_the_tail_ends_before_the_marker_or_behind_the_last_record():
    fenced = ProducerFence(producer=US, marker_offset=10, leader_epoch=2)
    assert (fenced.tail_end, UNFENCED.tail_end) == (10, 10)
