"""Keys that Java ignores.

The connectors' keys; against Java's own definitions: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.config import connector_config_keys
from mm2.config import java_class_placeholders, mirror_connector_config_keys
from mm2.topics import config_property_filter, topic_filters


def test_none_of_them_is_javas():
    assert mirror_connector_config_keys.ALL_KEYS.isdisjoint(
        mirror_connector_config_keys.EXTENSION_KEYS.keys
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("start", "tomorrow", "earliest, latest"),
        ("throttle", "1", "bytes per second"),
        ("live.throttle", "slow", "or none"),
        ("throttle.topics", "x.*", "EXPRESSION=RATE"),
        ("throttle.topics", "[=1MB", "regular expression"),
        ("delivery", "twice", "auto, transactional, at-least-once"),
        ("target.topics", "public", "exclusive, shared"),
        ("on.source.gap", "cry", "continue, fail"),
        ("buffer.memory", "1", "at least"),
        ("offset.map.bytes", "1", "at least"),
        ("unreachable.after.seconds", "3", "at least"),
        ("mm2.engine", "storm", "spark, inline"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_allowed(name, value, words):
    with pytest.raises(ConfigError, match=words):
        mirror_connector_config_keys.EXTENSION_KEYS.parse({name: value})


def test_defaults_say_nothing():
    found = mirror_connector_config_keys.EXTENSION_KEYS.parse({})
    assert found["start"] is None
    assert found["target.topics"] is None
    assert found["throttle.topics"] == []


NEEDED = {mirror_connector_config_keys.SOURCE_ALIAS: "A"}


def test_common_keys_are_those_that_the_worker_defines():
    assert set(connector_config_keys.CONNECTOR.keys) == mirror_connector_config_keys.COMMON_KEYS


def test_no_connector_defines_what_the_worker_defines():
    for definition in (
        mirror_connector_config_keys.SOURCE_KEYS,
        mirror_connector_config_keys.CHECKPOINT_KEYS,
        mirror_connector_config_keys.HEARTBEAT_KEYS,
    ):
        assert mirror_connector_config_keys.COMMON_KEYS.isdisjoint(definition.keys)


def test_defaults_of_filters_are_those_of_the_filters():
    found = mirror_connector_config_keys.SOURCE_KEYS.parse(
        NEEDED, load=java_class_placeholders.resolve_class
    )
    assert (
        tuple(found[mirror_connector_config_keys.TOPICS_EXCLUDE])
        == topic_filters.DEFAULT_TOPICS_EXCLUDE
    )
    assert (
        tuple(found[mirror_connector_config_keys.PROPERTIES_EXCLUDE])
        == config_property_filter.DEFAULT_CONFIG_PROPERTIES_EXCLUDE
    )
    groups = mirror_connector_config_keys.CHECKPOINT_KEYS.parse(
        NEEDED, load=java_class_placeholders.resolve_class
    )[mirror_connector_config_keys.GROUPS_EXCLUDE]
    assert tuple(groups) == topic_filters.DEFAULT_GROUPS_EXCLUDE


def test_the_source_has_to_be_named():
    with pytest.raises(ConfigError, match=r"source\.cluster\.alias"):
        mirror_connector_config_keys.HEARTBEAT_KEYS.parse({})


def test_what_reaches_connectors_from_the_top_of_a_file():
    assert {
        "topics",
        "groups",
        "emit.heartbeats.enabled",
        "tasks.max",
    } <= mirror_connector_config_keys.ALL_KEYS
    assert mirror_connector_config_keys.ALL_KEYS.isdisjoint(
        {"use.defaults.from", "exactly.once.support", "topics.blacklist"}
    )


def test_every_key_is_explained():
    for definition in (
        mirror_connector_config_keys.SOURCE_KEYS,
        mirror_connector_config_keys.CHECKPOINT_KEYS,
        mirror_connector_config_keys.HEARTBEAT_KEYS,
    ):
        assert all(each.documentation for each in definition.keys.values())
