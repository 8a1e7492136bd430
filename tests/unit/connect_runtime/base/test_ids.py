from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import ConnectorTaskId, TopicPartition


@pytest.mark.parametrize(
    ("topic", "partition", "printed"), [("orders", 7, "orders-7"), ("a-b.c_d", 0, "a-b.c_d-0")]
)
def test_a_partition_prints_as_kafka_prints_it(topic, partition, printed):
    assert str(TopicPartition(topic, partition)) == printed


def test_partitions_are_ordered_by_topic_and_then_by_number():
    mixed = [TopicPartition(*each) for each in (("b", 1), ("a", 10), ("a", 2))]
    assert [str(each) for each in sorted(mixed)] == ["a-2", "a-10", "b-1"]


def test_a_partition_is_a_value():
    one = TopicPartition("orders", 7)
    assert {one: "here"}[TopicPartition("orders", 7)] == "here"
    assert one != TopicPartition("orders", 8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.partition = 8  # type: ignore[misc]


def test_a_task_prints_as_connect_prints_it_and_is_ordered_by_number():
    mixed = [ConnectorTaskId(*each) for each in (("c", 10), ("c", 9), ("a-b", 0))]
    assert [str(each) for each in sorted(mixed)] == ["a-b-0", "c-9", "c-10"]
