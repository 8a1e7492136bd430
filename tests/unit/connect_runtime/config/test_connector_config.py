from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.api.task import TransactionBoundary
from connect_runtime.config import connector_config, connector_config_keys, worker_config
from connect_runtime.config.connector_config import ErrorHandlingConfig
from connect_runtime.plugins.simple_converters import StringConverter

NEEDED = {"name": "c", "connector.class": "X"}


def load(name):
    if name == "Mine":
        return StringConverter
    raise LookupError(name)


def test_a_source():
    found = connector_config.parse_source_config(
        {**NEEDED, "tasks.max": "3", "transaction.boundary": "POLL"}
    )
    assert (found.name, found.tasks_max, found.connector_class) == ("c", 3, "X")
    assert found.boundary is TransactionBoundary.POLL
    assert found.errors == ErrorHandlingConfig()
    assert found.unsupported_settings == {}


def test_a_sink():
    found = connector_config.parse_sink_config({**NEEDED, "topics": "a, b"})
    assert (found.topics, found.topics_regex) == (("a", "b"), None)
    found = connector_config.parse_sink_config({**NEEDED, "topics.regex": "a.*"})
    assert found.topics_regex is not None
    assert found.topics_regex.fullmatch("abc")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "Must configure one of"),
        ({"topics": "a", "topics.regex": "b"}, "mutually exclusive"),
        ({"topics": "a", "errors.deadletterqueue.topic.name": "a"}, "DLQ topic 'a'"),
        ({"topics.regex": "a.*", "errors.deadletterqueue.topic.name": "ab"}, "DLQ topic 'ab'"),
    ],
)
def test_topics_at_odds_are_refused(more, told):
    with pytest.raises(ConfigError, match=told):
        connector_config.parse_sink_config({**NEEDED, **more})


def test_classes_are_found_by_whoever_looks():
    connector_config.parse_source_config({**NEEDED, "key.converter": "Mine"}, load=load)
    with pytest.raises(ConfigError, match="Theirs"):
        connector_config.parse_source_config({**NEEDED, "key.converter": "Theirs"}, load=load)


def test_what_is_not_honoured_is_named():
    source = connector_config.parse_source_config(
        {
            **NEEDED,
            "transforms": "t",
            "errors.tolerance": "all",
            "topic.creation.default.partitions": "1",
            "exactly.once.support": "required",
        }
    )
    assert list(source.unsupported_settings) == [
        "transforms",
        "errors.tolerance",
        "exactly.once.support",
        "topic.creation.default.partitions",
    ]
    sink = connector_config.parse_sink_config(
        {**NEEDED, "topics": "a", "errors.deadletterqueue.topic.name": "d"}
    )
    assert list(sink.unsupported_settings) == ["errors.deadletterqueue.topic.name"]


def test_secrets_are_not_printed():
    assert "hush" not in repr(connector_config.parse_source_config({**NEEDED, "password": "hush"}))


SINK = {"name": "c", "connector.class": "X", "topics": "t"}
SOURCE = {"name": "c", "connector.class": "X"}


def values(config, keys=connector_config_keys.SINK):
    return keys.validate_all(config)


def wrong(found):
    return {name: each.error_messages for name, each in found.items() if each.error_messages}


def test_nulls_are_errors_wherever_they_stand():
    config = {**SINK, "unheard.of": None}
    found = values(config)
    connector_config.check_null_values(found, config)
    assert wrong(found) == {
        "unheard.of": ["Null value can not be supplied as the configuration value."]
    }


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ({}, set()),
        ({"topics.regex": "a"}, {"topics", "topics.regex"}),
        ({"topics": ""}, {"topics", "topics.regex"}),
        ({"errors.deadletterqueue.topic.name": "t"}, {"topics"}),
        (
            {"topics": "", "topics.regex": "a.*", "errors.deadletterqueue.topic.name": "ab"},
            {"topics.regex"},
        ),
    ],
)
def test_topics_at_odds(more, keys):
    config = {**SINK, **more}
    found = values(config)
    connector_config.check_sink_topic_settings(found, config)
    assert set(wrong(found)) == keys


