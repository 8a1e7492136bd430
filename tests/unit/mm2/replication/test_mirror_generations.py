from __future__ import annotations

from typing import Any

import pytest

from mm2.formats import incident_records
from mm2.formats.incident_records import IncidentKind
from mm2.formats.offset_map_records import EraKey, MapProducerKey, NewEraRequest, OffsetRun
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.replication import (
    mirror_generations,
    partition_halt_messages,
    recovery_instructions,
    recovery_outcomes,
    target_log_tail_reader,
)
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.recovery_instructions import (
    AppendToFlowState,
    FindSourceOffset,
    InstructionRefused,
    ReadRecoveredState,
    ReadSource,
    ReadTarget,
    RecoveredState,
    SourceLogOffset,
    UnreadableStateRecord,
)
from mm2.replication.recovery_outcomes import OwnershipLost, PartitionAcquired, RetryRecovery
from mm2.replication.target_log_tail_matching import SegmentSplitPoint, TailMatcher
from mm2.topics.flow_config import TargetTopicAccess
from tests.fakes import scripts, taking
from tests.fakes.scripts import Log

SHARED = TargetTopicAccess.SHARED
STRANGER = (99, 0)
NEWER = (taking.US.id, taking.US.epoch + 1)


def start(attempt, **changed):
    given: dict[Any, Any] = {
        ReadTarget: Log(scripts.marker(50, taking.OURS)),
        FindSourceOffset: SourceLogOffset(offset=30),
        ReadRecoveredState: taking.known(era_number=0, era=None),
    }
    changed = {getattr(recovery_instructions, name): answer for name, answer in changed.items()}
    return scripts.play(mirror_generations.begin_first_era(attempt), given | changed)


# First start


def test_a_first_start_begins_era_one_behind_our_marker():
    played = start(taking.attempt(start="latest"))
    assert played.outcome == PartitionAcquired(
        producer=taking.US,
        leader_epoch=2,
        era=1,
        ordinal=1,
        match_start=30,
        source=30,
        target=51,
    )
    assert FindSourceOffset(position="latest") in played.asked


def test_the_producer_id_and_then_the_era_are_stored_one_by_one():
    played = start(taking.attempt(source_cluster="A", target_cluster="B"))
    assert taking.kinds(played) == ["MapProducerKey", "EraKey"]
    assert played.kinds[-3:] == [
        AppendToFlowState,
        ReadRecoveredState,
        AppendToFlowState,
    ]
    ((key, era),) = taking.mapped(played, EraKey)
    assert (key.era, key.ordinal, key.epoch, key.topic, key.partition) == (1, 1, 3, "orders", 4)
    assert (era.first_source, era.first_target, era.reason) == (30, 51, "first start")
    assert (era.source_cluster, era.target_cluster) == ("A", "B")
    ((key, producer),) = taking.mapped(played, MapProducerKey)
    assert (key.producer_id, producer.ordinal, producer.era) == (7, 1, 1)


def test_control_batches_and_empty_ones_leave_a_mirror_empty():
    log = Log(
        scripts.marker(0, STRANGER),
        scripts.data(1, producer=STRANGER, last_delta=8),
        scripts.marker(10, taking.BEFORE),
        scripts.marker(50, taking.OURS),
    )
    played = start(taking.attempt(), ReadTarget=log)
    assert isinstance(played.outcome, PartitionAcquired)


def test_what_a_newer_owner_wrote_behind_our_marker_leaves_a_mirror_empty():
    log = Log(
        scripts.marker(0, taking.BEFORE), scripts.marker(50, taking.OURS), scripts.data(51, b"x")
    )
    played = start(taking.attempt(), ReadTarget=log)
    assert isinstance(played.outcome, PartitionAcquired)


def test_a_newer_epoch_of_ours_below_our_marker_tells_that_we_are_fenced():
    """An unclean election took our marker, and who was fenced then wrote where it had been."""
    log = Log(scripts.marker(0, NEWER), scripts.data(1, b"x", producer=NEWER))
    assert start(taking.attempt(), ReadTarget=log).outcome == OwnershipLost(
        fenced_producer=taking.US
    )


def test_records_in_an_exclusive_mirror_stop_a_first_start():
    log = Log(scripts.marker(0, STRANGER), scripts.data(1, b"x"), start=0)
    stop = start(taking.attempt(), ReadTarget=log).outcome
    assert isinstance(stop, PartitionHalt)
    assert (stop.cause, stop.retry_after_s) == (HaltCause.TARGET_NOT_EMPTY, None)
    assert "the mirror topic contains records at offset 1" in stop.message
    assert "mm2 offsets rebuild" in stop.message
    assert "mm2 topic reset" in stop.message


