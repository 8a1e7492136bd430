"""Who waits for records waits for all of them, and not for ever."""

from __future__ import annotations

from collections import deque

import pytest

from connect_runtime.base import errors
from connect_runtime.ports import shared_log as port
from connect_runtime.runtime.stores import acknowledged
from tests.fakes import shared_log

RECORDS = tuple(port.Record(key=b"k%d" % number, value=b"v") for number in range(3))


@pytest.fixture
def topic():
    return shared_log.FakeTopic()


def test_all_are_written_in_their_order(topic):
    acknowledged.write(shared_log.FakeSharedLog(topic), RECORDS, 1.0)
    assert [each.key for each in topic.records] == [b"k0", b"k1", b"k2"]


def test_the_first_failure_is_told_when_all_have_answered(topic):
    topic.refusals = deque([errors.FatalError("first"), errors.RetriableError("second")])
    with pytest.raises(errors.FatalError, match="first"):
        acknowledged.write(shared_log.FakeSharedLog(topic), RECORDS, 1.0)
    assert [each.key for each in topic.records] == [b"k2"]


def test_what_is_not_acknowledged_in_time_may_be_written_all_the_same(topic):
    with topic.unreachable(), pytest.raises(errors.RetriableError, match="3 of 3 records"):
        acknowledged.write(shared_log.FakeSharedLog(topic), RECORDS, 0.01)
    assert len(topic.records) == 3
