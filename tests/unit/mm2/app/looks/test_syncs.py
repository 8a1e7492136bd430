from __future__ import annotations

from connect_runtime.base import ids
from mm2.app.looks import syncs
from mm2.formats import offset_sync
from tests.fakes import one_side

HERE, OTHER = ids.TopicPartition("orders", 0), ids.TopicPartition("orders", 1)
TOPIC = "mm2-offset-syncs.west.internal"


def sync(partition: ids.TopicPartition, upstream: int) -> offset_sync.OffsetSync:
    return offset_sync.OffsetSync(partition=partition, upstream=upstream, downstream=upstream + 5)


def test_all_that_still_stands_is_read_in_order():
    side = one_side.FakeSide("east")
    told = [sync(HERE, 4), sync(OTHER, 7), sync(HERE, 9)]
    records = [offset_sync.encode(each) for each in told]
    side.topics.topics[TOPIC] = [*records, (b"key", None), (None, b"value"), (b"no", b"sync")]
    found = syncs.read(side, TOPIC, 5.0)
    assert found == {HERE: (told[0], told[2]), OTHER: (told[1],)}


def test_a_topic_that_is_not_there_is_not_waited_for():
    """A consumer of a topic that is missing waits for it until time is up."""
    side = one_side.FakeSide("east")

    def read(*_: object, **__: object) -> list[object]:
        raise AssertionError("it was read")

    side.topics.read_topic = read  # type: ignore[assignment,method-assign]  # it is not to be
    assert syncs.read(side, TOPIC, 5.0) == {}
