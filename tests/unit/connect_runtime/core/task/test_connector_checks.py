from __future__ import annotations

import pytest

from connect_runtime.core.task import connector_checks, connector_keys, worker_config

SINK = {"name": "c", "connector.class": "X", "topics": "t"}
SOURCE = {"name": "c", "connector.class": "X"}


def values(config, keys=connector_keys.SINK):
    return keys.validate_all(config)


def wrong(found):
    return {name: each.error_messages for name, each in found.items() if each.error_messages}


def test_nulls_are_errors_wherever_they_stand():
    config = {**SINK, "unheard.of": None}
    found = values(config)
    connector_checks.nulls(found, config)
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
    connector_checks.topics(found, config)
    assert set(wrong(found)) == keys


def test_a_sink_stays_out_of_the_workers_group():
    found = values(SINK)
    connector_checks.consumer_group(found, SINK, workers="connect-c")
    assert wrong(found) == {
        "name": [
            "Consumer group for sink connector named c conflicts with Connect worker group"
            " connect-c"
        ]
    }
    config = {**SINK, "consumer.override.group.id": "g"}
    found = values(config)
    connector_checks.consumer_group(found, config, workers="connect-c")
    assert wrong(found) == {}
    connector_checks.consumer_group(found, config, workers="g")
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
    found = values(config, connector_keys.SOURCE)
    connector_checks.not_offered(found, config)
    told = wrong(found)
    assert set(told) == set(config) - {"name", "connector.class"}
    assert told["transforms"] == [
        "Invalid value [a, a] for configuration transforms: Duplicate alias provided."
    ]
    assert told["errors.tolerance"] == [
        "Errors cannot be tolerated by this version: set errors.tolerance to none."
    ]
    assert found["topic.creation.default.partitions"].value == "3"
    assert all(len(each) == 1 for each in told.values())


def test_a_sink_has_no_rules_for_topics():
    config = {**SINK, "topic.creation.default.partitions": "3"}
    found = values(config)
    connector_checks.not_offered(found, config)
    assert wrong(found) == {}


def worker(policy):
    return worker_config.standalone(
        {
            "bootstrap.servers": "a:1",
            "key.converter": "K",
            "value.converter": "V",
            "offset.storage.file.filename": "f",
            "connector.client.config.override.policy": policy,
        }
    )


def overrides(config, policy="None", *, sink=False):
    found = connector_checks.overrides(worker(policy), config, sink=sink)
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
