"""Reading both sides; what a tail holds and what pairs have tests of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mm2 import suggested_commands
from mm2.formats import record_batch
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.replication import (
    error_policy,
    recovery_instructions,
    recovery_outcomes,
    target_log_tail_reader,
)
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.recovery_instructions import (
    FindReverseFlowProducers,
    InstructionRefused,
    ReadSource,
    ReadTarget,
    ReverseFlowProducers,
)
from mm2.replication.recovery_outcomes import (
    OwnershipLost,
    RecoveryAttempt,
    RecoveryContext,
    RetryRecovery,
)
from mm2.replication.target_log_tail import TargetTail
from mm2.replication.target_log_tail_matching import TailMatcher
from mm2.replication.target_log_tail_reader import ReverseFlowProducersResolved
from tests.fakes import copying, scripts, taking
from tests.fakes.scripts import Log, Played

NEWER = (taking.US.id, taking.US.epoch + 1)
START = 40


def attempt(**changed: Any) -> RecoveryAttempt:
    return taking.attempt(taking.known(), **changed)


def on_mirror(*held: bytes, marker: int = 50) -> Log:
    return Log(*held, scripts.marker(marker, taking.OURS), start=START)


def ours(base: int, *values: bytes) -> bytes:
    return scripts.data(base, *values, producer=taking.BEFORE)


# The tail


def read(log: Any, *, last_crc: int | None = None, lost: str = "") -> Played:
    script = target_log_tail_reader.read_tail(attempt(), start=START, last_crc=last_crc, lost=lost)
    return scripts.play(script, {ReadTarget: log})


def test_the_tail_is_what_we_wrote_between_the_start_and_our_marker():
    played = read(on_mirror(ours(40, b"a"), ours(41, b"b", b"c")))
    assert isinstance(played.outcome, TargetTail)
    assert [(each.offset, each.count) for each in played.outcome.committed_batches] == [
        (40, 1),
        (41, 2),
    ]
    assert played.outcome.is_complete


def test_a_tail_that_is_lost_is_not_read():
    played = read(on_mirror(), lost="cut off")
    assert (played.outcome.lost, played.asked) == ("cut off", [])


def test_a_newer_epoch_of_ours_says_that_we_are_fenced():
    played = read(on_mirror(scripts.data(40, b"a", producer=NEWER)))
    assert played.outcome == OwnershipLost(fenced_producer=taking.US)


def test_where_something_else_stands_in_our_markers_place_a_newer_owner_may_have_written():
    """Under an id that our facts do not know, so that it would look like a stranger."""
    newer = scripts.data(49, b"a", b"b", producer=(99, 0))
    for log in (on_mirror(newer), on_mirror(scripts.marker(50, (99, 0)))):
        assert read(log).outcome == target_log_tail_reader.retry_after_truncation()
    assert isinstance(read(on_mirror(scripts.data(48, b"a", producer=(99, 0)))).outcome, TargetTail)


def test_what_retention_took_is_lost_and_read_no_further():
    later = Log(scripts.marker(50, taking.OURS), start=45)
    played = read([later, later])
    assert played.outcome.lost == f"the target's log no longer has offset {START}"


def test_a_mirror_that_is_shorter_than_our_place_was_cut_again():
    played = read(InstructionRefused(code=error_policy.OFFSET_OUT_OF_RANGE, log_start=0))
    assert played.outcome == target_log_tail_reader.retry_after_truncation()


@pytest.mark.parametrize("answer", [scripts.LOST, InstructionRefused(code=6, message="moved")])
def test_a_mirror_that_does_not_answer_begins_the_take_again(answer):
    played = read(answer)
    assert isinstance(played.outcome, RetryRecovery)
    assert played.outcome.reason.startswith("reading the tail of the mirror: ")


def test_a_mirror_that_gives_nothing_is_not_read_for_ever():
    played = read(scripts.records(log_start=0, end=60))
    assert played.outcome == recovery_outcomes.retry_after_empty_reads(
        "reading the tail of the mirror"
    )
    assert len(played.asked) == recovery_outcomes.EMPTY_READS_MAX + 1


def broken(batch: bytes) -> bytes:
    whole = bytearray(batch)
    whole[-1] ^= 1
    return bytes(whole)


def test_a_damaged_batch_of_the_tail_is_read_again():
    held = [ours(40, b"a"), ours(41, b"b")]
    damaged = on_mirror(held[0], broken(held[1]))
    played = read([damaged, damaged, on_mirror(*held)])
    assert [each.offset for each in played.outcome.committed_batches] == [40, 41]
    assert played.slept == [target_log_tail_reader.READ_RETRY_DELAY_S] * 2
    assert [each.offset for each in played.asked] == [40, 41, 41]


def test_a_tail_that_stays_damaged_cannot_be_paired():
    """Else a damaged header could hide what stands behind it, and it would be copied twice."""
    with pytest.raises(DamagedBatchError, match="checksum") as raised:
        read(on_mirror(ours(40, b"a"), broken(ours(41, b"b"))))
    assert raised.value.base_offset == 41


def test_damage_before_the_tail_and_behind_our_marker_is_none_of_its_business():
    last = ours(39, b"z")
    crc = record_batch.read_batch_header(memoryview(last)).crc
    behind = broken(scripts.data(51, b"x"))
    log = Log(broken(last), ours(40, b"a"), scripts.marker(50, taking.OURS), behind)
    played = read(log, last_crc=crc)
    assert [each.offset for each in played.outcome.committed_batches] == [40]
    assert played.outcome.lost == ""


# The source along it


def paired(*held: bytes, position: int = 100) -> TailMatcher:
    """What stands on the mirror, against a source that was copied up to `position`."""
    left = read(on_mirror(*held)).outcome
    return TailMatcher(tail=left.committed_batches, position=position, start=START)


def walked(pairs: TailMatcher, source: Any, *, fenced: bool = True, **answers: Any) -> Played:
    given = attempt()
    if not fenced:
        given = dataclasses.replace(given, fence=dataclasses.replace(given.fence, is_fenced=False))
    more = {getattr(recovery_instructions, name): answer for name, answer in answers.items()}
    return scripts.play(
        target_log_tail_reader.match_tail_with_source(given, pairs), {ReadSource: source, **more}
    )


def source(*held: bytes, start: int = 100, end: int | None = None) -> Log:
    return Log(*held, start=start, end=end)


def test_the_same_batches_use_the_tail_up():
    pairs = paired(ours(40, b"a"), ours(41, b"b"))
    played = walked(pairs, source(scripts.data(100, b"a"), scripts.data(101, b"b")))
    assert (played.outcome, pairs.is_complete, pairs.position) == (None, True, 102)


def test_an_empty_tail_still_asks_whether_the_source_has_our_position():
    played = walked(paired(), source())
    assert (played.outcome, played.kinds) == (None, [ReadSource])
    gone = walked(paired(), source(start=105))
    assert gone.outcome == InstructionRefused(code=1, log_start=105)


def test_what_was_joined_is_read_once_more_and_paired_record_by_record():
    joined = ours(40, b"a", b"b")
    pairs = paired(joined)
    played = walked(
        pairs,
        source(scripts.data(100, b"a"), scripts.data(101, b"b")),
        ReadTarget=on_mirror(joined),
    )
    assert (played.outcome, pairs.is_complete, pairs.mismatch) == (None, True, "")
    assert ReadTarget(offset=40) in played.asked


def test_joined_batches_that_came_along_are_not_read_each_by_itself():
    """Where small batches come in, that is how the tail of a killed owner looks."""
    values = [b"%d" % number for number in range(8)]
    held = source(*(scripts.data(100 + at, value) for at, value in enumerate(values)))
    joined = [ours(40 + at, *values[at : at + 2]) for at in range(0, 8, 2)]
    pairs = paired(*joined)
    played = walked(pairs, held, ReadTarget=on_mirror(*joined))
    assert (played.outcome, pairs.is_complete, pairs.mismatch) == (None, True, "")
    assert played.kinds.count(ReadTarget) == 1
    damaged = on_mirror(*joined[:2], broken(joined[2]), joined[3])
    pairs = paired(*joined)
    played = walked(pairs, held, ReadTarget=[damaged, on_mirror(*joined)])
    assert (played.outcome, pairs.is_complete) == (None, True)
    assert [each.offset for each in played.asked if isinstance(each, ReadTarget)] == [
        40,
        44,
    ]


def test_an_answer_that_others_have_filled_is_asked_for_again():
    joined = ours(40, b"a", b"b")
    pairs = paired(joined)
    reads = [scripts.records(end=50), scripts.records(end=50), on_mirror(joined)]
    held = source(scripts.data(100, b"a"), scripts.data(101, b"b"))
    played = walked(pairs, held, ReadTarget=reads)
    assert (played.outcome, pairs.is_complete) == (None, True)
    damaged = walked(paired(joined), held, ReadTarget=[on_mirror(broken(joined)), reads[2]])
    assert (damaged.outcome, damaged.slept) == (None, [target_log_tail_reader.READ_RETRY_DELAY_S])
    starved = walked(paired(joined), held, ReadTarget=scripts.records(end=50))
    assert starved.outcome == recovery_outcomes.retry_after_empty_reads(
        "reading the tail of the mirror again"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (scripts.LOST, "reading the tail of the mirror again: connection lost"),
        (scripts.records(), target_log_tail_reader.retry_after_truncation().reason),
        (scripts.records(ours(44, b"z")), target_log_tail_reader.retry_after_truncation().reason),
    ],
    ids=["unanswered", "nothing", "another batch"],
)
def test_a_batch_that_cannot_be_read_once_more_begins_again(answer, reason):
    played = walked(
        paired(ours(40, b"a", b"b")),
        source(scripts.data(100, b"a"), scripts.data(101, b"b")),
        ReadTarget=answer,
    )
    assert played.outcome == RetryRecovery(reason=reason)


def test_a_mirror_with_more_than_the_source_ever_had_stops_where_that_ended():
    pairs = paired(ours(40, b"a"), ours(41, b"b", b"c"))
    played = walked(pairs, source(scripts.data(100, b"a")))
    stop = played.outcome
    assert isinstance(stop, PartitionHalt)
    assert (stop.cause, stop.retry_after_s) == (
        HaltCause.TAIL_MISMATCH,
        target_log_tail_reader.SOURCE_RETRY_DELAY_S,
    )
    assert "the source ends at 101, but the mirror has more records from offset 41" in stop.message
    assert suggested_commands.extract_remedy_from_message(stop.message) == (
        "mm2 topic reset 'a->b' orders --partition 4 --from offset:101 --config clusters.yaml"
    )


def test_a_source_that_ends_too_early_for_a_moment_is_waited_for():
    """A new leader learns only after a while how far the old one had got."""
    held = [scripts.data(100, b"a"), scripts.data(101, b"b")]
    pairs = paired(ours(40, b"a"), ours(41, b"b"))
    short = source(held[0])
    played = walked(pairs, [short, short, short, source(*held)])
    assert (played.outcome, pairs.is_complete) == (None, True)
    assert played.slept == [target_log_tail_reader.READ_RETRY_DELAY_S] * 3


def test_damage_that_passes_is_read_past():
    held = [scripts.data(100, b"a"), scripts.data(101, b"b")]
    pairs = paired(ours(40, b"a"), ours(41, b"b"))
    damaged = source(held[0], copying.damaged(101))
    played = walked(pairs, [damaged, damaged, source(*held)])
    assert (played.outcome, pairs.is_complete, pairs.mismatch) == (None, True, "")
    assert played.slept == [target_log_tail_reader.READ_RETRY_DELAY_S] * 2


def test_damage_that_stays_stops_the_partition_with_the_way_past_it():
    held = source(scripts.data(100, b"a"), copying.damaged(101), scripts.data(103, b"c"))
    played = walked(paired(ours(40, b"a"), ours(41, b"b")), held)
    stop = played.outcome
    assert isinstance(stop, PartitionHalt)
    assert (stop.cause, stop.retry_after_s) == (HaltCause.CORRUPT_BATCH, 30.0)
    assert "orders-4 at source offset 101: the checksum" in stop.message
    assert "--from offset:103 " in stop.message
    assert len(played.asked) == target_log_tail_reader.READ_ATTEMPTS_MAX + 1
    assert (
        sum(played.slept)
        == target_log_tail_reader.READ_ATTEMPTS_MAX * target_log_tail_reader.READ_RETRY_DELAY_S
    )


def test_a_source_that_ends_before_our_place_is_gone_on_with_at_its_end():
    """Only a broker that gives nothing there instead of refusing comes to this."""
    pairs = paired(ours(40, b"a"), position=100)
    played = walked(pairs, scripts.records(end=90))
    assert "--from offset:90 " in played.outcome.message


def test_without_fences_a_longer_mirror_is_a_mismatch():
    """Two owners may have written the same."""
    pairs = paired(ours(40, b"a"), ours(41, b"a"))
    played = walked(pairs, source(scripts.data(100, b"a")), fenced=False)
    assert played.outcome is None
    assert "the mirror has more records from offset 41" in pairs.mismatch


def test_a_compacted_source_that_has_counted_past_the_tail_is_a_mismatch():
    pairs = paired(ours(40, b"a"), ours(41, b"b"))
    played = walked(pairs, source(scripts.data(100, b"a"), scripts.marker(299, (5, 0))))
    assert played.outcome is None
    assert (
        pairs.mismatch == "the source ends at 300, but the mirror has more records from offset 41"
    )


def test_a_source_that_gives_nothing_is_not_read_for_ever():
    played = walked(paired(ours(40, b"a")), scripts.records(end=300))
    assert played.outcome == recovery_outcomes.retry_after_empty_reads(
        "reading the source to match the mirror's tail"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(scripts.LOST, "connection lost"), (InstructionRefused(code=6, message="moved"), "moved")],
)
def test_a_source_that_does_not_answer_begins_the_take_again(answer, reason):
    played = walked(paired(ours(40, b"a")), answer)
    said = f"reading the source to match the mirror's tail: {reason}"
    assert played.outcome == RetryRecovery(reason=said)


def test_a_source_that_may_not_be_read_stops_the_partition():
    played = walked(paired(ours(40, b"a")), InstructionRefused(code=29))
    assert isinstance(played.outcome, PartitionHalt)
    assert played.outcome.cause is HaltCause.REFUSED_BY_SOURCE


def test_a_source_topic_that_is_missing_stops_the_partition_only_if_that_lasts():
    played = walked(paired(ours(40, b"a")), InstructionRefused(code=3))
    assert isinstance(played.outcome, RetryRecovery)
    assert played.outcome.halt_if_persistent is not None
    assert played.outcome.halt_if_persistent.cause is HaltCause.REFUSED_BY_SOURCE


# Whose a batch of the source is


def ask(answer: Any) -> tuple[Played, RecoveryContext]:
    context = taking.context(opposite_map="theirs")
    script = target_log_tail_reader.resolve_reverse_flow_producers(context, (5, 6))
    return scripts.play(script, {FindReverseFlowProducers: answer}), context


def test_whose_they_are_is_known_once_it_was_told():
    played, context = ask(ReverseFlowProducers(producers=frozenset({6})))
    assert (played.outcome, played.asked) == (
        ReverseFlowProducersResolved(),
        [FindReverseFlowProducers(producers=(5, 6))],
    )
    assert context.reverse_producers == {-1: False, 5: False, 6: True}


def test_what_nobody_could_tell_is_asked_again_and_lasts_in_the_end():
    played, context = ask(scripts.LOST)
    assert isinstance(played.outcome, RetryRecovery)
    assert played.outcome.halt_if_persistent is not None
    assert played.outcome.halt_if_persistent.cause is HaltCause.REVERSE_FLOW_UNREADABLE
    assert context.reverse_producers == {-1: False}