def damaged(batch, at):
    """One byte of it is another; the header's flags stand from byte 21 on."""
    whole = bytearray(batch)
    whole[at] ^= 0x20
    return bytes(whole)


def test_damage_does_not_make_a_mirror_empty_when_another_read_is_sound():
    """Its flags say control: a record would go unseen."""
    held = [scripts.data(0, b"x"), scripts.marker(50, taking.OURS)]
    broken = Log(damaged(held[0], 22), held[1])
    played = start(taking.attempt(), ReadTarget=[broken, broken, Log(*held)])
    assert played.outcome.cause is HaltCause.TARGET_NOT_EMPTY
    assert played.slept == [target_log_tail_reader.READ_RETRY_DELAY_S] * 2


def test_damage_that_stays_is_told_and_that_behind_our_marker_is_not():
    marker = scripts.marker(50, taking.OURS)
    with pytest.raises(DamagedBatchError, match="checksum"):
        start(taking.attempt(), ReadTarget=Log(damaged(scripts.data(0, b"x"), -1), marker))
    behind = Log(marker, damaged(scripts.data(51, b"x"), -1))
    assert isinstance(start(taking.attempt(), ReadTarget=behind).outcome, PartitionAcquired)


@pytest.mark.parametrize(
    "answer",
    [
        Log(scripts.marker(50, taking.OURS), start=50),
        scripts.records(scripts.marker(50, taking.OURS), log_start=5, end=51),
    ],
    ids=["out of range", "told with the records"],
)
def test_a_mirror_from_which_records_were_deleted_is_not_empty_either(answer):
    stop = start(taking.attempt(), ReadTarget=answer).outcome
    assert stop.cause is HaltCause.TARGET_NOT_EMPTY
    assert "no longer starts at offset 0" in stop.message


def test_nothing_is_stored_for_a_mirror_that_is_not_empty():
    played = start(taking.attempt(), ReadTarget=Log(scripts.data(0, b"x")))
    assert played.stored == []


def test_a_mirror_whose_very_first_record_is_our_marker_is_not_even_read():
    played = start(taking.attempt(marker=0))
    assert played.outcome.target == 1
    assert ReadTarget not in played.kinds


def test_a_shared_mirror_may_hold_whatever_it_does():
    played = start(taking.attempt(target_topics=SHARED))
    assert isinstance(played.outcome, PartitionAcquired)
    assert ReadTarget not in played.kinds


@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=6)])
@pytest.mark.parametrize("question", ["ReadTarget", "FindSourceOffset", "AppendToFlowState"])
def test_a_question_without_its_answer_begins_the_take_again(question, answer):
    played = start(taking.attempt(), **{question: answer})
    assert isinstance(played.outcome, RetryRecovery)
    assert played.kinds[-1] is getattr(recovery_instructions, question)
    assert len(played.stored) <= 1


def test_a_broker_that_gives_nothing_is_not_read_for_ever():
    played = start(taking.attempt(), ReadTarget=scripts.records())
    assert isinstance(played.outcome, RetryRecovery)
    assert played.kinds.count(ReadTarget) == recovery_outcomes.EMPTY_READS_MAX + 1


# Where a timestamp points


def test_a_timestamp_starts_exactly_at_the_first_record_so_young():
    played = start(taking.attempt(start="1700000000000"))
    assert (played.outcome.source, played.outcome.match_start) == (30, 30)
    ((_, era),) = taking.mapped(played, EraKey)
    assert era.first_source == 30
    assert ReadSource not in played.kinds


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=6)])
def test_a_timestamp_that_cannot_be_found_begins_again(answer, failing):
    found = [*[SourceLogOffset(offset=30)] * failing, answer]
    played = start(taking.attempt(start="1700000000000"), FindSourceOffset=found)
    assert isinstance(played.outcome, RetryRecovery)
    assert played.stored == []


# An era on request


def requested(known, *, found=80):
    attempt = taking.attempt(known, source_topic_id=b"2" * 16)
    answers = {FindSourceOffset: SourceLogOffset(offset=found)}
    return scripts.play(mirror_generations.begin_requested_era(attempt), answers)


REQUEST = NewEraRequest(request="r-1", position="latest")


def test_in_a_mirror_that_was_made_again_the_incident_names_what_is_there():
    played = requested(taking.known(taking.anchor(60, 1000), request=REQUEST))
    assert taking.incidents(played)[0].target == (50, 50)


