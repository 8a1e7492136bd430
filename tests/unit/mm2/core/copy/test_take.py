from __future__ import annotations

import pytest

from mm2.core import commands
from mm2.core.copy import facts, fence, instructions, map_writer, outcomes, setup, stops, take
from mm2.formats import map_record, receipt
from tests.fakes import scripts, taking

OLD_ID, NEW_ID = b"1" * 16, b"2" * 16


def taken(known=None, setup_=None, **changed):
    script = take.take(taking.context(**(setup_ or {})))
    return scripts.play(script, taking.answers(known, **changed))


# In


def test_facts_are_read_only_behind_the_fence():
    played = taken()
    fenced_by = played.kinds.index(instructions.ReadTarget)
    assert played.kinds.index(instructions.ReadFacts) == fenced_by + 1
    assert played.asked[fenced_by + 1] == instructions.ReadFacts(target=None)


def test_a_partition_without_progress_is_started():
    played = taken()
    assert (played.outcome.era, played.outcome.source, played.outcome.target) == (1, 100, 51)
    assert taking.kinds(played) == ["ProducerKey", "EraKey"]


def test_a_partition_with_progress_goes_on_where_it_was():
    played = taken(taking.known(taking.anchor(100, 50)))
    assert (played.outcome.era, played.outcome.source, played.outcome.target) == (1, 100, 51)
    assert played.stored == []


def test_an_operators_request_comes_before_everything_else():
    request = map_record.Request(request="r-1", position="earliest")
    recreated = taking.era(source_topic_id=OLD_ID)
    known = taking.known(taking.anchor(900, 40), request=request, era=recreated)
    played = taken(known, {"source_topic_id": NEW_ID})
    assert (played.outcome.era, played.outcome.source) == (2, 100)
    assert instructions.FindEpochEnd not in played.kinds
    assert taking.receipts(played)[0].kind is receipt.ReceiptKind.NEW_ERA_REQUESTED


# Out


def test_a_map_that_cannot_be_read_halts_the_partition_with_the_command_that_skips_it():
    unreadable = facts.UnreadableRecord(offset=17, why="offset-map key of version 9, kind 9")
    played = taken(taking.known(unreadable=unreadable))
    assert played.outcome.cause is stops.Cause.MAP_UNREADABLE
    assert played.outcome.retry_after_s == stops.MAP_RETRY_S
    assert "the record at offset 17 of the flow's offset map" in played.outcome.message
    remedy = "mm2 offsets skip 'a->b' --offset 17 --config clusters.yaml"
    assert commands.found_in(played.outcome.message) == remedy
    assert played.stored == []


def test_an_era_that_cannot_be_read_is_skipped_only_together_with_a_new_beginning():
    unreadable = facts.UnreadableRecord(offset=17, why="era of version 9", is_era=True)
    remedy = commands.found_in(taken(taking.known(unreadable=unreadable)).outcome.message)
    assert remedy == ("mm2 offsets skip 'a->b' --offset 17 --from earliest --config clusters.yaml")


@pytest.mark.parametrize("topics", list(setup.TargetTopics))
def test_progress_without_its_era_is_no_first_start(topics):
    """From `start` on, records would be copied again or left out, and no receipt would say so."""
    known = taking.known(taking.anchor(100, 50), era=None)
    played = taken(known, {"target_topics": topics, "start": "latest"})
    stop = played.outcome
    assert (stop.cause, stop.retry_after_s) == (stops.Cause.MAP_UNREADABLE, None)
    assert "replicated in era 1" in stop.message
    assert commands.found_in(stop.message).startswith("mm2 topic reset 'a->b' orders")
    assert played.stored == []


def test_a_newer_owner_met_at_the_fence_is_told():
    played = taken(AddToTransaction=instructions.Refused(code=47))
    assert played.outcome == outcomes.Fenced(than=taking.US)


def test_a_refusal_at_the_fence_stops_the_partition_for_a_while():
    stop = taken(InitProducer=instructions.Refused(code=31, message="no")).outcome
    assert (stop.cause, stop.retry_after_s) == (stops.Cause.REFUSED, fence.RETRY_REFUSED_S)
    assert "a.orders-4" in stop.message


def test_a_fence_that_was_disturbed_is_begun_again():
    played = taken(AskMayTake=scripts.LOST)
    assert played.outcome == outcomes.BeginAgain(reason="asking the worker: connection lost")


