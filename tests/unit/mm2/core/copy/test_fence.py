from __future__ import annotations

import pytest

from mm2.core.copy import fence, instructions
from tests.fakes import scripts

US = instructions.ProducerIdentity(id=7, epoch=3)
OURS = (7, 3)
REFUSED = [1, 14, 15, 16, 51, 47, 90, 48, 29, 53]
BUSY = [14, 15, 16, 51]

QUESTIONS = [
    instructions.AskMayTake,
    instructions.NoteTargetEnd,
    instructions.InitProducer,
    instructions.AddToTransaction,
    instructions.CommitTransaction,
    instructions.ReadTarget,
]
COORDINATOR = QUESTIONS[2:5]
AS_OURSELVES = QUESTIONS[3:5]


def answers(**changed):
    given = {
        instructions.NoteTargetEnd: instructions.TargetEnd(offset=10, leader_epoch=2),
        instructions.InitProducer: US,
        instructions.AddToTransaction: scripts.DONE,
        instructions.CommitTransaction: scripts.DONE,
        instructions.ReadTarget: target(scripts.marker(10, OURS, leader_epoch=2)),
    }
    return given | {getattr(instructions, name): answer for name, answer in changed.items()}


def target(*held):
    return scripts.Log(*held, start=0)


def test_a_fence_asks_in_this_order_and_stands_where_its_marker_stands():
    played = scripts.play(fence.fence(), answers())
    assert played.outcome == fence.Fence(producer=US, marker_offset=10, leader_epoch=2)
    assert played.asked == [
        instructions.AskMayTake(),
        instructions.NoteTargetEnd(),
        instructions.InitProducer(),
        instructions.AddToTransaction(producer=US),
        instructions.CommitTransaction(producer=US),
        instructions.ReadTarget(offset=10),
    ]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_nobody_answers_begins_the_take_again(question):
    played = scripts.play(fence.fence(), answers() | {question: scripts.LOST})
    assert isinstance(played.outcome, fence.Disturbed)
    assert "connection lost" in played.outcome.reason
    assert played.kinds == QUESTIONS[: QUESTIONS.index(question) + 1]


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (question, code)
        for question in QUESTIONS
        for code in REFUSED
        if (question, code) != (instructions.InitProducer, fence.NO_RIGHT)  # see below
    ],
)
def test_a_refused_question_means_what_its_code_says(question, code):
    refused = instructions.Refused(code=code, message=f"said {code}")
    played = scripts.play(fence.fence(), answers() | {question: refused})
    assert played.asked[-1] == next(e for e in played.asked if isinstance(e, question))
    if question in COORDINATOR and code in BUSY:
        assert isinstance(played.outcome, fence.Disturbed)
        assert "busy" in played.outcome.reason
        assert played.kinds.count(question) == fence.BUSY_TRIES
        return
    assert played.kinds.count(question) == 1
    if question in AS_OURSELVES and code in (47, 90, 48):
        assert played.outcome == fence.NewerOwner(than=US)
    elif code in (29, 53):
        assert isinstance(played.outcome, fence.Refusal)
        assert f"said {code}" in played.outcome.message
    else:
        assert isinstance(played.outcome, fence.Disturbed)
        assert f"said {code}" in played.outcome.reason


@pytest.mark.parametrize("question", AS_OURSELVES)
def test_an_unknown_producer_id_means_a_newer_owner_too(question):
    refused = instructions.Refused(code=49)
    played = scripts.play(fence.fence(), answers() | {question: refused})
    assert played.outcome == fence.NewerOwner(than=US)


@pytest.mark.parametrize("code", BUSY)
@pytest.mark.parametrize("question", COORDINATOR)
def test_a_busy_coordinator_is_asked_again_until_it_answers(question, code):
    given = answers()
    busy = instructions.Refused(code=code)
    played = scripts.play(fence.fence(), given | {question: [busy, busy, given[question]]})
    assert isinstance(played.outcome, fence.Fence)
    assert played.kinds.count(question) == 3


def test_waiting_for_a_busy_coordinator_grows_up_to_a_bound():
    busy = {instructions.AddToTransaction: instructions.Refused(code=51)}
    slept = scripts.play(fence.add_to_transaction(US), busy).slept
    assert slept == sorted(slept)
    assert (slept[0], slept[-1]) == (fence.BUSY_WAIT_S, fence.BUSY_WAIT_MAX_S)
    assert 30 < sum(slept) < 60


def test_without_a_message_the_code_is_named():
    refused = instructions.Refused(code=6)
    played = scripts.play(fence.fence(), answers(InitProducer=refused))
    assert played.outcome == fence.Disturbed(reason="InitProducerId: error 6")


# The marker


def test_what_others_wrote_before_our_marker_is_read_over():
    log = target(
        scripts.data(10, b"a", b"b", producer=(5, 0), leader_epoch=2),
        scripts.marker(12, (5, 9), leader_epoch=2),
        scripts.marker(13, (7, 2), commit=False, leader_epoch=2),
        scripts.marker(14, OURS, leader_epoch=2),
    )
    assert scripts.play(fence.fence(), answers(ReadTarget=log)).outcome.marker_offset == 14


