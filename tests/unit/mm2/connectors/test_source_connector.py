"""What can be copied, and what becomes of each partition that cannot."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock
from mm2.cluster import admin as admin_port
from mm2.connectors import source_connector
from mm2.core import commands, flows
from mm2.core.copy import setup
from tests.fakes import admin

EACH = "every 600 s (refresh.topics.interval.seconds)"
RUN = " To go on: mm2 run clusters.yaml"


class Clock:
    at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return 0


class SmallAdmin(admin.FakeAdmin):
    """Its brokers never hear that anything has grown beyond two partitions."""

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> admin_port.PerTopic[admin_port.TopicDescription]:
        found = super().describe_topics(names, timeout_s)
        small = {
            name: admin_port.TopicDescription(
                name=name, topic_id=each.topic_id, leaders=each.leaders[:2]
            )
            for name, each in found.done.items()
        }
        return admin_port.PerTopic(done=small, failed=found.failed)


def plan(
    source: admin.FakeCluster,
    target: admin.FakeCluster,
    *,
    through: type[admin.FakeAdmin] = admin.FakeAdmin,
    **flow: Any,
) -> source_connector.SourcePlan:
    return connector(source, target, through=through, **flow).plan(5.0)


def connector(
    source: admin.FakeCluster,
    target: admin.FakeCluster,
    *,
    through: type[admin.FakeAdmin] = admin.FakeAdmin,
    now: Any = None,
    **flow: Any,
) -> source_connector.SourceConnector:
    return source_connector.SourceConnector(
        flows.Flow(source="east", target="west", replication_factor=1, **flow),
        source=admin.FakeAdmin(source),
        target=through(target),
        now=now or clock.SystemClock(),
        pause=lambda _: True,
        stopped=lambda: False,
    )


def clusters() -> tuple[admin.FakeCluster, admin.FakeCluster]:
    source, target = admin.FakeCluster(), admin.FakeCluster()
    source.create("orders", partitions=4)
    source.create("__internal")
    return source, target


def test_every_partition_with_its_mirror_can_be_copied():
    source, target = clusters()
    target.create("east.orders", partitions=4, compression_type="zstd")
    source.topics["orders"].overrides["compression.type"] = "zstd"
    at = flows.StartPosition(flows.StartAt.TIMESTAMP, timestamp_ms=17)
    found = plan(source, target, start=at)
    assert found.findings == ()
    assert [each.partition for each in found.partitions] == [0, 1, 2, 3]
    assert found.partitions[3] == setup.PartitionSetup(
        flow="east->west",
        topic="orders",
        remote_topic="east.orders",
        partition=3,
        transactional_id="mm2-east->west-orders-3",
        source_topic_id=source.topics["orders"].topic_id.bytes,
        target_topic_id=target.topics["east.orders"].topic_id.bytes,
        source_cluster=source.identity,
        target_cluster=target.identity,
        start="17",
        old_after_ms=43_200_000,
        renew_after_s=28_800.0,
        target_codec=4,
    )


def test_partitions_that_the_mirror_lacks_are_told_one_by_one():
    source, target = clusters()
    target.create("east.orders", partitions=2)
    found = plan(source, target, through=SmallAdmin)
    assert [each.partition for each in found.partitions] == [0, 1]
    assert [each.partition for each in found.findings] == [
        ids.TopicPartition("orders", 2),
        ids.TopicPartition("orders", 3),
    ]
    assert {(each.cause, each.message) for each in found.findings} == {
        (
            "mirror-too-small",
            "east->west orders: the target tells of 2 partitions of east.orders, 4 are needed; "
            f"it is tried again {EACH}. To go on: "
            "kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic east.orders",
        )
    }


def test_a_topic_that_is_refused_stands_beside_those_that_are_copied():
    source, target = clusters()
    source.create("users")
    target.failures["create_topics", "east.orders"] = errors.FatalError("INVALID_CONFIG")
    found = plan(source, target)
    assert [each.topic for each in found.partitions] == ["users"]
    assert [each.partition.partition for each in found.findings] == [0, 1, 2, 3]
    assert {(each.message, each.spoils) for each in found.findings} == {
        (f"east->west orders: INVALID_CONFIG; it is tried again {EACH}.{RUN}", False)
    }


def test_without_further_looks_a_failure_is_tried_again_at_the_next_start():
    source, target = clusters()
    target.failures["create_topics", "east.orders"] = errors.RetriableError("NOT_CONTROLLER")
    (first, *_) = plan(source, target, refresh_topics_interval_s=None).findings
    told = "east->west orders: NOT_CONTROLLER; it is tried again at the next start."
    assert first.message == told + RUN


def test_what_is_refused_is_told_with_the_right_that_it_lacks():
    source, target = clusters()
    target.failures["create_topics", "east.orders"] = kafka_errors.NotAuthorizedError("no")
    (first, *_) = plan(source, target).findings
    assert commands.found_in(first.message) == (
        "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME "
        "--operation Create --operation Alter --operation AlterConfigs --operation Describe "
        "--operation DescribeConfigs --operation Read --operation Write --topic east.orders"
    )


@pytest.mark.parametrize(("looks_s", "then"), [(600.0, ""), (None, " && mm2 run clusters.yaml")])
def test_a_setting_in_the_way_is_told_with_the_command_that_sets_it(looks_s, then):
    source, target = clusters()
    target.create("east.orders", partitions=4, message_timestamp_type="LogAppendTime")
    found = plan(source, target, refresh_topics_interval_s=looks_s)
    assert found.partitions == ()
    assert commands.found_in(found.findings[0].message) == (
        "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics "
        f"--entity-name east.orders --add-config message.timestamp.type=CreateTime{then}"
    )


def test_a_setting_of_the_mirror_that_would_spoil_what_is_copied_is_marked():
    source, target = clusters()
    target.create("east.orders", partitions=4, message_timestamp_type="LogAppendTime")
    found = plan(source, target, sync_topic_configs_interval_s=None)
    assert found.partitions == ()
    assert {(each.cause, each.spoils) for each in found.findings} == {("target-setting", True)}


def test_settings_follow_with_the_looks_that_come_late_enough():
    source, target = clusters()
    now = Clock()
    made = connector(source, target, now=now, sync_topic_configs_interval_s=100)
    made.plan(5.0)
    overrides = target.topics["east.orders"].overrides
    seen = []
    for number, now.at_s in enumerate((50.0, 99.0, 100.0, 150.0, 200.0)):
        source.topics["orders"].overrides["retention.ms"] = str(number)
        made.plan(5.0)
        seen.append(overrides.get("retention.ms"))
    assert seen == [None, None, "2", "2", "4"]


def test_a_larger_mirror_is_only_warned_of():
    source, target = clusters()
    target.create("east.orders", partitions=6)
    found = plan(source, target)
    assert (len(found.partitions), found.findings) == (4, ())
    (warning,) = found.warnings
    assert "it has 6 partitions, the source 4" in warning


def test_brokers_that_hide_their_settings_are_taken_to_forget_after_a_day():
    source, target = clusters()
    target.may_describe_brokers = False
    found = plan(source, target)
    assert {each.renew_after_s for each in found.partitions} == {28_800.0}
    (warning,) = found.warnings
    assert "24 hours are assumed" in warning
