"""What a stopped mirror has written down about itself, read from its map topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.offset_map import OffsetMap
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.topics import replication_policy
from tests.support import kafka

MAP_TOPIC = replication_policy.format_offset_map_topic("east")


def read_map(target: SandboxCluster) -> OffsetMap:
    found = OffsetMap()
    for record in kafka.read_partition(target.client_properties(), MAP_TOPIC):
        assert record.key is not None
        found.apply_record(record.key, record.value)
    return found


def uncovered(
    target: SandboxCluster, partitions: Iterable[TopicPartition], *, prefix: str = "east."
) -> dict[TopicPartition, tuple[int | None, int]]:
    """`differing`, of these partitions of the source and the logs of their mirrors."""
    properties = target.client_properties()
    ends = {
        each: kafka.offsets(properties, prefix + each.topic, each.partition)[1]
        for each in partitions
    }
    assert ends, "no partition to look at"
    return differing(read_map(target), ends)


def differing(
    known: OffsetMap, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int | None, int]]:
    """Partitions with (anchor's next target offset, end of the mirror's log) where the two differ.

    None for an offset: the map has no anchor. No difference at all: the next start finds nothing
    behind its anchors, and has nothing to pair.
    """
    found: dict[TopicPartition, tuple[int | None, int]] = {}
    for partition, end in sorted(ends.items()):
        anchor = known.get_partition(partition).resume_point
        reached = anchor.segment.target_next if anchor is not None else None
        if reached != end:
            found[partition] = (reached, end)
    return found
