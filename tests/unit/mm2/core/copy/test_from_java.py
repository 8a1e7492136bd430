from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mm2.core.copy import (
    facts,
    from_java,
    instructions,
    outcomes,
    resume,
    setup,
    stops,
    tail,
    take,
    walk,
)
from mm2.formats import map_record, receipt
from tests.fakes import scripts, taking, transforms

JAVA = (-1, -1)
STRANGER = (99, 0)
MARKER = scripts.marker(50, taking.OURS, leader_epoch=2)
LETTERS = [b"a", b"b", b"c", b"d", b"e", b"f"]
SOURCE = scripts.Log(scripts.data(100, *LETTERS, leader_epoch=9), start=100)
Kind = receipt.ReceiptKind


def java(next_offset, sync=None):
    return facts.JavaProgress(next_offset=next_offset, sync=sync)


def wrote(at, *values, producer=JAVA, **more):
    return scripts.data(at, *values, producer=producer, **more)


def mirror(*held, start=0):
    return scripts.Log(*held, MARKER, start=start)


def first_take(progress, *held, source=SOURCE, start=0, context=None, **changed):
    """Nobody of ours was here; the source holds the letters from 100 on."""
    given = {"ReadTarget": mirror(*held, start=start), "ReadSource": source}
    answers = taking.answers(facts.Facts(java=progress), **(given | changed))
    answers[instructions.FindSourceOffset] = instructions.SourceOffset(offset=source.start)
    return scripts.play(take.take(context or taking.context()), answers)


def era_of(played) -> map_record.Era:
    [(_, era)] = taking.mapped(played, map_record.EraKey)
    assert isinstance(era, map_record.Era)
    return era


def stated(played):
    return [(each.kind, each.source, each.target) for each in taking.receipts(played)]


# The first take


def test_what_java_wrote_last_belongs_to_our_first_era():
    played = first_take(java(102, (101, 41)), wrote(40, b"a", b"b"), wrote(42, b"c", b"d"))
    taken = played.outcome
    assert isinstance(taken, outcomes.Taken)
    assert (taken.era, taken.take_start, taken.source, taken.target) == (1, 101, 104, 51)
    assert taken.source_epoch == 9
    assert taken.runs == (map_record.Run(101, -60),)
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
    assert played.outcome.runs == (map_record.Run(100, -60), map_record.Run(101, -57))


def test_nothing_before_what_java_stored_is_copied_again():
    played = first_take(java(104, (100, 40)), wrote(40, b"a", b"b"))
    assert played.outcome.source == 104
    assert (era_of(played).first_source, era_of(played).first_target) == (104, 51)
    assert stated(played) == [(Kind.TAKEN_FROM_JAVA, (102, 104), None)]


def test_what_java_wrote_twice_is_stated_and_not_copied_a_third_time():
    held = [wrote(40, b"a", b"b", b"c"), wrote(43, b"b", b"c", b"d")]
    played = first_take(java(101, (100, 40)), *held)
    assert (played.outcome.source, played.outcome.runs) == (104, ())
    assert era_of(played).first_target == 51
    assert stated(played) == [(Kind.DOUBLED_BY_JAVA, None, (43, 45))]
    assert "altogether 2 records" in taking.receipts(played)[0].detail


def test_what_it_wrote_before_the_sync_once_more_is_found_at_the_second_look():
    held = [wrote(40, b"d"), wrote(41, b"b", b"c", b"d", b"e")]
    played = first_take(java(104, (103, 40)), *held)
    assert played.outcome.source == 105
    assert stated(played) == [(Kind.DOUBLED_BY_JAVA, None, (41, 44))]
    starts = [each.offset for each in played.asked if isinstance(each, instructions.ReadSource)]
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
    assert kinds == [Kind.NOT_PAIRED, Kind.TAKEN_FROM_JAVA]


def test_a_sync_behind_the_mirrors_end_leaves_javas_word():
    played = first_take(java(104, (101, 60)), wrote(44, b"c"))
    assert played.outcome.source == 104
    assert stated(played) == [(Kind.TAKEN_FROM_JAVA, (101, 104), None)]


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
    monkeypatch.setattr(from_java, "LONGEST", 49)
    played = first_take(java(102), wrote(0, b"a", b"b"))
    assert played.outcome.source == 102
    assert stated(played) == [(Kind.TAKEN_FROM_JAVA, (0, 102), (0, 50))]
    assert first_take(java(0), wrote(0, b"a", b"b")).outcome.source == 102


