"""Tails that were made of other batches, that no longer pair, or that another transform wrote, of
`mm2.replication.partition_resume_point`."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.formats.incident_records import IncidentKind
from mm2.formats.offset_map_records import EraKey, MapSegmentKey, OffsetRun
from mm2.replication import (
    batch_size_limits,
    outbound_batches,
    partition_resume_point,
    recovery_instructions,
    target_log_tail_reader,
)
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_resume_point import ResumePosition
from mm2.replication.recovery_instructions import (
    Delay,
    FindSourceOffset,
    InstructionRefused,
    ReadSource,
    ReadTarget,
    SourceLogOffset,
)
from mm2.replication.recovery_outcomes import PartitionAcquired, RetryRecovery
from tests.fakes import copying, scripts, taking
from tests.fakes.scripts import Log
from tests.fakes.transforms import Filter

MARKER = scripts.marker(50, taking.OURS, leader_epoch=2)
READ = ReadTarget


def copied(base, *values, **more):
    """A batch of ours on the target."""
    return scripts.data(base, *values, producer=taking.BEFORE, **more)


def source(base, *values, **more):
    return scripts.data(base, *values, leader_epoch=9, **more)


A, B, C = (source(at, value) for at, value in enumerate([b"a", b"b", b"c"]))


def paired(
    *on_target, held=(A, B, C), transform=None, written_by=None, known=None, room=None, **answers
):
    """`written_by` is the transform that the era was begun with, `room` the task's budget."""
    era = taking.era(filter_hash=outbound_batches.hash_transform(written_by))
    known = known or taking.known(taking.anchor(0, 40), era=era)
    given = {
        READ: Log(*on_target, MARKER),
        ReadSource: Log(*held),
        FindSourceOffset: SourceLogOffset(offset=0),
    }
    answers = {getattr(recovery_instructions, name): answer for name, answer in answers.items()}
    where = ResumePosition(era=1, source=0, target=40, source_epoch=8)
    attempt = taking.attempt(known, transform=transform)
    room = room or MemoryBudget(1 << 20)
    attempt = dataclasses.replace(
        attempt, context=dataclasses.replace(attempt.context, memory_budget=room)
    )
    before = room.held_bytes
    played = scripts.play(partition_resume_point.match_and_resume(attempt, where), given | answers)
    assert room.held_bytes <= before
    return played


def went_on(played, *, source, runs):
    taken = played.outcome
    assert isinstance(taken, PartitionAcquired), taken
    assert (taken.era, taken.match_start, taken.source, taken.target) == (1, 0, source, 51)
    assert taken.runs == tuple(runs)
    assert played.stored == []


def begun_anew(played, *, source, target_from):
    """A new era from source offset `source`, behind the incident for target [`target_from`, 50)."""
    taken = played.outcome
    assert isinstance(taken, PartitionAcquired), taken
    assert (taken.era, taken.source, taken.match_start, taken.target) == (2, source, source, 51)
    kinds = taking.kinds(played)
    assert kinds[kinds[0] == "MapSegmentKey" :][:2] == ["incident", "EraKey"]
    ((_, era),) = taking.mapped(played, EraKey)
    assert (era.first_source, era.first_target) == (source, 51)
    (stated,) = taking.incidents(played)
    assert stated.kind is IncidentKind.NOT_PAIRED
    assert (stated.source, stated.target) == (None, (target_from, 50))
    return stated


# Record by record


def test_a_joined_batch_is_read_again_to_be_opened():
    played = paired(copied(40, b"a", b"b"), copied(42, b"c"))
    went_on(played, source=3, runs=[(0, 40)])
    assert played.asked[-2:] == [ReadSource(offset=0), READ(offset=40)]


def test_divided_batches_are_read_again_with_those_that_come_along():
    played = paired(copied(40, b"a"), copied(43, b"b"), held=[source(0, b"a", b"b", b"c")])
    went_on(played, source=2, runs=[(0, 40), (1, 42)])
    assert [each for each in played.asked if isinstance(each, READ)][-1] == READ(offset=40)


def test_opened_batches_of_a_compacted_topic_pair():
    gapped = source(0, b"a", b"b", deltas=(1, 4), last_delta=6)
    played = paired(copied(40, b"a", b"b"), held=[gapped])
    went_on(played, source=7, runs=[(1, 39), (4, 37)])


