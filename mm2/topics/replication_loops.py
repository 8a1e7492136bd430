"""Detects replication loops between the flows `A->B` and `B->A`.

If the replication policy renames topics, the name shows where a topic has been
(`naming.is_cycle`). If it does not, both flows write to the same topic, and only a batch's
producer id tells who wrote it: the reverse flow stores its producer ids in its offset map topic
on this flow's source, and batches with those ids are skipped. Records that another replicator
(for example Java MirrorMaker 2) wrote for the reverse flow cannot be told from local records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from connect_runtime.base.ids import TopicPartition
from mm2.topics import naming
from mm2.topics.flow_config import Flow, StartAt

JAVA_LOOP_CAUSE = "java-leads-back"


def reverse_offset_map_topic(flow: Flow) -> str:
    """Where the opposite flow keeps its producer ids; on the source of this one."""
    return naming.offset_map_topic(flow.target)


def reverse_connect_offsets_topic(flow: Flow) -> str:
    """Where the opposite flow's progress is, if it runs in MirrorMaker's dedicated mode; on the
    source of this one."""
    return f"mm2-offsets.{flow.target}.internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsLocation:
    """An offset-syncs topic: on the source of this flow, or on its target."""

    on_source: bool
    topic: str


def locate_reverse_offset_syncs(
    flow: Flow, *, own: OffsetSyncsLocation | None
) -> tuple[OffsetSyncsLocation, ...]:
    """Where the opposite flow writes offset syncs, whichever workers run it; by default on our
    target. Where this flow writes its `own` nothing tells whose they are."""
    places = (
        OffsetSyncsLocation(on_source=False, topic=flow.policy.offset_syncs_topic(flow.source)),
        OffsetSyncsLocation(on_source=True, topic=flow.policy.offset_syncs_topic(flow.target)),
    )
    return tuple(each for each in places if each != own)


def find_topics_mirrored_by_java(
    progress: Collection[TopicPartition],
    eras: Mapping[TopicPartition, Collection[str]],
    *,
    taken_over: str,
) -> frozenset[str]:
    """Topics of which Java mirrored a partition, as the opposite flow's own topics say.

    Of partitions with `progress`, or offset syncs, ours have begun `eras`, with these reasons; one
    that was `taken_over` was Java's before.
    """
    return frozenset(
        each.topic for each in progress if not eras.get(each) or taken_over in eras[each]
    )


def explain_loop(flow: Flow, topic: str, *, java: bool) -> str:
    """Why `topic` of the source must not be mirrored, with the ways on; "" where it may be.

    `java`: it mirrored the opposite way, into this topic. Its records lie before whatever is
    written now: a flow that begins at the latest record never meets them, once Java has stopped.
    """
    if not java or flow.start.at is StartAt.LATEST or flow.remote_topic(topic) != topic:
        return ""
    back = f"{flow.target}->{flow.source}"
    return (
        f"MirrorMaker 2 of Java mirrored {back} into this topic, and what it brought looks like "
        f"records that were born on {flow.source}: they would be copied back. Use the default "
        "policy, or exclude the topic on one side, or stop that MirrorMaker and begin with start: "
        "latest"
    )