def test_a_sink_stays_out_of_the_workers_group():
    found = values(SINK)
    connector_config.check_consumer_group(found, SINK, worker_group="connect-c")
    assert wrong(found) == {
        "name": [
            "Consumer group for sink connector named c conflicts with Connect worker group"
            " connect-c"
        ]
    }
    config = {**SINK, "consumer.override.group.id": "g"}
    found = values(config)
    connector_config.check_consumer_group(found, config, worker_group="connect-c")
    assert wrong(found) == {}
    connector_config.check_consumer_group(found, config, worker_group="g")
    assert wrong(found) == {
        "consumer.override.group.id": ["Consumer group g conflicts with Connect worker group g"]
    }
    assert found["consumer.override.group.id"].value == "g"


def test_what_is_not_offered_is_told_once_and_with_a_remedy():
    config = {
        **SOURCE,
        "transforms": "a,a",
        "predicates": "p",
        "errors.tolerance": "all",
        "topic.creation.default.partitions": "3",
        "topic.creation.groups": "g",
        "offsets.storage.topic": "mine",
    }
    found = values(config, connector_config_keys.SOURCE)
    connector_config.check_unsupported_settings(found, config)
    told = wrong(found)
    assert set(told) == set(config) - {"name", "connector.class"}
    assert told["transforms"] == [
        "Invalid value [a, a] for configuration transforms: Duplicate alias provided."
    ]
    assert told["errors.tolerance"] == [
        "This version does not support error tolerance: set errors.tolerance to none."
    ]
    assert found["topic.creation.default.partitions"].value == "3"
    assert all(len(each) == 1 for each in told.values())


def test_a_sink_has_no_rules_for_topics():
    config = {**SINK, "topic.creation.default.partitions": "3"}
    found = values(config)
    connector_config.check_unsupported_settings(found, config)
    assert wrong(found) == {}


def worker(policy):
    return worker_config.parse_standalone_config(
        {
            "bootstrap.servers": "a:1",
            "key.converter": "K",
            "value.converter": "V",
            "offset.storage.file.filename": "f",
            "connector.client.config.override.policy": policy,
        }
    )


def overrides(config, policy="None", *, sink=False):
    found = connector_config.check_client_overrides(worker(policy), config, sink=sink)
    return {each.value.name: each.value for each in found}


def test_overrides_of_clients_that_it_has():
    config = {
        **SOURCE,
        "producer.override.acks": "1",
        "consumer.override.x": "1",
        "admin.override.x": "1",
    }
    assert list(overrides(config)) == ["producer.override.acks"]
    assert list(overrides({**config, "topic.creation.groups": ""})) == [
        "producer.override.acks",
        "admin.override.x",
    ]
    assert len(overrides({**config, "offsets.storage.topic": "o"})) == 3
    assert list(overrides(config, sink=True)) == ["consumer.override.x"]
    dead = {**config, "errors.deadletterqueue.topic.name": "d"}
    assert len(overrides(dead, sink=True)) == 3
    [refused] = overrides(config, sink=True).values()
    assert refused.errors == (
        "The 'None' policy does not allow 'x' to be overridden in the connector configuration.",
    )
    assert overrides(config, "All")["producer.override.acks"].errors == ()


@pytest.mark.parametrize(
    ("key", "hidden"),
    [
        ("sasl.jaas.config", True),
        ("ssl.key.password", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.certificate.chain", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("acks", False),
        ("key.serializer", False),
        ("ssl.keystore.location", False),
    ],
)
def test_secrets_of_clients_are_not_shown(key, hidden):
    [found] = overrides({f"producer.override.{key}": "hush"}, "All").values()
    assert found.value == ("[hidden]" if hidden else "hush")
