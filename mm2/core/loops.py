"""How a flow keeps records from going in circles, and when it cannot (planner).

Where the policy renames a topic its name tells where it has been (`naming.is_cycle`). Where it does
not, A->B and B->A write into the same topic, and only who wrote a batch tells: the opposite flow
keeps its producer ids in its map topic, on this flow's source, and what they wrote is skipped
(`copy.opposite`), whichever partition it is in. What somebody else wrote for the opposite flow,
Java for instance, looks like any local record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.core import flows, naming

CAUSE = "java-leads-back"


def opposite_map_topic(flow: flows.Flow) -> str:
    """Where the opposite flow keeps its producer ids; on the source of this one."""
    return naming.map_topic(flow.target)


def opposite_offsets_topic(flow: flows.Flow) -> str:
    """Where the opposite flow's progress is, if it runs in MirrorMaker's dedicated mode; on the
    source of this one."""
    return f"mm2-offsets.{flow.target}.internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncsPlace:
    """An offset-syncs topic: on the source of this flow, or on its target."""

    on_source: bool
    topic: str


def opposite_syncs(flow: flows.Flow, *, own: SyncsPlace | None) -> tuple[SyncsPlace, ...]:
    """Where the opposite flow writes offset syncs, whichever workers run it; by default on our
    target. Where this flow writes its `own` nothing tells whose they are."""
    places = (
        SyncsPlace(on_source=False, topic=flow.policy.offset_syncs_topic(flow.source)),
        SyncsPlace(on_source=True, topic=flow.policy.offset_syncs_topic(flow.target)),
    )
    return tuple(each for each in places if each != own)


def mirrored_by_java(
    progress: Collection[ids.TopicPartition],
    eras: Mapping[ids.TopicPartition, Collection[str]],
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


def why_not(flow: flows.Flow, topic: str, *, java: bool) -> str:
    """Why `topic` of the source must not be mirrored, with the ways on; "" where it may be.

    `java`: it mirrored the opposite way, into this topic. Its records lie before whatever is
    written now: a flow that begins at the latest record never meets them, once Java has stopped.
    """
    if not java or flow.start.at is flows.StartAt.LATEST or flow.remote_topic(topic) != topic:
        return ""
    back = f"{flow.target}->{flow.source}"
    return (
        f"MirrorMaker 2 of Java mirrored {back} into this topic, and what it brought looks like "
        f"records that were born on {flow.source}: they would be copied back. Use the default "
        "policy, or exclude the topic on one side, or stop that MirrorMaker and begin with start: "
        "latest"
    )