def test_data_of_our_own_epoch_is_no_marker():
    log = [
        scripts.records(scripts.data(10, b"a", producer=OURS), end=11),
        scripts.records(scripts.marker(11, OURS, leader_epoch=2), end=12),
    ]
    played = scripts.play(fence.fence(), answers(ReadTarget=log))
    assert played.outcome.marker_offset == 11
    assert [each.offset for each in played.asked[-2:]] == [10, 11]


def test_the_marker_is_waited_for_because_the_coordinator_answers_before_it_is_written():
    log = [scripts.records(end=10), scripts.records(scripts.marker(10, OURS, leader_epoch=2))]
    played = scripts.play(fence.fence(), answers(ReadTarget=log))
    assert isinstance(played.outcome, fence.Fence)
    assert [each.offset for each in played.asked[-2:]] == [10, 10]


def test_a_marker_of_a_newer_epoch_means_a_newer_owner_even_with_ours_behind_it():
    log = target(scripts.marker(10, (7, 4), leader_epoch=2), scripts.marker(11, OURS))
    played = scripts.play(fence.fence(), answers(ReadTarget=log))
    assert played.outcome == fence.NewerOwner(than=US)


def test_data_of_a_newer_epoch_means_a_newer_owner_too():
    read = {instructions.ReadTarget: target(scripts.data(10, b"x", producer=(US.id, US.epoch + 1)))}
    assert scripts.play(fence.read_marker(US, start=10), read).outcome == fence.NewerOwner(than=US)


def test_a_marker_written_under_another_leader_begins_again():
    log = target(scripts.marker(10, OURS, leader_epoch=3))
    played = scripts.play(fence.fence(), answers(ReadTarget=log))
    assert played.outcome == fence.Disturbed(reason="the mirror moved: leader epoch 2, 3")


def test_a_marker_that_never_becomes_readable_ends_the_attempt():
    played = scripts.play(fence.fence(), answers(ReadTarget=scripts.records(end=10)))
    assert isinstance(played.outcome, fence.Disturbed)
    assert played.kinds.count(instructions.ReadTarget) == fence.MARKER_READS


def test_an_earlier_marker_of_the_same_epoch_is_not_this_one():
    both = [scripts.marker(at, OURS, leader_epoch=2) for at in (9, 10)]
    read = {instructions.ReadTarget: scripts.records(*both, end=11)}
    marked = scripts.play(fence.read_marker(US, start=10), read)
    assert marked.outcome == fence.Marker(offset=10, leader_epoch=2)


def test_the_marker_is_found_behind_compaction_gaps():
    log = target(
        scripts.data(10, b"a", producer=(5, 0), last_delta=6),
        scripts.marker(20, OURS, leader_epoch=2),
    )
    assert scripts.play(fence.fence(), answers(ReadTarget=log)).outcome.marker_offset == 20


def test_an_answer_of_the_wrong_kind_is_a_bug_and_said_to_be_one():
    with pytest.raises(AssertionError):
        fence.failure("asking", scripts.DONE)


# Without the right to a transactional id

PLAIN = instructions.ProducerIdentity(id=99, epoch=0)
UNFENCED = fence.Fence(producer=PLAIN, marker_offset=9, leader_epoch=2, holds=False)


def test_without_the_right_to_a_transactional_id_nobody_is_fenced():
    denied = {instructions.InitProducer: instructions.Refused(code=fence.NO_RIGHT)}
    plain = {instructions.GetProducerId: PLAIN}
    played = scripts.play(fence.fence(), answers() | denied | plain)
    assert played.outcome == UNFENCED
    assert played.kinds == [*QUESTIONS[:3], instructions.GetProducerId]


def test_where_no_fence_is_wanted_the_right_is_not_even_tried():
    plain = {instructions.GetProducerId: PLAIN}
    played = scripts.play(fence.fence(wanted=False), answers() | plain)
    assert played.outcome == UNFENCED
    assert played.kinds == [*QUESTIONS[:2], instructions.GetProducerId]


def test_a_producer_id_may_be_refused_too():
    refused = {instructions.GetProducerId: instructions.Refused(code=31, message="cluster")}
    played = scripts.play(fence.fence(wanted=False), answers() | refused)
    assert isinstance(played.outcome, fence.Refusal)
    lost = {instructions.GetProducerId: scripts.LOST}
    played = scripts.play(fence.fence(wanted=False), answers() | lost)
    assert isinstance(played.outcome, fence.Disturbed)


def test_the_tail_ends_before_the_marker_or_behind_the_last_record():
    fenced = fence.Fence(producer=US, marker_offset=10, leader_epoch=2)
    assert (fenced.tail_end, UNFENCED.tail_end) == (10, 10)
