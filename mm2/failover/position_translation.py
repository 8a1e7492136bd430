"""Translates offsets of the cluster to leave into offsets of the cluster to move to.

- Topics that the flow mirrors: by the flow's offset map.
- Mirror topics of the reverse flow: backwards by the reverse flow's offset map.
- Topics that both flows write under one name: by both offset maps. On each cluster such a topic
  holds local records and copies of the other cluster's records. The group resumes at the first
  record of either kind that it may not have read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.pair_snapshot import GroupSnapshot, MirroredPartition, TranslatedPosition
from mm2.config import keys
from mm2.failover import divergence, group_plan
from mm2.failover.divergence import RecordRange
from mm2.failover.unreplicated_tails import UnreplicatedTail
from mm2.formats.mm2_records import OffsetSync
from mm2.offsets import translation
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.offsets.translation import (
    EarlierOffset,
    ExactOffset,
    MapTranslator,
    TranslatedOffset,
    Untranslated,
)
from mm2.topics.flow_config import Flow, TargetTopicAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRecords:
    """What is known of records that were born on `to` and had not reached `from`: `stretches` of
    them, all that stand at `through` and behind, up to `end`. None: nobody counted them."""

    through: int
    end: int
    stretches: Sequence[RecordRange] | None

    @property
    def first(self) -> int:
        """Before it all that was born on `to` had reached `from`."""
        if self.stretches is None:
            return self.through
        return min((each.first for each in self.stretches), default=self.end)


def translate_shared_name(
    forward: TranslatedOffset,
    back: TranslatedOffset,
    local: LocalRecords,
    *,
    read_all_copied: bool,
    past_all_back: bool,
) -> TranslatedOffset:
    """`forward`: by the flow's map, `back`: by the opposite one's.

    `read_all_copied`: the group has read all that the flow ever copied, and nobody copies more, so
    that `forward` holds nobody back. What it read of copies behind `forward` stands among what was
    born there, nobody knows where, and counts on top. `past_all_back`: it stands behind all that
    the opposite flow has brought to `from`, so that only `local` is unread of what was born on
    `to`.
    """
    if isinstance(forward, Untranslated):
        return forward
    if isinstance(back, Untranslated) and not past_all_back:
        return back
    if past_all_back or isinstance(back, Untranslated):
        lowest, highest = local.first, local.through
    else:
        lowest, highest = back.downstream, _get_highest_offset(back)
    highest = max(lowest, highest, forward.downstream)
    if not read_all_copied:
        lowest = min(lowest, forward.downstream)
    unread = divergence.count_records_within(local.stretches or (), lowest, highest)
    again_max = highest - lowest - unread + _get_reread_bound(forward)
    if again_max:
        return EarlierOffset(downstream=lowest, again_max=again_max)
    return ExactOffset(downstream=lowest)


def _get_highest_offset(found: ExactOffset | EarlierOffset) -> int:
    return found.downstream + _get_reread_bound(found)


def _get_reread_bound(found: ExactOffset | EarlierOffset) -> int:
    return found.again_max if isinstance(found, EarlierOffset) else 0


ReverseOffsetSyncs = Mapping[TopicPartition, Sequence[OffsetSync]]
"""By the partition's name on the flow's source, as they were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSources:
    """What the file says. `to_source_partition`: the flow that leads back, None where there is
    none. `syncs_there`: it keeps its offset syncs on the cluster gone to, which is its source, and
    nobody else keeps any under that name. `syncs_here`: the flow itself keeps its own on its
    source."""

    back: Flow | None = None
    syncs_there: bool = False
    syncs_here: bool = True

    @property
    def both(self) -> bool:
        return self.back is not None


