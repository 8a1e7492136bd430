from __future__ import annotations

import pytest

from mm2 import suggested_commands
from mm2.formats import offset_map_records
from mm2.formats.incident_records import IncidentKind
from mm2.formats.offset_map_records import MapSegmentKey, NewEraRequest, OffsetRun
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.replication import partition_halt_messages, partition_recovery, producer_fencing
from mm2.replication.offset_map_writer import MapWriter
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_recovery import RecoveryScriptRunner
from mm2.replication.recovery_instructions import (
    Delay,
    FindEpochEnd,
    InstructionDone,
    InstructionRefused,
    ReadRecoveredState,
    ReadTarget,
    RefreshTargetMetadata,
    RequestAcquisition,
    UnreadableStateRecord,
)
from mm2.replication.recovery_outcomes import OwnershipLost, PartitionAcquired, RetryRecovery
from mm2.topics.flow_config import TargetTopicAccess
from tests.fakes import scripts, taking
from tests.fakes.scripts import Log

ASKED = RequestAcquisition()
SLEEP = Delay(delay_s=1.0)
DONE = InstructionDone()


def two_questions(heard):
    heard.append((yield ASKED))
    heard.append((yield SLEEP))
    return "result"


class Ends:
    """What a script returned and when; answers with one more question."""

    def __init__(self):
        self.ended = []

    def __call__(self, result, now_s):
        self.ended.append((result, now_s))
        return [RefreshTargetMetadata()]


def test_a_script_is_asked_and_answered_to_its_end():
    heard: list[object] = []
    runner, ends = RecoveryScriptRunner(taking.where()), Ends()
    assert runner.start_script(two_questions(heard), ends, now_s=1.0) == [ASKED]
    assert runner.on_response(DONE, 2.0) == [SLEEP]
    refused = InstructionRefused(code=5)
    assert runner.is_running
    assert runner.on_response(refused, 3.0) == [RefreshTargetMetadata()]
    assert (runner.is_running, heard) == (False, [DONE, refused])
    assert ends.ended == [("result", 3.0)]


def test_a_script_without_questions_ends_at_once():
    def silent():
        yield from ()
        return 42

    runner, ends = RecoveryScriptRunner(taking.where()), Ends()
    assert runner.start_script(silent(), ends, now_s=1.0) == [RefreshTargetMetadata()]
    assert ends.ended == [(42, 1.0)]
    assert not runner.is_running


def test_the_end_of_one_script_may_start_the_next():
    runner, ends = RecoveryScriptRunner(taking.where()), Ends()

    def one():
        yield ASKED

    def follow(_, now_s):
        return runner.start_script(two_questions([]), ends, now_s=now_s)

    runner.start_script(one(), follow, now_s=1.0)
    assert runner.on_response(DONE, 2.0) == [ASKED]
    assert runner.is_running
    assert ends.ended == []


def test_only_the_question_that_is_out_is_recognised():
    runner = RecoveryScriptRunner(taking.where())
    (first,) = runner.start_script(two_questions([]), Ends(), now_s=1.0)
    assert runner.is_instruction_outstanding(first)
    assert not runner.is_instruction_outstanding(RequestAcquisition())
    (second,) = runner.on_response(DONE, 2.0)
    assert runner.is_instruction_outstanding(second)
    assert not runner.is_instruction_outstanding(first)
    runner.on_response(DONE, 3.0)
    assert not runner.is_instruction_outstanding(second)


def test_an_abandoned_script_is_closed_and_its_end_not_told():
    closed, ends, runner = [], Ends(), RecoveryScriptRunner(taking.where())

    def script():
        try:
            yield ASKED
        finally:
            closed.append(True)

    runner.start_script(script(), ends, now_s=1.0)
    runner.abandon_script()
    assert closed == [True]
    assert (runner.is_running, runner.is_instruction_outstanding(ASKED), ends.ended) == (
        False,
        False,
        [],
    )


def test_every_start_and_abandonment_has_a_new_token():
    runner, tokens = RecoveryScriptRunner(taking.where()), []
    for _ in range(2):
        runner.start_script(two_questions([]), Ends(), now_s=1.0)
        tokens.append(runner.token)
        runner.on_response(DONE, 1.0)
        tokens.append(runner.token)
        runner.abandon_script()
        tokens.append(runner.token)
    assert tokens == [1, 1, 2, 3, 3, 4]


def test_one_script_runs_at_a_time():
    runner = RecoveryScriptRunner(taking.where())
    for misuse in (lambda: runner.on_response(DONE, 1.0), runner.abandon_script):
        with pytest.raises(AssertionError):
            misuse()
    runner.start_script(two_questions([]), Ends(), now_s=1.0)
    with pytest.raises(AssertionError):
        runner.start_script(two_questions([]), Ends(), now_s=1.0)


