"""Does Java's MirrorMaker 2 lead back what a flow that keeps names mirrors? Its source tells.

The opposite flow's progress is in its Connect offsets topic, ours and Java's alike; of what is
ours, the opposite map tells, too.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin, state_topics
from mm2.connectors import partition_setups
from mm2.core import connect_offsets, flows, loops
from mm2.core.copy import from_java
from mm2.formats import map_record

ConnectTail = Callable[[str, int], state_topics.TopicTail]
"""Gets a topic of the source and how many partitions it has; whoever asks closes it."""


class JavaWayBack:
    """One thread's; it keeps no connection between questions."""

    def __init__(
        self,
        flow: flows.Flow,
        source: admin.Admin,
        *,
        connect_tail: ConnectTail,
        clock: base_clock.Clock,
    ) -> None:
        self._flow = flow
        self._source = source
        self._connect_tail = connect_tail
        self._clock = clock

    def sift(
        self, plan: partition_setups.SourcePlan, timeout_s: float
    ) -> partition_setups.SourcePlan:
        """Without what would be copied back, which becomes findings. Raises as `topics`."""
        flow, java = self._flow, self.topics(timeout_s)
        why = {each: loops.why_not(flow, each, java=True) for each in java}
        findings = tuple(
            partition_setups.Finding(
                partition=ids.TopicPartition(each.topic, each.partition),
                cause=loops.CAUSE,
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

        Who may not look at the opposite flow's topics cannot know: then there are none (copies ask
        for the rights to its map themselves). Raises `RetriableError` when the source does not
        answer in time.
        """
        if self._flow.policy.renames_topics:
            return frozenset()
        try:
            return self._topics(deadline.Deadline.after(timeout_s, now_s=self._clock.now_s()))
        except kafka_errors.NotAuthorizedError:
            return frozenset()

    def _topics(self, end: deadline.Deadline) -> frozenset[str]:
        offsets_topic = loops.opposite_offsets_topic(self._flow)
        map_topic = loops.opposite_map_topic(self._flow)
        # The map last: ours begin an era before they have progress.
        progress = self._progress(self._read(offsets_topic, end))
        if not progress:
            return frozenset()
        eras = _eras(self._read(map_topic, end))
        return loops.mirrored_by_java(progress, eras, taken_over=from_java.REASON)

    def _read(self, topic: str, end: deadline.Deadline) -> Mapping[bytes, bytes]:
        """What stands there by key; nothing where there is no such topic."""
        described = self._source.describe_topics([topic], self._left_s(end))
        found = described.done.get(topic)
        if found is None:
            failure = described.failed[topic]
            if isinstance(failure, kafka_errors.TopicMissingError):
                return {}
            raise failure
        tail = self._connect_tail(topic, found.partitions)
        try:
            records = tail.read_to_end(self._left_s(end))
        finally:
            tail.close()
        newest = {each.key: each.value for each in records if each.key is not None}
        return {key: value for key, value in newest.items() if value is not None}

    def _progress(self, stored: Collection[bytes]) -> set[ids.TopicPartition]:
        """Partitions of the opposite flow that have a source offset."""
        found = set()
        for key in stored:
            where = _source_partition(key)
            if where.get(connect_offsets.CLUSTER) != self._flow.target:
                continue
            topic, number = (
                where.get(connect_offsets.TOPIC),
                where.get(connect_offsets.PARTITION),
            )
            if isinstance(topic, str) and isinstance(number, int):
                found.add(ids.TopicPartition(topic, number))
        return found

    def _left_s(self, end: deadline.Deadline) -> float:
        return end.left_s(self._clock.now_s())


def _source_partition(key: bytes) -> Mapping[str, object]:
    """Of a Connect source offset; empty where it is none that a mirror connector stores."""
    try:
        _, where = json.loads(key)
    except (ValueError, TypeError):
        return {}
    return where if isinstance(where, dict) else {}


def _eras(stored: Mapping[bytes, bytes]) -> Mapping[ids.TopicPartition, Collection[str]]:
    """By partition, why each of its eras began."""
    found: dict[ids.TopicPartition, set[str]] = defaultdict(set)
    for key, value in stored.items():
        try:
            name = map_record.decode_key(key)
            era = map_record.decode_value(name, value)
        except (map_record.UnknownVersionError, struct.error, ValueError, IndexError):
            continue  # who copies reads it, too, and refuses it
        if isinstance(era, map_record.Era):
            found[ids.TopicPartition(name.topic, name.partition)].add(era.reason)
    return found
