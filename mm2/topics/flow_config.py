"""`Flow`: one replication flow `source->target` with its options, as immutable values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mm2.topics import config_property_filter, topic_filters
from mm2.topics.config_property_filter import ConfigPropertyFilter
from mm2.topics.replication_policy import DefaultReplicationPolicy, ReplicationPolicy
from mm2.topics.topic_filters import NamePatterns, TopicOrGroupFilter

DEFAULT_BUFFER_BYTES = 64 * 1024 * 1024
DEFAULT_UNREACHABLE_AFTER_S = 10
DEFAULT_OFFSET_MAP_BYTES = 16 * 1024 * 1024


class StartPositionKind(enum.Enum):
    """Kind of a start position."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Position at which a partition without any progress starts."""

    kind: StartPositionKind = StartPositionKind.EARLIEST
    timestamp_ms: int | None = None
    """For `TIMESTAMP`: start at the first record that is not older than this time (UTC
    milliseconds)."""

    def __post_init__(self) -> None:
        assert (self.kind is StartPositionKind.TIMESTAMP) == (self.timestamp_ms is not None), self

    @property
    def config_text(self) -> str:
        """The start position as a string, as used in task setups and requests: "earliest",
        "latest", or the timestamp in milliseconds."""
        return self.kind.value if self.timestamp_ms is None else str(self.timestamp_ms)


class TargetTopicAccess(enum.Enum):
    """Which producers may write to the mirror topics."""

    EXCLUSIVE = "exclusive"
    """Only this flow may write."""
    SHARED = "shared"
    """Other producers may write, too."""


class DeliveryMode(enum.Enum):
    """Delivery guarantee of a flow, and its use of transactions."""

    AUTO = "auto"
    """Exactly once; transactions are used only for old records."""
    TRANSACTIONAL = "transactional"
    """Exactly once; always in transactions."""
    AT_LEAST_ONCE = "at-least-once"
    """At least once, without a transactional id, so older writers cannot be fenced."""


class SourceGapAction(enum.Enum):
    """Action if the source deleted records before they were replicated."""

    CONTINUE = "continue"
    """Record an incident and continue."""
    FAIL = "fail"
    """Halt the partition."""


@dataclass(frozen=True, slots=True)
class TopicThrottle:
    """Throttle in bytes per second for topics that match `pattern`; 0 means no limit. Only the
    first matching entry applies to a topic."""

    pattern: NamePatterns
    bytes_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowThrottles:
    """Throttles of a flow in bytes per second, applied to the bytes received from the source.
    `flow` is the limit of the whole flow; 0 means no limit."""

    flow: int = 0
    topics: tuple[TopicThrottle, ...] = ()
    """Topic throttles. The first matching entry applies to a topic, in addition to the flow's
    throttle."""

    def get_topic_throttle(self, topic: str) -> int | None:
        """Return the throttle of a topic in bytes per second; None for no limit."""
        found = (each.bytes_per_s for each in self.topics if each.pattern.matches(topic))
        return next(found, 0) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One replication flow between two cluster aliases. Intervals are in seconds; an interval of
    None disables the periodic action."""

    source: str
    target: str
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy)
    topics: TopicOrGroupFilter = field(default_factory=topic_filters.compile_topic_filter)
    groups: TopicOrGroupFilter = field(default_factory=topic_filters.compile_group_filter)
    config_filter: ConfigPropertyFilter = field(
        default_factory=config_property_filter.compile_config_property_filter
    )
    replicate_heartbeats: bool = True
    replication_factor: int = 2
    """Replication factor of created topics; -1 uses the target brokers' default."""
    tasks_max: int = 1
    start: StartPosition = StartPosition()
    target_topics: TargetTopicAccess = TargetTopicAccess.EXCLUSIVE
    delivery: DeliveryMode = DeliveryMode.AUTO
    on_source_gap: SourceGapAction = SourceGapAction.CONTINUE
    refresh_topics_interval_s: float | None = 600
    sync_topic_configs_interval_s: float | None = 600
    admin_timeout_s: float = 60
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    """Maximum bytes that one task buffers between fetch and acknowledgement (`buffer.memory`)."""
    offset_map_bytes_max: int = DEFAULT_OFFSET_MAP_BYTES
    """Size limit of one partition's offset map. Beyond the limit, old offsets are translated less
    precisely."""
    unreachable_after_s: int = DEFAULT_UNREACHABLE_AFTER_S
    """Number of seconds without a response after which a broker of either cluster counts as
    unreachable."""
    throttles: FlowThrottles = FlowThrottles()

    @property
    def name(self) -> str:
        """The flow's name, `east->west`."""
        return f"{self.source}->{self.target}"

    @property
    def syncs_topic_configs(self) -> bool:
        """True if topic configs are synced."""
        return self.sync_topic_configs_interval_s is not None

    def format_remote_topic(self, topic: str) -> str:
        """Return the name of a source topic's mirror on the target."""
        return self.policy.format_remote_topic(self.source, topic)
