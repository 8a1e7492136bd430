"""A log is read to its end, or it is told why not; what was not read counts as nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.copier.partition_log_comparison_process import ComparedLog, PartitionLogReader
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.fakes.plugin_contexts import Clock

PLACE = TopicPartition("orders", 3)


def data(offset, *values):
    records = [Record(value=each, timestamp=5) for each in values]
    return batches.data(records, Stamp(base_offset=offset))


class Questions:
    """Answers fetches in turn, with bytes or an error; at last with nothing, again and again.
    `ends` are what it says of the log's end, the last of them from then on."""

    def __init__(self, *answers, ends=(0,)) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        self.ends = list(ends)

    def find_leader(self, topic, partition):
        return 1

    def send_request(self, to, message):
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        found = SimpleNamespace(error_code=0, offset=end)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])

    def fetch(self, topic, offset, *, partition, committed):
        assert (topic, partition, committed) == (PLACE.topic, PLACE.partition, True)
        self.asked.append(offset)
        answer = self.answers.pop(0) if self.answers else b""
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(records=answer, aborted=())


def log_of(questions):
    clock = Clock()

    def turn(wait_s):
        clock.now += wait_s

    return PartitionLogReader(cast(Any, questions), PLACE, clock=clock, wait=turn)


def read(questions, *, upto):
    into = ComparedLog(start=0, end=upto, max_records=100)
    log_of(questions).read_range(into)
    return into


def test_it_is_read_to_its_end():
    questions = Questions(data(0, b"a", b"b"), data(2, b"c"))
    assert len(read(questions, upto=3).digests) == 3
    assert questions.asked == [0, 2]


def test_answers_that_bring_nothing_are_no_end():
    questions = Questions(data(0, b"a"), *[b""] * 20, data(1, b"b"))
    assert list(read(questions, upto=2).digests.offsets) == [0, 1]
    with pytest.raises(RetriableError, match="orders-3 at offset 1: no records arrived"):
        read(Questions(data(0, b"a")), upto=2)


def test_a_broker_that_is_troubled_is_asked_again_for_a_while():
    moved = RetriableError("NOT_LEADER_OR_FOLLOWER")
    assert len(read(Questions(moved, moved, data(0, b"a")), upto=1).digests) == 1
    with pytest.raises(RetriableError, match="at offset 0: NOT_LEADER"):
        read(Questions(*[moved] * 1000), upto=1)


def test_what_is_refused_is_not_asked_again():
    questions = Questions(FatalError("no"), data(0, b"a"))
    with pytest.raises(FatalError):
        read(questions, upto=1)
    assert questions.asked == [0]


def test_what_is_not_decided_yet_is_waited_for():
    questions = Questions(ends=[4, 4, 6, 9])
    log_of(questions).wait_until_stable(6)
    assert questions.ends == [9]
    with pytest.raises(RetriableError, match="only up to offset 5, not 6"):
        log_of(Questions(ends=[5])).wait_until_stable(6)
