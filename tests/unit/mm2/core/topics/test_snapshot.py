from __future__ import annotations

from mm2.core.topics import snapshot


def test_a_setting_has_a_value_wherever_it_comes_from():
    topic = snapshot.Topic(
        name="orders",
        partitions=3,
        configs={
            "retention.ms": snapshot.ConfigEntry(value="1"),
            "segment.ms": snapshot.ConfigEntry(value="2", source=snapshot.ConfigSource.DEFAULT),
        },
    )
    assert topic.config("retention.ms") == "1"
    assert topic.config("segment.ms") == "2"
    assert topic.config("cleanup.policy") is None
    assert topic.is_overridden("retention.ms")
    assert not topic.is_overridden("segment.ms")
    assert not topic.is_overridden("cleanup.policy")


def test_settings_that_may_not_be_read_are_unknown():
    topic = snapshot.Topic(name="orders", partitions=1, configs=None)
    assert topic.config("retention.ms") is None
    assert not topic.is_overridden("retention.ms")


def test_sources_have_the_numbers_of_the_protocol():
    assert snapshot.ConfigSource(1) is snapshot.ConfigSource.TOPIC
    assert snapshot.ConfigSource(5) is snapshot.ConfigSource.DEFAULT


def test_values_are_not_in_the_repr():
    assert "hunter2" not in repr(snapshot.ConfigEntry(value="hunter2"))


def test_what_brokers_call_their_defaults_becomes_a_topics_settings():
    brokers = {
        "log.message.timestamp.type": "CreateTime",
        "message.max.bytes": "1048588",
        "log.message.timestamp.after.max.ms": "3600000",
        "log.cleanup.policy": None,
        "num.io.threads": "8",
    }
    assert snapshot.new_topic_settings(brokers) == {
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
    }
    assert snapshot.new_topic_settings(None) is None


def test_known_timestamp_bounds_show_in_the_brokers_or_in_any_topic():
    after, before, difference = snapshot.TIMESTAMP_BOUNDS
    entry = snapshot.ConfigEntry(value="1", source=snapshot.ConfigSource.DEFAULT)
    blind = snapshot.Topic(name="a", partitions=1, configs=None)
    old = snapshot.Topic(name="b", partitions=1, configs={difference: entry})
    found = snapshot.Snapshot(topics={"a": blind, "b": old})
    assert found.timestamp_bounds() == (difference,)
    found = snapshot.Snapshot(topics={"b": old}, new_topic={after: "1", before: "1"})
    assert found.timestamp_bounds() == (after, before)
    assert snapshot.Snapshot(topics={}).timestamp_bounds() == (after, before)
