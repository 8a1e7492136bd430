"""What Java leads back, read from a real cluster: an offsets topic has many partitions."""

from __future__ import annotations

import json

import pytest

from connect_runtime.base import ids
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.system import clock
from connect_runtime.wire.connection import store_files
from mm2.cluster import kafka_admin, topic_reader
from mm2.connectors.source import java_way_back
from mm2.core import flows, loops, naming
from mm2.formats import offset_sync
from tests.support import kafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PARTITIONS = 25


def test_progress_is_found_in_whichever_partition_it_is(tmp_path, east, topic):
    properties = east.client_properties()
    flow = flows.Flow(
        source=(east_alias := topic("east")),
        target=topic("west"),
        policy=naming.IdentityReplicationPolicy(source_alias=east_alias),
    )
    access = kafka_access.parse(properties, files=store_files.below(tmp_path), name="east")
    now = clock.SystemClock()
    asked = kafka_admin.KafkaAdmin(access, client_id="test", clock=now)
    where = java_way_back.Cluster(
        asked=asked,
        connect_tail=lambda name, partitions: topic_reader.TopicReader(
            access, client_id="test", topics=[name], partitions=partitions, clock=now
        ),
    )
    back = java_way_back.JavaWayBack(flow, source=where, target=where, syncs=None, clock=now)
    assert back.topics(30.0) == frozenset()
    name = kafka.create_topic(properties, loops.opposite_offsets_topic(flow), partitions=PARTITIONS)
    kafka.produce(properties, name, [stored(flow, number) for number in range(PARTITIONS)])
    assert back.topics(30.0) == {f"t{number}" for number in range(PARTITIONS)}
    syncs = kafka.create_topic(properties, flow.policy.offset_syncs_topic(flow.source))
    sync = offset_sync.OffsetSync(
        partition=ids.TopicPartition("synced", 3), upstream=0, downstream=0
    )
    key, value = offset_sync.encode(sync)
    kafka.produce(properties, syncs, [kafka.Outgoing(key=key, value=value)])
    assert "synced" in back.topics(30.0)
    asked.close()


def stored(flow: flows.Flow, number: int) -> kafka.Outgoing:
    """As Java's worker stores the progress of topic t<number>, in partition <number>."""
    where = {"cluster": flow.target, "partition": 0, "topic": f"t{number}"}
    key = json.dumps(["MirrorSourceConnector", where]).encode()
    return kafka.Outgoing(key=key, value=b'{"offset":4}', partition=number)
