"""What is wrong across keys; word by word against Java: tests/interop/test_mirror_configs.py.

What becomes of keys that act on nothing, or not as in Java."""

from __future__ import annotations

import pytest

from connect_runtime.api.connector import ExactlyOnceSupport
from mm2.config import connector_checks, java_class_placeholders, mirror_connector_config_keys

RC, RU = "read_committed", "read_uncommitted"


def levels(weak: str | None, strong: str | None) -> dict[str, str]:
    given = {"consumer.isolation.level": weak, "source.consumer.isolation.level": strong}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    ("weak", "strong", "supported"),
    [
        (None, None, False),
        (RU, None, False),
        (None, RU, False),
        ("x", None, False),
        (RC, "x", False),
        (RU, "x", False),
        (RC, None, True),
        (None, RC, True),
        (RU, RC, True),
        (RC, RC, True),
        ("x", RC, True),
    ],
)
def test_exactly_once_needs_a_consumer_that_reads_committed(weak, strong, supported):
    """KIP-618, in Java's table."""
    props = levels(weak, strong)
    word = ExactlyOnceSupport
    assert connector_checks.get_exactly_once_support(props) is (
        word.SUPPORTED if supported else word.UNSUPPORTED
    )
    found = connector_checks.find_source_connector_errors(
        {**props, "exactly.once.support": "required"}
    )
    assert (list(found) == []) is supported
    assert "isolation.level" in str(found) or supported
    assert (
        connector_checks.find_source_connector_errors(
            {**props, "exactly.once.support": "requested"}
        )
        == {}
    )


def test_the_clusters_plain_isolation_level_reaches_nobody():
    assert not connector_checks.is_read_committed({"source.cluster.isolation.level": RC})


@pytest.mark.parametrize(
    ("props", "wrong"),
    [
        ({}, []),
        (
            {mirror_connector_config_keys.EMIT_CHECKPOINTS: "false"},
            [mirror_connector_config_keys.EMIT_CHECKPOINTS],
        ),
        (
            {
                mirror_connector_config_keys.EMIT_CHECKPOINTS: "true",
                mirror_connector_config_keys.EMIT_SYNCS: "false",
            },
            [mirror_connector_config_keys.EMIT_SYNCS],
        ),
        (
            {
                mirror_connector_config_keys.EMIT_CHECKPOINTS: "true",
                mirror_connector_config_keys.EMIT_SYNCS: "true",
            },
            [],
        ),
        (
            {
                mirror_connector_config_keys.EMIT_CHECKPOINTS: "false",
                mirror_connector_config_keys.EMIT_SYNCS: "false",
            },
            [
                mirror_connector_config_keys.EMIT_CHECKPOINTS,
                mirror_connector_config_keys.EMIT_SYNCS,
            ],
        ),
        (
            {
                mirror_connector_config_keys.ENABLED: "false",
                mirror_connector_config_keys.EMIT_CHECKPOINTS: "false",
            },
            [],
        ),
        ({mirror_connector_config_keys.EMIT_CHECKPOINTS: "FALSE"}, []),
    ],
)
def test_checkpoints_need_what_they_are_made_of(props, wrong):
    assert list(connector_checks.find_checkpoint_connector_errors(props)) == wrong


@pytest.mark.parametrize("other", ["offset-syncs-source-producer.x", "offset-syncs.topic.location"])
def test_offset_syncs_are_not_configured_where_none_are_written(other):
    assert list(
        connector_checks.find_source_connector_errors(
            {mirror_connector_config_keys.EMIT_SYNCS: "false", other: "x"}
        )
    ) == [mirror_connector_config_keys.EMIT_SYNCS]
    assert (
        connector_checks.find_source_connector_errors(
            {mirror_connector_config_keys.EMIT_SYNCS: "true", other: "x"}
        )
        == {}
    )
    assert (
        connector_checks.find_source_connector_errors(
            {mirror_connector_config_keys.EMIT_SYNCS: "false", "offset.lag.max": "1"}
        )
        == {}
    )


def test_a_message_for_an_undefined_key_gets_a_value_of_its_own():
    found = connector_checks.validate_keys(
        mirror_connector_config_keys.HEARTBEAT_KEYS,
        {mirror_connector_config_keys.SOURCE_ALIAS: "A"},
        cross_key_errors={"x": ["why"]},
    )
    assert [each.error_messages for each in found if each.name == "x"] == [["why"]]
    assert sum(bool(each.error_messages) for each in found) == 1


def test_every_key_of_java_has_an_answer():
    given = dict.fromkeys(mirror_connector_config_keys.ALL_KEYS, "x")
    assert "unknown key" not in str(list(connector_checks.find_ignored_keys(given)))


@pytest.mark.parametrize("key", ["topics.blacklist", "groups.blacklist"])
def test_old_names_are_refused_since_java_would_mirror_what_they_exclude(key):
    found = connector_checks.find_refused_keys({key: "x"})
    assert found == {key: f"{key} was removed in Kafka 4.0: use {key[:-9]}exclude"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("forwarding.admin.class", "com.acme.Admin"),
        ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ],
)
def test_what_would_change_the_data_or_who_makes_topics_is_refused(key, value):
    assert key in connector_checks.find_refused_keys({key: value})


@pytest.mark.parametrize(
    "value", ["org.apache.kafka.connect.converters.ByteArrayConverter", "ByteArrayConverter", " "]
)
def test_the_converter_that_converts_nothing_is_taken(value):
    assert connector_checks.find_refused_keys({"value.converter": value}) == {}


def test_keys_without_effect_and_unknown_ones_are_told():
    props = {
        "topics": "x",
        "topcis.exclude": "secret.*",
        "errors.tolerance": "all",
        "metric.reporters": "com.acme.Reporter",
        "source.consumer.x": "1",
        "transforms.t.type": "X",
        "start": "latest",
    }
    found = dict(connector_checks.find_ignored_keys(props))
    assert set(found) == {"topcis.exclude", "errors.tolerance", "metric.reporters"}
    assert found["topcis.exclude"] == "has no effect: unknown key"


def test_beside_a_class_of_the_users_no_key_is_unknown():
    assert (
        list(
            connector_checks.find_ignored_keys(
                {"mine": "x", "topic.filter.class": "com.acme:Filter"}
            )
        )
        == []
    )
    assert (
        list(
            connector_checks.find_ignored_keys(
                {"metric.reporters": java_class_placeholders.JMX_REPORTER}
            )
        )
        == []
    )
