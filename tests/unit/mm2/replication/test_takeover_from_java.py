from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mm2 import suggested_commands
from mm2.formats import compression
from mm2.formats.incident_records import IncidentKind
from mm2.formats.offset_map_records import Era, EraKey, OffsetRun
from mm2.replication import (
    partition_halt_messages,
    partition_recovery,
    partition_resume_point,
    recovery_outcomes,
    takeover_from_java,
    target_log_tail_reader,
)
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_resume_point import ResumePosition
from mm2.replication.recovery_instructions import (
    FindSourceOffset,
    InstructionRefused,
    ReadSource,
    ReadTarget,
    RecoveredState,
    SourceLogOffset,
)
from mm2.replication.recovery_outcomes import PartitionAcquired, RetryRecovery
from mm2.replication.takeover_from_java import JavaCopyStart
from mm2.replication.target_log_tail import ForeignBatch
from mm2.topics.flow_config import TargetTopicAccess
from tests.fakes import scripts, taking
from tests.fakes.java_mirror import ANCHOR, LETTERS, SOURCE, STRANGER, java, mirror, wrote
from tests.fakes.scripts import Log
from tests.fakes.transforms import Filter

# Where both logs begin


@pytest.mark.parametrize("answers", [1, 2])
def test_without_the_starts_of_the_logs_the_take_begins_again(answers):
    given: dict[Any, Any] = taking.answers(RecoveredState(java=java(101)))
    if answers == 1:
        given[FindSourceOffset] = scripts.LOST
    else:
        given[ReadTarget] = [mirror(), InstructionRefused(code=6)]
    assert isinstance(
        scripts.play(partition_recovery.recover_partition(taking.context()), given).outcome,
        RetryRecovery,
    )


def began(progress, **changed):
    answers = taking.answers(RecoveredState(java=progress), **changed)
    answers[FindSourceOffset] = SourceLogOffset(offset=100)
    attempt = taking.attempt(RecoveredState(java=progress))
    return scripts.play(takeover_from_java.find_log_starts(attempt, progress), answers).outcome


def test_without_a_sync_it_is_looked_for_from_the_starts_of_both_logs():
    stretch = began(java(101), ReadTarget=mirror(start=3))
    assert stretch == JavaCopyStart(source=100, target=3, exact=False)


def test_a_mirror_that_was_emptied_begins_where_it_ends():
    gone = InstructionRefused(code=1, log_start=50)
    assert began(java(101), ReadTarget=gone).target == 50


def test_a_mirror_that_is_too_long_is_read_only_if_java_says_nothing(monkeypatch):
    monkeypatch.setattr(takeover_from_java, "FULL_RETRACE_MAX", 49)
    assert began(java(101), ReadTarget=mirror()) is None
    assert began(java(0), ReadTarget=mirror()) is not None


# Behind our anchor


def looked(progress, *held, source=SOURCE, **changed):
    attempt = taking.attempt(taking.known(ANCHOR, java=progress))
    given: dict[str, Any] = {"ReadTarget": mirror(*held), "ReadSource": source}
    answers = taking.answers(**(given | changed))
    return scripts.play(takeover_from_java.find_java_records(attempt, resume_target=41), answers)


THERE = JavaCopyStart(source=102, target=42)


@pytest.mark.parametrize("side", ["source", "mirror"])
def test_a_sync_that_names_a_batch_too_large_to_be_opened_stops_the_partition(side, monkeypatch):
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 1 << 20)
    large = bytes(2 << 20)
    source, there = SOURCE, wrote(42, b"c")
    if side == "source":
        source = Log(scripts.data(102, large, codec=4), start=100)
    else:
        there = wrote(42, large, codec=4)
    found = looked(java(103, (102, 42)), there, source=source).outcome
    assert isinstance(found, PartitionHalt)
    assert found.cause is HaltCause.BATCH_TOO_LARGE


