"""Collects the state of the reverse flow (from destination to origin) that a plan needs.

The state consists of the reverse flow's replication progress according to its offset map, and of
the records on the destination that it has not replicated to the origin.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.clusters import replication_progress
from mm2.clusters.cluster_pair_snapshot import UnreplicatedRecords
from mm2.clusters.flow_cluster_pair import FlowClusters
from mm2.clusters.replication_progress import MirrorState
from mm2.failover import position_translation, unreplicated_offset_ranges
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.position_translation import (
    OffsetSyncLocations,
    ReverseFlowMap,
    ReverseOffsetSyncs,
)
from mm2.failover.unreplicated_offset_ranges import TailScanInputs, UnreplicatedTail
from mm2.failover.unreplicated_records import FindUnreplicated
from mm2.kafka.kafka_client_interfaces import Admin, PerPartitionResult, TopicDescription
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap

LOG_ENDS_TIMEOUT_S = 10.0

_TopicsByName = Mapping[str, TopicDescription]
_TailsByPartition = Mapping[TopicPartition, UnreplicatedTail]


@dataclass(frozen=True, slots=True)
class ReverseFlowState:
    """Collected state of the reverse flow."""

    reverse: ReverseFlowMap
    tails: _TailsByPartition = field(default_factory=dict)
    """The last records of the destination's partitions that the reverse flow has not replicated, by
    destination partition."""
    unknown_reason: str = ""
    """Reason why a part of the reverse flow's state is unknown, or "" if everything needed is
    known."""

    @property
    def unreplicated_records(self) -> tuple[UnreplicatedRecords, ...]:
        """Unreplicated records by partition, as shown in the plan."""
        return tuple(each.summarize_records() for _, each in sorted(self.tails.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowCollector:
    """Collects the state of the reverse flow for `FailoverPlanner`."""

    clusters: FlowClusters
    find_unreplicated: FindUnreplicated
    offset_sources: OffsetSyncLocations
    timeout_s: float

    def collect_state(
        self, wanted: FailoverRequest, found: MirrorState, topics: Collection[str]
    ) -> ReverseFlowState:
        """Collect the state of the reverse flow that is needed for a failback, or for moving groups
        that read `topics`.

        A planned failover needs the complete state: raises `RetriableError` if any part of it is
        unavailable. In an emergency, the parts that are available are returned.
        """
        flow, back = self.clusters.flow, wanted.kind is FailoverKind.BACK
        if not (back or position_translation.needs_reverse_map(flow, topics)):
            return ReverseFlowState(ReverseFlowMap(offset_map=None))
        known, why = self._read_map(wanted, found)
        if known is None:
            exists = self.offset_sources.has_reverse_flow or bool(why)
            way = ReverseFlowMap(offset_map=None, exists=exists, syncs=self._read_syncs())
            return ReverseFlowState(way, unknown_reason=why)
        counts = back or not flow.policy.renames_topics
        told = self._read_syncs() if counts else {}
        way = ReverseFlowMap(
            offset_map=known, exists=self.offset_sources.has_reverse_flow, syncs=told
        )
        try:
            there = self._describe_target_topics(known, every=back)
            stopped = self._find_outdated_partitions(known, there)
            way = ReverseFlowMap(
                offset_map=known,
                exists=self.offset_sources.has_reverse_flow,
                syncs=told,
                outdated=stopped,
            )
            if not counts:
                return ReverseFlowState(way)
            left = self._find_unreplicated_records(
                way, found.offset_map, there if back else {}, whole=wanted.is_planned
            )
            return ReverseFlowState(way, tails=left)
        except RetriableError as error:
            if wanted.is_planned:
                raise
            return ReverseFlowState(way, unknown_reason=str(error))

    def _read_map(
        self, wanted: FailoverRequest, found: MirrorState
    ) -> tuple[OffsetMap | None, str]:
        """Read the reverse flow's offset map. Return None and the error if it cannot be read, or
        None and "" if the origin, which stores the map, is already known not to respond. For a
        planned failover, an unreadable map raises `RetriableError`."""
        if found.source_error:
            return None, ""
        try:
            return replication_progress.read_offset_map(
                self.clusters.source, self.clusters.flow.target, self.timeout_s
            ), ""
        except RetriableError as error:
            if wanted.is_planned:
                raise
            return None, str(error)

    def _read_syncs(self) -> ReverseOffsetSyncs:
        """Read the offset syncs that the reverse flow stores on the destination."""
        if not self.offset_sources.reverse_syncs_on_destination:
            return {}
        flow = self.clusters.flow
        topic = flow.policy.offset_syncs_topic(flow.source)
        return replication_progress.read_offset_syncs(self.clusters.target, topic, self.timeout_s)

    def _describe_target_topics(self, known: OffsetMap, *, every: bool) -> _TopicsByName:
        """Describe the destination topics that the reverse flow has started to replicate. If
        `every` is true, also describe the topics that its configuration selects but that it has not
        replicated yet."""
        side, policy = self.clusters.target.admin, self.clusters.flow.policy
        names = {
            each.topic
            for each in unreplicated_offset_ranges.list_reverse_flow_partitions(known, policy)
        }
        if every and self.offset_sources.reverse_flow is not None:
            names |= unreplicated_offset_ranges.select_topics_to_replicate(
                self.offset_sources.reverse_flow, side.list_topics(self.timeout_s)
            )
        return _describe_topics(side, names, self.timeout_s)

    def _find_outdated_partitions(
        self, known: OffsetMap, there: _TopicsByName
    ) -> Mapping[TopicPartition, str]:
        """Find the destination partitions for which the reverse flow's offset map is outdated
        because a topic was recreated, with the reason."""
        flow = self.clusters.flow
        mirror = {
            each: position_translation.map_to_source_partition(flow, each)
            for each in unreplicated_offset_ranges.list_reverse_flow_partitions(known, flow.policy)
        }
        names = {each.topic for each in mirror.values()}
        here = _describe_topics(self.clusters.source.admin, names, self.timeout_s)
        why = {
            each: replication_progress.explain_topic_recreation(
                known.get_partition(each),
                source=_get_topic_id(there, each),
                target=_get_topic_id(here, mirror[each]),
            )
            for each in mirror
        }
        return {each: found for each, found in why.items() if found}

    def _find_unreplicated_records(
        self,
        way: ReverseFlowMap,
        known: OffsetMap,
        there: _TopicsByName,
        *,
        whole: bool,
    ) -> _TailsByPartition:
        """Find the records on the destination that the reverse flow has not replicated to the
        origin.

        `there` contains destination topics to scan in addition to those in the reverse flow's
        offset map, because the reverse flow may not have replicated them yet. If `whole` is true,
        an error is raised if the origin does not respond for a partition; otherwise, the partition
        is skipped.
        """
        flow, opposite = self.clusters.flow, way.offset_map
        assert opposite is not None, "the map was read"
        asked = unreplicated_offset_ranges.list_reverse_flow_partitions(opposite, flow.policy) | {
            TopicPartition(name, number)
            for name, topic in there.items()
            for number in range(topic.partition_count)
        }
        found = self.clusters.target.logs.fetch_log_bounds(asked, LOG_ENDS_TIMEOUT_S)
        mirror = {each: position_translation.map_to_source_partition(flow, each) for each in asked}
        here = _fill_missing_log_bounds(
            self.clusters.source.logs.fetch_log_bounds(set(mirror.values()), LOG_ENDS_TIMEOUT_S),
            whole=whole,
        )
        looked = TailScanInputs(
            reverse_map=opposite,
            offset_map=known,
            mirrors=mirror,
            target_bounds=found.succeeded,
            mirror_bounds=here,
            outdated=way.outdated.keys(),
            syncs=way.syncs,
        )
        return {
            **looked.build_tails_of_unknown_size(_list_unresponsive_partitions(found)),
            **self.find_unreplicated(looked.build_partition_scan_inputs()),
        }


def _describe_topics(side: Admin, names: Collection[str], timeout_s: float) -> _TopicsByName:
    """Describe topics. Raises `RetriableError` if the cluster does not respond for one of them."""
    found = side.describe_topics(names, timeout_s)
    for _, error in sorted(found.failed.items()):
        if isinstance(error, RetriableError):
            raise error
    return found.succeeded


def _get_topic_id(topics: _TopicsByName, partition: TopicPartition) -> uuid.UUID | None:
    topic = topics.get(partition.topic)
    return None if topic is None else topic.topic_id


def _list_unresponsive_partitions(
    found: PerPartitionResult[LogBounds],
) -> Mapping[TopicPartition, str]:
    return {
        each: str(error)
        for each, error in found.failed.items()
        if not isinstance(error, TopicMissingError)
    }


def _fill_missing_log_bounds(
    found: PerPartitionResult[LogBounds], *, whole: bool
) -> Mapping[TopicPartition, LogBounds | None]:
    """Return the log bounds by partition, with None for each partition that does not exist. If
    `whole` is true, raise the error of a partition that did not respond; otherwise leave it out."""
    silent = _list_unresponsive_partitions(found)
    if silent and whole:
        raise found.failed[min(silent)]
    missing = found.failed.keys() - silent.keys()
    return {**found.succeeded, **dict.fromkeys(missing)}
