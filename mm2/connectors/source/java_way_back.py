"""Does Java's MirrorMaker 2 lead back what a flow that keeps names mirrors? Its source tells.

The opposite flow writes offset syncs, whichever workers run it, and its progress, which is found if
it runs in dedicated mode: ours and Java's alike. Of what is ours, the opposite map tells, too.
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin, state_topics
from mm2.connectors.topics import partition_setups
from mm2.core import connect_offsets, flows, loops
from mm2.core.copy import from_java
from mm2.formats import map_record, offset_sync, schema_fields

ConnectTail = Callable[[str, int], state_topics.TopicTail]
"""Gets a topic and how many partitions it has; whoever asks closes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where the opposite flow's topics are looked for: the source, or the target."""

    asked: admin.Admin
    connect_tail: ConnectTail


class JavaWayBack:
    """One thread's; it keeps no connection between questions."""

    def __init__(
        self,
        flow: flows.Flow,
        *,
        source: Cluster,
        target: Cluster,
        syncs: loops.SyncsPlace | None,
        clock: base_clock.Clock,
    ) -> None:
        """`syncs`: where this flow writes its own; None: nowhere."""
        self._flow = flow
        self._source = source
        self._target = target
        self._syncs = syncs
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

        Of topics of the opposite flow that may not be looked at nothing is known: nothing is found
        there (copies ask for the rights to its map themselves). Raises `RetriableError` when a
        cluster does not answer in time.
        """
        if self._flow.policy.renames_topics:
            return frozenset()
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        # The map last: ours begin an era before they have progress.
        progress = self._progress(self._seen(loops.opposite_offsets_topic(self._flow), end))
        for each in loops.opposite_syncs(self._flow, own=self._syncs):
            on = self._source if each.on_source else self._target
            progress |= _synced(self._seen(each.topic, end, on=on))
        if not progress:
            return frozenset()
        try:
            eras = _eras(self._read(loops.opposite_map_topic(self._flow), end, on=self._source))
        except kafka_errors.NotAuthorizedError:
            return frozenset()
        return loops.mirrored_by_java(progress, eras, taken_over=from_java.REASON)

    def _seen(
        self, topic: str, end: deadline.Deadline, *, on: Cluster | None = None
    ) -> Mapping[bytes, bytes]:
        """As `_read`, on the source by default; nothing where it may not be looked at."""
        try:
            return self._read(topic, end, on=on or self._source)
        except kafka_errors.NotAuthorizedError:
            return {}

    def _read(self, topic: str, end: deadline.Deadline, *, on: Cluster) -> Mapping[bytes, bytes]:
        """What stands there by key; nothing where there is no such topic."""
        described = on.asked.describe_topics([topic], self._left_s(end))
        found = described.done.get(topic)
        if found is None:
            failure = described.failed[topic]
            if isinstance(failure, kafka_errors.TopicMissingError):
                return {}
            raise failure
        tail = on.connect_tail(topic, found.partitions)
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


def _synced(stored: Collection[bytes]) -> set[ids.TopicPartition]:
    """Partitions of which offset syncs were written; what is none is passed over."""
    found = set()
    for key in stored:
        with contextlib.suppress(schema_fields.MalformedRecordError):
            found.add(offset_sync.decode_key(key))
    return found


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