def test_a_sync_is_believed_if_a_stranger_wrote_that_record_there():
    assert looked(java(103, (102, 42)), wrote(41, b"b", b"c")).outcome == THERE


@pytest.mark.parametrize(
    "held",
    [
        wrote(41, b"b", b"c", producer=taking.OURS),
        wrote(42, b"c", producer=taking.BEFORE),
        wrote(42, b"another"),
        wrote(43, b"c"),
        scripts.marker(42, STRANGER),
    ],
    ids=["ours", "our owner's before", "another record", "elsewhere", "a marker"],
)
def test_a_sync_is_not_believed_if_not(held):
    assert looked(java(103, (102, 42)), held).outcome is None


@pytest.mark.parametrize("progress", [None, java(103), java(103, (102, 40)), java(103, (102, 50))])
def test_nothing_is_asked_where_no_sync_stands_behind_our_anchor(progress):
    played = looked(progress, wrote(41, b"b", b"c"))
    assert (played.outcome, played.asked) == (None, [])


@pytest.mark.parametrize("kind", ["ReadTarget", "ReadSource"])
def test_what_one_side_does_not_have_is_not_believed(kind):
    gone = InstructionRefused(code=1, log_start=200)
    played = looked(java(103, (102, 42)), wrote(42, b"c"), **{kind: gone})
    assert played.outcome is None


@pytest.mark.parametrize("kind", ["ReadTarget", "ReadSource"])
def test_without_an_answer_about_a_sync_the_take_begins_again(kind):
    played = looked(java(103, (102, 42)), wrote(42, b"c"), **{kind: scripts.LOST})
    assert isinstance(played.outcome, RetryRecovery)
    attempt = taking.attempt(taking.known(ANCHOR, java=java(103, (102, 42))))
    position = ResumePosition(era=1, source=101, target=41)
    answers = taking.answers(ReadTarget=scripts.LOST)
    again = scripts.play(
        partition_resume_point.match_and_resume(attempt, position), answers
    ).outcome
    assert isinstance(again, RetryRecovery)


def test_what_a_sync_names_is_read_again_where_it_is_damaged_or_crowded_out():
    bad = bytearray(wrote(42, b"c"))
    bad[-1] ^= 1
    log = mirror(wrote(42, b"c"))
    played = looked(
        java(103, (102, 42)),
        ReadTarget=[mirror(bytes(bad)), scripts.records(end=51), log],
    )
    assert (played.outcome, len(played.slept)) == (THERE, 1)
    starved = looked(java(103, (102, 42)), ReadTarget=scripts.records(end=51)).outcome
    assert starved == recovery_outcomes.retry_after_empty_reads(
        "reading the mirror record of an offset sync"
    )


Kind = IncidentKind


def first_take(progress, *held, source=SOURCE, start=0, context=None, **changed):
    """Nobody of ours was here; the source holds the letters from 100 on."""
    given = {"ReadTarget": mirror(*held, start=start), "ReadSource": source}
    answers = taking.answers(RecoveredState(java=progress), **(given | changed))
    answers[FindSourceOffset] = SourceLogOffset(offset=source.start)
    return scripts.play(partition_recovery.recover_partition(context or taking.context()), answers)


def era_of(played) -> Era:
    [(_, era)] = taking.mapped(played, EraKey)
    assert isinstance(era, Era)
    return era


def stated(played):
    return [(each.kind, each.source, each.target) for each in taking.incidents(played)]


# The first take


def test_what_java_wrote_last_belongs_to_our_first_era():
    played = first_take(java(102, (101, 41)), wrote(40, b"a", b"b"), wrote(42, b"c", b"d"))
    taken = played.outcome
    assert isinstance(taken, PartitionAcquired)
    assert (taken.era, taken.match_start, taken.source, taken.target) == (1, 101, 104, 51)
    assert taken.source_epoch == 9
    assert taken.runs == (OffsetRun(101, -60),)
    era = era_of(played)
    assert (era.first_source, era.first_target) == (101, 41)
    assert stated(played) == []


