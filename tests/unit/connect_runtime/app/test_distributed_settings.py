from __future__ import annotations

import pathlib

import pytest

from connect_runtime.app import distributed_settings
from connect_runtime.app.worker_settings import WorkerSettingsSource
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.storage.internal_topic_settings import InternalTopicKind


def test_what_a_group_needs(in_group):
    found = in_group({
        "listeners": "http://127.0.0.1:8083",
        "connect.protocol": "Compatible",
        "session.timeout.ms": "20000",
        "scheduled.rebalance.max.delay.ms": "7",
        "worker.sync.timeout.ms": "1500",
        "topic.tracking.enable": "false",
        "inter.worker.key.ttl.ms": "60000",
        "request.timeout.ms": "15000",
        "retry.backoff.ms": "200",
        "offset.storage.partitions": "5",
        "config.storage.min.insync.replicas": "2",
    })  # fmt: skip
    assert found.connect_protocol is ConnectProtocol.COMPATIBLE
    assert (found.membership.group_id, found.membership.session_timeout_s) == ("g", 20)
    assert (found.membership.request_timeout_s, found.membership.retry_backoff_s) == (15, 0.2)
    assert (found.herder.sync_timeout_s, found.herder.topics_tracked) == (1.5, False)
    assert (found.herder.session_keys.ttl_ms, found.herder.rebalance_delay_max_s) == (60_000, 0.007)
    assert [each.name for each in found.topics.topics] == ["c", "o", "s"]
    assert found.topics.topics[1].partitions == 5
    assert found.topics.topics[0].settings["min.insync.replicas"] == "2"
    assert found.access.bootstrap == ("a:1", "b:2")
    assert found.connections.bootstrap == ("a:1", "b:2")
    assert (found.https, found.users) == (None, None)
    (warned,) = found.warnings
    assert "connect.protocol: REQUESTS BETWEEN WORKERS ARE NOT SIGNED" in warned


@pytest.mark.parametrize(("client_id", "expected"), [("", "connect-h:8083"), ("mine", "mine")])
def test_a_member_once_it_listens(in_group, client_id, expected):
    member = in_group({"client.id": client_id}).build_group_settings(
        worker_id="h:8083", url="http://h:8083/"
    )
    assert (member.session.url, member.session.max_rebalance_delay_ms) == (
        "http://h:8083/",
        300_000,
    )
    assert (member.session.membership.group_id, member.connections.client_id) == ("g", expected)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"status.storage.topic": "c"}, "w:5: config.storage.topic: and status.storage.topic are"),
        (
            {"offset.storage.topic": "a b"},
            "w:6: offset.storage.topic: is 'a b', which is not a valid",
        ),
        ({"offset.storage.topic": None}, "w: offset.storage.topic: is missing: add"),
        ({"config.storage.replication.factor": "0"}, "w:8: config.storage.replication.factor: "),
        ({"status.storage.partitions": "-2"}, "w:8: status.storage.partitions: "),
        ({"exactly.once.source.support": "ENABLED"}, "w:8: exactly.once.source.support: "),
        ({"heartbeat.interval.ms": "10000"}, "w:8: heartbeat.interval.ms: is 10000 but must be"),
    ],
)
def test_what_is_refused(refused, changed, told):
    (line,) = refused(changed)
    assert line.startswith(told)


def test_every_mistake_is_told_at_once(refused):
    lines = refused({
        "key.converter": "Nope",
        "bootstrap.servers": None,
        "offset.storage.topic": "c",
        "listeners": "ftp://a:1",
        "security.protocol": "SSL",
        "ssl.truststore.location": "gone.pem",
        "ssl.truststore.type": "PEM",
        "session.timeout.ms": "soon",
        "rest.extension.classes": "com.example.Mine",
        "group.id": "${env:GROUP}",
        "config.providers": "env",
        "config.providers.env.class": "com.example.Vault",
    })  # fmt: skip
    assert sorted(each.split(": ")[1] for each in lines) == [
        "bootstrap.servers",
        "config.providers.env.class",
        "config.storage.topic",
        "key.converter",
        "listeners",
        "rest.extension.classes",
        "session.timeout.ms",
        "ssl.truststore.location",
    ]


def test_what_has_no_effect_is_told(in_group):
    found = in_group({
        "listeners": "http://127.0.0.1:8083",
        "config.storage.partitions": "3",
        "config.storage.cleanup.policy": "delete",
        "grop.id": "x",
        "plugin.discovery": "only_scan",
        "connections.max.idle.ms": "1000",
    })  # fmt: skip
    assert [each.split(": ")[1] for each in found.warnings] == [
        "config.storage.partitions",
        "config.storage.cleanup.policy",
        "grop.id",
        "plugin.discovery",
        "connections.max.idle.ms",
    ]
    assert "did you mean 'group.id'?" in found.warnings[2]


def test_secrets_are_not_printed(in_group):
    found = in_group({
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="u" password="hush";',
    })  # fmt: skip
    assert "hush" not in repr(found)
    assert found.connections.security.password == "hush"
    assert found.access.librdkafka_settings["sasl.password"] == "hush"


def test_a_file_is_read(tmp_path: pathlib.Path):
    with pytest.raises(SettingsError, match=r"w.properties: cannot be read"):
        distributed_settings.read_settings(tmp_path / "w.properties", environment={})
    (tmp_path / "w.properties").write_text("group.id=g\n")
    with pytest.raises(SettingsError, match="6 problems in"):
        distributed_settings.read_settings(tmp_path / "w.properties", environment={})


def test_purposes_keep_their_order(in_group):
    assert [each.kind for each in in_group().topics.topics] == list(InternalTopicKind)


def test_the_sample_is_as_good_as_it_says():
    sample = pathlib.Path(__file__).parents[4] / "deploy" / "connect-distributed.properties"
    found = distributed_settings.read_settings(sample, environment={})
    assert found.warnings == ()
    assert found.config.group_id == "connect-cluster"
    optional = sample.read_text().replace("\n#rest", "\nrest").replace("\n#prom", "\nprom")
    assert optional != sample.read_text()
    more = distributed_settings.parse_settings(
        optional,
        WorkerSettingsSource(file="sample", folder=sample.parent, environment={}),
    )
    assert more.warnings == ()


def test_idle_connections_may_be_kept_for_ever(in_group):
    found = in_group({"connections.max.idle.ms": "-1"})
    assert not any("connections.max.idle.ms" in each for each in found.warnings)
    assert any("idle" in each for each in in_group({"connections.max.idle.ms": "9"}).warnings)


def test_properties_that_were_derived_from_a_file_stand_in_no_line_of_it(derived):
    filled = {
        "group.id": "${env:GROUP}",
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider"
        ".EnvVarConfigProvider",
    }
    assert derived(filled, GROUP="mine").config.group_id == "mine"
    with pytest.raises(SettingsError) as caught:
        derived({"session.timeout.ms": "soon"})
    [problem] = caught.value.problems
    assert (problem.key, problem.line) == ("session.timeout.ms", 0)
    assert str(caught.value).startswith("w: session.timeout.ms: ")