def find_offset_sources(
    props: Mapping[str, str], flow: Flow, of_file: Iterable[Flow]
) -> OffsetSources:
    """`props`: the file's, flat; `of_file`: all its flows."""
    back_name = f"{flow.target}->{flow.source}"
    usual = props.get(keys.SYNCS_TOPIC_LOCATION, "source")
    here, there = (
        props.get(f"{name}.{keys.SYNCS_TOPIC_LOCATION}", usual).strip() == "source"
        for name in (flow.name, back_name)
    )
    back = next((each for each in of_file if each.name == back_name), None)
    return OffsetSources(back=back, syncs_there=here and there, syncs_here=here)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowMap:
    """The flow that leads back. `known` is its map, which stands on the cluster that is left, None
    where it cannot be read; of what is not in it `syncs` tell. `exists`: there is such a flow, as
    far as that is known without the map. `stopped`: partitions of the cluster gone to of which the
    map holds no more, and why."""

    known: OffsetMap | None
    exists: bool = False
    syncs: ReverseOffsetSyncs = field(default_factory=dict)
    stopped: Mapping[TopicPartition, str] = field(default_factory=dict)

    def arrived(self, partition: TopicPartition, offset: int) -> EarlierOffset | None:
        """The last place, as far as offset syncs say, before which all that was born on the cluster
        gone to stood before `offset` on the one that is left; None: they say nothing.

        What a later sync goes back behind counts from there alone: it was copied once more, or of a
        topic that was made anew. Behind a sync a record stands an offset further, at most.
        """
        lowest: int | None = None
        for each in reversed(self.syncs.get(partition, ())):
            lowest = each.upstream if lowest is None else min(lowest, each.upstream)
            if each.downstream <= offset:
                again_max = each.upstream - lowest + offset - each.downstream
                return EarlierOffset(downstream=lowest, again_max=again_max)
        return None


def needs_reverse_map(flow: Flow, topics: Collection[str]) -> bool:
    """Do offsets of these topics of the cluster that is left need the flow that leads back?"""
    return not flow.policy.renames_topics or any(
        not flow.should_replicate_topic(each) and _find_origin_topic(flow, each) is not None
        for each in topics
    )


def to_target_partition(flow: Flow, partition: TopicPartition) -> TopicPartition:
    """Where the flow brings what was born on its source."""
    return TopicPartition(flow.remote_topic(partition.topic), partition.partition)