def test_its_markers_and_ours_belong_to_no_record():
    held = [
        wrote(40, b"a", producer=(8, 0), transactional=True),
        wrote(41, b"x", producer=(9, 0), transactional=True),
        scripts.marker(42, (8, 0)),
        scripts.marker(43, (9, 0), commit=False),
        wrote(44, b"b"),
    ]
    played = first_take(java(101, (100, 40)), *held)
    assert played.outcome.source == 102
    assert played.outcome.runs == (OffsetRun(100, -60), OffsetRun(101, -57))


def test_nothing_before_what_java_stored_is_copied_again():
    played = first_take(java(104, (100, 40)), wrote(40, b"a", b"b"))
    assert played.outcome.source == 104
    assert (era_of(played).first_source, era_of(played).first_target) == (104, 51)
    assert stated(played) == [(Kind.UNVERIFIED_TAKEOVER, (102, 104), None)]


def test_what_java_wrote_twice_is_stated_and_not_copied_a_third_time():
    held = [wrote(40, b"a", b"b", b"c"), wrote(43, b"b", b"c", b"d")]
    played = first_take(java(101, (100, 40)), *held)
    assert (played.outcome.source, played.outcome.runs) == (104, ())
    assert era_of(played).first_target == 51
    assert stated(played) == [(Kind.DOUBLED_BY_JAVA, None, (43, 45))]
    assert "another writer repeated 2 records" in taking.incidents(played)[0].detail


def test_what_it_wrote_before_the_sync_once_more_is_found_at_the_second_look():
    held = [wrote(40, b"d"), wrote(41, b"b", b"c", b"d", b"e")]
    played = first_take(java(104, (103, 40)), *held)
    assert played.outcome.source == 105
    assert stated(played) == [(Kind.DOUBLED_BY_JAVA, None, (41, 44))]
    starts = [each.offset for each in played.asked if isinstance(each, ReadSource)]
    assert starts == [103, 0, 100]


def test_what_does_not_pair_is_stated_and_copied_again():
    held = [wrote(40, b"a", b"b"), wrote(42, b"another"), wrote(43, b"d")]
    played = first_take(java(101, (100, 40)), *held)
    assert played.outcome.source == 102
    assert stated(played) == [(Kind.NOT_PAIRED, None, (42, 50))]


@pytest.mark.parametrize("sync", [(101, 44), (100, 44), (95, 44), (101, 30)])
def test_a_sync_that_says_nothing_true_leaves_javas_word(sync):
    start = 35 if sync[1] == 30 else 0
    played = first_take(java(104, sync), wrote(44, b"c"), start=start)
    assert (played.outcome.source, era_of(played).first_source) == (104, 104)
    kinds = [kind for kind, *_ in stated(played)]
    assert kinds == [Kind.NOT_PAIRED, Kind.UNVERIFIED_TAKEOVER]


def test_a_sync_behind_the_mirrors_end_leaves_javas_word():
    played = first_take(java(104, (101, 60)), wrote(44, b"c"))
    assert played.outcome.source == 104
    assert stated(played) == [(Kind.UNVERIFIED_TAKEOVER, (101, 104), None)]


def test_without_a_sync_both_logs_are_read_from_their_starts():
    held = [wrote(3, b"a", b"b", b"c")]
    played = first_take(java(101), *held, start=3)
    assert (played.outcome.source, era_of(played).first_source) == (103, 100)
    assert era_of(played).first_target == 3
    assert stated(played) == []


def test_java_may_have_been_killed_before_it_stored_anything():
    played = first_take(java(0), wrote(0, b"a", b"b"))
    assert played.outcome.source == 102