def test_a_tail_in_transactions_pairs_record_by_record_too():
    played = paired(
        copied(40, b"a", b"b", transactional=True),
        scripts.marker(42, taking.BEFORE),
        copied(43, b"c", transactional=True),
        scripts.marker(44, taking.BEFORE, commit=False),
    )
    went_on(played, source=2, runs=[(0, 40)])


NOT_READ = [
    scripts.LOST,
    InstructionRefused(code=6),
    InstructionRefused(code=1, log_start=45),
    scripts.records(),
    scripts.records(copied(41, b"a", b"b")),
]


@pytest.mark.parametrize(
    "answer", NOT_READ, ids=["unanswered", "refused", "deleted", "nothing", "another batch"]
)
def test_a_batch_that_cannot_be_read_again_begins_again(answer):
    log = Log(copied(40, b"a", b"b"), MARKER)
    played = paired(ReadTarget=[log, answer])
    assert isinstance(played.outcome, RetryRecovery)
    assert played.stored == []


# What no longer pairs: a new era


def test_a_tail_that_differs_begins_a_new_era_where_it_does():
    played = paired(copied(40, b"a"), copied(41, b"other"), copied(42, b"c"))
    stated = begun_anew(played, source=1, target_from=41)
    assert "target offset 41 does not match the record at source offset 1" in stated.detail
    assert "replicated again from source offset 1" in stated.detail
    assert played.outcome.source_epoch == 9


def test_what_did_pair_is_written_into_the_map_of_the_era_that_ends():
    """Who is cut back into it later must know."""
    played = paired(copied(40, b"a", b"b"), copied(44, b"x"))
    begun_anew(played, source=2, target_from=42)
    ((key, segment),) = taking.mapped(played, MapSegmentKey)
    assert (key.era, key.first_source) == (1, 0)
    assert (segment.through, segment.target_next, segment.acquired_from) == (2, 42, 0)
    assert segment.runs == (OffsetRun(0, 40),)


def test_of_what_several_wrote_side_by_side_all_is_copied_again():
    """Else an older record would stand last of its key."""
    known = taking.known(taking.anchor(0, 40), producers={taking.US.id: 1, 5: 2})
    twin = scripts.data(42, b"a", producer=(5, 0))
    played = paired(copied(40, b"a"), copied(41, b"b"), twin, known=known)
    begun_anew(played, source=0, target_from=40)
    assert taking.mapped(played, MapSegmentKey) == []


def test_it_may_differ_inside_a_batch():
    played = paired(copied(40, b"a", b"b", b"other"))
    begun_anew(played, source=2, target_from=42)


def test_a_record_that_compaction_took_meanwhile_begins_a_new_era():
    played = paired(copied(40, b"a"), copied(41, b"b"), copied(42, b"c"), held=[A, C])
    begun_anew(played, source=1, target_from=41)


def test_a_source_that_was_compacted_to_nothing_begins_a_new_era():
    emptied = source(0, last_delta=2)
    played = paired(copied(40, b"a"), copied(41, b"b"), held=[emptied])
    stated = begun_anew(played, source=3, target_from=40)
    assert "the source ends at 3, but the mirror has more records from offset 40" in stated.detail


def test_a_source_with_fewer_offsets_than_the_tail_has_records_was_truncated():
    stop = paired(copied(40, b"a"), copied(41, b"b"), copied(42, b"c"), held=[A, B]).outcome
    assert (stop.cause, stop.retry_after_s) == (
        HaltCause.TAIL_MISMATCH,
        target_log_tail_reader.SOURCE_RETRY_DELAY_S,
    )
    assert "the source ends at 2, but the mirror has more records from offset 42" in stop.message
    assert "mm2 topic reset" in stop.message


def test_a_joined_tail_of_a_truncated_source_stops_too():
    stop = paired(copied(40, b"a", b"b", b"c"), held=[A, B]).outcome
    assert stop.cause is HaltCause.TAIL_MISMATCH
    assert "from offset 42" in stop.message


def test_a_source_batch_that_cannot_be_opened_begins_a_new_era_at_it():
    """It will stop the copy there, with everything before it copied."""
    played = paired(copied(40, b"a"), copied(41, b"b"), held=[A, copying.unreadable(1)])
    begun_anew(played, source=1, target_from=41)


def test_a_damaged_source_batch_stops_the_partition_and_begins_nothing():
    """Nothing would be doubled when a sound replica leads."""
    played = paired(copied(40, b"a"), copied(41, b"b"), held=[A, copying.damaged(1), C])
    assert played.outcome.cause is HaltCause.CORRUPT_BATCH
    assert played.stored == []


