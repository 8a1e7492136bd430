from __future__ import annotations

import logging
import re

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError, UnreachableError
from mm2.client import mirror_client
from mm2.client.mirror_client import MirrorClient
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.topics.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from tests.fakes.state_topics import FakeStateTopics

DEFAULT = DefaultReplicationPolicy()
IDENTITY = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "source.cluster.alias": "source",
}
CHECKPOINTS = "A.checkpoints.internal"
T0 = TopicPartition("A.orders", 0)
T1 = TopicPartition("A.orders", 1)


class StillClock:
    def __init__(self) -> None:
        self.at_s = 100.0

    def now_s(self) -> float:
        self.at_s += 1.0
        return self.at_s

    def wall_ms(self) -> int:
        return 0


def client_of(*names, properties=None, topics=None, timeout_s=60.0):
    return MirrorClient(
        properties or {},
        topics=topics or FakeStateTopics(names),
        timeout_s=timeout_s,
        clock=StillClock(),
    )


def encoded(group, partition, downstream, metadata=""):
    return mirrormaker2_records.encode_checkpoint(
        Checkpoint(
            group=group,
            partition=partition,
            upstream=downstream + 1,
            downstream=downstream,
            metadata=metadata,
        )
    )


def reading(*records):
    topics = FakeStateTopics()
    topics.topics[CHECKPOINTS] = records
    return client_of(topics=topics)


def at(offset, metadata=""):
    return OffsetAndMetadata(offset=offset, metadata=metadata)


@pytest.mark.parametrize(
    ("topic", "alias", "expected"),
    [
        ("topic", "source", None),
        ("source", "source", None),
        ("sourcetopic", "source", None),
        ("source1.topic", "source2", None),
        ("source1.topic", "source1", 1),
        ("source2.source1.topic", "source2", 1),
        ("source2.source1.topic", "source1", 2),
        ("source3.source2.source1.topic", "source1", 3),
        ("source3.source2.source1.topic", "source4", None),
    ],
)
def test_hops_are_counted_in_names(topic, alias, expected):
    assert mirror_client.count_hops(DEFAULT, topic, alias) == expected


def test_a_policy_that_does_not_rename_goes_in_no_circles():
    policy = IdentityReplicationPolicy(source_alias="primary")
    assert mirror_client.count_hops(policy, "topic", "primary") == 1
    assert mirror_client.count_hops(policy, "topic", "other") is None
    assert mirror_client.list_upstream_aliases(policy, "topic") == {"primary"}


def test_the_shortest_way_counts():
    client = client_of(
        "topic1", "topic2", "heartbeats", "s1.heartbeats", "s1.s2.heartbeats", "s3.heartbeats"
    )
    found = [client.replication_hops(alias) for alias in ("s1", "s2", "s3", "s4")]
    assert found == [1, 2, 1, None]


def test_heartbeats_and_checkpoints_are_told_from_other_topics():
    client = client_of("topic1", "heartbeats", "s1.heartbeats", "x.heartbeats.y", "heartbeats!")
    assert client.heartbeat_topics() == {"heartbeats", "s1.heartbeats"}
    client = client_of(
        "topic1", "s1.checkpoints.internal", "checkpoints.internal", "s2.checkpoints"
    )
    assert client.checkpoint_topics() == {"s1.checkpoints.internal"}


@pytest.mark.parametrize("properties", [{}, IDENTITY])
def test_upstream_clusters_are_all_that_heartbeats_came_by(properties):
    client = client_of(
        "topic1",
        "heartbeats",
        "s1.heartbeats",
        "s1.s2.heartbeats",
        "s3.s4.s5.heartbeats",
        properties=properties,
    )
    assert client.upstream_clusters() == {"s1", "s2", "s3", "s4", "s5"}
    assert client_of("heartbeats", "s1.topic", properties=properties).upstream_clusters() == set()


def test_remote_topics_are_those_that_came_from_somewhere():
    client = client_of(
        "t1", "s1.t4", "s1.s2.t5", "s3.s4.s5.t6", "s1.heartbeats", "s1.checkpoints.internal"
    )
    assert client.remote_topics() == {"s1.t4", "s1.s2.t5", "s3.s4.s5.t6", "s1.heartbeats"}
    assert client.remote_topics("s1") == {"s1.t4", "s1.s2.t5", "s1.heartbeats"}
    assert client.remote_topics("s2") == set()


def test_remote_topics_with_a_separator_of_their_own():
    client = client_of("t1", "s1__t4", "s1.t4", properties={"replication.policy.separator": "__"})
    assert client.remote_topics() == {"s1__t4"}


def test_with_the_identity_policy_every_topic_may_be_remote():
    client = client_of(
        "t1", "t2", "heartbeats", "backup.heartbeats", "__consumer_offsets", properties=IDENTITY
    )
    assert client.remote_topics() == {"t1", "t2", "backup.heartbeats"}
    assert client.remote_topics("source") == {"t1", "t2"}
    assert client.remote_topics("backup") == {"backup.heartbeats"}
    assert isinstance(client.replication_policy, IdentityReplicationPolicy)


