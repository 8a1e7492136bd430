"""Parameters for replicating a partition. They are constant while the partition is being
replicated."""

from __future__ import annotations

from dataclasses import dataclass

from mm2 import suggested_commands
from mm2.formats import offset_map_records
from mm2.suggested_commands import OperatorCommands
from mm2.topics.flow_config import DeliveryMode, SourceGapAction, TargetTopicAccess

OLD_AFTER_DEFAULT_MS = 43_200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSetup:
    """One source partition, its mirror partition, and the replication parameters."""

    flow: str
    topic: str
    remote_topic: str
    partition: int
    transactional_id: str
    source_topic_id: bytes = offset_map_records.NO_TOPIC_ID
    target_topic_id: bytes = offset_map_records.NO_TOPIC_ID
    source_cluster: str = ""
    target_cluster: str = ""
    start: str = "earliest"
    """Start position of a partition that was never replicated: "earliest", "latest" or a timestamp
    in ms."""
    target_topics: TargetTopicAccess = TargetTopicAccess.EXCLUSIVE
    delivery: DeliveryMode = DeliveryMode.AUTO
    on_source_gap: SourceGapAction = SourceGapAction.CONTINUE
    old_after_ms: int = OLD_AFTER_DEFAULT_MS
    """Batches older than this are sent in transactions, because brokers would forget their
    producer. The value is half of `producer.id.expiration.ms`."""
    renew_after_s: float = 8 * 3600.0
    """Interval in seconds at which the fence is renewed by writing a transaction marker, because
    brokers forget a producer that stays idle too long."""
    target_codec: int | None = None
    """Codec (0-4) that the mirror topic enforces; None if it keeps the producer's codec."""
    opposite_map: str = ""
    """Topic on the source cluster that stores the reverse flow's offset map. The map identifies the
    records that the reverse flow wrote to the source topic, which must not be replicated back. ""
    if the mirror topic has a different name: the reverse flow then does not write to the source
    topic."""
    in_group: bool = False
    """True if the flow runs in a worker group, which assigns the partitions."""
    operator: OperatorCommands = suggested_commands.GENERIC_COMMANDS
    """Builds the commands suggested in messages; shared by all partitions of a flow."""

    @property
    def has_source_topic_id(self) -> bool:
        """Return True if a recreated source topic can be detected.

        Brokers before 2.8 do not assign topic ids, so a recreated topic cannot be distinguished
        from the original once its log reaches the offset from which replication continues.
        """
        return self.source_topic_id != offset_map_records.NO_TOPIC_ID

    @property
    def source_name(self) -> str:
        """Name of the source partition (`topic-partition`)."""
        return f"{self.topic}-{self.partition}"

    @property
    def mirror_name(self) -> str:
        """Name of the mirror partition (`topic-partition`)."""
        return f"{self.remote_topic}-{self.partition}"
