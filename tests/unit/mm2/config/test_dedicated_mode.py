"""What a properties file makes of each flow; against Java: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import pytest

from mm2.config import dedicated_mode
from mm2.config.dedicated_mode import SourceAndTarget

WORKED = {
    "clusters": "A,B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "B.security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "A.consumer.max.poll.records": "500",
    "B.producer.linger.ms": "50",
    "B.offset.flush.interval.ms": "10000",
    "offset.flush.interval.ms": "5000",
    "tasks.max": "4",
    "topics": "t.*",
    "use.defaults.from": "source",
    "consumer.fetch.min.bytes": "9",
    "A->B.enabled": "true",
    "A->B.consumer.max.poll.records": "100",
    "A->B.topics": "x.*",
    "A->B.producer.override.acks": "1",
    "offset.storage.replication.factor": "1",
}
"""`reference/mirrormaker2.md` 1.13."""


def test_the_worker_of_the_worked_example():
    found = dedicated_mode.derive_worker_config(WORKED, SourceAndTarget("A", "B"))
    roles = ("", "admin.", "consumer.", "producer.")
    assert found == {
        **{f"{role}bootstrap.servers": "b:9092" for role in roles},
        **{f"{role}security.protocol": "SASL_SSL" for role in roles},
        **{f"{role}sasl.mechanism": "PLAIN" for role in roles},
        "producer.linger.ms": "50",
        "offset.flush.interval.ms": "10000",
        "offset.storage.replication.factor": "1",
        "tasks.max": "4",
        "client.id": "A->B",
        "group.id": "A-mm2",
        "config.storage.topic": "mm2-configs.A.internal",
        "offset.storage.topic": "mm2-offsets.A.internal",
        "status.storage.topic": "mm2-status.A.internal",
        **dict.fromkeys(
            ("key.converter", "value.converter", "header.converter"),
            "org.apache.kafka.connect.converters.ByteArrayConverter",
        ),
    }


def test_the_source_connector_of_the_worked_example():
    found = dedicated_mode.derive_connector_config(
        WORKED, SourceAndTarget("A", "B"), "MirrorSourceConnector"
    )
    plain = {
        key: value for key, value in found.items() if not key.startswith(("source.", "target."))
    }
    assert plain == {
        "enabled": "true",
        "topics": "x.*",
        "tasks.max": "4",
        "consumer.max.poll.records": "100",
        "producer.override.acks": "1",
        "sasl.mechanism": "PLAIN",
        "name": "MirrorSourceConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    }
    assert found["source.consumer.max.poll.records"] == "500"
    assert found["target.cluster.offset.flush.interval.ms"] == "10000"
    assert found["target.producer.linger.ms"] == "50"
    assert found["source.cluster.alias"] == "A"


def test_the_way_back_is_there_but_not_enabled():
    found = dedicated_mode.derive_connector_config(
        WORKED, SourceAndTarget("B", "A"), "MirrorSourceConnector"
    )
    assert (found["enabled"], found["topics"]) == ("false", "t.*")


@pytest.mark.parametrize(
    ("clusters", "props", "count"),
    [
        ("a,b,c", {}, 6),
        ("a,b,c", {"emit.heartbeats.enabled": "false"}, 0),
        (
            "a,b,c",
            {"a->b.emit.heartbeats.enabled": "false", "b->c.emit.heartbeats.enabled": "no"},
            4,
        ),
        (
            "a,b,c,d,e,f",
            {
                "emit.heartbeats.enabled": "false",
                **{f"a->{each}.enabled": "true" for each in "bcd"},
                **{f"a->{each}.enabled": "false" for each in "ef"},
            },
            3,
        ),
        (
            "central,local1,local2,backend",
            {
                "emit.heartbeats.enabled": "false",
                "central->local1.enabled": "true",
                "central->local2.enabled": "true",
                "backend->central.enabled": "true",
            },
            3,
        ),
        ("a,b", {"emit.heartbeats.enabled": " true", "a->b.enabled": "TRUE"}, 1),
    ],
)
def test_flows_run_that_are_enabled_or_emit_heartbeats(clusters, props, count):
    assert len(dedicated_mode.list_flows({"clusters": clusters, **props})) == count


def test_a_node_runs_the_flows_to_its_clusters():
    found = dedicated_mode.list_flows({"clusters": "a, b,c"}, target_aliases=["b"])
    assert found == [SourceAndTarget("a", "b"), SourceAndTarget("c", "b")]


def test_the_most_special_key_counts():
    props = {
        "clusters": "A,B",
        "security.protocol": "SSL",
        "A.security.protocol": "PLAINTEXT",
        "A.producer.security.protocol": "SASL_SSL",
    }
    found = dedicated_mode.derive_cluster_properties(props, "A")
    assert found["security.protocol"] == "PLAINTEXT"
    assert found["producer.security.protocol"] == "SASL_SSL"
    assert found["consumer.security.protocol"] == "PLAINTEXT"
    assert dedicated_mode.derive_cluster_properties(props, "B")["admin.security.protocol"] == "SSL"


def test_secrets_are_filled_in_for_the_worker_and_stay_out_of_connectors():
    secret = "${p:s:k}"
    props = {"clusters": "a,b", "ssl.key.password": secret, "b->a.topics": secret}

    def resolve(given):
        return {key: value.replace(secret, "hunter2") for key, value in given.items()}

    worker = dedicated_mode.derive_worker_config(props, SourceAndTarget("b", "a"), resolve=resolve)
    assert worker["ssl.key.password"] == "hunter2"
    found = dedicated_mode.derive_connector_config(
        props, SourceAndTarget("b", "a"), "MirrorSourceConnector"
    )
    assert (found["topics"], found["ssl.key.password"]) == (secret, secret)
    assert (
        dedicated_mode.derive_client_properties(props, "a", resolve=resolve)["ssl.key.password"]
        == "hunter2"
    )


def test_a_leader_writes_what_is_stored_otherwise():
    ours = dedicated_mode.derive_connector_configs(WORKED, SourceAndTarget("A", "B"))
    assert list(ours) == list(dedicated_mode.CONNECTORS)
    source = ours["MirrorSourceConnector"]
    assert dedicated_mode.diff_config_keys(source, source) == []
    assert dedicated_mode.diff_config_keys(source, {**source, "topics": "y"}) == ["topics"]
    assert dedicated_mode.diff_config_keys(source, {}) == sorted(source)


def test_paths_of_the_internal_rest_are_percent_encoded():
    """As Java's URLEncoder has it, blanks as %20."""
    assert SourceAndTarget("us east", "a/b~*").rest_path == "/us%20east/a%2Fb%7E*"


def test_a_connector_with_nothing_to_do_cannot_run():
    config = {"emit.checkpoints.enabled": "false"}
    assert not dedicated_mode.can_connector_run("MirrorCheckpointConnector", config)
    assert dedicated_mode.can_connector_run("MirrorCheckpointConnector", {})
    assert dedicated_mode.can_connector_run("MirrorSourceConnector", config)


def test_our_own_keys_reach_every_flow_from_the_top_but_for_what_operators_set():
    found = dedicated_mode.derive_connector_config(
        {"throttle": "5MB", "live.throttle": "1MB"},
        SourceAndTarget("a", "b"),
        "MirrorSourceConnector",
    )
    assert found["throttle"] == "5MB"
    assert "live.throttle" not in found
