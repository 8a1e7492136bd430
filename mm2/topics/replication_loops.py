"""Detects replication loops between the flows `A->B` and `B->A`.

If the replication policy renames topics, the name shows through which clusters a topic has passed
(`naming.is_cycle`). If it does not, both flows write to the same topic, and only a batch's producer
id identifies its writer. The reverse flow stores its producer ids in its offset map topic on this
flow's source, and batches with those ids are skipped. Records that another replicator (for example
Java MirrorMaker 2) wrote for the reverse flow cannot be distinguished from local records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from connect_runtime.base.ids import TopicPartition
from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow, StartPositionKind

JAVA_LOOP_CAUSE = "java-leads-back"


def format_reverse_offset_map_topic(flow: Flow) -> str:
    """Return the name of the reverse flow's offset map topic, which is on this flow's source and
    contains its producer ids."""
    return replication_policy.format_offset_map_topic(flow.target)


def format_reverse_connect_offsets_topic(flow: Flow) -> str:
    """Return the name of the reverse flow's Connect offsets topic in MirrorMaker's dedicated mode,
    on this flow's source."""
    return f"mm2-offsets.{flow.target}.internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsLocation:
    """An offset-syncs topic on this flow's source or target."""

    on_source: bool
    topic: str


def locate_reverse_offset_syncs(
    flow: Flow, *, own: OffsetSyncsLocation | None
) -> tuple[OffsetSyncsLocation, ...]:
    """Return the possible offset-syncs topics of the reverse flow. By default they are on this
    flow's target.

    Excludes this flow's `own` topic, in which the syncs of both flows cannot be distinguished.
    """
    places = (
        OffsetSyncsLocation(on_source=False, topic=flow.policy.offset_syncs_topic(flow.source)),
        OffsetSyncsLocation(on_source=True, topic=flow.policy.offset_syncs_topic(flow.target)),
    )
    return tuple(each for each in places if each != own)


def find_topics_mirrored_by_java(
    progress: Collection[TopicPartition],
    eras: Mapping[TopicPartition, Collection[str]],
    *,
    takeover_reason: str,
) -> frozenset[str]:
    """Find the topics with a partition that MirrorMaker 2 mirrored, according to the reverse flow's
    topics.

    `progress` contains partitions with stored offsets or offset syncs. `eras` contains the reasons
    of the reverse flow's eras (mirror generations) in mm2. An era with reason `takeover_reason`
    shows that MirrorMaker 2 replicated the partition before.
    """
    return frozenset(
        each.topic for each in progress if not eras.get(each) or takeover_reason in eras[each]
    )


def explain_loop(flow: Flow, topic: str, *, java: bool) -> str:
    """Explain why a source topic must not be mirrored, with remedies; "" if it may be mirrored.

    `java` is True if MirrorMaker 2 mirrored records into this topic, in the opposite direction.
    Once MirrorMaker 2 has stopped, a flow that starts at the latest record does not read those
    records.
    """
    if (
        not java
        or flow.start.kind is StartPositionKind.LATEST
        or flow.format_remote_topic(topic) != topic
    ):
        return ""
    back = f"{flow.target}->{flow.source}"
    return (
        f"Java MirrorMaker 2 mirrored {back} into this topic, and its records cannot be "
        f"distinguished from records produced on {flow.source}: they would be replicated back. "
        "Use the default policy, or exclude the topic on one side, or stop that MirrorMaker and "
        "set start: latest"
    )
