"""How long a source is waited for, and which incidents count as losses."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters import replication_progress
from mm2.formats import incident_records, mirrormaker2_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow
from tests.fakes.one_side import FakeSide
from tests.fakes.two_sides import FakeSides

HERE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOPIC = "mm2-offset-syncs.west.internal"


def sync(partition: TopicPartition, upstream: int) -> OffsetSync:
    return OffsetSync(partition=partition, upstream=upstream, downstream=upstream + 5)


def test_all_that_still_stands_is_read_in_order():
    side = FakeSide("east")
    told = [sync(HERE, 4), sync(OTHER, 7), sync(HERE, 9)]
    records = [mirrormaker2_records.encode_offset_sync(each) for each in told]
    side.topics.topics[TOPIC] = [*records, (b"key", None), (None, b"value"), (b"no", b"sync")]
    found = replication_progress.read_offset_syncs(side, TOPIC, 5.0)
    assert found == {HERE: [told[0], told[2]], OTHER: [told[1]]}


def test_syncs_of_too_many_partitions_and_of_impossible_topics_are_ignored(caplog):
    side = FakeSide("east")
    told = [sync(HERE, 4), sync(TopicPartition("a" * 250, 0), 7), sync(OTHER, 9)]
    told += [sync(TopicPartition("orders", 2), 8), sync(OTHER, 10)]
    side.topics.topics[TOPIC] = [mirrormaker2_records.encode_offset_sync(each) for each in told]
    found = replication_progress.read_offset_syncs(side, TOPIC, 5.0, partitions_max=2)
    assert found == {HERE: [told[0]], OTHER: [told[2], told[4]]}
    assert f"{TOPIC}: 2 offset syncs ignored: syncs of at most 2 partitions" in caplog.text


def test_a_topic_that_is_not_there_is_not_waited_for():
    """A consumer of a topic that is missing waits for it until time is up."""
    side = FakeSide("east")

    def read(*_: object, **__: object) -> None:
        raise AssertionError("it was read")

    side.topics.read_topic = read  # type: ignore[method-assign]  # it is not to be
    assert replication_progress.read_offset_syncs(side, TOPIC, 5.0) == {}


@pytest.mark.parametrize(
    ("timeout_s", "asked_s"), [(1.0, 1.0), (10.0, 10.0), (60.0, 10.0), (300.0, 50.0)]
)
def test_a_longer_look_asks_a_source_for_longer(timeout_s, asked_s):
    assert replication_progress.compute_source_timeout_s(timeout_s) == asked_s


@pytest.mark.parametrize("kind", IncidentKind)
def test_only_what_was_lost_counts_as_a_loss(kind):
    sides = FakeSides(Flow(source="east", target="west"))
    stated = Incident(
        topic="orders", partition=0, id="x", kind=kind, flow="east->west", at_ms=1, detail=""
    )
    sides.target.topics.topics[replication_policy.format_incidents_topic("east")] = [
        incident_records.encode_incident(stated)
    ]
    found = replication_progress.collect_mirror_state(sides, clock=SystemClock(), timeout_s=5.0)
    lost = (IncidentKind.SOURCE_GONE, IncidentKind.NEW_ERA_REQUESTED)
    assert found.loss_count == (1 if kind in lost else 0)
