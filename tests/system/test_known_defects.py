"""What MirrorMaker 2 is known to do wrong, on our worker: a topic made again is not mistaken for
the old one, a deleted one is not called back to life, and who may not read a topic any more says
so."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import admin

from connect_runtime.system import system_clock
from tests.support import eventually, kafka, operations
from tests.support.connect_workers import Group, Kind
from tests.support.kafka import Outgoing
from tests.support.scraped import Listener

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_S = 120.0
WATCH_S = 10.0
NAME = "mirror"
KEPT, GONE, AGAIN = "kept", "gone", "again"
USER = "mirror"


class World:
    """A flow between two clusters, by its source's alias."""

    def __init__(self, source: dict[str, str], target: dict[str, str], *, alias: str) -> None:
        self.source, self.target, self.alias = source, target, alias

    def mirroring(self, source: Mapping[str, str]) -> dict[str, str]:
        """`source`: how the connector reaches it."""
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": self.alias,
            "target.cluster.alias": f"{self.alias}-target",
            **{f"source.cluster.{name}": value for name, value in source.items()},
            **{f"target.cluster.{name}": value for name, value in self.target.items()},
            "topics": ",".join((KEPT, GONE, AGAIN)),
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
            "mm2.engine": "inline",
        }

    def write(self, topic: str, *values: str) -> None:
        kafka.produce(self.source, topic, [Outgoing(value=each.encode()) for each in values])

    def mirrored(self, topic: str) -> list[str]:
        found = kafka.read_partition(self.target, f"{self.alias}.{topic}")
        return [(each.value or b"").decode() for each in found]

    def arrives(self, topic: str, *values: str, log: Callable[[], str]) -> None:
        """These, once, and in this order."""
        eventually.eventually(
            lambda: self.mirrored(topic) == list(values),
            WAIT_S,
            lambda: f"{self.mirrored(topic)}, {log()}",
            interval_s=0.5,
        )


def test_what_people_do_to_topics_is_seen(
    own_cluster: Callable[..., SandboxCluster],
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    west = own_cluster("careless", settings={"auto.create.topics.enable": "true"})
    world = World(dict(west.client_properties()), dict(east.client_properties()), alias="careless")
    for topic in (KEPT, GONE, AGAIN):
        kafka.create_topic(world.source, topic)
        world.write(topic, "one", "two", "three")
    metrics = Listener()
    worker = connect_group(settings=metrics.settings).start("one", Kind.OURS)
    worker.configure(NAME, world.mirroring(world.source))
    for topic in (KEPT, GONE, AGAIN):
        world.arrives(topic, "one", "two", "three", log=worker.log_text)

    # A topic that is deleted stays deleted, though its broker makes any that is asked for
    # (KAFKA-16561), and takes no other with it.
    operations.delete(world.source, GONE)
    assert not system_clock.wait_until(
        lambda: GONE in kafka.topics(world.source), timeout_s=WATCH_S, interval_s=0.5
    )
    world.write(KEPT, "four")
    world.arrives(KEPT, "one", "two", "three", "four", log=worker.log_text)

    # One that is made again is another topic: Java jumps, or goes on in its middle.
    operations.delete(world.source, AGAIN)
    kafka.create_topic(world.source, AGAIN)
    world.write(AGAIN, "other one", "other two", "other three", "other four")
    stopped = functools.partial(
        metrics.total, "mm2_partition_stopped", topic=f"{world.alias}.{AGAIN}"
    )
    eventually.eventually(lambda: stopped() == 1, WAIT_S, worker.log_text, interval_s=0.5)
    assert worker.runs(NAME)
    assert AGAIN in worker.log_text()
    assert world.mirrored(AGAIN) == ["one", "two", "three"]
    metrics.close()


def reading(allowed_on: str) -> list[admin.AclBinding]:
    return [
        admin.AclBinding(
            admin.ResourceType.TOPIC,
            allowed_on,
            admin.ResourcePatternType.LITERAL,
            f"User:{USER}",
            "*",
            operation,
            admin.AclPermissionType.ALLOW,
        )
        for operation in (
            admin.AclOperation.READ,
            admin.AclOperation.DESCRIBE,
            admin.AclOperation.DESCRIBE_CONFIGS,
        )
    ]


def test_a_right_that_is_taken_away_is_seen_and_holds_up_nobody_else(
    own_cluster: Callable[..., SandboxCluster],
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    """KAFKA-17139: Java's task swallows it and is RUNNING while nothing flows."""
    west = own_cluster("guarded", users=[USER])
    world = World(dict(west.client_properties()), dict(east.client_properties()), alias="guarded")
    for topic in (KEPT, GONE):
        kafka.create_topic(world.source, topic)
        world.write(topic, "one", "two")
        kafka.create_acls(world.source, reading(topic))
    metrics = Listener()
    worker = connect_group(settings=metrics.settings).start("one", Kind.OURS)
    user = dict(west.client_properties(USER))
    worker.configure(NAME, {**world.mirroring(user), "offset-syncs.topic.location": "target"})
    for topic in (KEPT, GONE):
        world.arrives(topic, "one", "two", log=worker.log_text)

    kafka.delete_acls(world.source, [filter_of(reading(GONE)[0])])
    world.write(GONE, "three")
    world.write(KEPT, "three")
    world.arrives(KEPT, "one", "two", "three", log=worker.log_text)
    behind = functools.partial(
        metrics.total, "mm2_partition_lag_records", topic=f"{world.alias}.{GONE}"
    )
    eventually.eventually(
        lambda: "not authorized to read the topic" in worker.log_path.read_text(errors="replace"),
        WAIT_S,
        worker.log_text,
        interval_s=0.5,
    )
    kafka.create_acls(world.source, reading(GONE))
    world.arrives(GONE, "one", "two", "three", log=worker.log_text)
    eventually.eventually(lambda: behind() == 0, WAIT_S, worker.log_text, interval_s=0.5)
    metrics.close()


def filter_of(binding: admin.AclBinding) -> admin.AclBindingFilter:
    return admin.AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
