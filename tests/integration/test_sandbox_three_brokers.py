"""A cluster of three brokers survives the loss of any one of them."""

from __future__ import annotations

import pytest

from tests.support import kafka
from tests.support.eventually import eventually
from tests.support.kafka import Outgoing

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def test_three_brokers_replicate_and_survive_the_loss_of_one(own_cluster):
    three = own_cluster(brokers=3)
    access = three.client_properties()
    kafka.create_topic(access, "t", partitions=3, replication_factor=3)
    records = [Outgoing(value=b"before", partition=partition) for partition in range(3)]
    kafka.produce(access, "t", records, acks="all")

    three.brokers[2].kill()
    eventually(lambda: 2 not in _leaders(access), 30, "the partitions of broker 2 moved")
    records = [Outgoing(value=b"during", partition=partition) for partition in range(3)]
    kafka.produce(access, "t", records, acks="all")
    three.brokers[2].start()
    eventually(lambda: _in_sync(access) == [3, 3, 3], 30, "broker 2 caught up")

    contents = kafka.read_topic(access, "t")
    assert [[record.value for record in contents[partition]] for partition in range(3)] == [
        [b"before", b"during"]
    ] * 3


def _leaders(access) -> set[int]:
    return {partition.leader for partition in _partitions(access)}


def _in_sync(access) -> list[int]:
    return [len(partition.isrs) for partition in _partitions(access)]


def _partitions(access):
    return kafka.partitions(access, "t").values()
