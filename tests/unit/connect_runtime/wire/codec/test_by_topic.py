from __future__ import annotations

import pytest

from connect_runtime.wire.codec import by_topic, varints

ID = bytes(range(16))


def answer(topic: bytes, *partitions: int) -> bytes:
    """One topic, of whose partitions each is a byte; tags behind both."""
    rows = bytes(partitions)
    return varints.encode(2) + topic + varints.encode(len(rows) + 1) + rows + b"\x00\xff"


def partition(body: memoryview, position: int, topic: str, topic_id: bytes):
    return (topic, topic_id, body[position]), position + 1


@pytest.mark.parametrize(
    ("version", "topic", "name", "number"),
    [
        (by_topic.BY_ID - 1, varints.compact_string("orders"), "orders", by_topic.NO_TOPIC_ID),
        (by_topic.BY_ID, ID, "", ID),
    ],
)
def test_partitions_have_their_topics_name_or_id(version, topic, name, number):
    body = memoryview(b"head" + answer(topic, 3, 7))
    found, position = by_topic.read(body, 4, partition, version=version)
    assert found == [(name, number, 3), (name, number, 7)]
    assert body[position] == 0xFF, "what follows is for others"


def test_an_answer_may_hold_nothing():
    assert by_topic.read(memoryview(b"\x01"), 0, partition, version=12) == ([], 1)
