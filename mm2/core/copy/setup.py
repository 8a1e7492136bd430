"""What a copy must know of a partition before it starts; nothing here changes while it runs."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.core import commands
from mm2.formats import map_record

HALF_DAY_MS = 43_200_000


class TargetTopics(enum.Enum):
    """Who may write to the mirror topics."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class Delivery(enum.Enum):
    """AUTO: transactions only while records are old; TRANSACTIONAL: always; AT_LEAST_ONCE: no
    transactional id is used, so nobody is fenced."""

    AUTO = "auto"
    TRANSACTIONAL = "transactional"
    AT_LEAST_ONCE = "at-least-once"


class OnSourceGap(enum.Enum):
    """What follows when the source deleted records before they were copied: a receipt, or an
    end."""

    CONTINUE = "continue"
    FAIL = "fail"


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
    source_topic_id: bytes = map_record.NO_TOPIC_ID
    target_topic_id: bytes = map_record.NO_TOPIC_ID
    source_cluster: str = ""
    target_cluster: str = ""
    start: str = "earliest"
    target_topics: TargetTopics = TargetTopics.EXCLUSIVE
    delivery: Delivery = Delivery.AUTO
    on_source_gap: OnSourceGap = OnSourceGap.CONTINUE
    old_after_ms: int = HALF_DAY_MS
    renew_after_s: float = 8 * 3600.0
    target_codec: int | None = None
    opposite_map: str = ""
    in_group: bool = False
    operator: commands.Operator = commands.NOBODY

    @property
    def source_is_known(self) -> bool:
        """Would the source's topic be told from another one of the same name? Brokers before 2.8
        give no ids: there, one that was made again looks as before once its log is long enough."""
        return self.source_topic_id != map_record.NO_TOPIC_ID

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def mirror(self) -> str:
        return f"{self.remote_topic}-{self.partition}"
