from __future__ import annotations

from typing import Any

import pytest

from mm2.core.copy import eras, facts, instructions, outcomes, setup, stops, walk
from mm2.formats import map_record, receipt, record_sets
from tests.fakes import scripts, taking

SHARED = setup.TargetTopics.SHARED
STRANGER = (99, 0)
NEWER = (taking.US.id, taking.US.epoch + 1)


def start(attempt, **changed):
    given: dict[Any, Any] = {
        instructions.ReadTarget: scripts.Log(scripts.marker(50, taking.OURS)),
        instructions.FindSourceOffset: instructions.SourceOffset(offset=30),
        instructions.ReadFacts: taking.known(),
    }
    changed = {getattr(instructions, name): answer for name, answer in changed.items()}
    return scripts.play(eras.first_start(attempt), given | changed)


# First start


def test_a_first_start_begins_era_one_behind_our_marker():
    played = start(taking.attempt(start="latest"))
    assert played.outcome == outcomes.Taken(
        producer=taking.US,
        leader_epoch=2,
        era=1,
        ordinal=1,
        take_start=30,
        source=30,
        target=51,
    )
    assert instructions.FindSourceOffset(position="latest") in played.asked


def test_the_producer_id_and_then_the_era_are_stored_one_by_one():
    played = start(taking.attempt(source_cluster="A", target_cluster="B"))
    assert taking.kinds(played) == ["ProducerKey", "EraKey"]
    assert played.kinds[-3:] == [
        instructions.Record,
        instructions.ReadFacts,
        instructions.Record,
    ]
    ((key, era),) = taking.mapped(played, map_record.EraKey)
    assert (key.era, key.ordinal, key.epoch, key.topic, key.partition) == (1, 1, 3, "orders", 4)
    assert (era.first_source, era.first_target, era.reason) == (30, 51, "first start")
    assert (era.source_cluster, era.target_cluster) == ("A", "B")
    ((key, producer),) = taking.mapped(played, map_record.ProducerKey)
    assert (key.producer_id, producer.ordinal, producer.era) == (7, 1, 1)


def test_control_batches_and_empty_ones_leave_a_mirror_empty():
    log = scripts.Log(
        scripts.marker(0, STRANGER),
        scripts.data(1, producer=STRANGER, last_delta=8),
        scripts.marker(10, taking.BEFORE),
        scripts.marker(50, taking.OURS),
    )
    played = start(taking.attempt(), ReadTarget=log)
    assert isinstance(played.outcome, outcomes.Taken)


def test_what_a_newer_owner_wrote_behind_our_marker_leaves_a_mirror_empty():
    log = scripts.Log(
        scripts.marker(0, taking.BEFORE), scripts.marker(50, taking.OURS), scripts.data(51, b"x")
    )
    played = start(taking.attempt(), ReadTarget=log)
    assert isinstance(played.outcome, outcomes.Taken)


def test_a_newer_epoch_of_ours_below_our_marker_tells_that_we_are_fenced():
    """An unclean election took our marker, and who was fenced then wrote where it had been."""
    log = scripts.Log(scripts.marker(0, NEWER), scripts.data(1, b"x", producer=NEWER))
    assert start(taking.attempt(), ReadTarget=log).outcome == outcomes.Fenced(than=taking.US)


def test_records_in_an_exclusive_mirror_stop_a_first_start():
    log = scripts.Log(scripts.marker(0, STRANGER), scripts.data(1, b"x"), start=0)
    stop = start(taking.attempt(), ReadTarget=log).outcome
    assert isinstance(stop, stops.Stop)
    assert (stop.cause, stop.retry_after_s) == (stops.Cause.NOT_EMPTY, None)
    assert "it holds records at offset 1" in stop.message
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
    broken = scripts.Log(damaged(held[0], 22), held[1])
    played = start(taking.attempt(), ReadTarget=[broken, broken, scripts.Log(*held)])
    assert played.outcome.cause is stops.Cause.NOT_EMPTY
    assert played.slept == [walk.LOOK_AGAIN_S] * 2


def test_damage_that_stays_is_told_and_that_behind_our_marker_is_not():
    marker = scripts.marker(50, taking.OURS)
    with pytest.raises(record_sets.DamagedBatchError, match="checksum"):
        start(taking.attempt(), ReadTarget=scripts.Log(damaged(scripts.data(0, b"x"), -1), marker))
    behind = scripts.Log(marker, damaged(scripts.data(51, b"x"), -1))
    assert isinstance(start(taking.attempt(), ReadTarget=behind).outcome, outcomes.Taken)


@pytest.mark.parametrize(
    "answer",
    [
        scripts.Log(scripts.marker(50, taking.OURS), start=50),
        scripts.records(scripts.marker(50, taking.OURS), log_start=5, end=51),
    ],
    ids=["out of range", "told with the records"],
)
def test_a_mirror_from_which_records_were_deleted_is_not_empty_either(answer):
    stop = start(taking.attempt(), ReadTarget=answer).outcome
    assert stop.cause is stops.Cause.NOT_EMPTY
    assert "no longer starts at 0" in stop.message


