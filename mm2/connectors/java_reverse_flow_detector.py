"""Detects whether Java MirrorMaker 2 replicates a flow's topics in the reverse direction.

A reverse flow is detected from its offset syncs (on either cluster) and, in dedicated mode, its
Connect offsets on the source. Java and mm2 write both. The offset map of the reverse flow shows
which partitions mm2 replicates.
"""

from __future__ import annotations

import contextlib
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError, TopicMissingError
from connect_runtime.storage import offset_topic
from connect_runtime.storage.offset_topic import InvalidSourceOffset
from mm2.connectors import connect_offsets
from mm2.connectors.partition_setup_builder import PartitionFinding, PartitionSetupPlan
from mm2.formats import mirrormaker2_records, offset_map_records
from mm2.formats.offset_map_records import Era, UnknownMapVersionError
from mm2.formats.primitive_types import MalformedRecordError
from mm2.kafka.kafka_client_interfaces import Admin, TopicRecord, TopicTail
from mm2.replication import takeover_from_java
from mm2.topics import replication_loops
from mm2.topics.flow_config import Flow
from mm2.topics.replication_loops import OffsetSyncsLocation

TopicTailFactory = Callable[[str, int], TopicTail]
"""Creates a reader of a topic that has the given number of partitions. The caller closes the
reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowClusterClients:
    """A cluster that is searched for the reverse flow's topics."""

    admin: Admin
    connect_tail: TopicTailFactory


class JavaReverseFlowDetector:
    """Detects a reverse flow of Java MirrorMaker 2. Not thread-safe; opens new connections for each
    check."""

    def __init__(
        self,
        flow: Flow,
        *,
        source: ReverseFlowClusterClients,
        target: ReverseFlowClusterClients,
        syncs: OffsetSyncsLocation | None,
        clock: Clock,
    ) -> None:
        """Create a detector. `syncs` is this flow's own offset-syncs topic; None if the flow has
        none."""
        self._flow = flow
        self._source = source
        self._target = target
        self._syncs = syncs
        self._clock = clock

    def exclude_looping_partitions(
        self, plan: PartitionSetupPlan, timeout_s: float
    ) -> PartitionSetupPlan:
        """Exclude partitions that would be replicated in a loop: move them from the plan's
        partitions to its findings. Raises the same errors as `find_topics`."""
        flow = self._flow
        java = self.find_topics(timeout_s)
        loop_reasons = {
            each: replication_loops.explain_loop(flow, each, java=True) for each in java
        }
        findings = tuple(
            PartitionFinding(
                partition=TopicPartition(each.topic, each.partition),
                cause=replication_loops.JAVA_LOOP_CAUSE,
                message=f"{flow.name} {each.topic}: {loop_reasons[each.topic]}",
                is_harmful=True,
            )
            for each in plan.partitions
            if loop_reasons.get(each.topic)
        )
        kept = tuple(each for each in plan.partitions if not loop_reasons.get(each.topic))
        return replace(plan, partitions=kept, findings=(*plan.findings, *findings))

    def find_topics(self, timeout_s: float) -> frozenset[str]:
        """Find the source topics to which Java replicates, or has replicated, in the reverse
        direction.

        Topics of the reverse flow that cannot be read for lack of permission are ignored. Copy
        processes report a missing permission on the reverse flow's offset map. Raises
        `RetriableError` if a cluster does not respond in time.
        """
        if self._flow.policy.renames_topics:
            return frozenset()
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        # Read the map last: partitions of mm2 have an era before they have progress.
        progress = self._find_partitions_with_offsets(
            self._read_topic_if_permitted(
                replication_loops.format_reverse_connect_offsets_topic(self._flow), end
            )
        )
        for each in replication_loops.locate_reverse_offset_syncs(self._flow, own=self._syncs):
            cluster = self._source if each.on_source else self._target
            progress |= _find_partitions_with_syncs(
                self._read_topic_if_permitted(each.topic, end, on=cluster)
            )
        if not progress:
            return frozenset()
        try:
            eras = _collect_era_start_reasons(
                self._read_topic(
                    replication_loops.format_reverse_offset_map_topic(self._flow),
                    end,
                    on=self._source,
                )
            )
        except NotAuthorizedError:
            return frozenset()
        return replication_loops.find_topics_mirrored_by_java(
            progress, eras, takeover_reason=takeover_from_java.TAKEOVER_REASON
        )

    def _read_topic_if_permitted(
        self, topic: str, end: Deadline, *, on: ReverseFlowClusterClients | None = None
    ) -> Mapping[bytes, bytes]:
        """Read a compacted topic, on the source by default. Returns an empty mapping without read
        permission."""
        try:
            return self._read_topic(topic, end, on=on or self._source)
        except NotAuthorizedError:
            return {}

    def _read_topic(
        self, topic: str, end: Deadline, *, on: ReverseFlowClusterClients
    ) -> Mapping[bytes, bytes]:
        """Return the latest value of each key of a compacted topic. Returns an empty mapping if the
        topic does not exist."""
        described = on.admin.describe_topics([topic], self._compute_remaining_s(end))
        found = described.succeeded.get(topic)
        if found is None:
            failure = described.failed[topic]
            if isinstance(failure, TopicMissingError):
                return {}
            raise failure
        newest: dict[bytes, bytes] = {}

        def keep_latest_value(record: TopicRecord) -> None:
            if record.key is None:
                return
            if record.value is None:
                newest.pop(record.key, None)
            else:
                newest[record.key] = record.value

        tail = on.connect_tail(topic, found.partition_count)
        try:
            tail.read_to_end(self._compute_remaining_s(end), keep_latest_value)
        finally:
            tail.close()
        return newest

    def _find_partitions_with_offsets(self, stored: Collection[bytes]) -> set[TopicPartition]:
        """Find the partitions of the reverse flow that have a source offset."""
        found = set()
        for key in stored:
            where = _decode_source_partition(key)
            if where.get(connect_offsets.CLUSTER_KEY) != self._flow.target:
                continue
            topic, number = (
                where.get(connect_offsets.TOPIC_KEY),
                where.get(connect_offsets.PARTITION_KEY),
            )
            if isinstance(topic, str) and isinstance(number, int):
                found.add(TopicPartition(topic, number))
        return found

    def _compute_remaining_s(self, end: Deadline) -> float:
        return end.remaining_s(self._clock.now_s())


def _find_partitions_with_syncs(stored: Collection[bytes]) -> set[TopicPartition]:
    """Find the partitions that have offset syncs. Malformed keys are skipped."""
    found = set()
    for key in stored:
        with contextlib.suppress(MalformedRecordError):
            found.add(mirrormaker2_records.decode_offset_sync_key(key))
    return found


def _decode_source_partition(key: bytes) -> Mapping[str, object]:
    """Decode the source partition from a Connect offset's key. Returns an empty mapping if no
    mirror connector can have written the key."""
    try:
        return offset_topic.decode_offset_key(key).partition or {}
    except InvalidSourceOffset:
        return {}


def _collect_era_start_reasons(
    stored: Mapping[bytes, bytes],
) -> Mapping[TopicPartition, Collection[str]]:
    """Collect the reasons why the eras (mirror generations) of each partition were started."""
    found: dict[TopicPartition, set[str]] = defaultdict(set)
    for key, value in stored.items():
        try:
            name = offset_map_records.decode_map_key(key)
            era = offset_map_records.decode_map_value(name, value)
        except (UnknownMapVersionError, struct.error, ValueError, IndexError):
            continue  # reported by the copy process, which reads the map, too
        if isinstance(era, Era):
            found[TopicPartition(name.topic, name.partition)].add(era.reason)
    return found
