from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mm2.formats.offset_map_records import OffsetRun
from mm2.replication import batch_size_limits, takeover_from_java, target_log_tail_reader
from mm2.replication.java_offset_map_reconstruction import MapReconstruction
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.recovery_instructions import ReadSource, RecoveredState
from mm2.replication.recovery_outcomes import RetryRecovery
from mm2.replication.takeover_from_java import JavaCopyStart
from tests.fakes import scripts, taking
from tests.fakes.java_mirror import LETTERS, SOURCE, java, mirror, wrote
from tests.fakes.scripts import Log
from tests.fakes.transforms import Filter


def retraced(
    *on_mirror, source=SOURCE, progress=101, begins=(100, 40), transform=None, held=None, **changed
):
    given = {"ReadTarget": mirror(*on_mirror), "ReadSource": source}
    known = RecoveredState(java=java(progress))
    attempt = taking.attempt(known, transform=transform)
    if held is not None:
        context = dataclasses.replace(attempt.context, memory_budget=held)
        attempt = dataclasses.replace(attempt, context=context)
    stretch = JavaCopyStart(source=begins[0], target=begins[1])
    answers = taking.answers(known, **(given | changed))
    return scripts.play(takeover_from_java.match_mirror_with_source(attempt, stretch), answers)


def test_both_sides_are_read_until_one_ends():
    traced = retraced(wrote(40, b"a", b"b"), wrote(42, b"c")).outcome
    assert isinstance(traced, MapReconstruction)
    assert (traced.is_complete, traced.position, traced.mismatch) == (True, 103, "")
    assert traced.runs == [OffsetRun(100, -60)]


def test_a_second_look_steps_back_farther():
    held = [wrote(40, b"d"), wrote(41, b"b", b"c", b"d", b"e")]
    played = retraced(*held, progress=104, begins=(103, 40))
    starts = [each.offset for each in played.asked if isinstance(each, ReadSource)]
    assert starts == [103, 0, 100]
    assert list(played.outcome.duplicate_ranges) == [(41, 44)]


def test_what_is_not_committed_yet_is_looked_at_again_for_a_while():
    played = retraced(wrote(40, *LETTERS), wrote(46, b"open"), progress=106)
    assert (played.outcome.is_past_source, played.outcome.position) == (True, 106)
    assert len(played.slept) == 2 * (target_log_tail_reader.READ_ATTEMPTS_MAX - 1)


def test_a_transaction_that_is_open_is_waited_for():
    held = [wrote(40, b"a"), wrote(41, b"b", producer=(8, 0), transactional=True)]
    again = retraced(*held).outcome
    assert isinstance(again, RetryRecovery)
    assert again.halt_if_persistent is not None
    assert again.halt_if_persistent.cause is HaltCause.HANGING_TRANSACTION


def test_what_is_too_large_to_be_opened_stops_the_partition():
    large = scripts.data(100, bytes(3 << 20), codec=4)
    small = MemoryBudget(2 << 20)
    stop = retraced(wrote(40, b"a"), source=Log(large, start=100), held=small).outcome
    assert isinstance(stop, PartitionHalt)
    assert stop.cause is HaltCause.BATCH_TOO_LARGE


def test_the_copy_loop_runs_while_many_batches_are_compared(monkeypatch):
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", 2)
    held = [scripts.data(100 + at, each, leader_epoch=9) for at, each in enumerate(LETTERS)]
    source = Log(*held, start=100)
    played = retraced(wrote(40, b"a", b"b"), wrote(42, b"c"), source=source)
    traced = played.outcome
    assert (traced.is_complete, traced.position, traced.mismatch) == (True, 103, "")
    assert played.slept
    assert set(played.slept) == {0.0}


def test_damage_on_the_source_stops_the_partition():
    bad = bytearray(scripts.data(100, *LETTERS))
    bad[-1] ^= 1
    stop = retraced(wrote(40, b"a"), source=Log(bytes(bad), start=100)).outcome
    assert isinstance(stop, PartitionHalt)
    assert stop.cause is HaltCause.CORRUPT_BATCH


@pytest.mark.parametrize("kind", ["ReadSource", "ReadTarget"])
def test_without_an_answer_it_begins_again(kind):
    lost: dict[str, Any] = {
        "ReadSource": scripts.LOST,
        "ReadTarget": [mirror(wrote(40, b"a")), scripts.LOST],
    }
    played = retraced(wrote(40, b"a"), **{kind: lost[kind]})
    assert isinstance(played.outcome, RetryRecovery)


def test_a_starved_answer_is_asked_again():
    log = mirror(wrote(40, b"a"))
    played = retraced(ReadTarget=[log, scripts.records(end=51), log])
    assert played.outcome.position == 101


def test_our_transform_is_javas_too():
    transform = Filter(b"b", change=b"!")
    assert retraced(wrote(40, b"!a", b"!c"), transform=transform).outcome.position == 103
