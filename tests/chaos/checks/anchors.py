"""What a stopped mirror has written down about itself, read from its map topic."""

from __future__ import annotations

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


def uncovered(target: cluster.Cluster, *, prefix: str = "east.") -> dict[str, tuple[int, int]]:
    """Partitions with (anchor's next target offset, log end) where the two differ.

    None of them: the next start finds nothing behind its anchors, and has nothing to pair.
    """
    found: dict[str, tuple[int, int]] = {}
    known = read_map(target)
    for partition in known.partitions():
        anchor = known.partition(partition).anchor
        assert anchor is not None, partition
        mirror = ids.TopicPartition(prefix + partition.topic, partition.partition)
        properties = target.client_properties()
        end = kafka.offsets(properties, mirror.topic, mirror.partition)[1]
        if anchor.segment.target_next != end:
            found[str(mirror)] = (anchor.segment.target_next, end)
    return found
