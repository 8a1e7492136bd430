"""Replication progress of a flow's partitions, collected from its two clusters.

The progress of each partition is read from the flow's offset map on the target cluster. If the
source does not respond, the offset map is the only information. The offset map is no longer valid
for a partition if its topic or mirror topic was recreated, or if MirrorMaker 2 has replicated the
partition since. In the latter case the newest offset sync contradicts the offset map.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.clusters import fencing_results, incident_log, log_end_offsets
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.clusters.flow_cluster_pair import FlowClusters, FlowSide
from mm2.clusters.log_end_offsets import DescribedTopics
from mm2.formats import mirrormaker2_records, offset_map_records
from mm2.formats.incident_records import IncidentKind
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.kafka.kafka_client_interfaces import PerTopicResult
from mm2.kafka.state_topic_reader import RecordApplier
from mm2.offsets import offset_syncs, offset_translation
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.topics import replication_policy, topic_selection
from mm2.topics.flow_config import Flow

_LOG = logging.getLogger(__name__)

OffsetSyncsByPartition = Mapping[TopicPartition, Sequence[OffsetSync]]
"""Offset syncs by source partition, in the order in which they were written."""


def read_offset_syncs(
    side: FlowSide,
    topic: str,
    timeout_s: float,
    *,
    partitions_max: int = offset_syncs.SYNC_PARTITIONS_MAX,
) -> OffsetSyncsByPartition:
    """Read all offset syncs of a topic. Unreadable records are skipped, as in MirrorMaker 2.

    Syncs of topics with invalid names are ignored with a warning. Once the result contains
    `partitions_max` partitions, syncs of further partitions are ignored as well.

    Raises `RetriableError` or `FatalError` if the topic cannot be read.
    """
    found: dict[TopicPartition, list[OffsetSync]] = {}
    ignored = 0

    def apply_sync(key: bytes, value: bytes | None) -> None:
        nonlocal ignored
        if value is None:
            return
        sync = mirrormaker2_records.decode_offset_sync(key, value)
        if sync.partition in found:
            found[sync.partition].append(sync)
        elif offset_syncs.is_partition_allowed(
            sync.partition, known=len(found), partitions_max=partitions_max
        ):
            found[sync.partition] = [sync]
        else:
            ignored += 1

    if topic in side.topics.list_topics(timeout_s):  # reading a missing topic would wait for it
        side.topics.read_topic(topic, timeout_s, RecordApplier(apply_sync).apply_record)
    if ignored:
        warning = offset_syncs.format_ignored_syncs(ignored, partitions_max=partitions_max)
        _LOG.warning("%s: %s", topic, warning)
    return found


SYNC_CONTRADICTS_MAP = (
    "its newest offset sync contradicts its offset map: MirrorMaker 2 has replicated the "
    "partition since mm2 last did"
)


def explain_topic_recreation(
    known: PartitionMap, *, source: uuid.UUID | None, target: uuid.UUID | None
) -> str:
    """Explain which topic was recreated since it was last replicated, based on topic ids. Returns
    "" if neither topic was recreated, or if the ids are unknown (brokers before 2.8)."""
    eras = known.eras
    if not eras:
        return ""
    newest = eras[max(eras)]
    for now, was, which in (
        (source, newest.source_topic_id, "the topic"),
        (target, newest.target_topic_id, "its mirror"),
    ):
        if now is not None and was != offset_map_records.NO_TOPIC_ID and now.bytes != was:
            return f"{which} was recreated, and its offset map entries belong to the old topic"
    return ""


def mark_partitions_contradicting_syncs(
    mirrored: Collection[MirroredPartition],
    known: OffsetMap,
    syncs: Mapping[TopicPartition, Sequence[OffsetSync]],
) -> tuple[MirroredPartition, ...]:
    """Mark partitions whose newest offset sync contradicts the offset map.

    `syncs` contains offset syncs by source partition, in the order in which they were written.
    """
    return tuple(
        dataclasses.replace(each, stop_reason=each.stop_reason or SYNC_CONTRADICTS_MAP)
        if (told := syncs.get(each.partition))
        and not offset_translation.agrees_with_sync(known.get_partition(each.partition), told[-1])
        else each
        for each in mirrored
    )


TimestampsMs = Mapping[TopicPartition, int]
"""Timestamps by partition, in UTC milliseconds."""
_LogEnds = Mapping[TopicPartition, LogBounds]
_Reasons = Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorObservations:
    """Offsets, timestamps and errors that both clusters returned for the flow's partitions. Empty
    if the source was not queried.

    `source_bounds`, `source_errors` and `waiting_ms` are keyed by source partition,
    `mirror_bounds`, `mirror_errors` and `newest_ms` by mirror partition. `build_partition` derives
    the fields of `MirroredPartition` from them.
    """

    offset_map: OffsetMap
    source_bounds: _LogEnds = field(default_factory=dict)
    mirror_bounds: _LogEnds = field(default_factory=dict)
    source_errors: _Reasons = field(default_factory=dict)
    mirror_errors: _Reasons = field(default_factory=dict)
    waiting_ms: TimestampsMs = field(default_factory=dict)
    newest_ms: TimestampsMs = field(default_factory=dict)
    source_ids: Mapping[str, uuid.UUID | None] = field(default_factory=dict)
    target_ids: Mapping[str, uuid.UUID | None] = field(default_factory=dict)

    def build_partition(
        self, partition: TopicPartition, mirror: TopicPartition
    ) -> MirroredPartition:
        """Build the `MirroredPartition` of one partition from the responses of both clusters and
        the offset map."""
        known, there = self.offset_map.get_partition(partition), self.mirror_bounds.get(mirror)
        return MirroredPartition(
            partition=partition,
            mirror=mirror,
            copied_to=known.next_source_offset,
            unrecorded=_count_offsets_beyond_offset_map(known, there),
            source_bounds=self.source_bounds.get(partition),
            mirror_bounds=there,
            waiting_since_ms=self.waiting_ms.get(partition),
            newest_ms=self.newest_ms.get(mirror),
            stop_reason=explain_topic_recreation(
                known,
                source=self.source_ids.get(partition.topic),
                target=self.target_ids.get(mirror.topic),
            ),
            source_error=self.source_errors.get(partition, ""),
            mirror_error=self.mirror_errors.get(mirror, ""),
        )


def find_unreplicated_offsets(known: OffsetMap, here: _LogEnds) -> dict[TopicPartition, int]:
    """Return, by partition, the first offset that is available on the source and not replicated.
    Fully replicated partitions have no entry."""
    found = {
        each: max(known.get_partition(each).next_source_offset or 0, ends.start)
        for each, ends in here.items()
    }
    return {each: at for each, at in found.items() if at < here[each].end}


def explain_exclusion(flow: Flow, topic: str, *, missing: bool) -> str:
    """Explain why the flow no longer replicates a topic. Returns "" if the flow replicates it, or
    if it is a heartbeats topic.

    `missing` is True if the topic no longer exists on the source.
    """
    if replication_policy.is_heartbeats_topic(flow.policy, topic):
        return ""
    if missing:
        return f"the topic no longer exists on {flow.source}"
    return topic_selection.explain_mismatch(flow, topic)


def _count_offsets_beyond_offset_map(known: PartitionMap, there: LogBounds | None) -> int:
    """Count offsets on the mirror after the end of the offset map."""
    anchor = known.resume_point
    if anchor is None or there is None:
        return 0
    return max(0, there.high_watermark - max(anchor.segment.target_next, there.start))


MIN_SOURCE_TIMEOUT_S = 10.0
_SOURCE_TIMEOUT_DIVISOR = 6
TIMESTAMP_TIMEOUT_S = 5.0
"""Time limit for fetching timestamps. Without them, the age of the replication lag is unknown."""

_SourceEnds = Mapping[TopicPartition, LogBounds]
_LOSS_KINDS = frozenset({IncidentKind.SOURCE_GONE, IncidentKind.NEW_ERA_REQUESTED})


def compute_source_timeout_s(timeout_s: float) -> float:
    """Compute the part of a snapshot's timeout within which the source must respond. After that
    time the source is considered lost."""
    return min(timeout_s, max(MIN_SOURCE_TIMEOUT_S, timeout_s / _SOURCE_TIMEOUT_DIVISOR))


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorState:
    """Replication state of a flow's partitions. Heartbeats topics are excluded because losing
    heartbeats does not matter."""

    offset_map: OffsetMap = field(repr=False)
    mirrored: tuple[MirroredPartition, ...]
    """Partitions that the flow currently replicates."""
    source_error: str
    """Reason why the source did not respond; "" if it responded."""
    loss_count: int
    """Number of incidents that report lost records."""
    excluded_topics: Mapping[str, str] = field(default_factory=dict)
    """Topics that the flow no longer replicates, with the reason."""
    unlisted_topics: Mapping[str, str] = field(default_factory=dict)
    """Topics whose partitions the source did not list, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SourceState:
    """Responses of the source cluster for the flow's topics."""

    topics: DescribedTopics = field(default_factory=lambda: PerTopicResult(succeeded={}, failed={}))
    ends: _SourceEnds = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    """Topics that no longer exist."""
    failed: Mapping[TopicPartition, ConnectError] = field(default_factory=dict)
    """Partitions for which the source did not respond, with the error."""
    untold: Mapping[str, ConnectError] = field(default_factory=dict)
    """Topics whose partitions the source did not list, with the error."""