def test_damage_that_passes_leaves_no_trace():
    damaged = Log(A, copying.damaged(1), C)
    reads = [damaged, damaged, Log(A, B, C)]
    played = paired(copied(40, b"a"), copied(41, b"b"), ReadSource=reads)
    went_on(played, source=2, runs=[(0, 40)])


def test_a_source_that_is_gone_behind_what_paired_is_told_with_both_ranges():
    reads = [scripts.records(A, end=40), InstructionRefused(code=1, log_start=30)]
    played = paired(
        copied(40, b"a", b"b"),
        ReadSource=reads,
        FindSourceOffset=SourceLogOffset(offset=30),
    )
    (stated,) = taking.incidents(played)
    assert stated.kind is IncidentKind.SOURCE_GONE
    assert (stated.source, stated.target) == ((1, 30), (41, 50))


@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=6)])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_new_era_that_could_not_be_stored_was_not_begun(answer, failing):
    played = paired(copied(40, b"other"), AppendToFlowState=[*[scripts.DONE] * failing, answer])
    assert isinstance(played.outcome, RetryRecovery)
    assert len(played.stored) == failing + 1


# Transforms


def test_the_tail_of_a_transform_pairs_with_what_it_makes_again():
    filtering = Filter(b"b", change=b"new ")
    played = paired(
        copied(40, b"new a"), copied(41, b"new c"), transform=filtering, written_by=filtering
    )
    went_on(played, source=3, runs=[(0, 40), (2, 39)])


def test_another_transform_begins_a_new_era_behind_what_none_of_both_changed():
    filtering = Filter(b"c")
    played = paired(copied(40, b"a"), copied(41, b"b"), transform=filtering)
    taken = played.outcome
    assert (taken.era, taken.source, taken.source_epoch) == (2, 2, 9)
    assert taking.kinds(played) == ["MapSegmentKey", "EraKey"]
    ((_, era),) = taking.mapped(played, EraKey)
    assert era.filter_hash == outbound_batches.hash_transform(filtering)
    assert era.reason == "the transforms changed"


def test_a_transform_that_is_gone_begins_a_new_era_too():
    played = paired(copied(40, b"a"), written_by=Filter(b"b"))
    assert (played.outcome.era, played.outcome.source) == (2, 1)
    ((_, era),) = taking.mapped(played, EraKey)
    assert era.filter_hash == 0
    assert taking.incidents(played) == []


def test_what_an_older_transform_changed_does_not_pair_and_is_told():
    older = Filter(change=b"new ")
    played = paired(copied(40, b"new a"), written_by=older)
    begun_anew(played, source=0, target_from=40)


def test_what_makes_another_thing_each_time_is_copied_again_with_an_incident():
    loose = Filter(change=b"new ")
    loose.deterministic = False
    played = paired(copied(40, b"new a"), transform=loose, written_by=loose)
    begun_anew(played, source=0, target_from=40)
    ((_, era),) = taking.mapped(played, EraKey)
    assert era.filter_hash == outbound_batches.hash_transform(loose)


# Large batches

NINE = [b"%d" % at for at in range(9)]


@pytest.fixture
def two_at_once(monkeypatch):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)


@pytest.mark.usefixtures("two_at_once")
@pytest.mark.parametrize("sides", [(4, 3), (0, 4), (3, 0)], ids=str)
def test_the_copy_loop_runs_after_each_part_of_what_is_paired(sides):
    on_source, on_target = sides
    large = source(0, *NINE, codec=on_source)
    played = paired(copied(40, *NINE, codec=on_target), held=[large])
    went_on(played, source=9, runs=[(0, 40)])
    assert played.slept == [0.0] * 8


@pytest.mark.usefixtures("two_at_once")
def test_parts_before_the_place_where_pairing_begins_give_way_to_the_copy_loop_too():
    large = source(0, *[b"left out"] * 40, b"kept", codec=4)
    alike = Filter(b"left out")
    played = paired(copied(40, b"kept"), held=[large], transform=alike, written_by=alike)
    went_on(played, source=41, runs=[(40, 0)])
    assert len(played.slept) >= 20


def test_small_batches_are_paired_in_one_go():
    played = paired(copied(40, *NINE), held=[source(at, NINE[at]) for at in range(9)])
    went_on(played, source=9, runs=[(0, 40)])
    assert played.slept == []


