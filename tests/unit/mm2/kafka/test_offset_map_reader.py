"""The map topic, read once or followed; what cannot be read is never passed over."""

from __future__ import annotations

import itertools
import weakref

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka.client_errors import UnreachableError
from mm2.kafka.kafka_client_interfaces import TopicRecord
from mm2.kafka.offset_map_reader import MapReadTimeoutError, OffsetMapReader
from mm2.offsets import offset_translation
from mm2.offsets.offset_translation import ExactOffset
from tests.fakes import copied_map
from tests.fakes.client_cluster import FakeCluster

T7 = copied_map.T7
TOPIC = "mm2-offset-map.a.internal"


@pytest.fixture
def cluster():
    made = FakeCluster()
    made.topics.topics[TOPIC] = copied_map.log(T7, through=30, delta=-5, start=10)
    return made


def place(known, upstream=29):
    return offset_translation.translate_to_target(known.get_partition(T7), upstream)


@pytest.mark.parametrize(("key", "value"), [(None, b""), (b"?", b""), (b"\x09\x01", b"")])
def test_what_cannot_be_read_is_told(cluster, key, value):
    at = len(cluster.topics.topics[TOPIC])
    cluster.topics.topics[TOPIC] += [(key, value)]
    reader = OffsetMapReader(lambda: cluster.open_new_record_reader(TOPIC), where="b")
    for _ in range(2):
        with pytest.raises(FatalError, match=f"{TOPIC} of b: the record at offset {at} "):
            reader.read_map(1.0)
    cluster.topics.topics[TOPIC] += [(key, None)]
    assert place(reader.read_map(1.0)) == ExactOffset(downstream=24)


class Counted(TopicRecord):
    """A record that is known to be there as long as anybody holds it."""

    __slots__ = ("__weakref__",)


class CountedTail:
    """A map topic of many records, of which each replaces the one before. `most` are those that
    were there at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.there: weakref.WeakSet[Counted] = weakref.WeakSet()
        self.most = 0

    def read_to_end(self, timeout_s, take):
        for through in range(30, 30 + self.count):
            for key, value in copied_map.log(T7, through=through, delta=-5, start=10):
                take(self.made(key, value))
                self.most = max(self.most, len(self.there))

    def made(self, key, value):
        found = Counted(topic=TOPIC, offset=0, key=key, value=value)
        self.there.add(found)
        return found

    def close(self):
        pass


def test_of_all_that_was_written_no_more_is_held_than_counts():
    tail = CountedTail(2_000)
    known = OffsetMapReader(lambda: tail, where="b").read_map(1.0)
    assert place(known, 2_028) == ExactOffset(downstream=2_023)
    assert tail.most <= 1
    assert len(known.get_partition(T7).segments) == 1


class GrowingTail(CountedTail):
    """Continues where the taker raised."""

    position = 0

    def read_to_end(self, timeout_s, take):
        while self.position < self.count:
            for key, value in copied_map.log(T7, through=30 + self.position, delta=-5, start=10):
                take(self.made(key, value))
            self.position += 1


def test_the_timeout_ends_reading_while_records_arrive_and_the_next_read_goes_on():
    tails = []

    def connect():
        tails.append(GrowingTail(100))
        return tails[-1]

    reader = OffsetMapReader(connect, where="b")
    looks = itertools.count()
    with pytest.raises(MapReadTimeoutError, match="took longer than the timeout"):
        reader.read_map(1.0, must_end=lambda: next(looks) == 50)
    before = tails[0].position
    assert 0 < before < 100
    known = reader.read_map(1.0)
    assert place(known, 128) == ExactOffset(downstream=123)
    assert len(tails) == 1


def test_again_and_again(cluster):
    reader = OffsetMapReader(lambda: cluster.open_new_record_reader(TOPIC), where="b")
    assert place(reader.read_map(1.0)) == ExactOffset(downstream=24)
    cluster.topics.topics[TOPIC] += copied_map.log(T7, through=45, delta=-5, start=10)
    assert place(reader.read_map(1.0), 44) == ExactOffset(downstream=39)
    assert len(cluster.tails) == 1
    reader.close()
    assert cluster.tails[0].closed


def test_after_a_failure_it_begins_anew(cluster):
    reader = OffsetMapReader(lambda: cluster.open_new_record_reader(TOPIC), where="b")
    reader.read_map(1.0)
    cluster.fail(UnreachableError("gone"))
    with pytest.raises(UnreachableError):
        reader.read_map(1.0)
    cluster.fail(None)
    assert place(reader.read_map(1.0)) == ExactOffset(downstream=24)
    assert [tail.closed for tail in cluster.tails] == [True, False]


def test_a_topic_that_is_gone_is_an_empty_map(cluster):
    reader = OffsetMapReader(lambda: cluster.open_new_record_reader(TOPIC), where="b")
    reader.read_map(1.0)
    del cluster.topics.topics[TOPIC]
    assert reader.read_map(1.0).list_partitions() == []
    assert cluster.tails[0].closed


def test_what_is_not_wanted_is_not_kept(cluster):
    reader = OffsetMapReader(
        lambda: cluster.open_new_record_reader(TOPIC),
        where="b",
        key_filter=lambda key: key.topic == "other",
    )
    assert reader.read_map(1.0).list_partitions() == []