def test_what_cannot_be_read_on_the_mirror_ends_in_a_stop():
    def script():
        yield ASKED
        raise DamagedBatchError(5, "it is none")

    runner, ends = RecoveryScriptRunner(taking.where()), Ends()
    runner.start_script(script(), ends, now_s=1.0)
    runner.on_response(DONE, 2.0)
    ((stop, now_s),) = ends.ended
    assert (stop.cause, now_s) == (HaltCause.TAIL_MISMATCH, 2.0)
    assert "cannot be read at offset 5: it is none" in stop.message
    assert not runner.is_running


def test_any_other_error_of_a_script_is_a_programmers():
    def script():
        yield ASKED
        raise KeyError("oops")

    runner = RecoveryScriptRunner(taking.where())
    runner.start_script(script(), Ends(), now_s=1.0)
    with pytest.raises(KeyError):
        runner.on_response(DONE, 2.0)


OLD_ID, NEW_ID = b"1" * 16, b"2" * 16


def taken(known=None, setup_=None, **changed):
    script = partition_recovery.recover_partition(taking.context(**(setup_ or {})))
    return scripts.play(script, taking.answers(known, **changed))


# In


def test_facts_are_read_only_behind_the_fence():
    played = taken()
    fenced_by = played.kinds.index(ReadTarget)
    assert played.kinds.index(ReadRecoveredState) == fenced_by + 1
    assert played.asked[fenced_by + 1] == ReadRecoveredState(target_offset=None)


def test_a_partition_without_progress_is_started():
    played = taken()
    assert (played.outcome.era, played.outcome.source, played.outcome.target) == (1, 100, 51)
    assert taking.kinds(played) == ["MapProducerKey", "EraKey"]


def test_a_partition_with_progress_goes_on_where_it_was():
    played = taken(taking.known(taking.anchor(100, 50)))
    assert (played.outcome.era, played.outcome.source, played.outcome.target) == (1, 100, 51)
    assert played.stored == []


def test_an_operators_request_comes_before_everything_else():
    request = NewEraRequest(request="r-1", position="earliest")
    recreated = taking.era(source_topic_id=OLD_ID)
    known = taking.known(taking.anchor(900, 40), request=request, era=recreated)
    played = taken(known, {"source_topic_id": NEW_ID})
    assert (played.outcome.era, played.outcome.source) == (2, 100)
    assert FindEpochEnd not in played.kinds
    assert taking.incidents(played)[0].kind is IncidentKind.NEW_ERA_REQUESTED


# Out


def test_a_map_that_cannot_be_read_halts_the_partition_with_the_command_that_skips_it():
    unreadable = UnreadableStateRecord(
        offset=17, why="unsupported offset-map key of version 9, kind 9"
    )
    played = taken(taking.known(unreadable=unreadable))
    assert played.outcome.cause is HaltCause.MAP_UNREADABLE
    assert played.outcome.retry_after_s == partition_halt_messages.MAP_RETRY_DELAY_S
    assert "the record at offset 17 of the flow's offset map" in played.outcome.message
    remedy = "mm2 offsets skip 'a->b' --offset 17 --config clusters.yaml"
    assert suggested_commands.extract_remedy_from_message(played.outcome.message) == remedy
    assert played.stored == []


def test_an_era_that_cannot_be_read_is_skipped_only_together_with_a_new_beginning():
    unreadable = UnreadableStateRecord(offset=17, why="era of version 9", is_era=True)
    remedy = suggested_commands.extract_remedy_from_message(
        taken(taking.known(unreadable=unreadable)).outcome.message
    )
    assert remedy == ("mm2 offsets skip 'a->b' --offset 17 --from earliest --config clusters.yaml")


@pytest.mark.parametrize("topics", list(TargetTopicAccess))
def test_progress_without_its_era_is_no_first_start(topics):
    """From `start` on, records would be copied again or left out, and no incident would say so."""
    known = taking.known(taking.anchor(100, 50), era=None)
    played = taken(known, {"target_topics": topics, "start": "latest"})
    stop = played.outcome
    assert (stop.cause, stop.retry_after_s) == (HaltCause.MAP_UNREADABLE, None)
    assert "in era (mirror generation) 1" in stop.message
    assert suggested_commands.extract_remedy_from_message(stop.message).startswith(
        "mm2 topic reset 'a->b' orders"
    )
    assert played.stored == []


def test_a_newer_owner_met_at_the_fence_is_told():
    played = taken(AddToTransaction=InstructionRefused(code=47))
    assert played.outcome == OwnershipLost(fenced_producer=taking.US)


def test_a_refusal_at_the_fence_stops_the_partition_for_a_while():
    stop = taken(InitProducer=InstructionRefused(code=31, message="no")).outcome
    assert (stop.cause, stop.retry_after_s) == (
        HaltCause.REFUSED_BY_TARGET,
        producer_fencing.DENIED_RETRY_DELAY_S,
    )
    assert "a.orders-4" in stop.message


