"""A plugin waits for its offsets only as long as somebody wants them.

Offsets are found again whoever wrote them, and committed as a whole."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.storage import offset_store
from connect_runtime.storage.offset_store import LogOffsetBackingStore, StoredOffsetReader
from connect_runtime.storage.offset_topic import InvalidSourceOffset
from tests.fakes.shared_log import FakeSharedLog, FakeTopic


class SteppedClock:
    def __init__(self):
        self.at_s = 0.0

    def now_s(self):
        return self.at_s

    def wall_ms(self):
        return 0


class SlowOffsets:
    """Answers after some time-outs, each of which takes as long as it may."""

    def __init__(self, clock, *, after):
        self.clock = clock
        self.after = after
        self.on_wait = lambda: None

    def read_offsets(self, connector, partitions, timeout_s):
        if self.after == 0:
            return [{"of": each["p"], "by": connector} for each in partitions]
        self.after -= 1
        self.clock.at_s += timeout_s
        self.on_wait()
        raise RetriableError("not yet")


def reader(offsets, given_up=None):
    return StoredOffsetReader(
        "c", offsets=offsets, abandoned=given_up or threading.Event(), clock=offsets.clock
    )


def test_one_answer_for_each_partition():
    found = reader(SlowOffsets(SteppedClock(), after=3))
    assert found.offset({"p": 1}) == {"of": 1, "by": "c"}
    assert found.offsets([{"p": 1}, {"p": 2}]) == [{"of": 1, "by": "c"}, {"of": 2, "by": "c"}]


def test_who_waits_long_is_told_of_once_a_minute(caplog):
    offsets = SlowOffsets(SteppedClock(), after=75)
    assert reader(offsets).offset({"p": 1}) == {"of": 1, "by": "c"}
    assert offsets.clock.at_s == pytest.approx(150.0)
    assert [each.getMessage() for each in caplog.records] == [
        f"connector c has waited {seconds} s for its offsets: not yet" for seconds in (60, 120)
    ]


def test_a_task_that_was_given_up_hears_nothing_more():
    given_up = threading.Event()
    offsets = SlowOffsets(SteppedClock(), after=1_000)
    offsets.on_wait = given_up.set
    with pytest.raises(FatalError, match="did not stop in time and was abandoned"):
        reader(offsets, given_up).offset({"p": 1})
    assert offsets.clock.at_s < 10.0


FILE = {"filename": "/tmp/a"}


@pytest.fixture
def topic():
    return FakeTopic(partitions=25)


@pytest.fixture
def store(topic):
    store = LogOffsetBackingStore(FakeSharedLog(topic))
    store.start(1.0)
    yield store
    store.stop(1.0)


def commit(store, *pairs, connector="c"):
    offset_store.commit_offsets(store, connector, pairs, timeout_s=1.0)


def read(store, *partitions, connector="c"):
    return store.read_offsets(connector, partitions, 1.0)


def test_what_was_committed_is_read_by_whoever_comes_next(store, topic):
    commit(store, (FILE, {"position": 7}), (None, {"n": 1}))
    again = LogOffsetBackingStore(FakeSharedLog(topic))
    again.start(1.0)
    for each in (store, again):
        assert read(each, FILE, None, {"filename": "/tmp/b"}) == [{"position": 7}, {"n": 1}, None]
        assert each.read_all_offsets("c", 1.0) == [(FILE, {"position": 7})]
        assert read(each, FILE, connector="d") == [None]
    assert [each.key for each in topic.records] == [b'["c",{"filename":"/tmp/a"}]', b'["c",null]']


def test_what_is_no_offset_is_left_out_and_can_be_forgotten(store, topic):
    commit(store, (FILE, {"position": 7}))
    topic.append(b'["c",{"p":"odd"}]', b'"no offset"')
    assert store.read_all_offsets("c", 1.0) == [(FILE, {"position": 7})]
    assert store.connector_partitions("c", 1.0) == [FILE, {"p": "odd"}]
    commit(store, ({"p": "odd"}, None))
    assert store.connector_partitions("c", 1.0) == [FILE]


def test_reading_waits_for_the_end(store, topic):
    topic.silent = True
    topic.append(b'["c",{"filename":"/tmp/a"}]', b'{"position":9}')
    assert read(store, FILE) == [{"position": 9}]
    with topic.unreachable(), pytest.raises(RetriableError):
        read(store, FILE)


def test_a_partition_in_another_order_of_its_fields_is_the_same(store, topic):
    topic.append(b'["c",{"topic":"t","partition":0}]', b'{"offset":1}')
    topic.append(b'["c",{"partition":0,"topic":"t"}]', b'{"offset":2}')
    sought = {"partition": 0, "topic": "t"}
    assert read(store, sought) == [{"offset": 2}]
    assert len(store.read_all_offsets("c", 1.0)) == 1
    commit(store, (sought, None))
    assert read(store, sought, {"topic": "t", "partition": 0}) == [None, None]
    assert [each.value for each in topic.records][2:] == [None, None]


def test_what_cannot_be_written_is_refused_whole(store, topic):
    with pytest.raises(InvalidSourceOffset):
        commit(store, (FILE, {"position": 1}), (FILE, {"nested": {"a": 1}}))
    with pytest.raises(InvalidSourceOffset):
        commit(store, ({"nested": []}, {"position": 1}))
    assert topic.records == []


def test_one_failure_fails_the_commit_when_all_have_answered(store, topic):
    """KafkaOffsetBackingStoreTest.testSetFailure."""
    topic.refusals = deque([RetriableError("not now")])
    with pytest.raises(RetriableError, match="not now"):
        commit(store, (FILE, {"position": 1}), ({"filename": "/tmp/b"}, {"position": 2}))
    assert len(topic.records) == 1


def test_nothing_is_committed_at_once(store, topic):
    commit(store)
    assert topic.records == []


def test_a_commit_that_takes_too_long_ends_and_its_late_answer_is_nobodys(store, topic):
    """OffsetStorageWriterTest.testCancelAfterAwaitFlush and its like."""
    with topic.unreachable():
        with pytest.raises(RetriableError, match=r"offset.flush.timeout.ms"):
            offset_store.commit_offsets(store, "c", [(FILE, {"position": 1})], timeout_s=0.01)
        assert topic.records == []
    assert read(store, FILE) == [{"position": 1}]


def test_after_a_stop_commits_fail(store):
    store.stop(0.0)
    with pytest.raises(FatalError, match="stopped"):
        commit(store, (FILE, {"position": 1}))


@pytest.mark.parametrize(
    "key",
    [b"{}", b"7", b'["c"]', b'["c",{},1]', b"[3,{}]", b'["c",[]]', b"\xff", None],
)
def test_keys_that_are_no_offsets_are_logged_and_skipped(store, topic, caplog, key):
    """OffsetUtilsTest.testProcessPartitionKey*."""
    topic.append(key, b'{"position":1}')
    commit(store, (FILE, {"position": 2}))
    assert read(store, FILE) == [{"position": 2}]
    assert "skipping the record of fake" in caplog.text


def test_the_topic_names_itself(store):
    assert store.name == "fake"
