from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.config import worker_config, worker_config_keys
from connect_runtime.config.worker_config import ClientOverridePolicy, ExactlyOnceSourceMode

COMMON = {
    "bootstrap.servers": "a:1, b:2",
    "key.converter": "K",
    "value.converter": "V",
    "value.converter.schemas.enable": "false",
    "producer.linger.ms": "5",
}
GROUP = {
    **COMMON,
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def test_a_worker_alone():
    found = worker_config.parse_standalone_config(
        {**COMMON, "offset.storage.file.filename": "/tmp/o"}
    )
    assert (found.offset_file, found.bootstrap_servers) == ("/tmp/o", "a:1,b:2")
    assert (found.flush_interval_s, found.flush_timeout_s, found.graceful_stop_s) == (60, 5, 5)
    assert found.header_converter.endswith("SimpleHeaderConverter")
    assert found.get_properties_with_prefix("value.converter.") == {"schemas.enable": "false"}
    assert found.plugin_path == ()


def test_a_member_of_a_group():
    given = {**GROUP, "connect.protocol": "EAGER", "plugin.path": "/a,/b"}
    found = worker_config.parse_distributed_config(given)
    assert (found.group_id, found.protocol, found.plugin_path) == ("g", "eager", ("/a", "/b"))
    assert (found.session_timeout_s, found.heartbeat_interval_s) == (10, 3)
    assert found.exactly_once is ExactlyOnceSourceMode.DISABLED
    assert found.verification_algorithms == ("HmacSHA256",)


def test_secrets_are_not_printed():
    assert "hush" not in repr(
        worker_config.parse_distributed_config({**GROUP, "sasl.password": "hush"})
    )


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ("Principal", ClientOverridePolicy.PRINCIPAL),
        (
            "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy",
            ClientOverridePolicy.NONE,
        ),
    ],
)
def test_policies_go_by_alias_and_by_javas_class(given, policy):
    key = "connector.client.config.override.policy"
    assert worker_config.parse_distributed_config({**GROUP, key: given}).override_policy is policy


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"connector.client.config.override.policy": "Mine"}, "Mine"),
        ({"inter.worker.signature.algorithm": "HmacSHA512"}, "verification.algorithms"),
        ({"inter.worker.key.generation.algorithm": "ROT13"}, "ROT13"),
        ({"heartbeat.interval.ms": "10000"}, "less than session.timeout.ms"),
    ],
)
def test_what_does_not_go_together_is_refused(wrong, told):
    with pytest.raises(ConfigError, match=told):
        worker_config.parse_distributed_config({**GROUP, **wrong})


def test_all_mistakes_are_told_at_once():
    given = {
        **COMMON,
        "key.converter": " ",
        "rebalance.timeout.ms": "soon",
        "connector.client.config.override.policy": "Mine",
        "inter.worker.verification.algorithms": "ROT13,ROT14",
        "inter.worker.key.size": "8",
        "heartbeat.interval.ms": "10000",
    }
    found = worker_config.find_property_problems(given, worker_config_keys.DISTRIBUTED)
    assert [each.key for each in found] == [
        "key.converter",
        "group.id",
        "config.storage.topic",
        "offset.storage.topic",
        "status.storage.topic",
        "rebalance.timeout.ms",
        "inter.worker.key.size",
        "connector.client.config.override.policy",
        "inter.worker.verification.algorithms",
        "inter.worker.signature.algorithm",
        "heartbeat.interval.ms",
    ]
    assert "unsupported algorithm ROT13, ROT14" in str(found[-3])


def test_a_mistake_hides_what_cannot_be_judged_for_it():
    given = {**GROUP, "session.timeout.ms": "long", "heartbeat.interval.ms": "20000"}
    found = worker_config.find_property_problems(given, worker_config_keys.DISTRIBUTED)
    assert [each.key for each in found] == ["session.timeout.ms"]
    assert worker_config.find_property_problems(GROUP, worker_config_keys.DISTRIBUTED) == ()


def test_unknown_properties_are_named():
    given = {
        **GROUP,
        "sasl.mechanism": "PLAIN",
        "config.storage.segment.bytes": "1",
        "mm2.spark.python": "/usr/bin/python3",
        "grop.id": "x",
    }
    assert worker_config.find_unknown_properties(given, worker_config_keys.DISTRIBUTED) == [
        "grop.id"
    ]
