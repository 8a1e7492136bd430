"""What a stopped mirror has written down about itself, read from its map topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_runtime.base import ids
from mm2.core import naming
from mm2.core.offsets import offset_map
from mm2.sandbox import cluster
from tests.support import kafka

MAP_TOPIC = naming.map_topic("east")


def read_map(target: cluster.Cluster) -> offset_map.OffsetMap:
    found = offset_map.OffsetMap()
    for record in kafka.read_partition(target.client_properties(), MAP_TOPIC):
        assert record.key is not None
        found.apply(record.key, record.value)
    return found


def uncovered(
    target: cluster.Cluster, partitions: Iterable[ids.TopicPartition], *, prefix: str = "east."
) -> dict[ids.TopicPartition, tuple[int | None, int]]:
    """`differing`, of these partitions of the source and the logs of their mirrors."""
    properties = target.client_properties()
    ends = {
        each: kafka.offsets(properties, prefix + each.topic, each.partition)[1]
        for each in partitions
    }
    assert ends, "no partition to look at"
    return differing(read_map(target), ends)


def differing(
    known: offset_map.OffsetMap, ends: Mapping[ids.TopicPartition, int]
) -> dict[ids.TopicPartition, tuple[int | None, int]]:
    """Partitions with (anchor's next target offset, end of the mirror's log) where the two differ.

    None for an offset: the map has no anchor. No difference at all: the next start finds nothing
    behind its anchors, and has nothing to pair.
    """
    found: dict[ids.TopicPartition, tuple[int | None, int]] = {}
    for partition, end in sorted(ends.items()):
        anchor = known.partition(partition).anchor
        reached = anchor.segment.target_next if anchor is not None else None
        if reached != end:
            found[partition] = (reached, end)
    return found
