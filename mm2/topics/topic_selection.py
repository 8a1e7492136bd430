"""Selects the source topics that a flow mirrors, and explains why a topic is mirrored or not.

As in `MirrorSourceConnector.shouldReplicateTopic`, the rules are the topic filter, the heartbeats
topics, internal topics and cycles. In addition, no topic is mirrored to a topic that mm2 writes.
"""

from __future__ import annotations

from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow


def explain_match(flow: Flow, topic: str) -> str:
    """Explain which rule selects a source topic for mirroring; "" if it is not mirrored."""
    if not should_replicate_topic(flow, topic):
        return ""
    if flow.topics.matches(topic):
        return flow.topics.explain_match(topic, key="topics")
    return "heartbeats are mirrored unless heartbeats.replication.enabled is false"


def explain_mismatch(flow: Flow, topic: str) -> str:
    """Explain why a source topic is not mirrored; "" if it is mirrored. Same rules as
    `should_replicate_topic`."""
    if should_replicate_topic(flow, topic):
        return ""
    if replication_policy.is_internal_topic(flow.policy, topic):
        return "internal topics of Kafka and MirrorMaker are never mirrored"
    if has_reserved_mirror_name(flow, topic):
        return (
            f"its mirror would be {flow.format_remote_topic(topic)}, a topic that only mm2 may "
            f"write on {flow.target}"
        )
    if not flow.topics.matches(topic):
        return flow.topics.explain_mismatch(topic, key="topics")
    return f"its name shows that it came from {flow.target}, so mirroring it would be a loop"


def should_replicate_topic(flow: Flow, topic: str) -> bool:
    """Return whether a source topic is mirrored (`MirrorSourceConnector.shouldReplicateTopic`).

    Internal topics, topics whose mirror would be a topic that mm2 writes, and cycles are never
    mirrored. Heartbeats are exempt from the topic filter, but not from the cycle rule.
    """
    return _is_topic_selected(flow, topic) and not _is_mirror_name_reserved(flow, topic)


def should_checkpoint_topic(flow: Flow, topic: str) -> bool:
    """Return whether checkpoints are created for consumer group positions in a source topic. The
    flow must replicate the topic and, as in Java, the topic filter must select it.

    If topics that are not replicated had checkpoints, a source with a topic `west.payments` could
    change group positions in the topic `payments` of the target `west`.
    """
    return flow.topics.matches(topic) and should_replicate_topic(flow, topic)


def has_reserved_mirror_name(flow: Flow, topic: str) -> bool:
    """Return whether the only reason not to mirror a source topic is that its mirror topic would
    have the name of a topic that mm2 itself writes."""
    return _is_mirror_name_reserved(flow, topic) and _is_topic_selected(
        flow, topic
    )  # the filter takes longer


def _is_topic_selected(flow: Flow, topic: str) -> bool:
    wanted = flow.topics.matches(topic) or (
        flow.replicate_heartbeats and replication_policy.is_heartbeats_topic(flow.policy, topic)
    )
    return (
        wanted
        and not replication_policy.is_internal_topic(flow.policy, topic)
        and not replication_policy.is_cycle(flow.policy, topic, target_alias=flow.target)
    )


def _is_mirror_name_reserved(flow: Flow, topic: str) -> bool:
    return replication_policy.is_reserved_on_target(
        flow.policy,
        flow.format_remote_topic(topic),
        source_alias=flow.source,
        target_alias=flow.target,
    )