_SOURCE_NOT_QUERIED = _SourceState()


def collect_mirror_state(
    clusters: FlowClusters,
    *,
    clock: Clock,
    timeout_s: float,
    offset_map: OffsetMap | None = None,
    lost_reason: str = "",
) -> MirrorState:
    """Collect the replication state from both clusters.

    `offset_map` is the flow's offset map if it was already read. `lost_reason` is the reason for
    not querying the source. Raises `RetriableError` or `FatalError` if the target does not respond
    or if one of the clusters denies access.
    """
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    flow = clusters.flow
    if offset_map is None:
        offset_map = read_offset_map(clusters.target, flow.source, timeout_s)
    losses = _count_data_loss_incidents(
        clusters.target, flow.source, end.remaining_s(clock.now_s())
    )
    begun = fencing_results.list_replicated_partitions(offset_map)
    silent, source = lost_reason, _SOURCE_NOT_QUERIED
    if not lost_reason:
        try:
            within_s = min(compute_source_timeout_s(timeout_s), end.remaining_s(clock.now_s()))
            topics = {each.topic for each in begun}
            source = _collect_source_state(clusters, topics, clock=clock, timeout_s=within_s)
        except RetriableError as error:
            silent = str(error)
    left_out = _find_excluded_topics(flow, begun, source)
    partitions = sorted(
        each
        for each in begun.union(log_end_offsets.list_partitions(source.topics))
        if each.topic not in left_out
        and not replication_policy.is_heartbeats_topic(flow.policy, each.topic)
    )
    return MirrorState(
        offset_map=offset_map,
        mirrored=_collect_partitions(
            clusters, partitions, offset_map, source=source, left=end, clock=clock
        ),
        source_error=silent,
        loss_count=losses,
        excluded_topics=left_out,
        unlisted_topics={name: str(why) for name, why in source.untold.items()},
    )


