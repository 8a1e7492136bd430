"""Who waits for records waits for all of them, and not for ever."""

from __future__ import annotations

from collections import deque

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.storage import backing_store_base
from connect_runtime.storage.config_records import KeyedRecord
from tests.fakes.shared_log import FakeSharedLog, FakeTopic

RECORDS = tuple(KeyedRecord(key=b"k%d" % number, value=b"v") for number in range(3))


@pytest.fixture
def topic():
    return FakeTopic()


def test_all_are_written_in_their_order(topic):
    backing_store_base.write_records(FakeSharedLog(topic), RECORDS, 1.0)
    assert [each.key for each in topic.records] == [b"k0", b"k1", b"k2"]


def test_the_first_failure_is_told_when_all_have_answered(topic):
    topic.refusals = deque([FatalError("first"), RetriableError("second")])
    with pytest.raises(FatalError, match="first"):
        backing_store_base.write_records(FakeSharedLog(topic), RECORDS, 1.0)
    assert [each.key for each in topic.records] == [b"k2"]


def test_what_is_not_acknowledged_in_time_may_be_written_all_the_same(topic):
    with topic.unreachable(), pytest.raises(RetriableError, match="3 of 3 records"):
        backing_store_base.write_records(FakeSharedLog(topic), RECORDS, 0.01)
    assert len(topic.records) == 3