@pytest.mark.parametrize("waits", [1, 5])
def test_pairing_waits_while_opened_batches_of_others_use_up_the_budget(waits):
    room = MemoryBudget(1 << 20)
    room.reserve(1 << 20, decoded=True)
    slept = []

    def sleep(question):
        slept.append(question.delay_s)
        if len(slept) == waits:
            room.release(1 << 20, decoded=True)
        return scripts.DONE

    played = paired(copied(40, b"a", b"b"), copied(42, b"c"), room=room, Delay=sleep)
    went_on(played, source=3, runs=[(0, 40)])
    assert slept == [target_log_tail_reader.BUDGET_POLL_INTERVAL_S] * waits


@pytest.mark.usefixtures("two_at_once")
def test_who_holds_a_batch_of_the_source_does_not_wait_for_room_for_that_of_the_target():
    """Two partitions that wait for each other's batches would go on only after a minute."""
    room, slept = MemoryBudget(1 << 20), list[float]()

    def sleep(question):
        if not slept:
            room.reserve(1 << 20, decoded=True)
        elif len(slept) == 1:
            room.release(1 << 20, decoded=True)
        slept.append(question.delay_s)
        return scripts.DONE

    large = source(0, *NINE, codec=4)
    played = paired(copied(40, *NINE, codec=3), held=[large], room=room, Delay=sleep)
    went_on(played, source=9, runs=[(0, 40)])
    assert set(slept) == {0.0}


def test_pairing_begins_again_where_there_is_no_room_for_long():
    room = MemoryBudget(1 << 20)
    room.reserve(1 << 20, decoded=True)
    played = paired(copied(40, b"a", b"b"), copied(42, b"c"), room=room)
    assert isinstance(played.outcome, RetryRecovery)
    assert "buffer.memory" in played.outcome.reason
    assert sum(played.slept) == pytest.approx(target_log_tail_reader.BUDGET_TIMEOUT_S, abs=1.0)
    assert (room.decoded_bytes, played.stored) == (1 << 20, [])


def test_what_is_opened_on_one_side_is_no_reason_to_wait_for_the_other():
    large = [bytes(300_000) + b"%d" % at for at in range(3)]
    room = MemoryBudget(1 << 20)
    on_target = copied(40, *large, codec=4), copied(43, b"z")
    played = paired(*on_target, held=[source(0, *large, codec=3), source(3, b"z")], room=room)
    went_on(played, source=4, runs=[(0, 40)])
    assert room.decoded_bytes == 0


@pytest.mark.parametrize("on_target", [False, True])
def test_what_is_too_large_to_be_opened_stops_before_anything_is_written(on_target):
    """The limit is ours: it does not say that the tail does not pair."""
    large = [bytes(3 << 20), b"b"]
    other = source(0, b"x", b"b") if on_target else source(0, *large, codec=3)
    played = paired(copied(40, *large, codec=4), held=[other], room=MemoryBudget(2 << 20))
    assert isinstance(played.outcome, PartitionHalt)
    assert played.outcome.cause is HaltCause.BATCH_TOO_LARGE
    assert "orders-4 at source offset 0" in played.outcome.message
    assert "more than 2097152 bytes, the limit set by buffer.memory" in (played.outcome.message)
    assert ("the mirror's batch at offset 40" in played.outcome.message) is on_target
    assert "offset:2" in played.outcome.message
    assert played.stored == []


@pytest.mark.usefixtures("two_at_once")
def test_a_take_that_is_abandoned_amid_a_batch_holds_nothing():
    room = MemoryBudget(1 << 20)
    attempt = taking.attempt(taking.known(taking.anchor(0, 40)))
    attempt = dataclasses.replace(
        attempt, context=dataclasses.replace(attempt.context, memory_budget=room)
    )
    where = ResumePosition(era=1, source=0, target=40, source_epoch=8)
    log = Log(copied(40, *NINE, codec=4), MARKER)
    held = Log(source(0, *NINE, codec=3))
    script = partition_resume_point.match_and_resume(attempt, where)
    question = next(script)
    while not isinstance(question, Delay):
        assert isinstance(question, READ | ReadSource)
        question = script.send(log(question) if isinstance(question, READ) else held(question))
    assert room.decoded_bytes > 0
    script.close()
    assert (room.held_bytes, room.decoded_bytes) == (0, 0)
