"""Collects the state of the reverse flow that a plan needs.

That is how far its offset map says it has replicated, and which records of the cluster to move to
never left it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.clusters import mirror_state
from mm2.clusters.flow_pair import FlowClusters
from mm2.clusters.mirror_state import MirrorState
from mm2.clusters.pair_snapshot import UnreplicatedRecords
from mm2.failover import position_translation, unreplicated_tails
from mm2.failover.move_request import MoveKind, MoveRequest
from mm2.failover.position_translation import OffsetSources, ReverseFlowMap, ReverseOffsetSyncs
from mm2.failover.unreplicated_records import FindUnreplicated
from mm2.failover.unreplicated_tails import TailScan, UnreplicatedTail
from mm2.kafka.client_interfaces import Admin, PerPartitionResult, TopicDescription
from mm2.offsets.log_bounds import LogBounds
from mm2.offsets.offset_map import OffsetMap

LOG_ENDS_TIMEOUT_S = 10.0

_TopicsByName = Mapping[str, TopicDescription]
_TailsByPartition = Mapping[TopicPartition, UnreplicatedTail]


@dataclass(frozen=True, slots=True)
class ReverseFlowState:
    """`left`: what never left the cluster gone to. `why` something of it could not be looked at or
    counted, "" where all is known that is needed."""

    back: ReverseFlowMap
    left: _TailsByPartition = field(default_factory=dict)
    why: str = ""

    @property
    def unreplicated(self) -> tuple[UnreplicatedRecords, ...]:
        return tuple(each.told() for _, each in sorted(self.left.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowCollector:
    """Looks at one; its fields as `planning.Planner`'s."""

    both: FlowClusters
    find: FindUnreplicated
    ways: OffsetSources
    timeout_s: float

    def look(
        self, wanted: MoveRequest, found: MirrorState, topics: Collection[str]
    ) -> ReverseFlowState:
        """As far as it is needed by who moves back, or reads these `topics`. A planned move needs
        all of it and raises `RetriableError`; where the cluster that is left is half dead in an
        emergency, less has to do."""
        flow, back = self.both.flow, wanted.kind is MoveKind.BACK
        if not (back or position_translation.needs_reverse_map(flow, topics)):
            return ReverseFlowState(ReverseFlowMap(known=None))
        known, why = self._map(wanted, found)
        if known is None:
            exists = self.ways.both or bool(why)
            way = ReverseFlowMap(known=None, exists=exists, syncs=self._syncs())
            return ReverseFlowState(way, why=why)
        counts = back or not flow.policy.renames_topics
        told = self._syncs() if counts else {}
        way = ReverseFlowMap(known=known, exists=self.ways.both, syncs=told)
        try:
            there = self._there(known, every=back)
            stopped = self._stopped(known, there)
            way = ReverseFlowMap(known=known, exists=self.ways.both, syncs=told, stopped=stopped)
            if not counts:
                return ReverseFlowState(way)
            left = self._left(way, found.known, there if back else {}, whole=wanted.planned)
            return ReverseFlowState(way, left=left)
        except RetriableError as error:
            if wanted.planned:
                raise
            return ReverseFlowState(way, why=str(error))

    def _map(self, wanted: MoveRequest, found: MirrorState) -> tuple[OffsetMap | None, str]:
        """And why it cannot be read, "" where it was, or nobody was asked."""
        if found.silent:
            return None, ""
        try:
            return mirror_state.read_offset_map(
                self.both.source, self.both.flow.target, self.timeout_s
            ), ""
        except RetriableError as error:
            if wanted.planned:
                raise
            return None, str(error)

    def _syncs(self) -> ReverseOffsetSyncs:
        """What the flow that leads back keeps on the cluster gone to."""
        if not self.ways.syncs_there:
            return {}
        flow = self.both.flow
        topic = flow.policy.offset_syncs_topic(flow.source)
        return mirror_state.read_offset_syncs(self.both.target, topic, self.timeout_s)

    def _there(self, known: OffsetMap, *, every: bool) -> _TopicsByName:
        """The topics that it has begun; `every`: also those that it is to mirror and has not."""
        side, policy = self.both.target.admin, self.both.flow.policy
        names = {
            each.topic for each in unreplicated_tails.list_reverse_flow_partitions(known, policy)
        }
        if every and self.ways.back is not None:
            names |= unreplicated_tails.select_topics_to_replicate(
                self.ways.back, side.list_topics(self.timeout_s)
            )
        return _describe_topics(side, names, self.timeout_s)

    def _stopped(self, known: OffsetMap, there: _TopicsByName) -> Mapping[TopicPartition, str]:
        """Of which partitions of the cluster gone to its map holds no more, and why."""
        flow = self.both.flow
        mirror = {
            each: position_translation.to_source_partition(flow, each)
            for each in unreplicated_tails.list_reverse_flow_partitions(known, flow.policy)
        }
        names = {each.topic for each in mirror.values()}
        here = _describe_topics(self.both.source.admin, names, self.timeout_s)
        why = {
            each: mirror_state.describe_recreation(
                known.partition(each),
                source=_get_topic_id(there, each),
                target=_get_topic_id(here, mirror[each]),
            )
            for each in mirror
        }
        return {each: found for each, found in why.items() if found}

    def _left(
        self,
        way: ReverseFlowMap,
        known: OffsetMap,
        there: _TopicsByName,
        *,
        whole: bool,
    ) -> _TailsByPartition:
        """`there`: topics that count whether or not it has begun them. `whole`: raise where the
        cluster that is left does not answer for a partition."""
        flow, opposite = self.both.flow, way.known
        assert opposite is not None, "it was read"
        asked = unreplicated_tails.list_reverse_flow_partitions(opposite, flow.policy) | {
            TopicPartition(name, number)
            for name, topic in there.items()
            for number in range(topic.partitions)
        }
        found = self.both.target.logs.ends(asked, LOG_ENDS_TIMEOUT_S)
        mirror = {each: position_translation.to_source_partition(flow, each) for each in asked}
        here = _fill_missing(
            self.both.source.logs.ends(set(mirror.values()), LOG_ENDS_TIMEOUT_S), whole=whole
        )
        looked = TailScan(
            opposite=opposite,
            known=known,
            mirror=mirror,
            there=found.done,
            here=here,
            stopped=way.stopped.keys(),
            syncs=way.syncs,
        )
        return {**looked.uncounted(_list_unanswered(found)), **self.find(looked.begins())}


def _describe_topics(side: Admin, names: Collection[str], timeout_s: float) -> _TopicsByName:
    """Raises `RetriableError` where nobody tells of one of them."""
    found = side.describe_topics(names, timeout_s)
    for _, error in sorted(found.failed.items()):
        if isinstance(error, RetriableError):
            raise error
    return found.done


def _get_topic_id(topics: _TopicsByName, partition: TopicPartition) -> uuid.UUID | None:
    topic = topics.get(partition.topic)
    return None if topic is None else topic.topic_id


def _list_unanswered(found: PerPartitionResult[LogBounds]) -> Mapping[TopicPartition, str]:
    return {
        each: str(error)
        for each, error in found.failed.items()
        if not isinstance(error, TopicMissingError)
    }


def _fill_missing(
    found: PerPartitionResult[LogBounds], *, whole: bool
) -> Mapping[TopicPartition, LogBounds | None]:
    """None for what is not there."""
    silent = _list_unanswered(found)
    if silent and whole:
        raise found.failed[min(silent)]
    missing = found.failed.keys() - silent.keys()
    return {**found.done, **dict.fromkeys(missing)}
