"""A task's own look at its partitions: what of them can be copied, and nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError
from mm2 import suggested_commands
from mm2.connectors import mirror_topic_writer
from mm2.connectors.partition_setup_builder import PartitionSetupBuilder, PartitionSetupPlan
from mm2.replication.partition_setup import PartitionSetup
from mm2.topics.flow_config import Flow, StartPosition, StartPositionKind
from mm2.topics.replication_policy import IdentityReplicationPolicy
from tests.fakes.admin import FakeAdmin, FakeCluster

EACH = "checked again every 600 s (refresh.topics.interval.seconds)"
CHANGES = {"create_topics", "grow_topics", "alter_configs"}


class Pair:
    """Two clusters and a clock that only moves while somebody pauses."""

    def __init__(self, **flow: Any) -> None:
        self.source, self.target = FakeCluster(), FakeCluster()
        self.admins = (FakeAdmin(self.source), FakeAdmin(self.target))
        self.now = 100.0
        self.grows_at: float | None = None
        self.setups = PartitionSetupBuilder(
            Flow(source="east", target="west", **flow),
            source=self.admins[0],
            target=self.admins[1],
            clock=self,
        )

    def now_s(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0

    def _pause(self, timeout_s: float) -> bool:
        self.now += timeout_s
        if self.grows_at is not None and self.now >= self.grows_at:
            self.target.topics["east.orders"].partitions = 4
        return False

    def look(self, *partitions: int, topic: str = "orders") -> PartitionSetupPlan:
        wanted = [TopicPartition(topic, number) for number in partitions]
        found = self.setups.build_plan(wanted, 60.0, pause=self._pause)
        assert not CHANGES.intersection(self.admins[0].calls, self.admins[1].calls)
        return found


@pytest.fixture
def pair() -> Pair:
    return mirrored(Pair())


def mirrored(made: Pair) -> Pair:
    made.source.create("orders", partitions=4)
    made.target.create("east.orders", partitions=4, compression_type="zstd")
    return made


def test_what_is_assigned_is_described_and_no_more():
    at = StartPosition(StartPositionKind.TIMESTAMP, timestamp_ms=17)
    made = mirrored(Pair(start=at))
    made.source.create("users")
    found = made.look(3, 1)
    assert [each.partition for each in found.partitions] == [1, 3]
    assert (found.findings, found.warnings) == ((), ())
    assert found.partitions[1] == PartitionSetup(
        flow="east->west",
        topic="orders",
        remote_topic="east.orders",
        partition=3,
        transactional_id="mm2-east->west-orders-3",
        source_topic_id=made.source.topics["orders"].topic_id.bytes,
        target_topic_id=made.target.topics["east.orders"].topic_id.bytes,
        source_cluster=made.source.identity,
        target_cluster=made.target.identity,
        start="17",
        old_after_ms=43_200_000,
        renew_after_s=28_800.0,
        target_codec=4,
    )


def test_where_the_name_is_kept_a_flow_that_leads_back_writes_to_the_same_topic(pair):
    assert pair.look(1).partitions[0].opposite_map == ""
    policy = IdentityReplicationPolicy(source_alias="east")
    both = mirrored(Pair(policy=policy))
    both.target.create("orders", partitions=4)
    assert both.look(1).partitions[0].opposite_map == "mm2-offset-map.west.internal"


def test_a_mirror_that_is_not_there_is_a_finding_of_each_partition(pair):
    del pair.target.topics["east.orders"]
    found = pair.look(1, 3)
    assert found.partitions == ()
    assert [str(each.partition) for each in found.findings] == ["orders-1", "orders-3"]
    assert {each.cause for each in found.findings} == {"topic-refused"}
    assert EACH in found.findings[0].message
    assert pair.now == pytest.approx(
        100.0 + mirror_topic_writer.METADATA_PROPAGATION_TIMEOUT_S, abs=0.2
    )


def test_a_mirror_that_brokers_tell_of_late_is_waited_for(pair):
    pair.target.topics["east.orders"].partitions = 2
    pair.grows_at = 104.0
    found = pair.look(0, 3)
    assert [each.partition for each in found.partitions] == [0, 3]
    assert pair.now == pytest.approx(104.0, abs=0.2)


def test_a_mirror_that_stays_small_is_a_finding_of_what_it_lacks(pair):
    pair.target.topics["east.orders"].partitions = 2
    found = pair.look(1, 2, 3)
    assert [each.partition for each in found.partitions] == [1]
    assert [str(each.partition) for each in found.findings] == ["orders-2", "orders-3"]
    assert {each.cause for each in found.findings} == {"mirror-too-small"}
    assert (
        "mirror topic east.orders has 2 partitions, but 4 are needed" in found.findings[0].message
    )


def test_nobody_waits_for_what_is_not_assigned(pair):
    pair.target.topics["east.orders"].partitions = 2
    assert [each.partition for each in pair.look(1).partitions] == [1]
    assert pair.now == 100.0


def test_a_partition_that_the_source_does_not_have_is_a_finding(pair):
    pair.target.topics["east.orders"].partitions = 9
    found = pair.look(2, 4)
    assert [each.partition for each in found.partitions] == [2]
    (finding,) = found.findings
    assert finding.cause == "source-too-small"
    assert "the source topic has 4 partitions, but partition 4 is assigned" in finding.message


def test_a_topic_that_the_source_does_not_show_is_a_finding(pair):
    refused = NotAuthorizedError("no")
    pair.source.failures["describe_topics", "orders"] = refused
    found = pair.look(2)
    (finding,) = found.findings
    assert (found.partitions, finding.partition.partition) == ((), 2)
    assert "--operation Describe" in suggested_commands.extract_remedy_from_message(finding.message)


def test_a_setting_that_would_spoil_the_mirror_stops_it_until_somebody_changes_it(pair):
    """Even where settings follow: it is the connector that changes them."""
    pair.target.topics["east.orders"].overrides["message.timestamp.type"] = "LogAppendTime"
    found = pair.look(0)
    (finding,) = found.findings
    assert found.partitions == ()
    assert (finding.cause, finding.is_harmful) == (mirror_topic_writer.TARGET_SETTING_CAUSE, True)


def test_a_topic_is_not_copied_into_itself():
    made = Pair(policy=IdentityReplicationPolicy(source_alias="east"))
    made.source.create("orders", partitions=2)
    made.target.create("orders", partitions=2)
    assert len(made.look(0, 1).partitions) == 2
    made.target.identity = made.source.identity
    found = made.look(0, 1)
    assert found.partitions == ()
    assert {(each.cause, each.is_harmful) for each in found.findings} == {("same-topic", True)}
    assert found.warnings == ("both aliases denote the same cluster",)


def test_one_cluster_under_two_names_may_mirror_to_itself(pair):
    pair.target.identity = pair.source.identity
    found = pair.look(0)
    assert (len(found.partitions), found.findings) == (1, ())


def test_brokers_that_hide_their_settings_are_taken_to_forget_after_a_day(pair):
    pair.target.may_describe_brokers = False
    found = pair.look(0)
    assert {each.renew_after_s for each in found.partitions} == {28_800.0}
    (warning,) = found.warnings
    assert "assuming 24 hours" in warning


def test_a_cluster_that_does_not_answer_is_raised(pair):
    pair.target.away = True
    with pytest.raises(RetriableError, match="nobody answers"):
        pair.look(0)
