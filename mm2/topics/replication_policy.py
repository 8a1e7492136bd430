"""Names of topics on the target: replication policies, and names of mm2's and Connect's own topics.

`DefaultReplicationPolicy` and `IdentityReplicationPolicy` behave like MirrorMaker 2's policies,
including the behavior of Java's `String.split`. MirrorMaker 2 and mm2 therefore interpret every
topic name in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

HEARTBEATS_TOPIC = "heartbeats"
MAX_TOPIC_NAME_LENGTH = 249
CONNECT_TOPIC_KINDS = ("offsets", "status", "configs")
_OWN_TOPIC_PREFIXES = tuple(
    f"mm2-{kind}." for kind in (*CONNECT_TOPIC_KINDS, "offset-map", "incidents", "offset-syncs")
)
"""Prefixes of the internal topics that flows write on their target, for any source cluster."""


class ReplicationPolicy(Protocol):
    """A mapping between topic names of two clusters (`ReplicationPolicy` of MirrorMaker 2)."""

    @property
    def renames_topics(self) -> bool:
        """True if an ordinary topic has a different name on the target."""
        ...

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the target name of a topic of cluster `source_alias`."""
        ...

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster from which the topic was mirrored; None if it was not
        mirrored."""
        ...

    def upstream_topic(self, topic: str) -> str | None:
        """Return the topic's name on the cluster from which it was mirrored (one hop closer to its
        origin); None if it was not mirrored."""
        ...

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the name of the offset-syncs topic. `alias` is the alias of the flow's other
        cluster, which does not store the topic."""
        ...

    def checkpoints_topic(self, source_alias: str) -> str:
        """Return the name of the checkpoints topic on the target."""
        ...

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Return whether the topic is a checkpoints topic."""
        ...

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Return whether the topic is an internal topic of MirrorMaker."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultReplicationPolicy:
    """Names remote topics `<source alias><separator><topic>`."""

    separator: str = "."
    internal_separator: str = "."
    """Separator of internal topics: `separator`, or "." if
    `replication.policy.internal.topic.separator.enabled` is false (KIP-949)."""

    @property
    def renames_topics(self) -> bool:
        return True

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        if not self.separator:
            return topic[0] if len(topic) >= 2 else None
        source, _, rest = topic.partition(self.separator)
        # Java's `String.split` drops trailing empty parts, so separators alone are no second part.
        is_empty = rest == self.separator * (len(rest) // len(self.separator))
        return None if is_empty else source

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs{self.internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, source_alias: str) -> str:
        return f"{source_alias}{self._checkpoints_suffix}"

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self._checkpoints_suffix)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Return whether the topic is an internal topic of MirrorMaker.

        mm2's own topics end in ".internal" regardless of the separator, like Connect's.
        """
        ours = topic.startswith("mm2") and topic.endswith((self._internal_suffix, ".internal"))
        return ours or self.is_checkpoints_topic(topic)

    @property
    def _internal_suffix(self) -> str:
        return f"{self.internal_separator}internal"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self.internal_separator}checkpoints{self._internal_suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityReplicationPolicy:
    """Keeps topic names. Only names that end in "heartbeats" are renamed, as by
    `DefaultReplicationPolicy` (`defaults`).

    Every ordinary topic therefore seems to come from `source_alias` (None: unknown), and cycles of
    ordinary topics cannot be detected by name.
    """

    source_alias: str | None
    defaults: DefaultReplicationPolicy = DefaultReplicationPolicy()

    @property
    def renames_topics(self) -> bool:
        return False

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        if _has_heartbeats_name(topic):
            return self.defaults.format_remote_topic(source_alias, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        if _has_heartbeats_name(topic):
            return self.defaults.topic_source(topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        if _has_heartbeats_name(topic):
            return self.defaults.upstream_topic(topic)
        return topic

    def offset_syncs_topic(self, alias: str) -> str:
        return self.defaults.offset_syncs_topic(alias)

    def checkpoints_topic(self, source_alias: str) -> str:
        return self.defaults.checkpoints_topic(source_alias)

    def is_checkpoints_topic(self, topic: str) -> bool:
        return self.defaults.is_checkpoints_topic(topic)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return self.defaults.is_mm2_internal_topic(topic)


@dataclass(frozen=True, slots=True)
class CustomReplicationPolicy:
    """A user-provided replication policy. `class_name` also identifies the policy in
    comparisons."""

    class_name: str
    policy: ReplicationPolicy = field(repr=False, compare=False)

    @property
    def renames_topics(self) -> bool:
        return bool(self.policy.renames_topics)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return self.policy.format_remote_topic(source_alias, topic)

    def topic_source(self, topic: str) -> str | None:
        return self.policy.topic_source(topic)

    def upstream_topic(self, topic: str) -> str | None:
        return self.policy.upstream_topic(topic)

    def offset_syncs_topic(self, alias: str) -> str:
        return self.policy.offset_syncs_topic(alias)

    def checkpoints_topic(self, source_alias: str) -> str:
        return self.policy.checkpoints_topic(source_alias)

    def is_checkpoints_topic(self, topic: str) -> bool:
        return bool(self.policy.is_checkpoints_topic(topic))

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return bool(self.policy.is_mm2_internal_topic(topic))


def format_offset_map_topic(source_alias: str) -> str:
    """Return the name of the offset map topic on the target, for the flow from `source_alias`.

    Like the names of Connect's own topics, the results of this function and of
    `format_incidents_topic` ignore custom separators.
    """
    return f"mm2-offset-map.{source_alias}.internal"


def format_incidents_topic(source_alias: str) -> str:
    """Return the name of the topic on the target that stores the incidents of the flow from
    `source_alias`."""
    return f"mm2-incidents.{source_alias}.internal"


def format_connect_topic(kind: str, source_alias: str) -> str:
    """Return the name of an internal topic of the flow's Connect worker on the target. `kind` is
    `configs`, `offsets` or `status`."""
    return f"mm2-{kind}.{source_alias}.internal"


def map_topic_to_target(
    policy: ReplicationPolicy, topic: str, *, source_alias: str, target_alias: str
) -> str:
    """Return the name of the source topic's counterpart on the target: its mirror topic, or the
    original topic if the source topic is itself a mirror of a target topic.

    If the topic was mirrored from the target, only the last hop's prefix is removed, which yields
    its name on the target. Java removes the prefixes of all hops, which yields a different topic
    after several hops.
    """
    if policy.topic_source(topic) == target_alias:
        upstream = policy.upstream_topic(topic)
        assert upstream is not None, topic
        return upstream
    return policy.format_remote_topic(source_alias, topic)


def map_topic_to_source(
    policy: ReplicationPolicy, topic: str, *, source_alias: str, target_alias: str
) -> str:
    """Return the name of the target topic's counterpart on the source. Inverse of
    `map_topic_to_target`."""
    return map_topic_to_target(policy, topic, source_alias=target_alias, target_alias=source_alias)


def original_topic(policy: ReplicationPolicy, topic: str) -> str:
    """Return the name of the topic on the cluster where it originates. Every hop is stripped."""
    while True:
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return topic
        topic = upstream


def is_heartbeats_topic(policy: ReplicationPolicy, topic: str) -> bool:
    """Return whether the topic is `heartbeats`, local or mirrored over any number of hops."""
    return original_topic(policy, topic) == HEARTBEATS_TOPIC


def is_internal_topic(policy: ReplicationPolicy, topic: str) -> bool:
    """Return whether the topic is internal to Kafka or MirrorMaker and therefore never mirrored.

    As in Kafka 4.3, names that only end in "internal" are ordinary.
    """
    return policy.is_mm2_internal_topic(topic) or topic.startswith(("__", "."))


def is_reserved_on_target(
    policy: ReplicationPolicy, name: str, *, source_alias: str, target_alias: str
) -> bool:
    """Return whether the name belongs to a topic that mm2 or MirrorMaker itself writes on the
    target, so that no mirror topic may have it.

    The mirror of a source topic `checkpoints.internal` would be the flow's own checkpoints topic.
    A name that only resembles such a topic is not reserved: with the source alias `mm2prod`, the
    mirror of `orders.internal` is `mm2prod.orders.internal`.
    """
    is_own = name.endswith(".internal") and name.startswith(_OWN_TOPIC_PREFIXES)
    return (
        is_own
        or policy.is_checkpoints_topic(name)
        or name
        in {
            HEARTBEATS_TOPIC,
            policy.checkpoints_topic(source_alias),
            policy.offset_syncs_topic(source_alias),
            policy.offset_syncs_topic(target_alias),
        }
    )


def is_cycle(policy: ReplicationPolicy, topic: str, *, target_alias: str) -> bool:
    """Return whether the topic has already been on the target, so that mirroring it would be a
    loop."""
    while True:
        source = policy.topic_source(topic)
        if source is None:
            return False
        if source == target_alias:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream


def _has_heartbeats_name(topic: str) -> bool:
    return topic.endswith(HEARTBEATS_TOPIC)
