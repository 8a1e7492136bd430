"""The flow that leads back, as far as the plan of a move needs it: how far its map says that it
got, and what the cluster gone to holds that never left it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.failover import left_behind
from mm2.app.looks import mirrors, sides, syncs
from mm2.cluster import admin, logs
from mm2.core.failover import doubts, orders, places, seen, tails
from mm2.core.offsets import log_ends, offset_map

LOGS_S = 10.0

_Topics = Mapping[str, admin.TopicDescription]
_Tails = Mapping[ids.TopicPartition, tails.Tail]


@dataclass(frozen=True, slots=True)
class Opposite:
    """`left`: what never left the cluster gone to. `why` something of it could not be looked at or
    counted, "" where all is known that is needed."""

    back: places.Back
    left: _Tails = field(default_factory=dict)
    why: str = ""

    @property
    def unreplicated(self) -> tuple[seen.Unreplicated, ...]:
        return tuple(each.told() for _, each in sorted(self.left.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opposites:
    """Looks at one; its fields as `planning.Planner`'s."""

    both: sides.TwoSides
    find: left_behind.Find
    ways: places.Ways
    timeout_s: float

    def look(
        self, wanted: orders.Wanted, found: mirrors.Mirrors, topics: Collection[str]
    ) -> Opposite:
        """As far as it is needed by who moves back, or reads these `topics`. A planned move needs
        all of it and raises `RetriableError`; where the cluster that is left is half dead in an
        emergency, less has to do."""
        flow, back = self.both.flow, wanted.kind is orders.Kind.BACK
        if not (back or places.asks_back(flow, topics)):
            return Opposite(places.Back(known=None))
        known, why = self._map(wanted, found)
        if known is None:
            exists = self.ways.both or bool(why)
            way = places.Back(known=None, exists=exists, syncs=self._syncs())
            return Opposite(way, why=why)
        counts = back or not flow.policy.renames_topics
        told = self._syncs() if counts else {}
        way = places.Back(known=known, exists=self.ways.both, syncs=told)
        try:
            there = self._there(known, every=back)
            stopped = self._stopped(known, there)
            way = places.Back(known=known, exists=self.ways.both, syncs=told, stopped=stopped)
            if not counts:
                return Opposite(way)
            left = self._left(way, found.known, there if back else {}, whole=wanted.planned)
            return Opposite(way, left=left)
        except errors.RetriableError as error:
            if wanted.planned:
                raise
            return Opposite(way, why=str(error))

    def _map(
        self, wanted: orders.Wanted, found: mirrors.Mirrors
    ) -> tuple[offset_map.OffsetMap | None, str]:
        """And why it cannot be read, "" where it was, or nobody was asked."""
        if found.silent:
            return None, ""
        try:
            return mirrors.read_map(self.both.source, self.both.flow.target, self.timeout_s), ""
        except errors.RetriableError as error:
            if wanted.planned:
                raise
            return None, str(error)

    def _syncs(self) -> places.Syncs:
        """What the flow that leads back keeps on the cluster gone to."""
        if not self.ways.syncs_there:
            return {}
        flow = self.both.flow
        topic = flow.policy.offset_syncs_topic(flow.source)
        return syncs.read(self.both.target, topic, self.timeout_s)

    def _there(self, known: offset_map.OffsetMap, *, every: bool) -> _Topics:
        """The topics that it has begun; `every`: also those that it is to mirror and has not."""
        side, policy = self.both.target.admin, self.both.flow.policy
        names = {each.topic for each in tails.begun(known, policy)}
        if every and self.ways.back is not None:
            names |= tails.to_mirror(self.ways.back, side.list_topics(self.timeout_s))
        return _described(side, names, self.timeout_s)

    def _stopped(
        self, known: offset_map.OffsetMap, there: _Topics
    ) -> Mapping[ids.TopicPartition, str]:
        """Of which partitions of the cluster gone to its map holds no more, and why."""
        flow = self.both.flow
        mirror = {each: places.back(flow, each) for each in tails.begun(known, flow.policy)}
        names = {each.topic for each in mirror.values()}
        here = _described(self.both.source.admin, names, self.timeout_s)
        why = {
            each: doubts.made_anew(
                known.partition(each), source=_id(there, each), target=_id(here, mirror[each])
            )
            for each in mirror
        }
        return {each: found for each, found in why.items() if found}

    def _left(
        self,
        way: places.Back,
        known: offset_map.OffsetMap,
        there: _Topics,
        *,
        whole: bool,
    ) -> _Tails:
        """`there`: topics that count whether or not it has begun them. `whole`: raise where the
        cluster that is left does not answer for a partition."""
        flow, opposite = self.both.flow, way.known
        assert opposite is not None, "it was read"
        asked = tails.begun(opposite, flow.policy) | {
            ids.TopicPartition(name, number)
            for name, topic in there.items()
            for number in range(topic.partitions)
        }
        found = self.both.target.logs.ends(asked, LOGS_S)
        mirror = {each: places.back(flow, each) for each in asked}
        here = _or_none(self.both.source.logs.ends(set(mirror.values()), LOGS_S), whole=whole)
        looked = tails.Looked(
            opposite=opposite,
            known=known,
            mirror=mirror,
            there=found.done,
            here=here,
            stopped=way.stopped.keys(),
            syncs=way.syncs,
        )
        return {**looked.uncounted(_silent(found)), **self.find(looked.begins())}


def _described(side: admin.Admin, names: Collection[str], timeout_s: float) -> _Topics:
    """Raises `RetriableError` where nobody tells of one of them."""
    found = side.describe_topics(names, timeout_s)
    for _, error in sorted(found.failed.items()):
        if isinstance(error, errors.RetriableError):
            raise error
    return found.done


def _id(topics: _Topics, partition: ids.TopicPartition) -> uuid.UUID | None:
    topic = topics.get(partition.topic)
    return None if topic is None else topic.topic_id


def _silent(found: logs.PerPartition[log_ends.Ends]) -> Mapping[ids.TopicPartition, str]:
    return {
        each: str(error)
        for each, error in found.failed.items()
        if not isinstance(error, kafka_errors.TopicMissingError)
    }


def _or_none(
    found: logs.PerPartition[log_ends.Ends], *, whole: bool
) -> Mapping[ids.TopicPartition, log_ends.Ends | None]:
    """None for what is not there."""
    silent = _silent(found)
    if silent and whole:
        raise found.failed[min(silent)]
    missing = found.failed.keys() - silent.keys()
    return {**found.done, **dict.fromkeys(missing)}