def test_of_a_log_that_is_too_long_java_is_believed(monkeypatch):
    monkeypatch.setattr(takeover_from_java, "FULL_RETRACE_MAX", 49)
    played = first_take(java(102), wrote(0, b"a", b"b"))
    assert played.outcome.source == 102
    assert stated(played) == [(Kind.UNVERIFIED_TAKEOVER, (0, 102), (0, 50))]
    assert first_take(java(0), wrote(0, b"a", b"b")).outcome.source == 102


def test_a_mirror_that_holds_nothing_any_more_is_gone_on_behind():
    played = first_take(java(103))
    assert played.outcome.source == 103
    assert stated(played) == [(Kind.UNVERIFIED_TAKEOVER, (100, 103), None)]


def test_what_the_source_deleted_meanwhile_is_not_compared():
    source = Log(scripts.data(103, b"d", b"e", leader_epoch=9), start=103)
    played = first_take(java(104, (101, 41)), wrote(40, b"a", b"b", b"c"), source=source)
    assert played.outcome.source == 104
    kinds = [kind for kind, *_ in stated(played)]
    assert kinds == [Kind.NOT_PAIRED, Kind.UNVERIFIED_TAKEOVER]
    assert "the source does not have offset 101" in taking.incidents(played)[0].detail


def test_what_is_not_committed_yet_is_waited_for():
    held = [wrote(40, *LETTERS), wrote(46, b"open")]
    played = first_take(java(106, (100, 40)), *held)
    again = played.outcome
    assert isinstance(again, RetryRecovery)
    assert again.halt_if_persistent.cause is HaltCause.TAIL_MISMATCH
    assert again.halt_if_persistent.retry_after_s == 30.0
    assert "Look for an open transaction on the source" in again.halt_if_persistent.message
    assert "--from offset:106" in again.halt_if_persistent.message
    assert again.reason.startswith("a.orders-4: target offset 46 does not match any record")
    assert suggested_commands.REMEDY_PREFIX not in again.reason, (
        "while it waits there is nothing to decide"
    )
    assert len(played.slept) == 2 * (target_log_tail_reader.READ_ATTEMPTS_MAX - 1)


def test_where_others_may_write_too_nobody_waits_for_what_they_wrote():
    context = taking.context(target_topics=TargetTopicAccess.SHARED)
    held = [wrote(40, *LETTERS), wrote(46, b"local")]
    played = first_take(java(106, (100, 40)), *held, context=context)
    assert played.outcome.source == 106
    assert stated(played) == [(Kind.NOT_PAIRED, None, (46, 50))]


def test_our_transform_is_javas_too():
    context = taking.context(Filter(b"b", change=b"!"))
    held = [wrote(40, b"!a", b"!c")]
    assert first_take(java(101, (100, 40)), *held, context=context).outcome.source == 103


# Behind our anchor


def resumed(progress, *held, known=None, source=SOURCE, **changed):
    """Our anchor names source offset 101 and target offset 41; the marker is at 50."""
    found = taking.known(ANCHOR, java=progress, **(known or {}))
    given = {"ReadTarget": mirror(wrote(40, b"a", producer=taking.BEFORE), *held)}
    answers = taking.answers(found, **(given | {"ReadSource": source}))
    attempt = taking.attempt(found, **changed)
    position = ResumePosition(era=1, source=101, target=41, source_epoch=9)
    return scripts.play(partition_resume_point.match_and_resume(attempt, position), answers)


def test_what_java_copied_behind_our_anchor_stays_in_our_era():
    played = resumed(java(102), wrote(41, b"b", producer=taking.BEFORE), wrote(42, b"c", b"d"))
    taken = played.outcome
    assert (taken.era, taken.match_start, taken.source, taken.target) == (1, 101, 104, 51)
    assert taken.runs == (OffsetRun(101, -60),)
    assert played.stored == []


def test_what_java_copied_once_more_begins_another_era():
    played = resumed(java(101), wrote(41, b"b", producer=taking.BEFORE), wrote(42, b"b", b"c"))
    taken = played.outcome
    assert (taken.era, taken.source) == (2, 103)
    assert stated(played) == [(Kind.DOUBLED_BY_JAVA, None, (42, 43))]


