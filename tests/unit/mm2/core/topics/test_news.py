from __future__ import annotations

from connect_runtime.base import ids
from mm2.core.topics import news


def some(*names: str) -> list[ids.TopicPartition]:
    pairs = (each.rpartition("-") for each in names)
    return [ids.TopicPartition(topic, int(number)) for topic, _, number in pairs]


def test_topics_that_come_and_grow_are_told_once_each():
    before = some("a-0", "b-0")
    now = some("a-0", "a-1", "a-2", "b-0", "c-0", "c-1")
    assert list(news.of_partitions(before, now)) == [
        "topic a partitions: 2 more are mirrored, from their first records on",
        "topic c is mirrored from now on (partitions: 2)",
    ]
    assert list(news.of_partitions(now, before)) == []


def test_topics_that_have_gone_are_told():
    (line,) = news.of_gone(["a", "b"], ["b", "c"])
    assert line.startswith("topic a is no longer listed by the source")