def _find_excluded_topics(
    flow: Flow, begun: Collection[TopicPartition], source: _SourceState
) -> Mapping[str, str]:
    why = {
        topic: explain_exclusion(flow, topic, missing=topic in source.missing)
        for topic in {each.topic for each in begun}
    }
    return {topic: found for topic, found in why.items() if found}


def _collect_partitions(
    sides: FlowClusters,
    partitions: Sequence[TopicPartition],
    known: OffsetMap,
    *,
    source: _SourceState,
    left: Deadline,
    clock: Clock,
) -> tuple[MirroredPartition, ...]:
    mirror = {each: _to_mirror_partition(sides.flow, each) for each in partitions}
    targets = sides.target.admin.describe_topics(
        {each.topic for each in mirror.values()}, left.remaining_s(clock.now_s())
    )
    led = log_end_offsets.find_leaders(mirror.values(), targets)
    ends = log_end_offsets.fetch_log_ends(sides.target, led, end=left, clock=clock)
    untold = {mirror[each] for each in mirror.keys() - source.ends}
    newest_ms = sides.target.logs.read_newest_timestamps(
        {each: ends.succeeded[each] for each in untold if each in ends.succeeded},
        min(TIMESTAMP_TIMEOUT_S, left.remaining_s(clock.now_s())),
    )
    looked = MirrorObservations(
        offset_map=known,
        source_bounds=source.ends,
        mirror_bounds=ends.succeeded,
        source_errors={each: str(why) for each, why in source.failed.items()},
        mirror_errors=log_end_offsets.list_partitions_without_response(ends),
        waiting_ms=_fetch_oldest_unreplicated_timestamps(
            sides.source, find_unreplicated_offsets(known, source.ends)
        ),
        newest_ms=newest_ms,
        source_ids=_get_topic_ids(source.topics),
        target_ids=_get_topic_ids(targets),
    )
    return tuple(looked.build_partition(each, mirror[each]) for each in partitions)


