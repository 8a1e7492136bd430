"""Where an offset of the cluster that is left is on the one gone to, by the maps of both ways."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.app.failover import tails
from mm2.app.looks import mirrors, sides, syncs
from mm2.core import flows
from mm2.core.failover import group_moves, seen, shared_names
from mm2.core.offsets import map_translation, offset_map, translation
from mm2.formats import offset_sync


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """`both`: a flow leads back, too. `syncs_there`: it keeps its offset syncs on the cluster gone
    to, which is its source, and nobody else keeps any under that name. `syncs_here`: the flow
    itself keeps its own on its source."""

    both: bool = False
    syncs_there: bool = False
    syncs_here: bool = True


class Opposite:
    """The flow that leads back: its map, which stands on the cluster that is left, and what of it
    is known on the other one. Read when it is first asked for; raises `RetriableError` and
    `FatalError` then."""

    def __init__(self, both: sides.TwoSides, *, ways: Ways, silent: bool, timeout_s: float) -> None:
        self._both = both
        self._timeout_s = timeout_s
        self.ways = ways
        self.silent = silent

    @functools.cached_property
    def map(self) -> offset_map.OffsetMap:
        assert not self.silent, "who does not answer is not asked"
        return mirrors.read_map(self._both.source, self._both.flow.target, self._timeout_s)

    def arrived(self, partition: ids.TopicPartition, offset: int) -> offset_sync.OffsetSync | None:
        """The last place, as far as offset syncs say, before which all that was born on the cluster
        gone to stood before `offset` on the one that is left; None: they say nothing."""
        found = [each for each in self._syncs.get(partition, ()) if each.downstream <= offset]
        return max(found, key=lambda each: each.upstream, default=None)

    @functools.cached_property
    def _syncs(self) -> syncs.Syncs:
        if not self.ways.syncs_there:
            return {}
        flow = self._both.flow
        topic = flow.policy.offset_syncs_topic(flow.source)
        return syncs.read(self._both.target, topic, self._timeout_s)


def translate(
    flow: flows.Flow,
    known: offset_map.OffsetMap,
    mirrored: Sequence[seen.Mirrored],
    *,
    opposite: Opposite,
    left: Mapping[ids.TopicPartition, tails.Tail],
    still: bool,
) -> seen.Translate:
    """What the flow mirrors goes forwards by its map (`known`); what a flow of the other direction
    has brought goes back by that one's; what both bring under one name goes by both. `left`: what
    never left the cluster gone to. `still`: nobody copies any more."""
    by_partition = {each.partition: each for each in mirrored}

    def placed(partition: ids.TopicPartition, offset: int) -> seen.Place | None:
        if flow.should_replicate_topic(partition.topic):
            there = ids.TopicPartition(flow.remote_topic(partition.topic), partition.partition)
            forward = group_moves.capped(
                map_translation.translate(known.partition(partition), offset),
                offset,
                by_partition.get(partition),
            )
            if flow.policy.renames_topics:
                return seen.Place(partition=there, outcome=forward)
            return shared(partition, there, offset, forward=forward)
        topic = _origin(flow, partition.topic)
        if topic is None or (opposite.silent and not opposite.ways.both):
            return None
        there = ids.TopicPartition(topic, partition.partition)
        if opposite.silent:
            return seen.Place(partition=there, outcome=_back_by_syncs(opposite, there, offset))
        tail = left.get(there)
        if tail is not None and tail.first is not None and offset >= tail.behind:
            outcome: translation.Translation = translation.Exact(downstream=tail.first)
        else:
            outcome = map_translation.translate_back(opposite.map.partition(there), offset)
        return seen.Place(partition=there, outcome=outcome)

    def shared(
        partition: ids.TopicPartition,
        there: ids.TopicPartition,
        offset: int,
        *,
        forward: translation.Translation,
    ) -> seen.Place:
        mine = by_partition.get(partition)
        if opposite.silent:
            return _by_syncs(flow, there, offset, forward=forward, opposite=opposite, mine=mine)
        back = opposite.map.partition(there)
        if not back.eras:
            unsure = _unsure(flow) if _others_write(flow, opposite.ways) else ""
            return seen.Place(partition=there, outcome=forward, unsure=unsure)
        tail = left.get(there)
        copied_to = None if mine is None else mine.copied_to
        outcome = shared_names.place(
            forward,
            map_translation.translate_back(back, offset),
            shared_names.Local(
                through=back.copied_to or 0,
                end=back.copied_to or 0 if tail is None else tail.end,
                stretches=None if tail is None else tail.stretches,
            ),
            read_all_copied=still
            and mine is not None
            and mine.tail == 0
            and copied_to is not None
            and offset >= copied_to,
            past_all_back=tail is not None and offset >= tail.behind,
        )
        return seen.Place(partition=there, outcome=outcome)

    return placed


def back(flow: flows.Flow, partition: ids.TopicPartition) -> ids.TopicPartition:
    """Where the opposite flow brings what was born on this one's target."""
    topic = flow.policy.format_remote_topic(flow.target, partition.topic)
    return ids.TopicPartition(topic, partition.partition)


def _back_by_syncs(
    opposite: Opposite, there: ids.TopicPartition, offset: int
) -> translation.Translation:
    """What was copied behind the sync stands before `offset`, too: a record an offset at most."""
    sync = opposite.arrived(there, offset)
    if sync is None:
        return translation.Untranslated.UNKNOWN
    return translation.Earlier(downstream=sync.upstream, again_max=offset - sync.downstream)


def _by_syncs(
    flow: flows.Flow,
    there: ids.TopicPartition,
    offset: int,
    *,
    forward: translation.Translation,
    opposite: Opposite,
    mine: seen.Mirrored | None,
) -> seen.Place:
    """Without the opposite map, which is lost with its cluster."""
    if not _others_write(flow, opposite.ways):
        return seen.Place(partition=there, outcome=forward)
    sync = opposite.arrived(there, offset)
    if sync is None or mine is None or mine.there is None:
        return seen.Place(partition=there, outcome=forward, unsure=_unsure(flow))
    arrived = sync.upstream
    end = max(arrived, mine.there.end)
    outcome = shared_names.place(
        forward,
        translation.Earlier(downstream=arrived, again_max=end - arrived),
        shared_names.Local(through=arrived, end=end, stretches=None),
        read_all_copied=False,
        past_all_back=False,
    )
    return seen.Place(partition=there, outcome=outcome)


def _others_write(flow: flows.Flow, ways: Ways) -> bool:
    """May the topics hold what was born there? The flow that leads back need not be in our file."""
    return ways.both or flow.target_topics is flows.TargetTopics.SHARED


def _unsure(flow: flows.Flow) -> str:
    return (
        f"{flow.target} may have records of its own under this name, and nobody can say which of "
        f"them were read on {flow.source}: who goes on by what was copied alone misses the others "
        "(target.topics: exclusive says that there are none)"
    )


def _origin(flow: flows.Flow, topic: str) -> str | None:
    """The name on the target of a topic that came from there; None for others."""
    if flow.policy.topic_source(topic) != flow.target:
        return None
    return flow.policy.upstream_topic(topic)