def test_java_may_begin_before_our_anchor():
    played = resumed(java(100), wrote(41, b"a", b"b"))
    assert (played.outcome.era, played.outcome.source) == (2, 102)
    assert stated(played) == [(Kind.DOUBLED_BY_JAVA, None, (41, 42))]


def test_what_we_stored_before_a_cut_is_no_reason_to_leave_anything_out():
    played = resumed(java(105, (104, 60)), wrote(41, b"b"))
    assert (played.outcome.era, played.outcome.source) == (1, 102)


def test_what_is_not_on_the_source_java_did_not_copy():
    stop = resumed(java(102), wrote(41, b"b"), wrote(42, b"no", producer=STRANGER)).outcome
    assert isinstance(stop, PartitionHalt)
    assert stop.cause is HaltCause.FOREIGN_WRITES
    assert "producer id 99" in stop.message
    assert "MirrorMaker 2 did not write the batch: target offset 42" in stop.message
    assert "--from offset:102" in stop.message


def test_what_we_wrote_and_cannot_compare_begins_another_era():
    held = [wrote(41, b"b"), wrote(42, b"no", producer=taking.BEFORE)]
    played = resumed(java(102), *held)
    assert (played.outcome.era, played.outcome.source) == (2, 102)
    assert stated(played) == [(Kind.NOT_PAIRED, None, (42, 50))]


def test_without_javas_progress_nobody_else_may_write():
    stop = resumed(None, wrote(41, b"b")).outcome
    assert isinstance(stop, PartitionHalt)
    assert "MirrorMaker" not in stop.message


def test_another_transform_begins_another_era_behind_java_too():
    known = {"era": taking.era(filter_hash=5)}
    played = resumed(java(102), wrote(41, b"b"), known=known)
    assert (played.outcome.era, played.outcome.source) == (2, 102)
    assert stated(played) == []


# Behind an OffsetSync that Java wrote after our anchor


def test_what_java_copied_for_long_is_not_read_again():
    held = [wrote(41, b"anything"), wrote(43, b"d", b"e")]
    played = resumed(java(104, (103, 43)), *held)
    taken = played.outcome
    assert (taken.era, taken.match_start, taken.source) == (2, 103, 105)
    assert (era_of(played).first_source, era_of(played).first_target) == (103, 43)
    assert stated(played) == [(Kind.UNVERIFIED_TAKEOVER, (101, 103), (41, 43))]


def test_where_java_begins_right_behind_our_anchor_nothing_is_left_out():
    played = resumed(java(102, (101, 41)), wrote(41, b"b", b"c"))
    assert (played.outcome.era, played.outcome.source) == (2, 103)
    assert stated(played) == []


def test_what_we_had_copied_before_java_stepped_back_is_not_copied_again():
    played = resumed(java(101, (100, 41)), wrote(41, b"a"))
    assert played.outcome.source == 101
    assert stated(played) == [(Kind.DOUBLED_BY_JAVA, None, (41, 42))]


def test_a_stranger_behind_java_stops_the_partition():
    stop = resumed(java(102, (101, 41)), wrote(41, b"b"), wrote(42, b"no")).outcome
    assert isinstance(stop, PartitionHalt)
    assert stop.cause is HaltCause.FOREIGN_WRITES


def test_without_a_fence_a_stranger_may_be_an_owner_that_came_meanwhile():
    attempt = taking.attempt(taking.known(ANCHOR))
    attempt = dataclasses.replace(
        attempt, fence=dataclasses.replace(attempt.fence, is_fenced=False)
    )
    found = ForeignBatch(offset=42, producer_id=99)
    again = takeover_from_java.react_to_foreign_batch(attempt, found, copied=101)
    assert isinstance(again, RetryRecovery)
    assert again.halt_if_persistent == partition_halt_messages.build_foreign_records_halt(
        attempt.setup, found, copied=101
    )
