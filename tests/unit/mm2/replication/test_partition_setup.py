from __future__ import annotations

import dataclasses

import pytest

from mm2.replication.partition_setup import PartitionSetup
from mm2.topics.flow_config import DeliveryMode, TargetTopicAccess

WHERE = PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)


def test_a_partition_and_its_mirror_are_named_as_kafka_names_them():
    assert (WHERE.source_name, WHERE.mirror_name) == ("orders-7", "a.orders-7")


def test_the_careful_way_is_the_default():
    assert WHERE.start == "earliest"
    assert WHERE.target_topics is TargetTopicAccess.EXCLUSIVE
    assert WHERE.delivery is DeliveryMode.AUTO
    assert WHERE.target_codec is None


def test_records_count_as_old_at_half_of_kafkas_producer_expiration():
    assert WHERE.old_after_ms * 2 == 86_400_000


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (TargetTopicAccess, {"exclusive", "shared"}),
        (DeliveryMode, {"auto", "transactional", "at-least-once"}),
    ],
)
def test_the_words_of_the_settings_name_them(kind, names):
    assert {each.value for each in kind} == names


def test_nothing_changes_while_a_copy_runs():
    with pytest.raises(dataclasses.FrozenInstanceError):
        WHERE.partition = 8  # type: ignore[misc]


def test_a_source_topic_without_an_id_could_be_any_of_its_name():
    assert not WHERE.has_source_topic_id
    assert dataclasses.replace(WHERE, source_topic_id=b"1" * 16).has_source_topic_id
