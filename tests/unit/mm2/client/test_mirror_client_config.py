from __future__ import annotations

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.system.system_clock import SystemClock
from mm2.client import mirror_client_config
from mm2.kafka.state_topic_reader import KafkaStateTopicReader
from mm2.topics.replication_policy import DefaultReplicationPolicy

MIRROR = "org.apache.kafka.connect.mirror"


class OwnPolicy(DefaultReplicationPolicy):
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{topic} of {source_alias}"


def accesses(properties):
    """How topics are listed, and read."""
    made = mirror_client_config.open_topic_reader(properties, clock=SystemClock())
    assert isinstance(made, KafkaStateTopicReader)
    return made._listing, made._reading


def test_the_default_policy():
    assert mirror_client_config.build_replication_policy({}) == DefaultReplicationPolicy()
    named = {"replication.policy.class": f"{MIRROR}.DefaultReplicationPolicy"}
    assert mirror_client_config.build_replication_policy(named) == DefaultReplicationPolicy()


def test_a_separator_is_that_of_internal_topics_too_unless_told_otherwise():
    given = {"replication.policy.separator": "_"}
    assert (
        mirror_client_config.build_replication_policy(given).checkpoints_topic("A")
        == "A_checkpoints_internal"
    )
    given["replication.policy.internal.topic.separator.enabled"] = "false"
    assert (
        mirror_client_config.build_replication_policy(given).checkpoints_topic("A")
        == "A.checkpoints.internal"
    )
    assert (
        mirror_client_config.build_replication_policy(given).format_remote_topic("A", "t") == "A_t"
    )


def test_values_may_be_of_other_types():
    given = {
        "replication.policy.separator": "_",
        "replication.policy.internal.topic.separator.enabled": False,
        "source.cluster.alias": None,
    }
    assert (
        mirror_client_config.build_replication_policy(given).checkpoints_topic("A")
        == "A.checkpoints.internal"
    )
    listing, _ = accesses({"bootstrap.servers": ["a:1", "b:2"], "request.timeout.ms": 5_000})
    assert listing.bootstrap == ("a:1", "b:2")
    assert listing.properties == {"request.timeout.ms": "5000"}


def test_the_identity_policy_has_the_alias():
    given = {"replication.policy.class": f"{MIRROR}.IdentityReplicationPolicy"}
    assert mirror_client_config.build_replication_policy(given).topic_source("t") is None
    assert (
        mirror_client_config.build_replication_policy(
            {**given, "source.cluster.alias": "A"}
        ).topic_source("t")
        == "A"
    )


def test_a_policy_of_the_users():
    given = {"replication.policy.class": f"{__name__}.OwnPolicy"}
    assert (
        mirror_client_config.build_replication_policy(given).format_remote_topic("A", "t")
        == "t of A"
    )


def test_a_policy_that_nobody_knows_is_refused():
    with pytest.raises(FatalError, match="ReplicatoinPolicy"):
        mirror_client_config.build_replication_policy(
            {"replication.policy.class": f"{MIRROR}.ReplicatoinPolicy"}
        )


def test_properties_of_one_kind_of_client_go_first_there():
    listing, reading = accesses(
        {
            "bootstrap.servers": "plain:1",
            "admin.bootstrap.servers": "admin:2",
            "request.timeout.ms": "5000",
            "consumer.request.timeout.ms": "6000",
            "topics": "not ours",
        }
    )
    assert (listing.bootstrap, reading.bootstrap) == (("admin:2",), ("plain:1",))
    assert listing.properties == {"request.timeout.ms": "5000"}
    assert reading.properties == {"request.timeout.ms": "6000"}


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": "a:1", "security.protocol": "TLS"}, "security.protocol"),
        ({"bootstrap.servers": "a:1", "consumer.security.protocol": "TLS"}, "security.protocol"),
    ],
)
def test_what_cannot_be_honoured_is_named(properties, named):
    with pytest.raises(FatalError, match=named):
        accesses(properties)