def test_the_last_checkpoint_of_each_partition_counts():
    client = reading(
        encoded("g1", T1, 5),
        encoded("g1", T0, 1),
        encoded("g2", T0, 9),
        encoded("g1", T0, 3, "note"),
    )
    found = client.remote_consumer_offsets("g1", "A", 10.0)
    assert found == {T0: at(3, "note"), T1: at(5)}
    assert list(found) == [T0, T1]
    assert client.remote_consumer_offsets("g3", "A", 10.0) == {}


def test_groups_can_be_asked_for_by_a_pattern():
    client = reading(encoded("g1", T0, 1), encoded("g12", T0, 2), encoded("xg1", T0, 3))
    found = client.remote_consumer_offsets(re.compile("g.*"), "A", 10.0)
    assert found == {"g1": {T0: at(1)}, "g12": {T0: at(2)}}
    assert client.remote_consumer_offsets(re.compile("h"), "A", 10.0) == {}


def test_a_checkpoint_that_was_taken_away_counts_no_more():
    key, value = encoded("g1", T0, 1)
    assert reading((key, value), (key, None)).remote_consumer_offsets("g1", "A", 10.0) == {}


def test_what_is_no_checkpoint_is_passed_over(caplog):
    key, value = encoded("g1", T0, 1)
    client = reading((key, value), (key, value[:-1]), (b"", b""), (b"", b""), (None, value))
    with caplog.at_level(logging.WARNING):
        assert client.remote_consumer_offsets("g1", "A", 10.0) == {T0: at(1)}
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert said[0].startswith(f"{CHECKPOINTS}: the record at offset 1 cannot be read")
    assert "offset 4 cannot be read (it has no key); skipped" in said[2]


def test_malformed_checkpoints_do_not_fill_the_log(caplog):
    bad = [(b"bad", b"record")] * 10_000
    client = reading(encoded("g1", T0, 1), *bad, encoded("g1", T1, 2))
    with caplog.at_level(logging.WARNING):
        assert client.remote_consumer_offsets("g1", "A", 10.0) == {T0: at(1), T1: at(2)}
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 14
    assert said[-1].endswith("(records skipped so far: 8192)")


def test_a_checkpoint_that_cannot_be_read_is_no_matter_of_luck():
    key, value = encoded("g1", T0, 1)
    client = reading((key, value), (key, b"\0\1" + value[2:]))
    with pytest.raises(FatalError, match="offset 1 was written by a newer release"):
        client.remote_consumer_offsets("g1", "A", 10.0)
    with pytest.raises(FatalError, match=r"group g1: .* offset 1 was written by a newer release"):
        client.remote_consumer_offsets(re.compile("g.*"), "A", 10.0)
    assert client.remote_consumer_offsets("g2", "A", 10.0) == {}
    assert client.remote_consumer_offsets(re.compile("g2"), "A", 10.0) == {}


@pytest.mark.parametrize("last", [None, encoded("g1", T0, 2)[1]])
def test_a_checkpoint_that_cannot_be_read_counts_until_another_replaces_it(last):
    key, value = encoded("g1", T0, 1)
    client = reading((key, b"\0\1" + value[2:]), (key, last))
    assert client.remote_consumer_offsets("g1", "A", 10.0) == ({} if last is None else {T0: at(2)})


def test_no_checkpoints_of_an_alias_are_an_error_that_names_the_others():
    client = client_of(CHECKPOINTS, "C.checkpoints.internal", "orders")
    with pytest.raises(TopicMissingError) as raised:
        client.remote_consumer_offsets("g1", "B", 10.0)
    assert "topic B.checkpoints.internal does not exist" in str(raised.value)
    assert "topics: A.checkpoints.internal, C.checkpoints.internal." in str(raised.value)
    with pytest.raises(TopicMissingError, match="checkpoints topics: none"):
        client_of("orders").remote_consumer_offsets("g1", "B", 10.0)


def test_what_the_cluster_answers_is_raised():
    topics = FakeStateTopics([CHECKPOINTS])
    topics.failure = UnreachableError("gone")
    client = client_of(topics=topics)
    with pytest.raises(UnreachableError):
        client.remote_consumer_offsets("g1", "A", 10.0)
    with pytest.raises(UnreachableError):
        client.replication_hops("A")


def test_time_is_bounded():
    topics = FakeStateTopics([CHECKPOINTS])
    client = client_of(topics=topics, timeout_s=7.0)
    client.remote_topics()
    client.remote_consumer_offsets("g1", "A", 10.0)
    assert topics.timeouts_s == [7.0, 10.0, 9.0]


def test_the_connections_go_with_the_client():
    topics = FakeStateTopics()
    with client_of(topics=topics) as client:
        assert client.remote_topics() == set()
    assert topics.closed
