"""Where an offset of the cluster that is left is on the one gone to, by the maps of both ways.

What the flow mirrors goes forwards by its map; what a flow of the other direction has brought goes
back by that one's; what both bring under one name goes by both (`shared_names`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.core import flows
from mm2.core.configs import connector_keys
from mm2.core.failover import group_moves, seen, shared_names, tails
from mm2.core.offsets import map_translation, offset_map, translation
from mm2.formats import offset_sync

Syncs = Mapping[ids.TopicPartition, Sequence[offset_sync.OffsetSync]]
"""By the partition's name on the flow's source, as they were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """What the file says. `back`: the flow that leads back, None where there is none.
    `syncs_there`: it keeps its offset syncs on the cluster gone to, which is its source, and nobody
    else keeps any under that name. `syncs_here`: the flow itself keeps its own on its source."""

    back: flows.Flow | None = None
    syncs_there: bool = False
    syncs_here: bool = True

    @property
    def both(self) -> bool:
        return self.back is not None


def ways(props: Mapping[str, str], flow: flows.Flow, of_file: Iterable[flows.Flow]) -> Ways:
    """`props`: the file's, flat; `of_file`: all its flows."""
    back_name = f"{flow.target}->{flow.source}"
    usual = props.get(connector_keys.SYNCS_TOPIC_LOCATION, "source")
    here, there = (
        props.get(f"{name}.{connector_keys.SYNCS_TOPIC_LOCATION}", usual).strip() == "source"
        for name in (flow.name, back_name)
    )
    back = next((each for each in of_file if each.name == back_name), None)
    return Ways(back=back, syncs_there=here and there, syncs_here=here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """The flow that leads back. `known` is its map, which stands on the cluster that is left, None
    where it cannot be read; of what is not in it `syncs` tell. `exists`: there is such a flow, as
    far as that is known without the map. `stopped`: partitions of the cluster gone to of which the
    map holds no more, and why."""

    known: offset_map.OffsetMap | None
    exists: bool = False
    syncs: Syncs = field(default_factory=dict)
    stopped: Mapping[ids.TopicPartition, str] = field(default_factory=dict)

    def arrived(self, partition: ids.TopicPartition, offset: int) -> translation.Earlier | None:
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
                return translation.Earlier(downstream=lowest, again_max=again_max)
        return None


def asks_back(flow: flows.Flow, topics: Collection[str]) -> bool:
    """Do offsets of these topics of the cluster that is left need the flow that leads back?"""
    return not flow.policy.renames_topics or any(
        not flow.should_replicate_topic(each) and _origin(flow, each) is not None for each in topics
    )


def there(flow: flows.Flow, partition: ids.TopicPartition) -> ids.TopicPartition:
    """Where the flow brings what was born on its source."""
    return ids.TopicPartition(flow.remote_topic(partition.topic), partition.partition)


def back(flow: flows.Flow, partition: ids.TopicPartition) -> ids.TopicPartition:
    """Where the opposite flow brings what was born on this one's target."""
    topic = flow.policy.format_remote_topic(flow.target, partition.topic)
    return ids.TopicPartition(topic, partition.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """`known` is the flow's map, `mirrored` what it mirrors, by name on its source. `left`: what
    never left the cluster gone to, by name there. `still`: nobody copies any more."""

    flow: flows.Flow
    known: offset_map.OffsetMap
    mirrored: Mapping[ids.TopicPartition, seen.Mirrored]
    back: Back
    left: Mapping[ids.TopicPartition, tails.Tail] = field(default_factory=dict)
    still: bool = False

    def translate(self, partition: ids.TopicPartition, offset: int) -> seen.Place | None:
        """See `seen.Translate`."""
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

    def of_groups(self, groups: Iterable[seen.Group]) -> set[ids.TopicPartition]:
        """Where groups go, by names there."""
        return {
            place.partition
            for group in groups
            for partition, position in group.positions.items()
            if position is not None
            and (place := self.translate(partition, position.offset)) is not None
        }

    def _forwards(self, partition: ids.TopicPartition, offset: int) -> seen.Place:
        """By the flow's own map."""
        known = map_translation.Translator(self.known.partition(partition))
        outcome = known.translate(offset)
        old = outcome is translation.Untranslated.TOO_OLD
        return seen.Place(
            partition=there(self.flow, partition),
            outcome=group_moves.capped(outcome, offset, self.mirrored.get(partition)),
            known_from=known.first_behind(offset) if old else None,
        )

    def _backwards(self, partition: ids.TopicPartition, offset: int) -> seen.Place | None:
        topic = _origin(self.flow, partition.topic)
        opposite = self.back.known
        if topic is None or (opposite is None and not self.back.exists):
            return None
        born = ids.TopicPartition(topic, partition.partition)
        if opposite is None:
            arrived = self.back.arrived(born, offset)
            return seen.Place(partition=born, outcome=arrived or translation.Untranslated.UNKNOWN)
        if born in self.back.stopped:
            return self._anew(born)
        tail = self.left.get(born)
        if tail is not None and tail.first is not None and offset >= tail.behind:
            return seen.Place(partition=born, outcome=translation.Exact(downstream=tail.first))
        outcome = map_translation.translate_back(opposite.partition(born), offset)
        return seen.Place(partition=born, outcome=outcome)

    def _anew(self, born: ids.TopicPartition) -> seen.Place:
        """Nothing is known of what stands there now: all of it may be unread."""
        old = translation.Untranslated.TOO_OLD
        return seen.Place(partition=born, outcome=old, stopped=self.back.stopped[born])

    def _shared(
        self,
        partition: ids.TopicPartition,
        offset: int,
        place: seen.Place,
        *,
        opposite: offset_map.PartitionMap,
    ) -> seen.Place:
        """`place`: by the flow's own map."""
        mirror = place.partition
        if mirror in self.back.stopped:
            return self._anew(mirror)
        mine, tail = self.mirrored.get(partition), self.left.get(mirror)
        copied_to = None if mine is None else mine.copied_to
        through = opposite.copied_to or 0
        outcome = shared_names.place(
            place.outcome,
            map_translation.translate_back(opposite, offset),
            shared_names.Local(
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
        return seen.Place(partition=mirror, outcome=outcome)

    def _by_syncs(
        self, partition: ids.TopicPartition, offset: int, place: seen.Place
    ) -> seen.Place:
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
        outcome = shared_names.place(
            place.outcome,
            translation.Earlier(downstream=arrived, again_max=end - arrived),
            shared_names.Local(through=arrived, end=end, stretches=None),
            read_all_copied=False,
            past_all_back=False,
        )
        return seen.Place(partition=mirror, outcome=outcome)

    def _unsure(self) -> str:
        """Why the topics may hold what was born there, "" where they do not: the flow that leads
        back need not be in our file."""
        flow = self.flow
        if not (self.back.exists or flow.target_topics is flows.TargetTopics.SHARED):
            return ""
        return (
            f"{flow.target} may have records of its own under this name, and nobody can say which "
            f"of them were read on {flow.source}: who goes on by what was copied alone misses the "
            "others (target.topics: exclusive says that there are none)"
        )


def _origin(flow: flows.Flow, topic: str) -> str | None:
    """The name on the target of a topic that came from there; None for others."""
    if flow.policy.topic_source(topic) != flow.target:
        return None
    return flow.policy.upstream_topic(topic)