def test_a_fence_that_was_disturbed_is_begun_again():
    played = taken(RequestAcquisition=scripts.LOST)
    assert played.outcome == RetryRecovery(
        reason="requesting permission from the worker: connection lost"
    )


@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=3)])
def test_a_map_that_cannot_be_read_begins_again(answer):
    played = taken(ReadRecoveredState=answer)
    assert isinstance(played.outcome, RetryRecovery)
    assert "offset map" in played.outcome.reason
    assert played.stored == []


def test_what_resume_gives_up_is_given_up():
    known = taking.known(taking.anchor(100, 50))
    assert isinstance(taken(known, FindEpochEnd=scripts.LOST).outcome, RetryRecovery)


# Topics that are not what they were


@pytest.mark.parametrize(
    ("field", "says"),
    [("source_topic_id", "source topic orders"), ("target_topic_id", "mirror topic a.orders")],
)
def test_a_recreated_topic_stops_the_partition_for_good(field, says):
    known = taking.known(taking.anchor(100, 50), era=taking.era(**{field: OLD_ID}))
    played = taken(known, {field: NEW_ID})
    stop = played.outcome
    assert (stop.cause, stop.retry_after_s) == (HaltCause.RECREATED, None)
    assert says in stop.message
    assert partition_halt_messages.format_topic_id(OLD_ID) in stop.message
    assert partition_halt_messages.format_topic_id(NEW_ID) in stop.message
    assert played.stored == []
    assert played.kinds[-1] is ReadRecoveredState


@pytest.mark.parametrize("field", ["source_topic_id", "target_topic_id"])
@pytest.mark.parametrize(
    ("was", "now"),
    [
        (OLD_ID, OLD_ID),
        (OLD_ID, offset_map_records.NO_TOPIC_ID),
        (offset_map_records.NO_TOPIC_ID, NEW_ID),
    ],
    ids=["the same", "not known now", "not known then"],
)
def test_topic_ids_that_agree_or_are_unknown_are_no_objection(field, was, now):
    known = taking.known(taking.anchor(100, 50), era=taking.era(**{field: was}))
    assert isinstance(taken(known, {field: now}).outcome, PartitionAcquired)


# The first anchor


def anchored(known=None, **changed):
    script = partition_recovery.acquire_partition(taking.context(), 3.0)
    return scripts.play(script, taking.answers(known, **changed))


def test_the_first_anchor_is_stored_last_and_says_where_the_copy_goes_on():
    played = anchored()
    assert taking.kinds(played) == ["MapProducerKey", "EraKey", "MapSegmentKey"]
    ((key, segment),) = taking.mapped(played, MapSegmentKey)
    assert (key.era, key.ordinal, key.epoch, key.first_source) == (1, 1, 3, 100)
    assert (segment.through, segment.target_next, segment.acquired_from) == (100, 51, 100)
    assert (segment.owner, segment.leader_epoch, segment.last_crc) == (taking.ME, 2, None)
    outcome, written = played.outcome
    assert isinstance(outcome, PartitionAcquired)
    assert isinstance(written, MapWriter)
    assert written.is_all_progress_recorded


def test_the_first_anchor_holds_what_pairing_learned():
    tail = Log(
        scripts.data(40, b"a", producer=taking.BEFORE),
        scripts.marker(50, taking.OURS, leader_epoch=2),
    )
    known = taking.known(taking.anchor(100, 40))
    played = anchored(known, ReadTarget=tail)
    ((_, segment),) = taking.mapped(played, MapSegmentKey)
    assert segment.runs == (OffsetRun(100, -60),)
    assert (segment.through, segment.target_next, segment.source_epoch) == (101, 51, 9)


@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=7)])
def test_without_its_first_anchor_nothing_was_taken(answer):
    known = taking.known(taking.anchor(100, 50))
    played = anchored(known, AppendToFlowState=[answer])
    assert played.outcome == RetryRecovery(reason="storing the first map segment failed")


def test_what_was_not_taken_gets_no_anchor():
    played = anchored(RequestAcquisition=scripts.LOST)
    assert isinstance(played.outcome, RetryRecovery)
    assert played.stored == []


def test_a_shared_mirror_is_taken_with_others_batches_in_it():
    known = taking.known(taking.anchor(100, 40))
    log = Log(
        scripts.data(40, b"x", producer=(99, 0)),
        scripts.marker(50, taking.OURS, leader_epoch=2),
    )
    shared = {"target_topics": TargetTopicAccess.SHARED}
    assert isinstance(taken(known, shared, ReadTarget=log).outcome, PartitionAcquired)
    assert taken(known, ReadTarget=log).outcome.cause is HaltCause.FOREIGN_WRITES
