from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mm2.formats import offset_map_records, record_batch
from mm2.formats.incident_records import IncidentKind
from mm2.formats.offset_map_records import EraKey, OffsetRun
from mm2.replication import (
    partition_halt_messages,
    partition_resume_point,
    producer_fencing,
    recovery_instructions,
    recovery_outcomes,
    target_log_tail_reader,
)
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_resume_point import ResumePosition
from mm2.replication.recovery_instructions import (
    EpochEnd,
    FindEpochEnd,
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
from mm2.topics.flow_config import SourceGapAction, TargetTopicAccess
from tests.fakes import scripts, taking
from tests.fakes.scripts import Log

STRANGER = (99, 0)
MARKER = scripts.marker(50, taking.OURS, leader_epoch=2)
NOT_SURE = [scripts.LOST, InstructionRefused(code=6)]


def copied(base, *values, producer=taking.BEFORE, **more):
    """A batch of ours on the target."""
    return scripts.data(base, *values, producer=producer, **more)


A, B, C = (scripts.data(at, value, leader_epoch=9) for at, value in enumerate([b"a", b"b", b"c"]))
"""The source's batches at 0, 1 and 2, as pairing finds them from offset 0 on."""
SOURCE = Log(A, B, C)


def crc(batch):
    return record_batch.read_batch_header(memoryview(batch)).crc


# Where we were


def placed(found, *, end, marker=50, known=None, **changed):
    known = known or taking.known(found)
    given: dict[Any, Any] = {FindEpochEnd: EpochEnd(offset=end)}
    changed = {getattr(recovery_instructions, name): answer for name, answer in changed.items()}
    script = partition_resume_point.find_resume_position(taking.attempt(known, marker=marker))
    return scripts.play(script, given | changed)


def test_an_anchor_that_stands_is_where_we_were():
    played = placed(taking.anchor(100, 40, last_crc=5), end=50)
    assert played.outcome == ResumePosition(
        era=1, source=100, target=40, source_epoch=9, last_crc=5
    )
    assert played.asked == [FindEpochEnd(leader_epoch=1, current_leader_epoch=2)]


def test_an_epoch_that_ended_just_behind_the_anchor_cut_nothing():
    assert placed(taking.anchor(100, 40), end=40).outcome.target == 40


def test_an_epoch_that_the_target_does_not_know_proves_nothing():
    position = placed(taking.anchor(100, 40, last_crc=5), end=-1).outcome
    assert (position.source, position.target) == (100, 40)
    assert "does not know the resume point's leader epoch" in position.mismatch


def test_an_anchor_behind_our_marker_is_another_owners():
    played = placed(taking.anchor(100, 60), end=70)
    assert isinstance(played.outcome, RetryRecovery)
    assert "after this owner's transaction marker" in played.outcome.reason
    assert played.outcome.halt_if_persistent is None


def test_an_anchor_behind_our_marker_in_an_epoch_unheard_of_is_another_mirrors_if_it_lasts():
    again = placed(taking.anchor(100, 60), end=-1).outcome
    assert isinstance(again, RetryRecovery)
    assert "does not know the resume point's leader epoch 1" in again.reason
    assert again.halt_if_persistent == partition_halt_messages.build_mirror_unknown_halt(
        taking.where(), copied=60, leader_epoch=1
    )


def test_without_a_fence_a_deposed_broker_may_have_answered_so_that_is_tried_again():
    attempt = taking.attempt(taking.known(taking.anchor(100, 60)))
    unfenced = dataclasses.replace(attempt.fence, is_fenced=False)
    script = partition_resume_point.find_resume_position(
        dataclasses.replace(attempt, fence=unfenced)
    )
    answers = {FindEpochEnd: EpochEnd(offset=-1)}
    again = scripts.play(script, answers).outcome
    assert again.halt_if_persistent.retry_after_s == producer_fencing.DENIED_RETRY_DELAY_S


def test_a_leader_epoch_that_went_back_is_another_mirrors_however_long_it_is():
    found = taking.anchor(100, 40, leader_epoch=3)
    again = placed(found, end=-1).outcome
    assert isinstance(again, RetryRecovery)
    assert again.halt_if_persistent == partition_halt_messages.build_mirror_unknown_halt(
        taking.where(), copied=40, leader_epoch=3
    )


@pytest.mark.parametrize("answer", [*NOT_SURE, InstructionRefused(code=74)])
def test_without_an_answer_about_the_epoch_the_take_begins_again(answer):
    played = placed(taking.anchor(100, 40), end=0, FindEpochEnd=answer)
    assert isinstance(played.outcome, RetryRecovery)


def test_an_era_without_an_anchor_holds_nothing_yet():
    known = taking.known(era=taking.era(first_source=70, first_target=30))
    played = placed(None, end=0, known=known)
    assert played.outcome == ResumePosition(era=1, source=70, target=30)
    assert played.asked == []


def test_a_newer_era_than_the_anchors_holds_nothing_yet():
    era = taking.era(first_source=170, first_target=45)
    known = taking.known(taking.anchor(100, 40), era_number=2, era=era, is_era_empty=True)
    assert placed(None, end=50, known=known).outcome == ResumePosition(era=2, source=170, target=45)


def test_an_era_that_was_to_begin_behind_our_marker_begins_at_it():
    known = taking.known(era=taking.era(first_source=70, first_target=80))
    assert placed(None, end=0, known=known).outcome.target == 50


# Cut back by an unclean election


def cut(end, *held, back=90, known=None, **changed):
    """The anchor says 40, but its leader epoch ended at `end`."""
    answers = {
        "ReadTarget": Log(*held, end=60),
        "ReadRecoveredState": RecoveredState(source_position=back, target_position=35),
    }
    found = taking.anchor(100, 40, last_crc=5)
    return placed(found, end=end, known=known, **(answers | changed))


def test_a_log_cut_back_goes_on_where_the_map_says():
    played = cut(35, copied(34, b"a"))
    assert played.outcome == ResumePosition(
        era=1, source=90, target=35, source_epoch=9, is_truncated=True
    )
    assert played.asked[1:] == [
        ReadTarget(offset=34),
        ReadRecoveredState(target_offset=35),
    ]


def test_where_the_map_is_thin_it_is_paired_from_farther_back():
    back = RecoveredState(source_position=70, target_position=20)
    played = cut(35, copied(34, b"a"), ReadRecoveredState=back)
    assert played.outcome == ResumePosition(
        era=1, source=70, target=20, source_epoch=9, is_truncated=True
    )


def test_a_cut_behind_the_end_that_a_new_leader_told_too_early_begins_again():
    """Without a marker nobody made sure that the end is the end: an anchor there would leave out
    what stands behind it."""
    changed = {
        FindEpochEnd: EpochEnd(offset=52),
        ReadTarget: Log(copied(51, b"a")),
        ReadRecoveredState: taking.known(source_position=90, target_position=52),
    }
    attempt = taking.attempt(taking.known(taking.anchor(100, 60)), marker=50)
    attempt = dataclasses.replace(
        attempt, fence=dataclasses.replace(attempt.fence, is_fenced=False)
    )
    played = scripts.play(partition_resume_point.find_resume_position(attempt), changed)
    assert played.outcome == RetryRecovery(
        reason="a new leader reported too low a log end for the mirror"
    )


def test_a_transaction_whose_marker_was_cut_off_is_paired_from_its_beginning():
    held = [
        scripts.marker(31, taking.BEFORE),
        copied(32, b"a", transactional=True),
        copied(33, b"b", b"c", transactional=True),
    ]
    played = cut(35, *held)
    assert played.outcome.target == 32
    assert played.asked[-1] == ReadRecoveredState(target_offset=32)


def test_what_others_wrote_behind_an_open_transaction_does_not_hide_it():
    held = [
        scripts.marker(31, taking.BEFORE),
        copied(32, b"a", transactional=True),
        scripts.data(33, b"x", producer=STRANGER),
        scripts.marker(34, STRANGER),
    ]
    assert cut(35, *held).outcome.target == 32


def test_without_an_open_transaction_what_others_wrote_costs_nothing_but_a_look():
    held = [copied(32, b"a", b"b"), scripts.data(34, b"x", producer=STRANGER, transactional=True)]
    played = cut(35, *held)
    assert played.outcome.target == 34
    assert played.kinds.count(ReadTarget) == 2


def test_an_endless_row_of_strangers_is_not_gone_back_for_ever():
    end = partition_resume_point.OWN_BATCH_SEARCH_MAX + 10
    held = [scripts.data(at, b"x", producer=STRANGER) for at in range(end)]
    known = taking.known(taking.anchor(100, end + 5))
    answers = {
        "ReadTarget": lambda asked: scripts.records(held[asked.offset], end=end + 5),
        "ReadRecoveredState": RecoveredState(source_position=90, target_position=10),
    }
    played = placed(None, end=end, marker=end + 10, known=known, **answers)
    assert played.outcome.target == 10


def test_an_answer_that_other_partitions_filled_tells_nothing():
    held = Log(copied(34, b"a", transactional=True), end=60)
    first = Log(scripts.marker(33, taking.BEFORE), end=60)
    played = cut(35, ReadTarget=[scripts.records(end=60), held, scripts.records(end=60), first])
    assert played.outcome.target == 34
    starved = cut(35, ReadTarget=scripts.records(end=60))
    assert starved.outcome == recovery_outcomes.retry_after_empty_reads(
        "reading the mirror's batches before its truncation"
    )


def test_an_open_transaction_is_found_across_what_the_cleaner_took():
    held = [
        scripts.marker(10, taking.BEFORE),
        copied(11, b"a", transactional=True),
        copied(37, b"b", transactional=True),
    ]
    assert cut(35, *held).outcome.target == 11
    assert cut(35, held[2]).outcome.target == 35
    start = Log(held[1], held[2], start=11, end=60)
    assert cut(35, ReadTarget=start).outcome.target == 11


def test_a_committed_transaction_before_the_cut_stays():
    held = [copied(33, b"a", transactional=True), scripts.marker(34, taking.BEFORE)]
    assert cut(35, *held).outcome.target == 35


def test_a_target_cut_to_nothing_begins_at_its_start():
    known = taking.known(taking.anchor(100, 40), era=taking.era(first_target=0))
    played = cut(0, known=known, back=0)
    assert (played.outcome.target, played.outcome.mismatch) == (0, "")
    assert ReadTarget not in played.kinds


def test_what_lies_before_the_log_start_is_no_open_transaction():
    gone = InstructionRefused(code=1, log_start=35)
    assert cut(35, ReadTarget=gone).outcome.target == 35


@pytest.mark.parametrize(
    "answer",
    [*NOT_SURE, InstructionRefused(code=1, log_start=10), scripts.records()],
    ids=["unanswered", "refused", "cut again", "nothing there"],
)
def test_a_cut_that_cannot_be_read_back_begins_again(answer):
    assert isinstance(cut(35, ReadTarget=answer).outcome, RetryRecovery)


@pytest.mark.parametrize("answer", NOT_SURE)
def test_a_map_that_cannot_be_read_again_begins_again(answer):
    played = cut(35, copied(34, b"a"), ReadRecoveredState=answer)
    assert isinstance(played.outcome, RetryRecovery)


def test_a_map_that_became_unreadable_halts_at_a_cut():
    unreadable = UnreadableStateRecord(offset=9, why="garbage")
    played = cut(35, copied(34, b"a"), ReadRecoveredState=RecoveredState(unreadable=unreadable))
    assert played.outcome == partition_halt_messages.build_map_unreadable_halt(
        taking.where(), unreadable
    )


def test_eras_that_are_gone_at_a_cut_begin_again():
    played = cut(35, copied(34, b"a"), ReadRecoveredState=RecoveredState())
    assert isinstance(played.outcome, RetryRecovery)


def test_a_cut_before_the_newest_era_is_said_to_have_lost_an_older_one():
    known = taking.known(taking.anchor(100, 40), era=taking.era(first_target=38))
    found = cut(35, copied(34, b"a"), known=known).outcome
    assert (found.mismatch, found.is_truncated) == (
        "the target lost records of an older era (mirror generation)",
        True,
    )


# Pairing what stands there


def position(**changed):
    given = {"era": 1, "source": 0, "target": 40, "source_epoch": 8}
    return ResumePosition(**(given | changed))


def paired(where, *held, source=SOURCE, known=None, changed=None, **answers):
    attempt = taking.attempt(known or taking.known(taking.anchor(0, 40)), **(changed or {}))
    given = {
        ReadTarget: Log(*held, MARKER),
        ReadSource: source,
        FindSourceOffset: SourceLogOffset(offset=0),
    }
    answers = {getattr(recovery_instructions, name): answer for name, answer in answers.items()}
    return scripts.play(partition_resume_point.match_and_resume(attempt, where), given | answers)


def test_a_clean_end_goes_on_where_it_was():
    played = paired(position())
    assert played.outcome == PartitionAcquired(
        producer=taking.US,
        leader_epoch=2,
        era=1,
        ordinal=1,
        match_start=0,
        source=0,
        target=51,
        source_epoch=8,
    )
    assert played.stored == []
    assert played.asked[-1] == ReadSource(offset=0)


def test_the_tail_is_paired_and_the_copy_goes_on_behind_it():
    taken = paired(position(), copied(40, b"a"), copied(41, b"b")).outcome
    assert (taken.match_start, taken.source, taken.target, taken.source_epoch) == (0, 2, 51, 9)
    assert taken.runs == (OffsetRun(0, 40),)


def test_a_newer_epoch_of_ours_in_the_tail_tells_that_we_are_fenced():
    newer = (taking.US.id, taking.US.epoch + 1)
    played = paired(position(), copied(40, b"a"), copied(41, b"b", producer=newer))
    assert played.outcome == OwnershipLost(fenced_producer=taking.US)


def test_aborted_and_committed_transactions_are_told_apart():
    taken = paired(
        position(),
        copied(40, b"a", transactional=True),
        scripts.marker(41, taking.BEFORE),
        copied(42, b"b", transactional=True),
        scripts.marker(43, taking.BEFORE, commit=False),
        copied(44, b"b"),
    ).outcome
    assert taken.source == 2
    assert taken.runs == (OffsetRun(0, 40), OffsetRun(1, 43))


def test_an_open_transaction_is_ended_by_our_marker_as_that_marker_says():
    assert paired(position(), copied(40, b"a", transactional=True)).outcome.source == 1


def test_a_transaction_of_an_expired_producer_id_stops_the_partition_for_a_while():
    known = taking.known(taking.anchor(0, 40), producers={5: 1, 7: 2})
    stop = paired(
        position(), copied(40, b"a", producer=(5, 0), transactional=True), known=known
    ).outcome
    assert (stop.cause, stop.retry_after_s) == (
        HaltCause.HANGING_TRANSACTION,
        target_log_tail_reader.SOURCE_RETRY_DELAY_S,
    )
    assert "40" in stop.message


def test_without_a_fence_an_open_transaction_is_waited_for():
    """Its coordinator ends it, within a minute: nobody else did."""
    known = taking.known(taking.anchor(0, 40), producers={5: 1, 7: 2})
    attempt = taking.attempt(known)
    fenced = dataclasses.replace(attempt.fence, is_fenced=False)
    held = Log(copied(40, b"a", producer=(5, 0), transactional=True), MARKER)
    played = scripts.play(
        partition_resume_point.match_and_resume(
            dataclasses.replace(attempt, fence=fenced), position()
        ),
        {ReadTarget: held},
    )
    assert isinstance(played.outcome, RetryRecovery)
    assert "a.orders-4: the transaction at offset 40" in played.outcome.reason
    assert played.outcome.halt_if_persistent is not None
    assert played.outcome.halt_if_persistent.cause is HaltCause.HANGING_TRANSACTION


def test_a_new_producer_id_is_recorded_with_an_incident_before_the_copy_goes_on():
    known = taking.known(taking.anchor(0, 40), producers={5: 1})
    played = paired(
        position(), copied(40, b"a", producer=(5, 0)), known=known, ReadRecoveredState=known
    )
    assert (played.outcome.source, played.outcome.ordinal) == (1, 2)
    assert taking.kinds(played) == ["incident", "MapProducerKey"]
    assert taking.incidents(played)[0].kind is IncidentKind.UNFENCED_TAKE_OVER


def test_a_foreign_producer_stops_an_exclusive_mirror_for_good():
    played = paired(position(), copied(40, b"a"), scripts.data(41, b"x", producer=STRANGER))
    stop = played.outcome
    assert (stop.cause, stop.retry_after_s) == (HaltCause.FOREIGN_WRITES, None)
    assert "producer id 99" in stop.message
    assert "offset 41" in stop.message
    assert played.stored == []


def test_a_foreign_producer_is_at_home_in_a_shared_one():
    shared = {"target_topics": TargetTopicAccess.SHARED}
    foreign = scripts.data(40, b"x", producer=STRANGER)
    taken = paired(position(), foreign, copied(41, b"a"), changed=shared).outcome
    assert (taken.source, taken.runs) == (1, (OffsetRun(0, 41),))


# What does not pair


def test_a_source_that_ends_before_the_tail_may_still_catch_up():
    stop = paired(position(), copied(40, b"a"), copied(41, b"b"), source=Log(A)).outcome
    assert (stop.cause, stop.retry_after_s) == (
        HaltCause.TAIL_MISMATCH,
        target_log_tail_reader.SOURCE_RETRY_DELAY_S,
    )
    assert "the source ends at 1, but the mirror has more records from offset 41" in stop.message


def test_a_source_that_gives_nothing_is_not_read_for_ever():
    played = paired(position(), copied(40, b"a"), source=scripts.records(end=5))
    assert isinstance(played.outcome, RetryRecovery)
    assert played.kinds.count(ReadSource) == recovery_outcomes.EMPTY_READS_MAX + 1


def test_a_mirror_that_gives_nothing_is_not_read_for_ever():
    played = paired(position(), ReadTarget=scripts.records())
    assert isinstance(played.outcome, RetryRecovery)
    assert played.kinds.count(ReadTarget) == recovery_outcomes.EMPTY_READS_MAX + 1


@pytest.mark.parametrize("answer", NOT_SURE)
@pytest.mark.parametrize("question", ["ReadTarget", "ReadSource"])
def test_a_log_that_cannot_be_read_begins_again(question, answer):
    played = paired(position(), copied(40, b"a"), **{question: answer})
    assert isinstance(played.outcome, RetryRecovery)
    assert played.stored == []


def test_a_source_that_may_only_miss_the_topic_for_a_moment_begins_again():
    outcome = paired(position(), ReadSource=InstructionRefused(code=3)).outcome
    assert isinstance(outcome, RetryRecovery)
    assert outcome.halt_if_persistent is not None
    assert outcome.halt_if_persistent.cause is HaltCause.REFUSED_BY_SOURCE


# The target lost something: a new era


def begun_anew(played, *, era, source, target=51):
    """A new era, stored behind its incidents; the incident."""
    taken = played.outcome
    assert isinstance(taken, PartitionAcquired), taken
    assert (taken.era, taken.source, taken.match_start, taken.target) == (
        era,
        source,
        source,
        target,
    )
    kinds = taking.kinds(played)
    assert kinds[kinds[0] == "MapSegmentKey" :][:2] == ["incident", "EraKey"]
    ((_, stored),) = taking.mapped(played, EraKey)
    assert (stored.first_source, stored.first_target) == (source, target)
    (stated,) = taking.incidents(played)
    return stated


def test_another_batch_before_the_anchor_begins_a_new_era_from_it():
    last = copied(39, b"z")
    played = paired(position(last_crc=crc(last) ^ 1), last, copied(40, b"a"))
    stated = begun_anew(played, era=2, source=0)
    assert stated.kind is IncidentKind.NOT_PAIRED
    assert (stated.source, stated.target) == (None, (40, 50))
    assert "is not the one recorded in the offset map" in stated.detail
    assert played.outcome.source_epoch == 8


def test_the_right_batch_before_the_anchor_is_no_trouble():
    last = copied(39, b"z")
    taken = paired(position(last_crc=crc(last)), last, copied(40, b"a")).outcome
    assert (taken.era, taken.source) == (1, 1)


def test_what_an_older_era_lost_hides_no_transaction_that_hangs_since():
    """The cut took its marker, and its id has expired: readers would stand still there for ever."""
    where = position(
        mismatch="the target lost records of an older era (mirror generation)", is_truncated=True
    )
    known = taking.known(taking.anchor(0, 40), producers={5: 1, 7: 2})
    hung = copied(40, b"a", producer=(5, 0), transactional=True)
    stop = paired(where, hung, known=known).outcome
    assert isinstance(stop, PartitionHalt)
    assert stop.cause is HaltCause.HANGING_TRANSACTION
    ended = scripts.marker(41, (5, 1), commit=False)
    begun_anew(paired(where, hung, ended, known=known), era=2, source=0)


def test_an_unknown_leader_epoch_begins_a_new_era_without_reading_the_tail():
    played = paired(position(mismatch="the target does not know the resume point's leader epoch"))
    begun_anew(played, era=2, source=0)
    assert ReadTarget not in played.kinds


def test_retention_on_the_target_may_take_the_anchors_batch():
    log = Log(copied(40, b"a"), MARKER, start=40)
    taken = paired(position(last_crc=5), ReadTarget=log).outcome
    assert (taken.era, taken.source) == (1, 1)


def test_retention_that_took_part_of_the_tail_begins_a_new_era():
    log = Log(copied(41, b"b"), MARKER, start=41)
    stated = begun_anew(paired(position(), ReadTarget=log), era=2, source=0)
    assert stated.detail.startswith("the target's log no longer has offset 40")


def test_a_mirror_that_ends_before_our_marker_was_cut_again():
    gone = InstructionRefused(code=1, log_start=0)
    played = paired(position(), ReadTarget=gone)
    assert played.outcome == RetryRecovery(
        reason="the mirror's log was truncated during the acquisition"
    )


# The source lost something


def test_a_source_that_deleted_our_position_begins_a_new_era_at_its_start():
    source = Log(scripts.data(30, b"x"), start=30)
    at_30 = SourceLogOffset(offset=30)
    played = paired(position(), source=source, FindSourceOffset=at_30)
    stated = begun_anew(played, era=2, source=30)
    assert stated.kind is IncidentKind.SOURCE_GONE
    assert (stated.source, stated.target) == ((0, 30), None)


def test_a_flow_that_is_to_stop_at_gaps_stops_and_names_the_way_past_them():
    source = Log(scripts.data(30, b"x"), start=30)
    at_30 = SourceLogOffset(offset=30)
    played = paired(
        position(),
        source=source,
        FindSourceOffset=at_30,
        changed={"on_source_gap": SourceGapAction.FAIL},
    )
    stop = played.outcome
    assert (stop.cause, stop.retry_after_s) == (HaltCause.SOURCE_GAP, None)
    assert "offsets 0 to 29" in stop.message
    assert "--from offset:30" in stop.message
    assert played.stored == []


def test_the_part_of_the_tail_that_had_no_source_any_more_is_named():
    reads = [scripts.records(A, end=40), InstructionRefused(code=1, log_start=30)]
    at_30 = SourceLogOffset(offset=30)
    played = paired(
        position(), copied(40, b"a"), copied(41, b"b"), source=reads, FindSourceOffset=at_30
    )
    stated = begun_anew(played, era=2, source=30)
    assert (stated.source, stated.target) == ((1, 30), (41, 50))


def test_what_both_sides_lost_is_named_on_both():
    source = Log(start=30)
    at_30 = SourceLogOffset(offset=30)
    played = paired(position(mismatch="gone"), source=source, FindSourceOffset=at_30)
    stated = begun_anew(played, era=2, source=30)
    assert (stated.source, stated.target) == ((0, 30), (40, 50))


@pytest.mark.parametrize(
    ("source_id", "retry_s"),
    [
        (b"1" * 16, target_log_tail_reader.SOURCE_RETRY_DELAY_S),
        (offset_map_records.NO_TOPIC_ID, None),
    ],
)
def test_a_source_that_never_deleted_our_position_was_truncated(source_id, retry_s):
    """Without topic ids, another topic of this name would look the same once it is long enough."""
    played = paired(
        position(source=90),
        source=InstructionRefused(code=1),
        changed={"source_topic_id": source_id},
    )
    stop = played.outcome
    assert (stop.cause, stop.retry_after_s) == (HaltCause.SOURCE_TRUNCATED, retry_s)
    assert "90" in stop.message
    assert played.stored == []


@pytest.mark.parametrize("answer", NOT_SURE)
def test_a_source_whose_start_cannot_be_found_begins_again(answer):
    gone = InstructionRefused(code=1)
    played = paired(position(), source=gone, FindSourceOffset=answer)
    assert isinstance(played.outcome, RetryRecovery)


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("answer", NOT_SURE)
def test_a_new_era_that_could_not_be_stored_was_not_begun(answer, failing):
    stored = [scripts.DONE] * failing + [answer]
    played = paired(position(mismatch="gone"), AppendToFlowState=stored)
    assert isinstance(played.outcome, RetryRecovery)
    assert len(played.stored) == failing + 1
