"""The two clusters of one flow, and what an offset of either is on the other.

What came the other way, by a flow back, is translated by that flow's map, which is on the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from mm2.client import clusters, flow_offsets, outcomes
from mm2.core import naming
from mm2.core.offsets import known_offsets, sync_table, translation

T = TypeVar("T")
Translate: TypeAlias = Callable[[ids.TopicPartition, int], outcomes.Outcome]

SOURCE_S = 10.0
"""A source that has not answered for so long is taken for lost."""
SILENT_S = 30.0
"""So long it is not asked again."""
_NO_WAY_BACK = (
    "a flow back has to tell, whose map is on the source: its properties and the alias of the "
    "cluster mirrored to have to be given, and it has to answer"
)
_WHY: Mapping[translation.Untranslated, str] = {
    translation.Untranslated.UNKNOWN: "nothing is known to have been copied of it",
    translation.Untranslated.NOT_READY: "what is known of it was not read yet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The flow from the cluster `remote_alias`, `there`, to the one asked, `here`.

    `there` None: nobody knows how to reach it. `alias` is what the flow calls `here`, "" where
    nobody says: then topics that came from here are `Unknown`. `syncs_on_source`: where its offset
    syncs are.
    """

    here: clusters.Cluster
    remote_alias: str
    policy: naming.ReplicationPolicy
    there: clusters.Cluster | None = None
    alias: str = ""
    syncs_on_source: bool = True


class LinkOffsets:
    """What stands of a link's offsets, read again for every question. One thread at a time."""

    def __init__(self, link: Link, *, clock: base_clock.Clock) -> None:
        self._link = link
        self._clock = clock
        self._silent_until_s = float("-inf")
        self.silent = ""
        self._forward = flow_offsets.FlowOffsets(
            link.here, source_alias=link.remote_alias, syncs=_syncs(link)
        )
        self._opposite: flow_offsets.FlowOffsets | None = None
        if link.there is not None and link.alias:
            self._opposite = flow_offsets.FlowOffsets(link.there, source_alias=link.alias)

    def close(self) -> None:
        """Let go of all connections."""
        for each in (self._forward, self._opposite, self._link.here, self._link.there):
            if each is not None:
                each.close()

    def ask_source(self, ask: Callable[[clusters.Cluster, float], T], timeout_s: float) -> T | None:
        """None: nobody knows how to reach it, or it does not answer, and then `silent` says why."""
        there = self._link.there
        if there is None or self._clock.now_s() < self._silent_until_s:
            return None
        try:
            found = ask(there, min(timeout_s, SOURCE_S))
        except errors.RetriableError as error:
            self.silent = str(error)
            self._silent_until_s = self._clock.now_s() + SILENT_S
            return None
        self.silent = ""
        return found

    def on_target(self, partition: ids.TopicPartition) -> ids.TopicPartition:
        """The partition of the cluster mirrored to that holds what this one of the source holds."""
        return self._named(naming.topic_on_target, partition)

    def on_source(self, partition: ids.TopicPartition) -> ids.TopicPartition:
        """The way back of `on_target`."""
        return self._named(naming.topic_on_source, partition)

    def forwards(self, timeout_s: float) -> Translate:
        """From the source to the cluster mirrored to, as all stands now."""
        known = self._read_forward(timeout_s)
        opposite = _Once(lambda: self._read_opposite(timeout_s))

        def translate(partition: ids.TopicPartition, offset: int) -> outcomes.Outcome:
            there = self.on_target(partition)
            if not self._is_from(partition, self._link.alias):
                return _copied(known, partition, offset, there=there)
            if (other := opposite.get()) is None:
                return outcomes.Unknown(partition=there, why=_NO_WAY_BACK)
            return _outcome(other.translate_back(there, offset), there)

        return translate

    def backwards(self, timeout_s: float) -> Translate:
        """From the cluster mirrored to to the source, as all stands now."""
        known = self._read_forward(timeout_s)
        opposite = _Once(lambda: self._read_opposite(timeout_s))

        def translate(partition: ids.TopicPartition, offset: int) -> outcomes.Outcome:
            there = self.on_source(partition)
            if self._is_from(partition, self._link.remote_alias):
                return _outcome(known.translate_back(there, offset), there)
            if (other := opposite.get()) is None:
                return outcomes.Unknown(partition=there, why=_NO_WAY_BACK)
            return _copied(other, partition, offset, there=there)

        return translate

    def _is_from(self, partition: ids.TopicPartition, alias: str) -> bool:
        return alias != "" and self._link.policy.topic_source(partition.topic) == alias

    def _named(self, name: Callable[..., str], partition: ids.TopicPartition) -> ids.TopicPartition:
        link = self._link
        topic = name(
            link.policy,
            partition.topic,
            source_alias=link.remote_alias,
            target_alias=link.alias,
        )
        return ids.TopicPartition(topic, partition.partition)

    def _read_forward(self, timeout_s: float) -> known_offsets.KnownOffsets:
        known = self._forward.read(timeout_s)
        return known_offsets.KnownOffsets(known=known, syncs=self._read_syncs(timeout_s))

    def _read_syncs(self, timeout_s: float) -> sync_table.SyncTable | None:
        if not self._link.syncs_on_source:
            return self._forward.read_syncs(timeout_s)
        return self.ask_source(lambda _, left_s: self._forward.read_syncs(left_s), timeout_s)

    def _read_opposite(self, timeout_s: float) -> known_offsets.KnownOffsets | None:
        opposite = self._opposite
        if opposite is None:
            return None
        known = self.ask_source(lambda _, left_s: opposite.read(left_s), timeout_s)
        return None if known is None else known_offsets.KnownOffsets(known=known)


class _Once:
    """What is read when it is first needed, if ever."""

    def __init__(self, read: Callable[[], known_offsets.KnownOffsets | None]) -> None:
        self._read = read
        self._found: list[known_offsets.KnownOffsets | None] = []

    def get(self) -> known_offsets.KnownOffsets | None:
        if not self._found:
            self._found.append(self._read())
        return self._found[0]


def _syncs(link: Link) -> tuple[clusters.Cluster, str] | None:
    if not link.syncs_on_source:
        return link.here, link.policy.offset_syncs_topic(link.remote_alias)
    if link.there is None or not link.alias:
        return None
    return link.there, link.policy.offset_syncs_topic(link.alias)


def _copied(
    known: known_offsets.KnownOffsets,
    partition: ids.TopicPartition,
    offset: int,
    *,
    there: ids.TopicPartition,
) -> outcomes.Outcome:
    found = known.translate(partition, offset)
    if isinstance(found, translation.Earlier) and known.missing(partition, offset):
        return outcomes.NotReady(
            partition=there, offset=found.downstream, again_max=found.again_max
        )
    return _outcome(found, there)


def _outcome(found: translation.Translation, there: ids.TopicPartition) -> outcomes.Outcome:
    match found:
        case translation.Exact():
            return outcomes.Exact(partition=there, offset=found.downstream)
        case translation.Earlier():
            return outcomes.Earlier(
                partition=there, offset=found.downstream, again_max=found.again_max
            )
        case translation.Untranslated.TOO_OLD:
            return outcomes.TooOld(partition=there)
        case _:
            return outcomes.Unknown(partition=there, why=_WHY[found])