def test_a_mirror_that_holds_nothing_any_more_is_gone_on_behind():
    played = first_take(java(103))
    assert played.outcome.source == 103
    assert stated(played) == [(Kind.TAKEN_FROM_JAVA, (100, 103), None)]


def test_what_the_source_deleted_meanwhile_is_not_compared():
    source = scripts.Log(scripts.data(103, b"d", b"e", leader_epoch=9), start=103)
    played = first_take(java(104, (101, 41)), wrote(40, b"a", b"b", b"c"), source=source)
    assert played.outcome.source == 104
    kinds = [kind for kind, *_ in stated(played)]
    assert kinds == [Kind.NOT_PAIRED, Kind.TAKEN_FROM_JAVA]
    assert "the source does not have offset 101" in taking.receipts(played)[0].detail


def test_what_is_not_committed_yet_is_waited_for():
    held = [wrote(40, *LETTERS), wrote(46, b"open")]
    played = first_take(java(106, (100, 40)), *held)
    again = played.outcome
    assert isinstance(again, outcomes.BeginAgain)
    assert again.lasting.cause is stops.Cause.NOT_PAIRED
    assert again.lasting.retry_after_s == 30.0
    assert "Is a transaction still open there" in again.reason
    assert "--from offset:106" in again.reason
    assert len(played.slept) == 2 * (walk.LOOKS - 1)


def test_where_others_may_write_too_nobody_waits_for_what_they_wrote():
    context = taking.context(target_topics=setup.TargetTopics.SHARED)
    held = [wrote(40, *LETTERS), wrote(46, b"local")]
    played = first_take(java(106, (100, 40)), *held, context=context)
    assert played.outcome.source == 106
    assert stated(played) == [(Kind.NOT_PAIRED, None, (46, 50))]


def test_a_transaction_of_java_that_is_open_is_waited_for():
    held = [wrote(40, b"a"), wrote(41, b"b", producer=(8, 0), transactional=True)]
    again = first_take(java(101, (100, 40)), *held).outcome
    assert isinstance(again, outcomes.BeginAgain)
    assert again.lasting.cause is stops.Cause.HANGING


def test_damage_on_the_source_stops_the_partition():
    bad = bytearray(scripts.data(100, *LETTERS))
    bad[-1] ^= 1
    stop = first_take(
        java(101, (100, 40)), wrote(40, b"a"), source=scripts.Log(bytes(bad), start=100)
    ).outcome
    assert isinstance(stop, stops.Stop)
    assert stop.cause is stops.Cause.CORRUPT


@pytest.mark.parametrize("kind", ["ReadSource", "ReadTarget"])
def test_without_an_answer_the_take_begins_again(kind):
    log = mirror(wrote(40, b"a"))
    lost: dict[str, Any] = {"ReadSource": scripts.LOST, "ReadTarget": [log, log, scripts.LOST]}
    played = first_take(java(101, (100, 40)), wrote(40, b"a"), **{kind: lost[kind]})
    assert isinstance(played.outcome, outcomes.BeginAgain)


@pytest.mark.parametrize("answers", [1, 2])
def test_without_the_starts_of_the_logs_the_take_begins_again(answers):
    given: dict[Any, Any] = taking.answers(facts.Facts(java=java(101)))
    if answers == 1:
        given[instructions.FindSourceOffset] = scripts.LOST
    else:
        given[instructions.ReadTarget] = [mirror(), instructions.Refused(code=6)]
    assert isinstance(scripts.play(take.take(taking.context()), given).outcome, outcomes.BeginAgain)


def test_our_transform_is_javas_too():
    context = taking.context(transforms.Filter(b"b", change=b"!"))
    held = [wrote(40, b"!a", b"!c")]
    assert first_take(java(101, (100, 40)), *held, context=context).outcome.source == 103


def test_a_starved_answer_is_asked_again():
    log = mirror(wrote(40, b"a"))
    target = [log, log, scripts.records(end=51), log]
    played = first_take(java(101, (100, 40)), ReadTarget=target)
    assert played.outcome.source == 101


