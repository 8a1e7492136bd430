from __future__ import annotations

import pytest

from connect_runtime.protocol import api_versions, framing, request_builders
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    ControllerTarget,
    CoordinatorTarget,
    EpochEndQuery,
    LeaderTarget,
    NodeTarget,
    OffsetQuery,
)


def test_targets_read_well_in_messages_and_compare_by_value():
    named = {
        NodeTarget(3): "broker 3",
        AnyNodeTarget(): "any broker",
        ControllerTarget(): "the controller",
        LeaderTarget("orders", 7): "the leader of orders-7",
        CoordinatorTarget(request_builders.GROUP_COORDINATOR, "g"): "the coordinator of group g",
        CoordinatorTarget(
            request_builders.TRANSACTION_COORDINATOR, "tx"
        ): "the coordinator of transactional id tx",
    }
    assert {target: str(target) for target in named} == named
    assert LeaderTarget("orders", 7) in named


ALL = {
    "api_versions": request_builders.request_api_versions(software_version="1"),
    "metadata": request_builders.request_metadata(["a", "b"]),
    "find_coordinators": request_builders.find_coordinators(1, ["x", "y"]),
    "find_coordinator": request_builders.find_coordinator(0, "x"),
    "init_producer_id": request_builders.init_producer_id("tx", 60_000),
    "add_partitions_to_txn": request_builders.add_partitions_to_txn(
        "tx", producer_id=1, epoch=2, topics={"t": [0, 1]}
    ),
    "end_txn": request_builders.end_txn("tx", producer_id=1, epoch=2, committed=True),
    "list_offsets": request_builders.list_offsets(
        {"t": [OffsetQuery(partition=0, timestamp=-1)]}, read_committed=True
    ),
    "epochs": request_builders.offsets_for_leader_epochs(
        {"t": [EpochEndQuery(partition=0, current_epoch=4, leader_epoch=3)]}
    ),
    "describe_producers": request_builders.describe_producers({"t": [0, 1]}),
}


@pytest.mark.parametrize("name", ALL)
def test_every_version_of_its_range_can_be_written_and_its_answer_type_is_known(name):
    message = ALL[name]
    for version in range(message.low, message.high + 1):
        entity = message.build_entity(version)
        assert (entity.__api_key__, entity.__version__) == (message.api_key, version)
        assert framing.encode_request_body(entity)
        assert message.get_response_type(version).__version__ == version


def test_metadata_never_creates_topics():
    for version in range(7, 14):
        assert ALL["metadata"].build_entity(version).allow_auto_topic_creation is False


def test_transactional_messages_keep_to_the_safe_versions():
    assert (ALL["end_txn"].low, ALL["end_txn"].high) == api_versions.END_TXN_VERSIONS
    assert ALL["add_partitions_to_txn"].high == 3
    assert ALL["init_producer_id"].high == 3