def test_nothing_is_stored_for_a_mirror_that_is_not_empty():
    played = start(taking.attempt(), ReadTarget=scripts.Log(scripts.data(0, b"x")))
    assert played.stored == []


def test_a_mirror_whose_very_first_record_is_our_marker_is_not_even_read():
    played = start(taking.attempt(marker=0))
    assert played.outcome.target == 1
    assert instructions.ReadTarget not in played.kinds


def test_a_shared_mirror_may_hold_whatever_it_does():
    played = start(taking.attempt(target_topics=SHARED))
    assert isinstance(played.outcome, outcomes.Taken)
    assert instructions.ReadTarget not in played.kinds


@pytest.mark.parametrize("answer", [scripts.LOST, instructions.Refused(code=6)])
@pytest.mark.parametrize("question", ["ReadTarget", "FindSourceOffset", "Record"])
def test_a_question_without_its_answer_begins_the_take_again(question, answer):
    played = start(taking.attempt(), **{question: answer})
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert played.kinds[-1] is getattr(instructions, question)
    assert len(played.stored) <= 1


def test_a_broker_that_gives_nothing_is_not_read_for_ever():
    played = start(taking.attempt(), ReadTarget=scripts.records())
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert played.kinds.count(instructions.ReadTarget) == outcomes.READS_WITHOUT_NEWS + 1


# Where a timestamp points


def test_a_timestamp_starts_exactly_at_the_first_record_so_young():
    played = start(taking.attempt(start="1700000000000"))
    assert (played.outcome.source, played.outcome.take_start) == (30, 30)
    ((_, era),) = taking.mapped(played, map_record.EraKey)
    assert era.first_source == 30
    assert instructions.ReadSource not in played.kinds


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("answer", [scripts.LOST, instructions.Refused(code=6)])
def test_a_timestamp_that_cannot_be_found_begins_again(answer, failing):
    found = [*[instructions.SourceOffset(offset=30)] * failing, answer]
    played = start(taking.attempt(start="1700000000000"), FindSourceOffset=found)
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert played.stored == []


# An era on request


def requested(known, *, found=80):
    attempt = taking.attempt(known, source_topic_id=b"2" * 16)
    answers = {instructions.FindSourceOffset: instructions.SourceOffset(offset=found)}
    return scripts.play(eras.requested_era(attempt), answers)


REQUEST = map_record.Request(request="r-1", position="latest")


def test_in_a_mirror_that_was_made_again_the_receipt_names_what_is_there():
    played = requested(taking.known(taking.anchor(60, 1000), request=REQUEST))
    assert taking.receipts(played)[0].target == (50, 50)


def test_a_requested_era_is_stored_behind_the_receipt_that_states_it():
    played = requested(taking.known(taking.anchor(60, 45), request=REQUEST))
    assert taking.kinds(played) == ["receipt", "EraKey"]
    (stated,) = taking.receipts(played)
    assert stated.kind is receipt.ReceiptKind.NEW_ERA_REQUESTED
    assert (stated.source, stated.target) == ((60, 80), (45, 50))
    assert (stated.flow, stated.at_ms, stated.topic) == ("a->b", scripts.NOW_MS, "orders")
    ((key, era),) = taking.mapped(played, map_record.EraKey)
    assert (key.era, era.request, era.first_source, era.first_target) == (2, "r-1", 80, 51)
    assert (era.source_topic_id, era.reason) == (b"2" * 16, "requested from latest")
    assert (played.outcome.era, played.outcome.source, played.outcome.target) == (2, 80, 51)


def test_an_era_that_begins_earlier_leaves_out_nothing_of_the_source():
    played = requested(taking.known(taking.anchor(60, 45), request=REQUEST), found=10)
    (stated,) = taking.receipts(played)
    assert (stated.source, stated.target) == (None, (45, 50))


def test_without_an_anchor_the_whole_mirror_is_named():
    played = requested(taking.known(request=REQUEST))
    assert taking.receipts(played)[0].target == (0, 50)


def test_a_request_for_a_start_that_cannot_be_found_stores_nothing():
    attempt = taking.attempt(taking.known(request=REQUEST))
    given = {instructions.FindSourceOffset: scripts.LOST}
    played = scripts.play(eras.requested_era(attempt), given)
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert played.stored == []


# Producer ids


def test_a_recorded_producer_id_is_not_recorded_again():
    assert eras.producer_items(taking.attempt(taking.known()), era=1) == []


def test_a_second_producer_id_is_stated_because_nothing_fenced_the_first():
    known = taking.known(taking.anchor(60, 45), producers={5: 1, 6: 2})
    attempt = taking.attempt(known)
    assert attempt.ordinal == 3
    script = eras.settle_id(attempt, era=1)
    played = scripts.play(script, {instructions.ReadFacts: taking.known()})
    assert taking.kinds(played) == ["receipt", "ProducerKey"]
    (stated,) = taking.receipts(played)
    assert stated.kind is receipt.ReceiptKind.UNFENCED_TAKE_OVER
    assert stated.target == (45, 50)
    ((_, producer),) = taking.mapped(played, map_record.ProducerKey)
    assert producer.ordinal == 3


