"""A whole flow between clusters that are not Apache's, which refuse, move and throttle."""

from __future__ import annotations

from random import Random

import pytest

from tests.support import content, eventually, kafka, mirror
from tests.support.kafka import Properties
from tests.support.mirror import Mirror
from tests.support.second_brokers import SecondCluster

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(1200)]

PARTITIONS = 3
NODES = 3
# What real brokers answer when disks, leaders or coordinators fail, by who is asked.
ON_SOURCE = [("fetch", code) for code in (5, 6, 9, 56, 74, 75, 78)] + [("metadata", 5)]
ON_TARGET = [("produce", code) for code in (5, 6, 7, 19, 20, 56, 74)] + [
    ("init_producer_id", code) for code in (14, 15, 16, 51)
]


@pytest.fixture
def clusters(tmp_path):
    with (
        SecondCluster(tmp_path / "east", brokers=NODES) as east,
        SecondCluster(tmp_path / "west", brokers=NODES) as west,
    ):
        yield east, west


def move_leaders(side: SecondCluster, topic: str, *, by: int) -> None:
    """What is asked but once is asked again where leaders move."""
    for partition in range(PARTITIONS):
        side.move(topic, partition, node=by % NODES)


def await_landed(target: Properties, topic: str, count: int, running: Mirror) -> None:
    """Counted in the log: what was stored though its answer said otherwise, nobody counted."""

    def landed() -> int:
        return sum(map(len, kafka.read_topic(target, topic).values()))

    eventually.eventually(
        lambda: landed() >= count,
        90.0,
        lambda: f"{count} records; there are {landed()}\n{running.tail}",
    )


def test_nothing_is_lost_and_nothing_doubled_whatever_brokers_answer(tmp_path, clusters):
    east, west = clusters
    source, target = east.client_properties(), west.client_properties()
    name, mirrored = "orders", "east.orders"
    kafka.create_topic(source, name, partitions=PARTITIONS, replication_factor=1)
    given = mirror.settings(source, target, topics=[name], spark={"engine": "inline"})
    rng, sent = Random(11), 0
    with Mirror(tmp_path, given) as running:

        def more() -> None:
            nonlocal sent
            for partition in range(PARTITIONS):
                kafka.produce(source, name, content.some(40, partition=partition))
                sent += 40

        more()
        await_landed(target, mirrored, sent, running)
        for side, faults, topic in ((east, ON_SOURCE, name), (west, ON_TARGET, mirrored)):
            for number, (api, error) in enumerate(faults):
                where = "" if api == "init_producer_id" else topic
                fault = side.fault(api, error=error, topic=where, count=2)
                if api not in {"fetch", "produce"}:
                    move_leaders(side, topic, by=number)
                more()
                await_landed(target, mirrored, sent, running)
                assert side.hits(fault), (api, error)
                side.clear(fault)
        for _ in range(6):
            partition = rng.randrange(PARTITIONS)
            east.move(name, partition, node=rng.randrange(NODES))
            west.move(mirrored, partition, node=rng.randrange(NODES))
            west.rehash()
            more()
            await_landed(target, mirrored, sent, running)
        for api, side in (("fetch", east), ("produce", west)):
            side.throttle(api, ms=200, count=3)
            more()
            await_landed(target, mirrored, sent, running)
        for _ in range(3):
            west.cut("produce")
            more()
            await_landed(target, mirrored, sent, running)
        eventually.eventually(lambda: not running.stopped(), 60.0, "nothing stands still")
        running.stop()
    mirror.catch_up(tmp_path, given)
    for partition in range(PARTITIONS):
        before = kafka.read_partition(source, name, partition)
        after = kafka.read_partition(target, mirrored, partition)
        assert len(before) == sent // PARTITIONS
        assert kafka.differences(before, after) == []