def read_offset_map(side: FlowSide, source_alias: str, timeout_s: float) -> OffsetMap:
    """Read the whole offset map of the flow whose source cluster is `source_alias`; `side` is its
    target. The map is empty if the offset map topic does not exist.

    Raises `RetriableError` or `FatalError`, also if the offset map has a format version that this
    release does not know.
    """
    topic = replication_policy.format_offset_map_topic(source_alias)
    if topic not in side.topics.list_topics(timeout_s):  # reading a missing topic would wait for it
        return OffsetMap()
    with contextlib.closing(side.open_offset_map_reader(source_alias)) as reader:
        return reader.read_map(timeout_s)


def _count_data_loss_incidents(side: FlowSide, source_alias: str, timeout_s: float) -> int:
    """Count incidents that report lost records. Unreadable incidents are included, because they may
    report lost records."""
    found = incident_log.read_incidents(side, source_alias, timeout_s=timeout_s)
    return sum(each.kind in _LOSS_KINDS for each in found.incidents) + len(found.unreadable)


def _collect_source_state(
    sides: FlowClusters,
    known: Collection[str],
    *,
    clock: Clock,
    timeout_s: float,
) -> _SourceState:
    """Query the source for the topics that the flow replicates or has replicated. Partitions for
    which it does not respond are returned in `failed`."""
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    side = sides.source
    listed = side.admin.list_topics(timeout_s)
    wanted = {each for each in listed if topic_selection.should_replicate_topic(sides.flow, each)}
    described = side.admin.describe_topics(wanted, end.remaining_s(clock.now_s()))
    led = log_end_offsets.find_leaders(list(log_end_offsets.list_partitions(described)), described)
    ends = log_end_offsets.fetch_log_ends(side, led, end=end, clock=clock, raises=True)
    return _SourceState(
        topics=described,
        ends=ends.succeeded,
        missing=frozenset(known) - listed,
        failed=ends.failed,
        untold={
            name: error
            for name, error in described.failed.items()
            if not isinstance(error, TopicMissingError)
        },
    )


def _to_mirror_partition(flow: Flow, partition: TopicPartition) -> TopicPartition:
    return TopicPartition(flow.format_remote_topic(partition.topic), partition.partition)


def _get_topic_ids(topics: DescribedTopics) -> Mapping[str, uuid.UUID | None]:
    return {name: topic.topic_id for name, topic in topics.succeeded.items()}


def _fetch_oldest_unreplicated_timestamps(
    side: FlowSide, begins: Mapping[TopicPartition, int]
) -> TimestampsMs:
    """Fetch the timestamps of the oldest unreplicated records."""
    if not begins:
        return {}
    try:
        return side.logs.read_timestamps(begins, TIMESTAMP_TIMEOUT_S)
    except RetriableError:
        return {}
