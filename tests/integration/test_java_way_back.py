"""What Java leads back, read from a real cluster: an offsets topic has many partitions."""

from __future__ import annotations

import json

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.network import keystore_files
from connect_runtime.system.system_clock import SystemClock
from mm2.connectors.java_reverse_flow_detector import (
    JavaReverseFlowDetector,
    ReverseFlowClusterClients,
)
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.kafka.state_topic_reader import TopicReader
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from mm2.topics import replication_loops
from mm2.topics.flow_config import Flow
from mm2.topics.replication_policy import IdentityReplicationPolicy
from tests.support import kafka
from tests.support.kafka import Outgoing

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PARTITIONS = 25


def test_progress_is_found_in_whichever_partition_it_is(tmp_path, east, topic):
    properties = east.client_properties()
    flow = Flow(
        source=(east_alias := topic("east")),
        target=topic("west"),
        policy=IdentityReplicationPolicy(source_alias=east_alias),
    )
    access = librdkafka_connection_settings.parse_cluster_access(
        properties, files=keystore_files.create_store_files(tmp_path), name="east"
    )
    now = SystemClock()
    asked = KafkaAdmin(access, client_id="test", clock=now)
    where = ReverseFlowClusterClients(
        admin=asked,
        connect_tail=lambda name, partitions: TopicReader(
            access, client_id="test", topics=[name], partitions=partitions, clock=now
        ),
    )
    back = JavaReverseFlowDetector(flow, source=where, target=where, syncs=None, clock=now)
    assert back.find_topics(30.0) == frozenset()
    name = kafka.create_topic(
        properties,
        replication_loops.format_reverse_connect_offsets_topic(flow),
        partitions=PARTITIONS,
    )
    kafka.produce(properties, name, [stored(flow, number) for number in range(PARTITIONS)])
    assert back.find_topics(30.0) == {f"t{number}" for number in range(PARTITIONS)}
    syncs = kafka.create_topic(properties, flow.policy.offset_syncs_topic(flow.source))
    sync = OffsetSync(partition=TopicPartition("synced", 3), upstream=0, downstream=0)
    key, value = mirrormaker2_records.encode_offset_sync(sync)
    kafka.produce(properties, syncs, [Outgoing(key=key, value=value)])
    assert "synced" in back.find_topics(30.0)
    asked.close()


def stored(flow: Flow, number: int) -> Outgoing:
    """As Java's worker stores the progress of topic t<number>, in partition <number>."""
    where = {"cluster": flow.target, "partition": 0, "topic": f"t{number}"}
    key = json.dumps(["MirrorSourceConnector", where]).encode()
    return Outgoing(key=key, value=b'{"offset":4}', partition=number)
