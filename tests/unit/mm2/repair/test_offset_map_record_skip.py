"""A record of the map that cannot be read is skipped, with an incident."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.formats import incident_records, offset_map_records
from mm2.formats.offset_map_records import (
    EraKey,
    MapProducer,
    MapProducerKey,
    NewEraRequest,
    NewEraRequestKey,
)
from mm2.kafka.kafka_client_interfaces import FlowStateTopic
from mm2.offsets.offset_map import OffsetMap
from mm2.repair import offset_map_record_skip
from mm2.repair.offset_map_record_skip import NothingToSkipError
from mm2.replication import recovery_instructions
from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow
from tests.fakes import taking
from tests.fakes.admin import FakeCluster
from tests.fakes.flow_log import FakeFlowStateLog
from tests.fakes.plugin_contexts import Clock

MAP = replication_policy.format_offset_map_topic("east")
GARBAGE = b"\x01\x03garbage"


@pytest.fixture
def cluster():
    made = FakeCluster()
    made.create(MAP, cleanup_policy="compact")
    return made


def skip(cluster, offset, position=None):
    store = FlowStateStore(FakeFlowStateLog(cluster, source_alias="east"))
    return skip_in(store, offset, position)


def skip_in(store, offset, position=None):
    return offset_map_record_skip.skip_unreadable_record(
        store,
        Flow(source="east", target="west"),
        offset,
        position=position,
        clock=Clock(),
    )


def map_of(cluster):
    known = OffsetMap()
    for offset, (key, value) in enumerate(cluster.topics[MAP].log):
        known.apply_record_or_keep_unreadable(key, value, offset=offset)
    return known


def incidents(cluster):
    log = cluster.topics[replication_policy.format_incidents_topic("east")].log
    return [incident_records.decode_incident(key, value) for key, value in log]


def test_an_incident_names_it_and_a_tombstone_replaces_it(cluster):
    log = cluster.topics[MAP].log
    log += [(GARBAGE, b"x"), (GARBAGE, b"y")]
    found = skip(cluster, 1)
    assert found.partition is None
    assert log[2:] == [(GARBAGE, None)]
    (stated,) = incidents(cluster)
    assert (stated.kind.value, stated.topic, stated.target) == ("map-record-skipped", MAP, None)
    assert f"{MAP}, offset 1, of unknown kind: " in stated.detail
    assert GARBAGE.hex() in stated.detail


def test_where_its_partition_can_be_read_the_incident_names_that(cluster):
    key = offset_map_records.encode_map_key(NewEraRequestKey(topic="orders", partition=4))
    cluster.topics[MAP].log.append((key, b"\x63"))
    skip(cluster, 0)
    (stated,) = incidents(cluster)
    assert (stated.topic, stated.partition) == ("orders", 4)


@pytest.mark.parametrize(
    ("offset", "told"), [(0, "at offsets 1"), (2, "at offsets 1"), (9, "at offsets 1")]
)
def test_what_can_be_read_or_was_replaced_is_not_skipped(cluster, offset, told):
    request = NewEraRequest(request="r", position="latest")
    key = offset_map_records.encode_map_key(NewEraRequestKey(topic="orders", partition=4))
    log = cluster.topics[MAP].log
    log += [(GARBAGE, b"x"), (b"?", b"x"), (key, offset_map_records.encode_map_value(request))]
    log.append((GARBAGE, None))
    with pytest.raises(NothingToSkipError, match=told):
        skip(cluster, offset)
    assert len(log) == 4
    assert incidents(cluster) == []


def test_skipped_twice_is_told(cluster):
    cluster.topics[MAP].log.append((GARBAGE, b"x"))
    skip(cluster, 0)
    with pytest.raises(NothingToSkipError, match="all are readable"):
        skip(cluster, 0)


ORDERS_4 = TopicPartition("orders", 4)
ERA = offset_map_records.encode_map_key(
    EraKey(topic="orders", partition=4, era=1, ordinal=1, epoch=0)
)
PRODUCER = offset_map_records.encode_map_key(
    MapProducerKey(topic="orders", partition=4, producer_id=7)
)


def test_the_partition_of_a_skipped_era_begins_again_where_the_operator_says(cluster):
    log = cluster.topics[MAP].log
    log.append((ERA, b"\x09"))
    with pytest.raises(NothingToSkipError, match="--from earliest"):
        skip(cluster, 0)
    assert (len(log), incidents(cluster)) == (1, [])
    skip(cluster, 0, "earliest")
    assert log[-1] == (ERA, None), "only once the request is stored"
    (stated,) = incidents(cluster)
    assert "era 1" in stated.detail
    assert "restarts from earliest" in stated.detail
    partition = map_of(cluster).get_partition(ORDERS_4)
    assert partition.pending_era_request is not None
    assert (partition.pending_era_request.position, partition.has_ever_begun_era) == (
        "earliest",
        True,
    )


def test_nothing_but_an_era_begins_anything_again(cluster):
    log = cluster.topics[MAP].log
    log.append((GARBAGE, b"x"))
    with pytest.raises(NothingToSkipError, match="omit --from"):
        skip(cluster, 0, "earliest")
    assert (len(log), incidents(cluster)) == (1, [])


def test_a_skipped_producer_id_stays_one_of_the_flows(cluster):
    """What it wrote would else be somebody else's: copied again, or back."""
    other = MapProducerKey(topic="orders", partition=4, producer_id=5)
    era = offset_map_records.encode_map_value(taking.era())
    producer = offset_map_records.encode_map_value(MapProducer(ordinal=1, era=1))
    log = cluster.topics[MAP].log
    log += [(offset_map_records.encode_map_key(other), producer), (ERA, era), (PRODUCER, b"\x09")]
    skip(cluster, 2)
    known = map_of(cluster)
    assert known.list_unreadable_records() == []
    found = recovery_instructions.extract_recovered_state(
        known.get_partition(ORDERS_4), target=None
    )
    assert (found.producers, found.era_number) == ({5: 1, 7: 2}, 1)
    assert "producer id 7" in incidents(cluster)[0].detail


class Raced(FakeFlowStateLog):
    """While the incident is stored, somebody replaces the record."""

    new: tuple[bytes, bytes]

    def append(self, topic, key, value, *, on_recorded):
        if topic is FlowStateTopic.INCIDENTS and value is not None:
            super().append(FlowStateTopic.MAP, *self.new, on_recorded=lambda _: None)
        super().append(topic, key, value, on_recorded=on_recorded)


def test_a_record_that_was_replaced_meanwhile_is_not_deleted(cluster):
    log = cluster.topics[MAP].log
    log.append((PRODUCER, b"\x09"))
    raced = Raced(cluster, source_alias="east")
    raced.new = (PRODUCER, offset_map_records.encode_map_value(MapProducer(ordinal=1, era=1)))
    with pytest.raises(NothingToSkipError, match="was replaced"):
        skip_in(FlowStateStore(raced), 0)
    assert log[1:] == [raced.new]
    kept = dict(cluster.topics[replication_policy.format_incidents_topic("east")].log)
    assert set(kept.values()) == {None}, "no incident of what was not skipped"
