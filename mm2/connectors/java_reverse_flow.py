"""Detects whether Java MirrorMaker 2 replicates a flow's topics in the reverse direction.

The evidence is the reverse flow's offset syncs (on either cluster) and, in dedicated mode, its
Connect offsets on the source. Java and mm2 write both; the reverse flow's offset map shows
which partitions are mm2's.
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import NotAuthorizedError, TopicMissingError
from mm2.connectors import connect_offsets
from mm2.connectors.partition_setup import PartitionFinding, PartitionSetupPlan
from mm2.formats import mm2_records, offset_map_records
from mm2.formats.offset_map_records import Era, UnknownMapVersionError
from mm2.formats.primitive_types import MalformedRecordError
from mm2.kafka.client_interfaces import Admin, TopicTail
from mm2.replication import java_takeover
from mm2.topics import replication_loops
from mm2.topics.flow_config import Flow
from mm2.topics.replication_loops import OffsetSyncsLocation

TopicTailFactory = Callable[[str, int], TopicTail]
"""Gets a topic and how many partitions it has; whoever asks closes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowCluster:
    """Where the opposite flow's topics are looked for: the source, or the target."""

    asked: Admin
    connect_tail: TopicTailFactory


class JavaReverseFlow:
    """One thread's; it keeps no connection between questions."""

    def __init__(
        self,
        flow: Flow,
        *,
        source: ReverseFlowCluster,
        target: ReverseFlowCluster,
        syncs: OffsetSyncsLocation | None,
        clock: Clock,
    ) -> None:
        """`syncs`: where this flow writes its own; None: nowhere."""
        self._flow = flow
        self._source = source
        self._target = target
        self._syncs = syncs
        self._clock = clock

    def sift(self, plan: PartitionSetupPlan, timeout_s: float) -> PartitionSetupPlan:
        """Without what would be copied back, which becomes findings. Raises as `topics`."""
        flow, java = self._flow, self.topics(timeout_s)
        why = {each: replication_loops.explain_loop(flow, each, java=True) for each in java}
        findings = tuple(
            PartitionFinding(
                partition=TopicPartition(each.topic, each.partition),
                cause=replication_loops.JAVA_LOOP_CAUSE,
                message=f"{flow.name} {each.topic}: {why[each.topic]}",
                spoils=True,
            )
            for each in plan.partitions
            if why.get(each.topic)
        )
        kept = tuple(each for each in plan.partitions if not why.get(each.topic))
        return replace(plan, partitions=kept, findings=(*plan.findings, *findings))

    def topics(self, timeout_s: float) -> frozenset[str]:
        """Topics of the source into which Java mirrored, or mirrors.

        Of topics of the opposite flow that may not be looked at nothing is known: nothing is found
        there (copies ask for the rights to its map themselves). Raises `RetriableError` when a
        cluster does not answer in time.
        """
        if self._flow.policy.renames_topics:
            return frozenset()
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        # The map last: ours begin an era before they have progress.
        progress = self._progress(
            self._seen(replication_loops.reverse_connect_offsets_topic(self._flow), end)
        )
        for each in replication_loops.locate_reverse_offset_syncs(self._flow, own=self._syncs):
            on = self._source if each.on_source else self._target
            progress |= _partitions_with_syncs(self._seen(each.topic, end, on=on))
        if not progress:
            return frozenset()
        try:
            eras = _era_reasons_by_partition(
                self._read(
                    replication_loops.reverse_offset_map_topic(self._flow), end, on=self._source
                )
            )
        except NotAuthorizedError:
            return frozenset()
        return replication_loops.find_topics_mirrored_by_java(
            progress, eras, taken_over=java_takeover.TAKEOVER_REASON
        )

    def _seen(
        self, topic: str, end: Deadline, *, on: ReverseFlowCluster | None = None
    ) -> Mapping[bytes, bytes]:
        """As `_read`, on the source by default; nothing where it may not be looked at."""
        try:
            return self._read(topic, end, on=on or self._source)
        except NotAuthorizedError:
            return {}

    def _read(self, topic: str, end: Deadline, *, on: ReverseFlowCluster) -> Mapping[bytes, bytes]:
        """What stands there by key; nothing where there is no such topic."""
        described = on.asked.describe_topics([topic], self._left_s(end))
        found = described.done.get(topic)
        if found is None:
            failure = described.failed[topic]
            if isinstance(failure, TopicMissingError):
                return {}
            raise failure
        tail = on.connect_tail(topic, found.partitions)
        try:
            records = tail.read_to_end(self._left_s(end))
        finally:
            tail.close()
        newest = {each.key: each.value for each in records if each.key is not None}
        return {key: value for key, value in newest.items() if value is not None}

    def _progress(self, stored: Collection[bytes]) -> set[TopicPartition]:
        """Partitions of the opposite flow that have a source offset."""
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

    def _left_s(self, end: Deadline) -> float:
        return end.left_s(self._clock.now_s())


def _partitions_with_syncs(stored: Collection[bytes]) -> set[TopicPartition]:
    """Partitions of which offset syncs were written; what is none is passed over."""
    found = set()
    for key in stored:
        with contextlib.suppress(MalformedRecordError):
            found.add(mm2_records.decode_offset_sync_key(key))
    return found


def _decode_source_partition(key: bytes) -> Mapping[str, object]:
    """Of a Connect source offset; empty where it is none that a mirror connector stores."""
    try:
        _, where = json.loads(key)
    except (ValueError, TypeError):
        return {}
    return where if isinstance(where, dict) else {}


def _era_reasons_by_partition(
    stored: Mapping[bytes, bytes],
) -> Mapping[TopicPartition, Collection[str]]:
    """By partition, why each of its eras began."""
    found: dict[TopicPartition, set[str]] = defaultdict(set)
    for key, value in stored.items():
        try:
            name = offset_map_records.decode_key(key)
            era = offset_map_records.decode_value(name, value)
        except (UnknownMapVersionError, struct.error, ValueError, IndexError):
            continue  # who copies reads it, too, and refuses it
        if isinstance(era, Era):
            found[TopicPartition(name.topic, name.partition)].add(era.reason)
    return found
