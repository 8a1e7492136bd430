from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.config import connector_client_settings, worker_config
from connect_runtime.config.connector_client_settings import ClientKind, OverridePolicy

TASK = ConnectorTaskId("c", 3)
PRODUCER = ClientKind.PRODUCER
POLICY = "connector.client.config.override.policy"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


def worker(**more):
    return worker_config.parse_standalone_config(
        {
            "bootstrap.servers": "a:1",
            "key.converter": "K",
            "value.converter": "V",
            "offset.storage.file.filename": "f",
            POLICY: "All",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def test_a_source_task_loses_and_reorders_nothing_by_default():
    plan = connector_client_settings.build_source_producer_config(worker(), {}, TASK)
    assert plan.client_id == "connector-producer-c-3"
    assert plan.properties == {
        "client.id": "connector-producer-c-3",
        "bootstrap.servers": "a:1",
        "max.block.ms": "9223372036854775807",
        "enable.idempotence": "false",
        "acks": "all",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": "2147483647",
    }


def test_connector_goes_before_worker_and_worker_before_connect():
    plan = connector_client_settings.build_source_producer_config(
        worker(producer_acks="1", producer_linger_ms="5", acks="0", consumer_linger_ms="9"),
        {"producer.override.linger.ms": "7", "consumer.override.linger.ms": "8"},
        TASK,
    )
    assert plan.properties["acks"] == "1"
    assert plan.properties["linger.ms"] == "7"


def test_a_sink_task_reads_in_its_connectors_group_and_never_commits_by_itself():
    plan = connector_client_settings.build_sink_consumer_config(
        worker(), {"consumer.override.enable.auto.commit": "true"}, TASK
    )
    assert plan.properties["group.id"] == "connect-c"
    assert plan.properties["enable.auto.commit"] == "false"
    assert plan.properties["auto.offset.reset"] == "earliest"
    mine = {"consumer.override.group.id": "mine"}
    assert (
        connector_client_settings.build_sink_consumer_config(worker(), mine, TASK).properties[
            "group.id"
        ]
        == "mine"
    )
    assert connector_client_settings.get_sink_group_id(worker(), mine, "c") == "mine"
    assert connector_client_settings.get_sink_group_id(worker(), {}, "c") == "connect-c"
    assert (
        connector_client_settings.get_sink_group_id(worker(consumer_group_id="ours"), {}, "c")
        == "ours"
    )


def test_administrators_begin_with_the_workers_own_settings():
    plan = connector_client_settings.build_admin_config(
        worker(sasl_mechanism="PLAIN", client_id="w", admin_retries="2", producer_acks="1"),
        {},
        "c",
    )
    assert plan.properties["sasl.mechanism"] == "PLAIN"
    assert plan.properties["retries"] == "2"
    assert plan.client_id == "connector-adminclient-c"
    assert "producer.acks" not in plan.properties


def test_offsets_are_changed_by_a_client_of_a_name_of_its_own():
    override = {"admin.override.retries": "3"}
    plan = connector_client_settings.build_offsets_admin_config(
        worker(sasl_mechanism="PLAIN"), override, "c"
    )
    assert plan.client_id == plan.properties["client.id"] == "connector-worker-adminclient-c"
    assert plan.properties["retries"] == "3"
    assert plan.properties["sasl.mechanism"] == "PLAIN"


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("All", {"acks", "sasl.mechanism", "linger.ms"}),
        ("None", set()),
        ("Principal", {"sasl.mechanism"}),
        ("Allowlist", {"linger.ms"}),
    ],
)
def test_policies_say_what_a_connector_may_override(policy, allowed):
    ours = worker(
        connector_client_config_override_policy=policy,
        connector_client_config_override_allowlist="linger.ms",
    )
    for key in ("acks", "sasl.mechanism", "linger.ms"):
        config = {f"producer.override.{key}": "x"}
        if key in allowed:
            assert connector_client_settings.find_refused_overrides(ours, config, PRODUCER) == {}
            continue
        told = f"The '{policy}' policy does not allow '{key}' to be overridden"
        refused = connector_client_settings.find_refused_overrides(ours, config, PRODUCER)
        assert told in refused[f"producer.override.{key}"]
        with pytest.raises(ConfigError, match=key):
            connector_client_settings.build_source_producer_config(ours, config, TASK)