@pytest.mark.parametrize("answer", [scripts.LOST, instructions.Refused(code=3)])
def test_a_map_that_cannot_be_read_begins_again(answer):
    played = taken(ReadFacts=answer)
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert "offset map" in played.outcome.reason
    assert played.stored == []


def test_what_resume_gives_up_is_given_up():
    known = taking.known(taking.anchor(100, 50))
    assert isinstance(taken(known, FindEpochEnd=scripts.LOST).outcome, outcomes.BeginAgain)


# Topics that are not what they were


@pytest.mark.parametrize(
    ("field", "says"),
    [("source_topic_id", "source topic orders"), ("target_topic_id", "mirror topic a.orders")],
)
def test_a_recreated_topic_stops_the_partition_for_good(field, says):
    known = taking.known(taking.anchor(100, 50), era=taking.era(**{field: OLD_ID}))
    played = taken(known, {field: NEW_ID})
    stop = played.outcome
    assert (stop.cause, stop.retry_after_s) == (stops.Cause.RECREATED, None)
    assert says in stop.message
    assert stops.topic_id(OLD_ID) in stop.message
    assert stops.topic_id(NEW_ID) in stop.message
    assert played.stored == []
    assert played.kinds[-1] is instructions.ReadFacts


@pytest.mark.parametrize("field", ["source_topic_id", "target_topic_id"])
@pytest.mark.parametrize(
    ("was", "now"),
    [
        (OLD_ID, OLD_ID),
        (OLD_ID, map_record.NO_TOPIC_ID),
        (map_record.NO_TOPIC_ID, NEW_ID),
    ],
    ids=["the same", "not known now", "not known then"],
)
def test_topic_ids_that_agree_or_are_unknown_are_no_objection(field, was, now):
    known = taking.known(taking.anchor(100, 50), era=taking.era(**{field: was}))
    assert isinstance(taken(known, {field: now}).outcome, outcomes.Taken)


# The first anchor


def anchored(known=None, **changed):
    script = take.take_and_anchor(taking.context(), 3.0)
    return scripts.play(script, taking.answers(known, **changed))


def test_the_first_anchor_is_stored_last_and_says_where_the_copy_goes_on():
    played = anchored()
    assert taking.kinds(played) == ["ProducerKey", "EraKey", "SegmentKey"]
    ((key, segment),) = taking.mapped(played, map_record.SegmentKey)
    assert (key.era, key.ordinal, key.epoch, key.first_source) == (1, 1, 3, 100)
    assert (segment.through, segment.target_next, segment.take_start) == (100, 51, 100)
    assert (segment.owner, segment.leader_epoch, segment.last_crc) == (taking.ME, 2, None)
    outcome, written = played.outcome
    assert isinstance(outcome, outcomes.Taken)
    assert isinstance(written, map_writer.MapWriter)
    assert written.fully_recorded


def test_the_first_anchor_holds_what_pairing_learned():
    tail = scripts.Log(
        scripts.data(40, b"a", producer=taking.BEFORE),
        scripts.marker(50, taking.OURS, leader_epoch=2),
    )
    known = taking.known(taking.anchor(100, 40))
    played = anchored(known, ReadTarget=tail)
    ((_, segment),) = taking.mapped(played, map_record.SegmentKey)
    assert segment.runs == (map_record.Run(100, -60),)
    assert (segment.through, segment.target_next, segment.source_epoch) == (101, 51, 9)


@pytest.mark.parametrize("answer", [scripts.LOST, instructions.Refused(code=7)])
def test_without_its_first_anchor_nothing_was_taken(answer):
    known = taking.known(taking.anchor(100, 50))
    played = anchored(known, Record=[answer])
    assert played.outcome == outcomes.BeginAgain(reason="recording the first anchor")


def test_what_was_not_taken_gets_no_anchor():
    played = anchored(AskMayTake=scripts.LOST)
    assert isinstance(played.outcome, outcomes.BeginAgain)
    assert played.stored == []


def test_a_shared_mirror_is_taken_with_others_batches_in_it():
    known = taking.known(taking.anchor(100, 40))
    log = scripts.Log(
        scripts.data(40, b"x", producer=(99, 0)),
        scripts.marker(50, taking.OURS, leader_epoch=2),
    )
    shared = {"target_topics": setup.TargetTopics.SHARED}
    assert isinstance(taken(known, shared, ReadTarget=log).outcome, outcomes.Taken)
    assert taken(known, ReadTarget=log).outcome.cause is stops.Cause.FOREIGN_WRITES
