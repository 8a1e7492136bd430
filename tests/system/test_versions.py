"""Old and new brokers on either side: a flow between any two of them makes an equal mirror."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mm2.sandbox import replication_proof
from mm2.sandbox.traffic.traffic_mix import TrafficMix
from tests.chaos import storm
from tests.chaos.faults import brokers, mirror_processes
from tests.chaos.faults.brokers import Kind
from tests.chaos.storm import Storm
from tests.support import content, kafka, mirror
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.kafka_versions("2.8", "3.9"),
]

_VERSIONS = ("2.8", "3.9", "4.3")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_RECORDS = 300
_ONLY_THERE = {
    "2.8": ("message.downconversion.enable", "true"),
    "4.3": ("compression.zstd.level", "5"),
}
"""A setting of topics that the other of the two does not have."""


def send_everything(access: Properties, name: str, *, round_number: int) -> None:
    for codec in _CODECS:
        kafka.produce(access, name, content.some(20), compression_type=codec)
    for commit in (False, True):
        own = f"{name}-{round_number}-{commit}"
        records = content.some(5)
        kafka.produce_transaction(access, name, records, transactional_id=own, commit=commit)


@pytest.mark.parametrize(
    "topic_ids", [True, pytest.param(False, marks=pytest.mark.full)], ids=["ids", "no-ids"]
)
@pytest.mark.parametrize("from_version", ["2.8", pytest.param("4.3", marks=pytest.mark.full)])
def test_a_migration_and_the_way_back(tmp_path, own_cluster, east, topic, from_version, topic_ids):
    """Every codec, and transactions of which some are aborted; the flow restarts in the middle."""
    settings = {} if topic_ids else {"inter.broker.protocol.version": "2.7"}
    old, new = own_cluster("old", kafka_version="2.8", settings=settings), east
    pair = (old, new) if from_version == "2.8" else (new, old)
    source, target = (each.client_properties() for each in pair)
    key, value = _ONLY_THERE[from_version]
    name = kafka.create_topic(source, topic(), config={key: value, "retention.ms": "77000000"})
    given = mirror.settings(source, target, topics=[name], spark={"engine": "inline"})

    send_everything(source, name, round_number=1)
    log = mirror.catch_up(tmp_path, given)
    send_everything(source, name, round_number=2)
    mirror.catch_up(tmp_path, given)

    assert f"{key}={value} is not synced" in log
    assert len(kafka.read_partition(target, f"east.{name}")) == 2 * (20 * len(_CODECS) + 5)
    content.assert_mirrored(source, target, name)


@pytest.mark.full
@pytest.mark.parametrize(
    ("from_version", "to_version"), list(itertools.product(_VERSIONS, repeat=2))
)
def test_every_kind_of_traffic_between_two_versions(
    tmp_path, own_cluster, from_version, to_version
):
    """Tombstones, large records, the Java client's batches…; the flow is stopped under traffic."""
    east = own_cluster("east", kafka_version=from_version)
    west = own_cluster("west", kafka_version=to_version)
    source, target = east.client_properties(), west.client_properties()
    given = mirror.settings(source, target, spark={"engine": "inline"})
    with TrafficMix(source, records=_RECORDS) as traffic:
        traffic.create_topics()
        traffic.send_backlog()
        with Mirror(tmp_path, given) as first:
            first.await_records(_RECORDS)
            traffic.start()
            first.await_records(first.records() + _RECORDS)
            assert first.stop() == 143, first.tail
        with Mirror(tmp_path, given, name="second") as second:
            second.await_records(_RECORDS)
            traffic.stop()
            assert second.stopped() == set()
            assert second.stop() == 143, second.tail
        names = {name: f"east.{name}" for name in traffic.topic_names}
        assert traffic.transactions.aborted > 0
    mirror.catch_up(tmp_path, given)

    for isolation in ("read_committed", "read_uncommitted"):
        found = replication_proof.compare_topics(source, target, names, isolation=isolation)
        assert found.is_equal, f"{isolation}:\n{found}"
        assert found.records > 3 * _RECORDS


@pytest.mark.full
@pytest.mark.parametrize(
    ("from_version", "to_version"), [("2.8", "4.3"), ("4.3", "2.8"), ("3.9", "2.8")]
)
def test_exactly_once_between_versions_under_kills_and_broker_restarts(
    tmp_path, own_cluster, from_version, to_version
):
    east = own_cluster("east", kafka_version=from_version)
    west = own_cluster("west", kafka_version=to_version)
    strikes = [
        storm.process(mirror_processes.Kind.DRIVER),
        storm.broker("west", Kind.KILL),
        storm.broker("east", Kind.RESTART),
    ]
    with Storm(tmp_path, (east, west), seed=11) as weather:
        weather.hit(strikes)
        weather.kill(mirror_processes.Kind.COPY)
        weather.settle_and_judge()


@pytest.mark.full
@pytest.mark.parametrize(("from_version", "to_version"), [("4.3", "2.8"), ("2.8", "4.3")])
def test_leaders_of_old_brokers_move_and_nothing_is_lost_or_doubled(
    tmp_path, own_cluster, from_version, to_version
):
    """Three old brokers, of which one after the other is killed and comes back."""
    east = own_cluster(
        "east", kafka_version=from_version, brokers=3 if from_version == "2.8" else 1
    )
    west = own_cluster("west", kafka_version=to_version, brokers=3 if to_version == "2.8" else 1)
    old = east if from_version == "2.8" else west

    def kill(node: int) -> None:
        old.brokers[node].kill()
        brokers.pause(2.0)
        old.brokers[node].start()

    factors: dict[str, Any] = {
        "replication.factor": len(west.brokers),
        "offset-syncs.topic.replication.factor": len(east.brokers),
    }
    with Storm(tmp_path, (east, west), seed=12, **factors) as weather:
        weather.hit([lambda _: kill(1), lambda _: kill(2), lambda _: kill(3)])
        weather.settle_and_judge()
