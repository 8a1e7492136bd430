from __future__ import annotations

import time

import pytest

from mm2.topics import replication_policy
from mm2.topics.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy


def default(separator: str = ".", internal: str | None = None) -> DefaultReplicationPolicy:
    return DefaultReplicationPolicy(
        separator=separator, internal_separator=separator if internal is None else internal
    )


IDENTITY = IdentityReplicationPolicy(source_alias="A")


def test_the_topics_of_a_flow_are_named_by_its_source():
    assert replication_policy.format_offset_map_topic("east") == "mm2-offset-map.east.internal"
    assert replication_policy.format_incidents_topic("east") == "mm2-incidents.east.internal"


@pytest.mark.parametrize(
    ("separator", "topic", "source", "upstream"),
    [
        (".", "A.topic", "A", "topic"),
        (".", "topic", None, None),
        (".", "", None, None),
        (".", ".", None, None),
        (".", "...", None, None),
        (".", "A.", None, None),
        (".", ".foo", "", "foo"),
        (".", "A..b", "A", ".b"),
        (".", "a.b.", "a", "b."),
        (".", "a.b.c", "a", "b.c"),
        ("__", "A__t", "A", "t"),
        ("__", "A___t", "A", "_t"),
        ("_", "my_topic", "my", "topic"),
        ("-", "mm2-offset-syncs-A-internal", "mm2", "offset-syncs-A-internal"),
        ("", "abc", "a", "bc"),
        ("", "a", None, None),
        ("", "", None, None),
    ],
)
def test_default_policy_reads_names_as_java_splits_them(separator, topic, source, upstream):
    policy = default(separator)
    assert policy.topic_source(topic) == source
    assert policy.upstream_topic(topic) == upstream


@pytest.mark.parametrize("separator", [".", "__"])
def test_a_name_of_many_hops_is_read_in_linear_time(separator):
    """Took a minute when each hop split the whole rest."""
    name = f"a{separator}" * 30_000 + "heartbeats"
    started_s = time.process_time()
    assert replication_policy.is_heartbeats_topic(default(separator), name)
    assert not replication_policy.is_cycle(default(separator), name, target_alias="B")
    assert time.process_time() - started_s < 3.0


def test_default_policy_undoes_what_it_does():
    for separator in (".", "_", "--", "__"):
        policy = default(separator)
        remote = policy.format_remote_topic("us-west", "orders.v1")
        assert remote == f"us-west{separator}orders.v1"
    assert default().topic_source("us-west.orders.v1") == "us-west"
    assert default().upstream_topic("us-west.orders.v1") == "orders.v1"


@pytest.mark.parametrize(
    ("separator", "topic", "expected"),
    [
        (".", "heartbeats", True),
        (".", "us-west.heartbeats", True),
        (".", "s2.s1.heartbeats", True),
        (".", "heartbeats!", False),
        (".", "!heartbeats", False),
        (".", "s1heartbeats", False),
        (".", "s1-heartbeats", False),
        ("_", "us-west.heartbeats", False),
        ("_", "us-west_heartbeats", True),
    ],
)
def test_heartbeats_topics_are_known_over_any_number_of_hops(separator, topic, expected):
    assert replication_policy.is_heartbeats_topic(default(separator), topic) is expected


def test_names_of_internal_topics_follow_the_internal_separator():
    assert default().offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert default().checkpoints_topic("A") == "A.checkpoints.internal"
    assert default("_").offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"
    assert default("_", ".").offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert default("_", ".").checkpoints_topic("A") == "A.checkpoints.internal"
    assert IDENTITY.checkpoints_topic("A") == "A.checkpoints.internal"
    assert IDENTITY.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("A.checkpoints.internal", True),
        (".checkpoints.internal", True),
        ("checkpoints.internal", False),
        ("A.checkpoints", False),
    ],
)
def test_checkpoints_topics_are_told_by_their_ending(topic, expected):
    assert default().is_checkpoints_topic(topic) is expected
    assert IDENTITY.is_checkpoints_topic(topic) is expected


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("connect-configs-internal", False),
        ("orders.internal", False),
        ("A_checkpoints_internal", True),
        ("mm2-offsets.A.internal", True),
        ("mm2-offset-map.A.internal", True),
        ("mm2-offset-syncs_B_internal", True),
        ("internal", False),
        ("orders", False),
        ("_schemas", False),
    ],
)
def test_internal_topics(topic, expected):
    assert replication_policy.is_internal_topic(default("_"), topic) is expected


