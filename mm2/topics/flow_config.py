"""`Flow`: one replication flow `source->target` with its options, as immutable values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.topics import filters, naming
from mm2.topics.filters import ConfigPropertyFilter, NamePatterns, TopicOrGroupFilter
from mm2.topics.naming import DefaultReplicationPolicy, ReplicationPolicy

DEFAULT_BUFFER_BYTES = 64 * 1024 * 1024
DEFAULT_UNREACHABLE_AFTER_S = 10
DEFAULT_OFFSET_MAP_BYTES = 16 * 1024 * 1024


class StartAt(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a partition without any progress begins.

    `timestamp_ms` (UTC milliseconds) goes with `TIMESTAMP`: the first record that is not older.
    """

    at: StartAt = StartAt.EARLIEST
    timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        assert (self.at is StartAt.TIMESTAMP) == (self.timestamp_ms is not None), self

    @property
    def text(self) -> str:
        """As setups and requests have it: "earliest", "latest", or the milliseconds."""
        return self.at.value if self.timestamp_ms is None else str(self.timestamp_ms)


class TargetTopicAccess(enum.Enum):
    """Who may write to the mirror topics."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class DeliveryMode(enum.Enum):
    """AUTO: transactions only while records are old; TRANSACTIONAL: always; AT_LEAST_ONCE: no
    transactional id is used, so nobody is fenced."""

    AUTO = "auto"
    TRANSACTIONAL = "transactional"
    AT_LEAST_ONCE = "at-least-once"


class OnSourceGap(enum.Enum):
    """What follows when the source deleted records before they were copied: an incident, or an
    end."""

    CONTINUE = "continue"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class TopicThrottle:
    """Bytes per second for each topic that matches; 0: no limit, and no later one counts."""

    pattern: NamePatterns
    bytes_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowThrottles:
    """Bytes per second, as the source sends them. `flow` 0: no limit.

    `topics`: the first that matches a topic is its budget, beside the flow's own.
    """

    flow: int = 0
    topics: tuple[TopicThrottle, ...] = ()

    def of_topic(self, topic: str) -> int | None:
        found = (each.bytes_per_s for each in self.topics if each.pattern.matches(topic))
        return next(found, 0) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Source and target are cluster aliases. Intervals are seconds; None means never.

    `replication_factor` is for topics that we create, -1 leaves it to the target's brokers.
    `buffer_bytes` bounds what one task holds between fetching and acknowledgement, `map_bytes` the
    offset map of one partition: beyond it what is old is translated less exactly. A broker of
    either cluster counts as unreachable once it has not answered for `unreachable_after_s`.
    """

    source: str
    target: str
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy)
    topics: TopicOrGroupFilter = field(default_factory=filters.compile_topic_filter)
    groups: TopicOrGroupFilter = field(default_factory=filters.compile_group_filter)
    properties: ConfigPropertyFilter = field(default_factory=filters.compile_config_property_filter)
    replicate_heartbeats: bool = True
    replication_factor: int = 2
    tasks_max: int = 1
    start: StartPosition = StartPosition()
    target_topics: TargetTopicAccess = TargetTopicAccess.EXCLUSIVE
    delivery: DeliveryMode = DeliveryMode.AUTO
    on_source_gap: OnSourceGap = OnSourceGap.CONTINUE
    refresh_topics_interval_s: float | None = 600
    sync_topic_configs_interval_s: float | None = 600
    admin_timeout_s: float = 60
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    map_bytes: int = DEFAULT_OFFSET_MAP_BYTES
    unreachable_after_s: int = DEFAULT_UNREACHABLE_AFTER_S
    budgets: FlowThrottles = FlowThrottles()

    @property
    def name(self) -> str:
        """As people write it: `east->west`."""
        return f"{self.source}->{self.target}"

    @property
    def syncs_topic_configs(self) -> bool:
        return self.sync_topic_configs_interval_s is not None

    def remote_topic(self, topic: str) -> str:
        """Name on the target of the source's `topic`."""
        return self.policy.format_remote_topic(self.source, topic)

    def transactional_id(self, partition: TopicPartition) -> str:
        """The id that fences `partition`, named as on the source; lives on the target."""
        return f"mm2-{self.name}-{partition.topic}-{partition.partition}"

    def why(self, topic: str) -> str:
        """By which rule the source's `topic` is mirrored, "" where it is not."""
        if not self.should_replicate_topic(topic):
            return ""
        if self.topics.takes(topic):
            return self.topics.why(topic, key="topics")
        return "heartbeats are mirrored unless heartbeats.replication.enabled is false"

    def why_not(self, topic: str) -> str:
        """Why the source's `topic` is not mirrored, "" where it is: `should_replicate_topic` in
        words."""
        if self.should_replicate_topic(topic):
            return ""
        if naming.is_internal_topic(self.policy, topic):
            return "topics of Kafka and of MirrorMaker itself are never mirrored"
        if not self.topics.takes(topic):
            return self.topics.why_not(topic, key="topics")
        return f"its name says that it has been on {self.target}: it would go in circles"

    def should_replicate_topic(self, topic: str) -> bool:
        """Is the source's `topic` mirrored (`MirrorSourceConnector.shouldReplicateTopic`)?

        Internal topics and cycles never are; heartbeats pass the filters, not the cycle rule.
        """
        wanted = self.topics.takes(topic) or (
            self.replicate_heartbeats and naming.is_heartbeats_topic(self.policy, topic)
        )
        return (
            wanted
            and not naming.is_internal_topic(self.policy, topic)
            and not naming.is_cycle(self.policy, topic, target_alias=self.target)
        )
