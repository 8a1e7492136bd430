from __future__ import annotations

import datetime

import kio.index
import pytest
from kio.static.constants import EntityType

from connect_runtime.protocol import api_versions, request_builders, request_framing
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    ControllerTarget,
    CoordinatorKey,
    EpochEndOffsetQuery,
    LeaderTarget,
    NodeTarget,
    OffsetQuery,
)
from connect_runtime.protocol.request_errors import MalformedResponseError


def test_targets_read_well_in_messages_and_compare_by_value():
    named = {
        NodeTarget(3): "broker 3",
        AnyNodeTarget(): "any broker",
        ControllerTarget(): "the controller",
        LeaderTarget("orders", 7): "the leader of orders-7",
        CoordinatorKey(request_builders.GROUP_COORDINATOR, "g"): "the coordinator of group g",
        CoordinatorKey(
            request_builders.TRANSACTION_COORDINATOR, "tx"
        ): "the coordinator of transactional id tx",
    }
    assert {target: str(target) for target in named} == named
    assert LeaderTarget("orders", 7) in named


ALL = {
    "api_versions": request_builders.build_api_versions_request(software_version="1"),
    "metadata": request_builders.build_metadata_request(["a", "b"]),
    "find_coordinators": request_builders.build_find_coordinators_request(1, ["x", "y"]),
    "find_coordinator": request_builders.build_find_coordinator_request(0, "x"),
    "init_producer_id": request_builders.build_init_producer_id_request("tx", 60_000),
    "add_partitions_to_txn": request_builders.build_add_partitions_to_txn_request(
        "tx", producer_id=1, epoch=2, topics={"t": [0, 1]}
    ),
    "end_txn": request_builders.build_end_txn_request("tx", producer_id=1, epoch=2, committed=True),
    "list_offsets": request_builders.build_list_offsets_request(
        {"t": [OffsetQuery(partition=0, timestamp=-1)]}, read_committed=True
    ),
    "epochs": request_builders.build_offsets_for_leader_epochs_request(
        {"t": [EpochEndOffsetQuery(partition=0, current_epoch=4, leader_epoch=3)]}
    ),
    "describe_producers": request_builders.build_describe_producers_request({"t": [0, 1]}),
}


@pytest.mark.parametrize("name", ALL)
def test_every_version_of_its_range_can_be_written_and_its_answer_type_is_known(name):
    message = ALL[name]
    for version in range(message.low, message.high + 1):
        entity = message.build_request_message(version)
        assert (entity.__api_key__, entity.__version__) == (message.api_key, version)
        assert request_framing.encode_request_body(entity)
        assert message.get_response_type(version).__version__ == version


def test_metadata_never_creates_topics():
    for version in range(7, 14):
        assert ALL["metadata"].build_request_message(version).allow_auto_topic_creation is False


def test_transactional_messages_keep_to_the_safe_versions():
    assert (ALL["end_txn"].low, ALL["end_txn"].high) == api_versions.END_TXN_VERSIONS
    assert ALL["add_partitions_to_txn"].high == 3
    assert ALL["init_producer_id"].high == 3


def metadata_of(*brokers):
    """The bytes of a metadata response with these (node id, host, port)."""
    m = kio.index.load_payload_module(3, 12, EntityType.response)
    return request_framing.encode_request_body(
        m.MetadataResponse(
            throttle_time=datetime.timedelta(0),
            brokers=tuple(
                m.MetadataResponseBroker(node_id=node_id, host=host, port=port)
                for node_id, host, port in brokers
            ),
            cluster_id="c",
            controller_id=0,
            topics=(),
        )
    )


def read_metadata(body):
    return ALL["metadata"].decode_response(12, memoryview(body)).brokers


def test_brokers_of_a_metadata_response_are_read():
    found = read_metadata(metadata_of((0, "a" * 255, 1), (2**31 - 1, "::1", 65_535)))
    assert [(b.node_id, b.port) for b in found] == [(0, 1), (2**31 - 1, 65_535)]


@pytest.mark.parametrize(
    ("broker", "saying"),
    [
        ((-2, "b", 9092), "broker id -2 is negative"),
        ((1, "b", 70_000), "port 70000, but ports must be from 1 to 65535"),
        ((1, "b", 0), "port 0"),
        ((1, "b", -1), "port -1"),
        ((1, "", 9092), "host name of 0 characters"),
        ((1, "ü" * 256, 9092), "host name of 256 characters; the length must be from 1 to 255"),
        ((1, "b\nERROR", 9092), "control characters"),
    ],
)
def test_a_metadata_response_with_an_impossible_broker_is_refused(broker, saying):
    with pytest.raises(MalformedResponseError, match=saying):
        read_metadata(metadata_of((0, "a", 9092), broker))


def test_a_metadata_response_with_too_many_brokers_is_refused(monkeypatch):
    monkeypatch.setattr(request_builders, "BROKERS_MAX", 2)
    brokers = [(at, "a", 9092) for at in range(3)]
    read_metadata(metadata_of(*brokers[:2]))
    with pytest.raises(MalformedResponseError, match="3 brokers, but at most 2"):
        read_metadata(metadata_of(*brokers))