# Behind our anchor


ANCHOR = taking.anchor(101, 41)


def resumed(progress, *held, known=None, source=SOURCE, **changed):
    """Our anchor names source offset 101 and target offset 41; the marker is at 50."""
    found = taking.known(ANCHOR, java=progress, **(known or {}))
    given = {"ReadTarget": mirror(wrote(40, b"a", producer=taking.BEFORE), *held)}
    answers = taking.answers(found, **(given | {"ReadSource": source}))
    attempt = taking.attempt(found, **changed)
    position = resume.Position(era=1, source=101, target=41, source_epoch=9)
    return scripts.play(resume.pair(attempt, position), answers)


def test_what_java_copied_behind_our_anchor_stays_in_our_era():
    played = resumed(java(102), wrote(41, b"b", producer=taking.BEFORE), wrote(42, b"c", b"d"))
    taken = played.outcome
    assert (taken.era, taken.take_start, taken.source, taken.target) == (1, 101, 104, 51)
    assert taken.runs == (map_record.Run(101, -60),)
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
    assert isinstance(stop, stops.Stop)
    assert stop.cause is stops.Cause.FOREIGN_WRITES
    assert "producer id 99" in stop.message
    assert "MirrorMaker 2 did not copy it there: target offset 42" in stop.message
    assert "--from offset:102" in stop.message


def test_what_we_wrote_and_cannot_compare_begins_another_era():
    held = [wrote(41, b"b"), wrote(42, b"no", producer=taking.BEFORE)]
    played = resumed(java(102), *held)
    assert (played.outcome.era, played.outcome.source) == (2, 102)
    assert stated(played) == [(Kind.NOT_PAIRED, None, (42, 50))]


def test_without_javas_progress_nobody_else_may_write():
    stop = resumed(None, wrote(41, b"b")).outcome
    assert isinstance(stop, stops.Stop)
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
    assert (taken.era, taken.take_start, taken.source) == (2, 103, 105)
    assert (era_of(played).first_source, era_of(played).first_target) == (103, 43)
    assert stated(played) == [(Kind.TAKEN_FROM_JAVA, (101, 103), (41, 43))]


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
    assert isinstance(stop, stops.Stop)
    assert stop.cause is stops.Cause.FOREIGN_WRITES


def looked(progress, *held, source=SOURCE, **changed):
    attempt = taking.attempt(taking.known(ANCHOR, java=progress))
    given: dict[str, Any] = {"ReadTarget": mirror(*held), "ReadSource": source}
    answers = taking.answers(**(given | changed))
    return scripts.play(from_java.look_behind(attempt, copied=41), answers)


THERE = from_java.Stretch(source=102, target=42)


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
    gone = instructions.Refused(code=1, log_start=200)
    played = looked(java(103, (102, 42)), wrote(42, b"c"), **{kind: gone})
    assert played.outcome is None


@pytest.mark.parametrize("kind", ["ReadTarget", "ReadSource"])
def test_without_an_answer_about_a_sync_the_take_begins_again(kind):
    played = looked(java(103, (102, 42)), wrote(42, b"c"), **{kind: scripts.LOST})
    assert isinstance(played.outcome, outcomes.BeginAgain)
    attempt = taking.attempt(taking.known(ANCHOR, java=java(103, (102, 42))))
    position = resume.Position(era=1, source=101, target=41)
    answers = taking.answers(ReadTarget=scripts.LOST)
    again = scripts.play(resume.pair(attempt, position), answers).outcome
    assert isinstance(again, outcomes.BeginAgain)


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
    assert starved == outcomes.stuck("reading what an OffsetSync names on the mirror")


def test_without_a_fence_a_stranger_may_be_an_owner_that_came_meanwhile():
    attempt = taking.attempt(taking.known(ANCHOR))
    attempt = dataclasses.replace(attempt, fence=dataclasses.replace(attempt.fence, holds=False))
    found = tail.Foreign(offset=42, producer_id=99)
    again = from_java.stranger(attempt, found, copied=101)
    assert isinstance(again, outcomes.BeginAgain)
    assert again.lasting == stops.foreign_writes(attempt.where, found, copied=101)