def test_a_place_that_another_id_took_meanwhile_is_none():
    """It read the same map: nobody fenced the two, or one slept until its id had expired."""
    attempt = taking.attempt(taking.known(producers={}))
    read = {instructions.ReadFacts: taking.known(producers={taking.US.id: 1, 99: 1})}
    played = scripts.play(eras.settle_id(attempt, era=1), read)
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert "at the same time" in played.outcome.reason
    again = taking.attempt(taking.known(producers={taking.US.id: 1, 99: 1}))
    assert again.ordinal == 2
    read = {instructions.ReadFacts: taking.known(producers={taking.US.id: 2, 99: 1})}
    played = scripts.play(eras.settle_id(again, era=1), read)
    assert (played.outcome, taking.kinds(played)[-1]) == (None, "ProducerKey")


def test_below_a_place_that_another_id_took_meanwhile_nothing_is_begun():
    """Its anchors, stored by then or not, would be the newest for ever."""
    attempt = taking.attempt(taking.known(producers={}))
    read = {instructions.ReadFacts: taking.known(producers={taking.US.id: 1, 99: 300})}
    played = scripts.play(eras.settle_id(attempt, era=1), read)
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert "at the same time" in played.outcome.reason


def test_an_id_that_has_its_place_is_not_recorded_again():
    played = scripts.play(eras.settle_id(taking.attempt(taking.known()), era=1), {})
    assert (played.outcome, played.asked) == (None, [])


def test_a_map_that_cannot_be_read_settles_nothing():
    attempt = taking.attempt(taking.known(producers={}))
    played = scripts.play(eras.settle_id(attempt, era=1), {instructions.ReadFacts: scripts.LOST})
    assert isinstance(played.outcome, outcomes.BeginAgain)


def test_an_unreadable_record_settles_nothing():
    attempt = taking.attempt(taking.known(producers={}))
    unreadable = facts.UnreadableRecord(offset=9, why="garbage")
    read = {instructions.ReadFacts: facts.Facts(unreadable=unreadable)}
    played = scripts.play(eras.settle_id(attempt, era=1), read)
    assert played.outcome == stops.map_unreadable(attempt.where, unreadable)


def test_a_repeated_statement_replaces_itself():
    known = taking.known(taking.anchor(60, 45), request=REQUEST)
    first, second = requested(known), requested(known)
    assert first.stored[0].key == second.stored[0].key
    other = requested(taking.known(taking.anchor(61, 45), request=REQUEST))
    assert other.stored[0].key != first.stored[0].key


def test_each_request_is_stated_even_where_the_one_before_copied_nothing():
    """Its era's owner died before an anchor of its own: the same range is skipped again."""
    anchor = taking.anchor(10, 45)
    again = map_record.Request(request="again", position=REQUEST.position)
    first, second = (
        requested(taking.known(anchor, request=each)).stored[0] for each in (REQUEST, again)
    )
    assert receipt.decode(first.key, first.value).source is not None
    assert first.key != second.key


@pytest.mark.parametrize("answer", [scripts.LOST, instructions.Refused(code=7, message="slow")])
def test_what_could_not_be_stored_ends_the_attempt_before_the_next_record(answer):
    attempt = taking.attempt(taking.known(producers={5: 1}))
    script = eras.settle_id(attempt, era=1)
    played = scripts.play(script, {instructions.Record: [answer]})
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert len(played.asked) == 1


def test_a_timestamp_younger_than_every_record_starts_at_the_end_asked_for_before():
    """ListOffsets answers -1 then; what is appended after the first question is not left out."""
    ends = iter([instructions.SourceOffset(offset=42), instructions.SourceOffset(offset=-1)])
    played = start(
        taking.attempt(start="1700000000000"), FindSourceOffset=lambda _asked: next(ends)
    )
    assert isinstance(played.outcome, outcomes.Taken)
    assert played.outcome.source == 42
    asked = [each for each in played.asked if isinstance(each, instructions.FindSourceOffset)]
    assert [each.position for each in asked] == ["latest", "1700000000000"]


@pytest.mark.parametrize(
    ("asked", "log_start", "begins"), [("offset:80", 30, 80), ("offset:80", 90, 90)]
)
def test_an_offset_is_begun_at_or_where_the_source_begins_behind_it(asked, log_start, begins):
    found = taking.known(request=map_record.Request(request="r", position=asked))
    played = scripts.play(
        eras.requested_era(taking.attempt(found)),
        {
            instructions.FindSourceOffset: instructions.SourceOffset(offset=log_start),
            instructions.ReadFacts: found,
        },
    )
    assert played.outcome.source == begins
    ((_, era),) = taking.mapped(played, map_record.EraKey)
    assert (era.first_source, era.request, era.reason) == (begins, "r", f"requested from {asked}")
    questions = [e for e in played.asked if isinstance(e, instructions.FindSourceOffset)]
    assert questions == [instructions.FindSourceOffset(position="earliest")]