def to_source_partition(flow: Flow, partition: TopicPartition) -> TopicPartition:
    """Where the opposite flow brings what was born on this one's target."""
    topic = flow.policy.format_remote_topic(flow.target, partition.topic)
    return TopicPartition(topic, partition.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionTranslator:
    """`known` is the flow's map, `mirrored` what it mirrors, by name on its source. `left`: what
    never left the cluster gone to, by name there. `still`: nobody copies any more."""

    flow: Flow
    known: OffsetMap
    mirrored: Mapping[TopicPartition, MirroredPartition]
    back: ReverseFlowMap
    left: Mapping[TopicPartition, UnreplicatedTail] = field(default_factory=dict)
    still: bool = False

    def translate(self, partition: TopicPartition, offset: int) -> TranslatedPosition | None:
        """See `TranslatePosition`."""
        flow = self.flow
        if not flow.should_replicate_topic(partition.topic):
            return self._backwards(partition, offset)
        place = self._forwards(partition, offset)
        if flow.policy.renames_topics:
            return place
        back = self.back.known
        if back is None or not back.partition(place.partition).eras:
            return self._by_syncs(partition, offset, place)  # MirrorMaker 2 may lead back, too
        return self._shared(partition, offset, place, opposite=back.partition(place.partition))

    def of_groups(self, groups: Iterable[GroupSnapshot]) -> set[TopicPartition]:
        """Where groups go, by names there."""
        return {
            place.partition
            for group in groups
            for partition, position in group.positions.items()
            if position is not None
            and (place := self.translate(partition, position.offset)) is not None
        }

    def _forwards(self, partition: TopicPartition, offset: int) -> TranslatedPosition:
        """By the flow's own map."""
        known = MapTranslator(self.known.partition(partition))
        outcome = known.translate(offset)
        old = outcome is Untranslated.TOO_OLD
        return TranslatedPosition(
            partition=to_target_partition(self.flow, partition),
            outcome=group_plan.cap_rereads(outcome, offset, self.mirrored.get(partition)),
            known_from=known.first_behind(offset) if old else None,
        )

    def _backwards(self, partition: TopicPartition, offset: int) -> TranslatedPosition | None:
        topic = _find_origin_topic(self.flow, partition.topic)
        opposite = self.back.known
        if topic is None or (opposite is None and not self.back.exists):
            return None
        born = TopicPartition(topic, partition.partition)
        if opposite is None:
            arrived = self.back.arrived(born, offset)
            return TranslatedPosition(partition=born, outcome=arrived or Untranslated.UNKNOWN)
        if born in self.back.stopped:
            return self._anew(born)
        tail = self.left.get(born)
        if tail is not None and tail.first is not None and offset >= tail.behind:
            return TranslatedPosition(partition=born, outcome=ExactOffset(downstream=tail.first))
        outcome = translation.translate_to_source(opposite.partition(born), offset)
        return TranslatedPosition(partition=born, outcome=outcome)

    def _anew(self, born: TopicPartition) -> TranslatedPosition:
        """Nothing is known of what stands there now: all of it may be unread."""
        old = Untranslated.TOO_OLD
        return TranslatedPosition(partition=born, outcome=old, stopped=self.back.stopped[born])

    def _shared(
        self,
        partition: TopicPartition,
        offset: int,
        place: TranslatedPosition,
        *,
        opposite: PartitionMap,
    ) -> TranslatedPosition:
        """`place`: by the flow's own map."""
        mirror = place.partition
        if mirror in self.back.stopped:
            return self._anew(mirror)
        mine, tail = self.mirrored.get(partition), self.left.get(mirror)
        copied_to = None if mine is None else mine.copied_to
        through = opposite.copied_to or 0
        outcome = translate_shared_name(
            place.outcome,
            translation.translate_to_source(opposite, offset),
            LocalRecords(
                through=through,
                end=through if tail is None else tail.end,
                stretches=None if tail is None else tail.stretches,
            ),
            read_all_copied=self.still
            and mine is not None
            and mine.tail == 0
            and copied_to is not None
            and offset >= copied_to,
            past_all_back=tail is not None and offset >= tail.behind,
        )
        return TranslatedPosition(partition=mirror, outcome=outcome)

    def _by_syncs(
        self, partition: TopicPartition, offset: int, place: TranslatedPosition
    ) -> TranslatedPosition:
        """Without the opposite map, which is lost with its cluster, or was never there. `place`: by
        the flow's own."""
        unsure, mirror = self._unsure(), place.partition
        if not unsure:
            return place
        sync, mine = self.back.arrived(mirror, offset), self.mirrored.get(partition)
        if sync is None or mine is None or mine.there is None:
            return dataclasses.replace(place, unsure=unsure)
        arrived = sync.downstream
        end = max(arrived, mine.there.high_watermark)
        outcome = translate_shared_name(
            place.outcome,
            EarlierOffset(downstream=arrived, again_max=end - arrived),
            LocalRecords(through=arrived, end=end, stretches=None),
            read_all_copied=False,
            past_all_back=False,
        )
        return TranslatedPosition(partition=mirror, outcome=outcome)

    def _unsure(self) -> str:
        """Why the topics may hold what was born there, "" where they do not: the flow that leads
        back need not be in our file."""
        flow = self.flow
        if not (self.back.exists or flow.target_topics is TargetTopicAccess.SHARED):
            return ""
        return (
            f"{flow.target} may have records of its own under this name, and nobody can say which "
            f"of them were read on {flow.source}: who goes on by what was copied alone misses the "
            "others (target.topics: exclusive says that there are none)"
        )


def _find_origin_topic(flow: Flow, topic: str) -> str | None:
    """The name on the target of a topic that came from there; None for others."""
    if flow.policy.topic_source(topic) != flow.target:
        return None
    return flow.policy.upstream_topic(topic)
