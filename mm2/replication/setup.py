"""What the copy of a partition is started with. Nothing here changes while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from mm2 import operator_commands
from mm2.formats import offset_map_records
from mm2.operator_commands import OperatorCommands
from mm2.topics.flow_config import DeliveryMode, OnSourceGap, TargetTopicAccess

OLD_AFTER_DEFAULT_MS = 43_200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSetup:
    """One source partition and its mirror.

    `start` is where a partition with no progress at all begins: "earliest", "latest" or a timestamp
    in ms. `old_after_ms`: batches older than this are copied in transactions, because the broker
    would forget who wrote them (half of `producer.id.expiration.ms`). `renew_after_s`: how long a
    fence stays in the brokers' memory without being renewed. `target_codec` is the codec (0-4) that
    the mirror topic forces on batches, None when it keeps the producer's. `opposite_map`: the map
    topic, on the source, of a flow that leads back into the same source topic; what that one wrote
    there is skipped. "" where the mirror has another name. `operator` is for telling people what to
    type; all partitions of a flow share it.
    """

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
    target_topics: TargetTopicAccess = TargetTopicAccess.EXCLUSIVE
    delivery: DeliveryMode = DeliveryMode.AUTO
    on_source_gap: OnSourceGap = OnSourceGap.CONTINUE
    old_after_ms: int = OLD_AFTER_DEFAULT_MS
    renew_after_s: float = 8 * 3600.0
    target_codec: int | None = None
    opposite_map: str = ""
    in_group: bool = False
    operator: OperatorCommands = operator_commands.GENERIC_COMMANDS

    @property
    def source_is_known(self) -> bool:
        """Would the source's topic be told from another one of the same name? Brokers before 2.8
        give no ids: there, one that was made again looks as before once its log is long enough."""
        return self.source_topic_id != offset_map_records.NO_TOPIC_ID

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def mirror(self) -> str:
        return f"{self.remote_topic}-{self.partition}"