def test_a_requested_era_is_stored_behind_the_incident_that_states_it():
    played = requested(taking.known(taking.anchor(60, 45), request=REQUEST))
    assert taking.kinds(played) == ["incident", "EraKey"]
    (stated,) = taking.incidents(played)
    assert stated.kind is IncidentKind.NEW_ERA_REQUESTED
    assert (stated.source, stated.target) == ((60, 80), (45, 50))
    assert (stated.flow, stated.at_ms, stated.topic) == ("a->b", scripts.NOW_MS, "orders")
    ((key, era),) = taking.mapped(played, EraKey)
    assert (key.era, era.request, era.first_source, era.first_target) == (2, "r-1", 80, 51)
    assert (era.source_topic_id, era.reason) == (b"2" * 16, "requested from latest")
    assert (played.outcome.era, played.outcome.source, played.outcome.target) == (2, 80, 51)


def test_an_era_that_begins_earlier_leaves_out_nothing_of_the_source():
    played = requested(taking.known(taking.anchor(60, 45), request=REQUEST), found=10)
    (stated,) = taking.incidents(played)
    assert (stated.source, stated.target) == (None, (45, 50))


def test_without_an_anchor_the_whole_mirror_is_named():
    played = requested(taking.known(request=REQUEST))
    assert taking.incidents(played)[0].target == (0, 50)


def test_a_request_for_a_start_that_cannot_be_found_stores_nothing():
    attempt = taking.attempt(taking.known(request=REQUEST))
    given = {FindSourceOffset: scripts.LOST}
    played = scripts.play(mirror_generations.begin_requested_era(attempt), given)
    assert isinstance(played.outcome, RetryRecovery)
    assert played.stored == []


# Producer ids


def test_a_recorded_producer_id_is_not_recorded_again():
    assert mirror_generations.create_producer_records(taking.attempt(taking.known()), era=1) == []


def test_a_second_producer_id_is_stated_because_nothing_fenced_the_first():
    known = taking.known(taking.anchor(60, 45), producers={5: 1, 6: 2})
    attempt = taking.attempt(known)
    assert attempt.ordinal == 3
    script = mirror_generations.record_producer_id(attempt, era=1)
    played = scripts.play(script, {ReadRecoveredState: taking.known()})
    assert taking.kinds(played) == ["incident", "MapProducerKey"]
    (stated,) = taking.incidents(played)
    assert stated.kind is IncidentKind.UNFENCED_TAKE_OVER
    assert stated.target == (45, 50)
    ((_, producer),) = taking.mapped(played, MapProducerKey)
    assert producer.ordinal == 3


def test_a_place_that_another_id_took_meanwhile_is_none():
    """It read the same map: nobody fenced the two, or one slept until its id had expired."""
    attempt = taking.attempt(taking.known(producers={}))
    read = {ReadRecoveredState: taking.known(producers={taking.US.id: 1, 99: 1})}
    played = scripts.play(mirror_generations.record_producer_id(attempt, era=1), read)
    assert isinstance(played.outcome, RetryRecovery)
    assert "at the same time" in played.outcome.reason
    again = taking.attempt(taking.known(producers={taking.US.id: 1, 99: 1}))
    assert again.ordinal == 2
    read = {ReadRecoveredState: taking.known(producers={taking.US.id: 2, 99: 1})}
    played = scripts.play(mirror_generations.record_producer_id(again, era=1), read)
    assert (played.outcome, taking.kinds(played)[-1]) == (None, "MapProducerKey")


def test_an_era_that_another_owner_began_meanwhile_is_not_superseded():
    """Our first segment would delete its record, and nobody could continue in it."""
    attempt = taking.attempt(taking.known(producers={}))
    read = {ReadRecoveredState: taking.known(era_number=2, producers={taking.US.id: 1})}
    played = scripts.play(mirror_generations.record_producer_id(attempt, era=1), read)
    assert isinstance(played.outcome, RetryRecovery)
    assert "another owner began an era" in played.outcome.reason


def test_below_a_place_that_another_id_took_meanwhile_nothing_is_begun():
    """Its anchors, stored by then or not, would be the newest for ever."""
    attempt = taking.attempt(taking.known(producers={}))
    read = {ReadRecoveredState: taking.known(producers={taking.US.id: 1, 99: 300})}
    played = scripts.play(mirror_generations.record_producer_id(attempt, era=1), read)
    assert isinstance(played.outcome, RetryRecovery)
    assert "at the same time" in played.outcome.reason


def test_an_id_that_has_its_place_is_not_recorded_again():
    played = scripts.play(
        mirror_generations.record_producer_id(taking.attempt(taking.known()), era=1), {}
    )
    assert (played.outcome, played.asked) == (None, [])


def test_a_map_that_cannot_be_read_settles_nothing():
    attempt = taking.attempt(taking.known(producers={}))
    played = scripts.play(
        mirror_generations.record_producer_id(attempt, era=1), {ReadRecoveredState: scripts.LOST}
    )
    assert isinstance(played.outcome, RetryRecovery)


