from __future__ import annotations

import pytest

from connect_runtime.wire.codec import frames, messages, versions

ALL = {
    "api_versions": messages.api_versions(software_version="1"),
    "metadata": messages.metadata(["a", "b"]),
    "find_coordinators": messages.find_coordinators(1, ["x", "y"]),
    "find_coordinator": messages.find_coordinator(0, "x"),
    "init_producer_id": messages.init_producer_id("tx", 60_000),
    "add_partitions_to_txn": messages.add_partitions_to_txn(
        "tx", producer_id=1, epoch=2, topics={"t": [0, 1]}
    ),
    "end_txn": messages.end_txn("tx", producer_id=1, epoch=2, committed=True),
    "list_offsets": messages.list_offsets(
        {"t": [messages.OffsetQuery(partition=0, timestamp=-1)]}, read_committed=True
    ),
    "epochs": messages.offsets_for_leader_epochs(
        {"t": [messages.EpochQuery(partition=0, current_epoch=4, leader_epoch=3)]}
    ),
    "describe_producers": messages.describe_producers({"t": [0, 1]}),
}


@pytest.mark.parametrize("name", ALL)
def test_every_version_of_its_range_can_be_written_and_its_answer_type_is_known(name):
    message = ALL[name]
    for version in range(message.low, message.high + 1):
        entity = message.entity(version)
        assert (entity.__api_key__, entity.__version__) == (message.api_key, version)
        assert frames.encode_body(entity)
        assert message.response_type(version).__version__ == version


def test_metadata_never_creates_topics():
    for version in range(7, 14):
        assert ALL["metadata"].entity(version).allow_auto_topic_creation is False


def test_transactional_messages_keep_to_the_safe_versions():
    assert (ALL["end_txn"].low, ALL["end_txn"].high) == versions.END_TXN
    assert ALL["add_partitions_to_txn"].high == 3
    assert ALL["init_producer_id"].high == 3
