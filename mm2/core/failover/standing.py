"""From where a group stands, by its own word, by its checkpoints or by an earlier look, what counts
of it: the further of them, as nothing of these was told more than was so."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from connect_runtime.base import ids
from mm2.core import flows, naming
from mm2.core.failover import seen
from mm2.core.offsets import checkpoints

_STREAMS_TOPICS = ("-changelog", "-repartition")


def concerns(flow: flows.Flow, topic: str) -> bool:
    """Does the flow mirror the topic, or did it come from where the flow leads?"""
    return flow.topics.takes(topic) or flow.policy.topic_source(topic) == flow.target


def checkpointed(
    flow: flows.Flow,
    name: str,
    points: checkpoints.Points,
    written_ms: Mapping[ids.TopicPartition, int],
) -> seen.Group:
    """A group whose committed offsets cannot be read: its position is that of its checkpoints.
    `written_ms`: when each was written, by name on the target."""
    return seen.Group(
        name=name,
        origin=seen.Origin.CHECKPOINTED,
        positions={
            _on_source(flow, place): checkpoints.OffsetAndMetadata(
                offset=point.upstream, metadata=point.metadata
            )
            for place, point in points.items()
        },
        pairs=pairs(flow, points),
        written_ms={
            _on_source(flow, place): written_ms[place] for place in points if place in written_ms
        },
    )


def pairs(flow: flows.Flow, points: checkpoints.Points) -> Mapping[ids.TopicPartition, seen.Pair]:
    """By name on the flow's source."""
    return {
        _on_source(flow, place): seen.Pair(upstream=point.upstream, downstream=point.downstream)
        for place, point in points.items()
    }


def with_before(group: seen.Group, before: checkpoints.Positions) -> seen.Group:
    """What it told itself counts alone; else also where it was `before`."""
    if group.origin is seen.Origin.COMMITTED:
        return group
    positions = seen.further(group.positions, before)
    written_ms = {
        partition: at_ms
        for partition, at_ms in group.written_ms.items()
        if positions[partition] == group.positions[partition]
    }
    return dataclasses.replace(group, positions=positions, written_ms=written_ms)


def streams_applications(groups: Collection[str], topics: Iterable[str]) -> frozenset[str]:
    """Those of `groups` that are the application.id in names of Kafka Streams' internal topics,
    `APPLICATION-NAME-changelog` or `-repartition`: of several that fit, the longest."""
    found = set()
    for topic in topics:
        if topic.endswith(_STREAMS_TOPICS):
            words = topic.split("-")
            begins = ("-".join(words[:count]) for count in range(len(words) - 2, 0, -1))
            found.update(next(([each] for each in begins if each in groups), []))
    return frozenset(found)


def _on_source(flow: flows.Flow, place: ids.TopicPartition) -> ids.TopicPartition:
    """The name there of what checkpoints call by its name on the target."""
    topic = naming.topic_on_source(
        flow.policy, place.topic, source_alias=flow.source, target_alias=flow.target
    )
    return ids.TopicPartition(topic, place.partition)