def test_with_the_default_separator_an_underscore_ending_is_an_ordinary_topic():
    assert not replication_policy.is_internal_topic(default(), "mm2-offset-syncs_B_internal")
    assert replication_policy.is_internal_topic(IDENTITY, "mm2-offsets.A.internal")


def test_identity_policy_keeps_names_except_what_ends_in_heartbeats():
    assert IDENTITY.format_remote_topic("A", "orders") == "orders"
    assert IDENTITY.topic_source("orders") == "A"
    assert IDENTITY.upstream_topic("orders") == "orders"
    assert IDENTITY.format_remote_topic("A", "device-heartbeats") == "A.device-heartbeats"
    assert IDENTITY.topic_source("A.device-heartbeats") == "A"
    assert IDENTITY.upstream_topic("A.device-heartbeats") == "device-heartbeats"
    assert IDENTITY.topic_source("heartbeats") is None
    assert not IDENTITY.renames_topics
    assert default().renames_topics


def test_identity_policy_without_an_alias_knows_no_source():
    policy = IdentityReplicationPolicy(source_alias=None)
    assert policy.topic_source("orders") is None


@pytest.mark.parametrize(
    ("topic", "original"),
    [("c.b.a.orders", "orders"), ("orders", "orders"), (".orders", "orders"), ("a.", "a.")],
)
def test_original_topic_strips_every_hop(topic, original):
    assert replication_policy.original_topic(default(), topic) == original
    assert replication_policy.original_topic(IDENTITY, topic) == topic


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("orders", False),
        ("west.orders", True),
        ("north.west.orders", True),
        ("north.orders", False),
        ("west.", False),
        ("west.heartbeats", True),
    ],
)
def test_a_topic_that_has_been_on_the_target_is_a_cycle(topic, expected):
    assert replication_policy.is_cycle(default(), topic, target_alias="west") is expected


@pytest.mark.parametrize(
    "topic",
    ["T.t", "T.S.t", "S.T.t", "T.S.T.t", "S.T.S.t", "t", "other.t", "heartbeats", "o.heartbeats"],
)
def test_identity_sees_no_cycle_in_names(topic):
    """MirrorSourceConnectorTest, testIdentityReplication."""
    policy = IdentityReplicationPolicy(source_alias="S")
    assert not replication_policy.is_cycle(policy, topic, target_alias="T")


@pytest.mark.parametrize("hops", ["T", "T.S", "S.T", "T.S.T", "S.T.S"])
def test_identity_sees_cycles_of_heartbeats_over_any_number_of_hops(hops):
    policy = IdentityReplicationPolicy(source_alias="S")
    assert replication_policy.is_cycle(policy, f"{hops}.heartbeats", target_alias="T")


@pytest.mark.parametrize(
    ("policy", "here", "there"),
    [
        (default(), "topic3", "s1.topic3"),
        (default(), "t2.topic3", "topic3"),
        (default(), "s6.topic7", "s1.s6.topic7"),
        (default(), "t2.s6.topic7", "s6.topic7"),
        (IdentityReplicationPolicy(source_alias="s1"), "topic3", "topic3"),
    ],
)
def test_a_topic_and_what_holds_the_same_on_the_other_cluster(policy, here, there):
    flow = {"source_alias": "s1", "target_alias": "t2"}
    assert replication_policy.map_topic_to_target(policy, here, **flow) == there
    assert replication_policy.map_topic_to_source(policy, there, **flow) == here