def test_an_unreadable_record_settles_nothing():
    attempt = taking.attempt(taking.known(producers={}))
    unreadable = UnreadableStateRecord(offset=9, why="garbage")
    read = {ReadRecoveredState: RecoveredState(unreadable=unreadable)}
    played = scripts.play(mirror_generations.record_producer_id(attempt, era=1), read)
    assert played.outcome == partition_halt_messages.build_map_unreadable_halt(
        attempt.setup, unreadable
    )


def test_a_repeated_statement_replaces_itself():
    known = taking.known(taking.anchor(60, 45), request=REQUEST)
    first, second = requested(known), requested(known)
    assert first.stored[0].key == second.stored[0].key
    other = requested(taking.known(taking.anchor(61, 45), request=REQUEST))
    assert other.stored[0].key != first.stored[0].key


def test_each_request_is_stated_even_where_the_one_before_copied_nothing():
    """Its era's owner died before an anchor of its own: the same range is skipped again."""
    anchor = taking.anchor(10, 45)
    again = NewEraRequest(request="again", position=REQUEST.position)
    first, second = (
        requested(taking.known(anchor, request=each)).stored[0] for each in (REQUEST, again)
    )
    assert incident_records.decode_incident(first.key, first.value).source is not None
    assert first.key != second.key


@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=7, message="slow")])
def test_what_could_not_be_stored_ends_the_attempt_before_the_next_record(answer):
    attempt = taking.attempt(taking.known(producers={5: 1}))
    script = mirror_generations.record_producer_id(attempt, era=1)
    played = scripts.play(script, {AppendToFlowState: [answer]})
    assert isinstance(played.outcome, RetryRecovery)
    assert len(played.asked) == 1


def test_a_timestamp_younger_than_every_record_starts_at_the_end_asked_for_before():
    """ListOffsets answers -1 then; what is appended after the first question is not left out."""
    ends = iter([SourceLogOffset(offset=42), SourceLogOffset(offset=-1)])
    played = start(
        taking.attempt(start="1700000000000"), FindSourceOffset=lambda _asked: next(ends)
    )
    assert isinstance(played.outcome, PartitionAcquired)
    assert played.outcome.source == 42
    asked = [each for each in played.asked if isinstance(each, FindSourceOffset)]
    assert [each.position for each in asked] == ["latest", "1700000000000"]


@pytest.mark.parametrize(
    ("asked", "log_start", "begins"), [("offset:80", 30, 80), ("offset:80", 90, 90)]
)
def test_an_offset_is_begun_at_or_where_the_source_begins_behind_it(asked, log_start, begins):
    found = taking.known(request=NewEraRequest(request="r", position=asked))
    played = scripts.play(
        mirror_generations.begin_requested_era(taking.attempt(found)),
        {
            FindSourceOffset: SourceLogOffset(offset=log_start),
            ReadRecoveredState: found,
        },
    )
    assert played.outcome.source == begins
    ((_, era),) = taking.mapped(played, EraKey)
    assert (era.first_source, era.request, era.reason) == (begins, "r", f"requested from {asked}")
    questions = [e for e in played.asked if isinstance(e, FindSourceOffset)]
    assert questions == [FindSourceOffset(position="earliest")]


def paired():
    found = TailMatcher(tail=[], position=120, start=40, source_epoch=9, matched_records=4)
    found.runs.append(OffsetRun(100, -60))
    found.junctions.append(SegmentSplitPoint(1, 110, 50, 8))
    return found


def test_what_pairing_found_is_what_is_taken():
    attempt = taking.attempt(taking.known())
    taken = mirror_generations.build_acquired_partition(
        attempt, era=3, start=100, match=paired(), target=44
    )
    assert taken == PartitionAcquired(
        producer=taking.US,
        leader_epoch=2,
        era=3,
        ordinal=1,
        match_start=100,
        source=120,
        target=44,
        source_epoch=9,
        runs=(OffsetRun(100, -60),),
        junctions=(SegmentSplitPoint(1, 110, 50, 8),),
        already_stored=4,
    )


@pytest.mark.parametrize("new", [True, False])
def test_the_copy_goes_on_behind_our_marker_once_our_id_is_recorded(new):
    attempt = taking.attempt(taking.known(producers={}) if new else taking.known())
    script = mirror_generations.continue_era(attempt, era=3, start=100, match=paired())
    played = scripts.play(script, taking.answers(taking.known()))
    assert played.outcome.target == 51
    assert taking.kinds(played) == (["MapProducerKey"] if new else [])


def test_an_id_that_cannot_be_recorded_ends_the_attempt():
    attempt = taking.attempt(taking.known(producers={}))
    script = mirror_generations.continue_era(attempt, era=3, start=100, match=paired())
    played = scripts.play(script, taking.answers(AppendToFlowState=scripts.LOST))
    assert isinstance(played.outcome, RetryRecovery)
