"""A source whose partitions are read from the replica in our own rack (KIP-392)."""

from __future__ import annotations

import pytest

from mm2.sandbox import port_reservation
from mm2.sandbox.sandbox_cluster import ClusterListener, SandboxCluster
from tests.support import content, eventually, kafka, mirror
from tests.support.doors import Door, Doors
from tests.support.kafka import Outgoing, Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(600)]

RACKS = {1: "a", 2: "b", 3: "c"}
LISTENER = "DOOR"
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RECORD_BYTES = 1000


def behind_doors(own_cluster) -> tuple[SandboxCluster, dict[int, Door]]:
    """Three brokers in a rack each, which clients reach through a door each."""
    inner = {node: port_reservation.reserve_port() for node in RACKS}
    found = {node: Door(inner[node].port) for node in RACKS}
    running = own_cluster(
        "racks",
        brokers=3,
        settings={"replica.selector.class": SELECTOR},
        broker_settings={node: {"broker.rack": rack} for node, rack in RACKS.items()},
        listeners={
            node: [
                ClusterListener(
                    name=LISTENER, port=inner[node].port, advertised=found[node].address
                )
            ]
            for node in RACKS
        },
    )
    return running, found


def led_by_the_first(properties: Properties, name: str) -> str:
    """A topic of one partition with replicas on all brokers."""
    return kafka.create_topic(properties, name, replicas=[[1, 2, 3]])


def test_the_near_replica_is_read_and_the_leader_when_it_is_gone(
    tmp_path, own_cluster, west, topic
):
    east, by_node = behind_doors(own_cluster)
    source, target = east.client_properties(), west.client_properties()
    name = led_by_the_first(source, topic())
    with Doors(*by_node.values()):
        given = mirror.settings(
            {
                **source,
                "bootstrap.servers": east.get_listener_bootstrap(LISTENER),
                "consumer.client.rack": RACKS[2],
            },
            target,
            topics=[name],
            spark={"engine": "inline"},
        )
        with Mirror(tmp_path, given) as running:
            first = [Outgoing(value=bytes(RECORD_BYTES)) for _ in range(5_000)]
            kafka.produce(source, name, first)
            running.await_records(len(first))
            near, leader, other = (by_node[node].sent_bytes for node in (2, 1, 3))
            assert near > len(first) * RECORD_BYTES
            assert max(leader, other) < near / 5

            by_node[2].shut = True
            second = content.some(3_000)
            kafka.produce(source, name, second)
            running.await_records(len(first) + len(second))
            by_node[2].shut = False
            read = by_node[2].sent_bytes

            def near_again() -> bool:
                kafka.produce(source, name, [Outgoing(value=bytes(RECORD_BYTES))])
                return by_node[2].sent_bytes > read + 20 * RECORD_BYTES

            eventually.eventually(near_again, 60.0, "the near replica is read again")
            assert running.stopped() == set()
            running.stop()
        given["clusters"]["east"] = dict(source)
        mirror.catch_up(tmp_path, given)
    before = kafka.read_partition(source, name, 0)
    after = kafka.read_partition(target, f"east.{name}", 0)
    assert kafka.differences(before, after) == []