def test_secrets_are_not_printed():
    plan = connector_client_settings.build_source_producer_config(
        worker(producer_password="hush"), {}, TASK
    )
    assert "hush" not in repr(plan)


def test_only_what_a_client_would_use_is_judged():
    ours = worker(connector_client_config_override_policy="None")
    config = {"consumer.override.a": "1", "producer.override.": "1", "producer.overrides": "1"}
    assert connector_client_settings.find_refused_overrides(ours, config, PRODUCER) == {}
    assert connector_client_settings.find_client_overrides(config, ClientKind.CONSUMER) == {
        "consumer.override.a": "a"
    }
    connector_client_settings.build_source_producer_config(ours, config, TASK)


REFUSED_BY_DEFAULT = (
    "bootstrap.servers",
    "bootstrap.controllers",
    ENDPOINT,
    "sasl.oauthbearer.jwks.endpoint.url",
    "ssl.truststore.location",
    "ssl.keystore.location",
    "ssl.engine.factory.class",
    "sasl.login.callback.handler.class",
    "sasl.kerberos.kinit.cmd",
    "interceptor.classes",
    "partitioner.class",
    "plugin.library.paths",
    "debug",
)


@pytest.mark.parametrize("kind", list(ClientKind), ids=lambda each: each.value)
def test_by_default_connectors_tune_their_clients_and_say_who_they_are(kind):
    by_default = worker(connector_client_config_override_policy="Allowlist")
    usual = ("acks", "linger.ms", "max.poll.records", "sasl.jaas.config", "group.id")
    config = {f"{kind.override_prefix}{name}": "x" for name in (*REFUSED_BY_DEFAULT, *usual)}
    refused = connector_client_settings.find_refused_overrides(by_default, config, kind)
    assert sorted(refused) == sorted(f"{kind.override_prefix}{name}" for name in REFUSED_BY_DEFAULT)
    assert connector_client_settings.find_refused_overrides(worker(), config, kind) == {}


def test_the_policy_is_allowlist_unless_set():
    given = {name: value for name, value in worker().raw.items() if name != POLICY}
    found = worker_config.parse_standalone_config(given)
    assert found.override_policy is OverridePolicy.ALLOWLIST
    assert "bootstrap.servers" not in found.override_allowed


@pytest.mark.parametrize(
    "key",
    [
        f"producer.override.{ENDPOINT}",
        f"source.cluster.{ENDPOINT}",
        ENDPOINT,
        "consumer.override.sasl.oauthbearer.jwks.endpoint.url",
    ],
)
def test_issuers_of_tokens_are_those_that_the_worker_allows(key):
    """Whoever reaches REST could else have the worker send requests to any host of its network."""
    config = {"name": "c", key: "http://127.0.0.1/latest/meta-data"}
    (told,) = connector_client_settings.find_refused_token_endpoints(worker(), config).items()
    assert told[0] == key
    assert "org.apache.kafka.sasl.oauthbearer.allowed.urls" in told[1]
    url = "https://id.example/token"
    allowing = worker_config.parse_standalone_config(
        {**worker().raw, "org.apache.kafka.sasl.oauthbearer.allowed.urls": f"https://x , {url}"}
    )
    assert connector_client_settings.find_refused_token_endpoints(allowing, {key: url}) == {}
    own = worker_config.parse_standalone_config({**worker().raw, f"producer.{ENDPOINT}": url})
    assert connector_client_settings.find_refused_token_endpoints(own, {key: url}) == {}
    assert connector_client_settings.find_refused_token_endpoints(own, {key: f"{url}/.."})


@pytest.mark.parametrize(
    "key",
    [
        "allow.auto.create.topics",
        "check.crcs",
        "client.dns.lookup",
        "group.protocol",
        "metadata.max.idle.ms",
        "metadata.recovery.strategy",
        "partitioner.ignore.keys",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    ],
)
def test_keys_that_name_no_broker_class_or_file_are_allowed_by_default(key):
    config = {f"producer.override.{key}": "x"}
    by_default = worker(connector_client_config_override_policy="Allowlist")
    assert connector_client_settings.find_refused_overrides(by_default, config, PRODUCER) == {}
