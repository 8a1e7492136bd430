"""Translates offsets on the origin cluster into offsets on the destination cluster.

- Topics that the flow mirrors are translated by the flow's offset map.
- Mirror topics of the reverse flow are translated backwards by the reverse flow's offset map.
- Topics that both flows write under the same name are translated by both offset maps. On each
  cluster such a topic contains local records and replicated records of the other cluster. The group
  resumes at the first record of either kind that it may not have read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import GroupSnapshot, MirroredPartition, TranslatedPosition
from mm2.config import mirror_connector_config_keys
from mm2.failover import consumer_group_plan, foreign_record_scan
from mm2.failover.foreign_record_scan import RecordRange
from mm2.failover.unreplicated_offset_ranges import UnreplicatedTail
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.offsets import offset_translation
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.offsets.offset_translation import (
    EarlierOffset,
    ExactOffset,
    MapTranslator,
    TranslatedOffset,
    UntranslatedReason,
)
from mm2.topics import topic_selection
from mm2.topics.flow_config import Flow, TargetTopicAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class LocallyProducedRecords:
    """Records that were produced directly to a destination partition (local records) and may not
    have been replicated to the origin."""

    through: int
    """End of the reverse flow's offset map. Local records from this offset on may not have been
    replicated to the origin."""
    end: int
    """End offset of the destination partition's log."""
    ranges: Sequence[RecordRange] | None
    """Offset ranges of the records that were produced directly to the destination partition, or
    None if they were not determined."""

    @property
    def first_unreplicated_offset(self) -> int:
        """Offset before which all records that were produced directly to the destination partition
        have been replicated to the origin."""
        if self.ranges is None:
            return self.through
        return min((each.first for each in self.ranges), default=self.end)


def combine_shared_topic_translations(
    forward: TranslatedOffset,
    back: TranslatedOffset,
    local: LocallyProducedRecords,
    *,
    read_all_copied: bool,
    past_all_back: bool,
) -> TranslatedOffset:
    """Combine the translations of an offset by both flows' maps, for a topic that both flows write
    under the same name.

    `forward` is the translation using the flow's own map, `back` the translation using the reverse
    flow's map. `local` describes the records that were produced directly to the destination.

    If `read_all_copied` is true, the group has read all records that the flow has replicated, and
    the flow replicates no more; the result may then be higher than `forward`. Replicated records
    after `forward` that the group has read are interleaved with local records at unknown offsets,
    and count as re-read. If `past_all_back` is true, the group is past all records that the reverse
    flow has replicated to the origin, so only `local` records are unread.
    """
    if isinstance(forward, UntranslatedReason):
        return forward
    if isinstance(back, UntranslatedReason) and not past_all_back:
        return back
    if past_all_back or isinstance(back, UntranslatedReason):
        lowest, highest = local.first_unreplicated_offset, local.through
    else:
        lowest, highest = back.downstream, _get_highest_offset(back)
    highest = max(lowest, highest, forward.downstream)
    if not read_all_copied:
        lowest = min(lowest, forward.downstream)
    unread = foreign_record_scan.count_records_within(local.ranges or (), lowest, highest)
    again_max = highest - lowest - unread + _get_reread_bound(forward)
    if again_max:
        return EarlierOffset(downstream=lowest, reread_max=again_max)
    return ExactOffset(downstream=lowest)


def _get_highest_offset(found: ExactOffset | EarlierOffset) -> int:
    return found.downstream + _get_reread_bound(found)


def _get_reread_bound(found: ExactOffset | EarlierOffset) -> int:
    return found.reread_max if isinstance(found, EarlierOffset) else 0


ReverseOffsetSyncs = Mapping[TopicPartition, Sequence[OffsetSync]]
"""Offset syncs by origin partition, in the order in which they were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncLocations:
    """Clusters that store the offset syncs of the flow and of its reverse flow, according to the
    configuration."""

    reverse_flow: Flow | None = None
    """The reverse flow, or None if it is not configured."""
    reverse_syncs_on_destination: bool = False
    """True if the reverse flow stores its offset syncs on the destination (its source cluster), in
    a topic that no other flow uses."""
    syncs_on_source: bool = True
    """True if the flow stores its own offset syncs on its source cluster."""

    @property
    def has_reverse_flow(self) -> bool:
        """True if the reverse flow is configured."""
        return self.reverse_flow is not None


def find_offset_sync_locations(
    props: Mapping[str, str], flow: Flow, of_file: Iterable[Flow]
) -> OffsetSyncLocations:
    """Determine from the configuration where the flow and its reverse flow store their offset
    syncs. `props` are the configuration's properties (flat keys such as `A->B.name`), and `of_file`
    all configured flows."""
    back_name = f"{flow.target}->{flow.source}"
    usual = props.get(mirror_connector_config_keys.SYNCS_TOPIC_LOCATION, "source")
    here, there = (
        props.get(f"{name}.{mirror_connector_config_keys.SYNCS_TOPIC_LOCATION}", usual).strip()
        == "source"
        for name in (flow.name, back_name)
    )
    back = next((each for each in of_file if each.name == back_name), None)
    return OffsetSyncLocations(
        reverse_flow=back, reverse_syncs_on_destination=here and there, syncs_on_source=here
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowMap:
    """Replication progress of the reverse flow: its offset map and its offset syncs, as far as they
    could be read."""

    offset_map: OffsetMap | None
    """The reverse flow's offset map, which is stored on the origin; None if it cannot be read."""
    exists: bool = False
    """True if the reverse flow is known to exist, even if its offset map cannot be read."""
    syncs: ReverseOffsetSyncs = field(default_factory=dict)
    """The reverse flow's offset syncs, for partitions that are not in the offset map."""
    outdated: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Destination partitions for which the entries of the reverse flow's offset map are outdated,
    with the reason."""

    def translate_offset_by_syncs(
        self, partition: TopicPartition, offset: int
    ) -> EarlierOffset | None:
        """Translate an origin offset using the reverse flow's offset syncs.

        The reverse flow replicates records that were produced on the destination (local records).
        Return the highest destination offset for which the copies of all earlier local records are
        before `offset` on the origin, or None if the syncs do not cover the offset.

        A later sync with a lower offset invalidates earlier syncs with higher offsets, because
        records were replicated again or the topic was recreated. After a sync, each origin offset
        contains at most one replicated record, which limits the number of re-read records.
        """
        lowest: int | None = None
        for each in reversed(self.syncs.get(partition, ())):
            lowest = each.upstream if lowest is None else min(lowest, each.upstream)
            if each.downstream <= offset:
                again_max = each.upstream - lowest + offset - each.downstream
                return EarlierOffset(downstream=lowest, reread_max=again_max)
        return None


def needs_reverse_map(flow: Flow, topics: Collection[str]) -> bool:
    """Return True if translating offsets of these origin topics requires the reverse flow's offset
    map."""
    return not flow.policy.renames_topics or any(
        not topic_selection.should_replicate_topic(flow, each)
        and _find_origin_topic(flow, each) is not None
        for each in topics
    )


def map_to_target_partition(flow: Flow, partition: TopicPartition) -> TopicPartition:
    """Return the target partition to which the flow replicates a source partition."""
    return TopicPartition(flow.format_remote_topic(partition.topic), partition.partition)


def map_to_source_partition(flow: Flow, partition: TopicPartition) -> TopicPartition:
    """Return the source partition to which the reverse flow replicates a target partition."""
    topic = flow.policy.format_remote_topic(flow.target, partition.topic)
    return TopicPartition(topic, partition.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionTranslator:
    """Translates group positions on the origin into positions on the destination."""

    flow: Flow
    offset_map: OffsetMap
    """The flow's offset map."""
    mirrored: Mapping[TopicPartition, MirroredPartition]
    """Mirrored partitions, by origin partition."""
    reverse: ReverseFlowMap
    unreplicated: Mapping[TopicPartition, UnreplicatedTail] = field(default_factory=dict)
    """Records that were never replicated from the destination, by destination partition."""
    is_stopped: bool = False
    """True if the flow is stopped and fenced."""

    def translate_position(
        self, partition: TopicPartition, offset: int
    ) -> TranslatedPosition | None:
        """Translate a group's position in one origin partition; implements `TranslatePosition`."""
        flow = self.flow
        if not topic_selection.should_replicate_topic(flow, partition.topic):
            return self._translate_by_reverse_flow(partition, offset)
        place = self._translate_by_flow_map(partition, offset)
        if flow.policy.renames_topics:
            return place
        back = self.reverse.offset_map
        if back is None or not back.get_partition(place.partition).eras:
            return self._translate_shared_topic_by_syncs(
                partition, offset, place
            )  # the reverse flow may be MirrorMaker 2
        return self._translate_shared_topic(
            partition, offset, place, opposite=back.get_partition(place.partition)
        )

    def list_target_partitions(self, groups: Iterable[GroupSnapshot]) -> set[TopicPartition]:
        """Return the destination partitions that the groups will read."""
        return {
            place.partition
            for group in groups
            for partition, position in group.positions.items()
            if position is not None
            and (place := self.translate_position(partition, position.offset)) is not None
        }

    def _translate_by_flow_map(self, partition: TopicPartition, offset: int) -> TranslatedPosition:
        """Translate a group's position using the flow's own offset map."""
        known = MapTranslator(self.offset_map.get_partition(partition))
        outcome = known.translate_offset(offset)
        old = outcome is UntranslatedReason.TOO_OLD
        return TranslatedPosition(
            partition=map_to_target_partition(self.flow, partition),
            outcome=consumer_group_plan.cap_reread_bound(
                outcome, offset, self.mirrored.get(partition)
            ),
            known_from=known.find_first_target_offset_after(offset) if old else None,
        )

    def _translate_by_reverse_flow(
        self, partition: TopicPartition, offset: int
    ) -> TranslatedPosition | None:
        """Translate a position in a topic that the reverse flow replicated from the destination.
        Return None if no reverse flow is known."""
        topic = _find_origin_topic(self.flow, partition.topic)
        opposite = self.reverse.offset_map
        if topic is None or (opposite is None and not self.reverse.exists):
            return None
        born = TopicPartition(topic, partition.partition)
        if opposite is None:
            arrived = self.reverse.translate_offset_by_syncs(born, offset)
            return TranslatedPosition(partition=born, outcome=arrived or UntranslatedReason.UNKNOWN)
        if born in self.reverse.outdated:
            return self._translate_recreated_topic(born)
        tail = self.unreplicated.get(born)
        if (
            tail is not None
            and tail.first_unreplicated_offset is not None
            and offset >= tail.origin_end
        ):
            return TranslatedPosition(
                partition=born, outcome=ExactOffset(downstream=tail.first_unreplicated_offset)
            )
        outcome = offset_translation.translate_to_source(opposite.get_partition(born), offset)
        return TranslatedPosition(partition=born, outcome=outcome)

    def _translate_recreated_topic(self, born: TopicPartition) -> TranslatedPosition:
        """Translate a position in a recreated topic to the start of that topic, because the group
        may not have read any of its records."""
        old = UntranslatedReason.TOO_OLD
        return TranslatedPosition(
            partition=born, outcome=old, outdated_reason=self.reverse.outdated[born]
        )

    def _translate_shared_topic(
        self,
        partition: TopicPartition,
        offset: int,
        place: TranslatedPosition,
        *,
        opposite: PartitionMap,
    ) -> TranslatedPosition:
        """Translate a position in a topic that both flows write under the same name, using both
        offset maps. `place` is the translation by the flow's own map, `opposite` the reverse flow's
        map of the partition."""
        mirror = place.partition
        if mirror in self.reverse.outdated:
            return self._translate_recreated_topic(mirror)
        mine, tail = self.mirrored.get(partition), self.unreplicated.get(mirror)
        copied_to = None if mine is None else mine.copied_to
        through = opposite.next_source_offset or 0
        outcome = combine_shared_topic_translations(
            place.outcome,
            offset_translation.translate_to_source(opposite, offset),
            LocallyProducedRecords(
                through=through,
                end=through if tail is None else tail.end,
                ranges=None if tail is None else tail.ranges,
            ),
            read_all_copied=self.is_stopped
            and mine is not None
            and mine.unrecorded == 0
            and copied_to is not None
            and offset >= copied_to,
            past_all_back=tail is not None and offset >= tail.origin_end,
        )
        return TranslatedPosition(partition=mirror, outcome=outcome)

    def _translate_shared_topic_by_syncs(
        self, partition: TopicPartition, offset: int, place: TranslatedPosition
    ) -> TranslatedPosition:
        """Translate a position in a topic that both flows write under the same name, if the reverse
        flow's offset map was lost with its cluster or does not exist. `place`, the translation by
        the flow's own offset map, is combined with the reverse flow's offset syncs."""
        unsure, mirror = self._explain_unread_local_records(), place.partition
        if not unsure:
            return place
        sync, mine = (
            self.reverse.translate_offset_by_syncs(mirror, offset),
            self.mirrored.get(partition),
        )
        if sync is None or mine is None or mine.mirror_bounds is None:
            return dataclasses.replace(place, local_records_reason=unsure)
        arrived = sync.downstream
        end = max(arrived, mine.mirror_bounds.high_watermark)
        outcome = combine_shared_topic_translations(
            place.outcome,
            EarlierOffset(downstream=arrived, reread_max=end - arrived),
            LocallyProducedRecords(through=arrived, end=end, ranges=None),
            read_all_copied=False,
            past_all_back=False,
        )
        return TranslatedPosition(partition=mirror, outcome=outcome)

    def _explain_unread_local_records(self) -> str:
        """Explain why topics with the same name on both clusters may contain records that were
        produced on the destination and that the group has not read, even if no reverse flow is
        configured. Return "" if they cannot contain such records."""
        flow = self.flow
        if not (self.reverse.exists or flow.target_topics is TargetTopicAccess.SHARED):
            return ""
        return (
            f"this topic may contain records that were produced directly to {flow.target}. It is "
            f"unknown which of them the group has read on {flow.source}, so the group may skip "
            "some. If no such records exist, set target.topics to exclusive"
        )


def _find_origin_topic(flow: Flow, topic: str) -> str | None:
    """If a topic was replicated from the target cluster, return its name on the target cluster.
    Return None for other topics."""
    if flow.policy.topic_source(topic) != flow.target:
        return None
    return flow.policy.upstream_topic(topic)
