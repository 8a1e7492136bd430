"""Translates offsets, consumer groups and timestamps between the two clusters of a flow.

The target cluster is always queried, the source cluster only if it is reachable. Records that the
flow replicated are translated with its offset map, or with MirrorMaker 2's offset syncs if Java
replicated them. Records that originated on the target are translated with the reverse flow's offset
map, which is stored on the source cluster. Offset maps and offset syncs are updated before every
translation.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.system.system_clock import SystemClock
from mm2.client import mirror_client_config, translation_outcomes
from mm2.client.mirror_client_config import ClientProperties, OffsetTranslationClients
from mm2.client.translation_outcomes import (
    Basis,
    BeyondEnd,
    Earlier,
    Exact,
    GroupPlaces,
    NotReady,
    Outcome,
    Place,
    TooOld,
    Unknown,
)
from mm2.kafka import checkpoint_reader
from mm2.kafka.checkpoint_reader import CheckpointWriteTimes
from mm2.kafka.kafka_client_interfaces import TopicTail
from mm2.kafka.offset_map_reader import MapReadTimeoutError, OffsetMapReader
from mm2.kafka.state_topic_reader import RecordApplier
from mm2.offsets import offset_translation
from mm2.offsets.checkpoint_rules import CommittedPositions
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_syncs import OffsetSyncStore
from mm2.offsets.offset_translation import (
    EarlierOffset,
    ExactOffset,
    TranslatedOffset,
    UntranslatedReason,
)
from mm2.topics import replication_policy
from mm2.topics.replication_policy import ReplicationPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMapWithSyncs:
    """A flow's offset map and offset syncs, combined for translation. Partitions are identified by
    their names on the source."""

    offset_map: OffsetMap
    syncs: OffsetSyncStore | None = None
    """Offset syncs; None if they could not be read."""

    def translate(self, partition: TopicPartition, upstream: int) -> TranslatedOffset:
        """Translate a source offset to the target. The offset map and the offset syncs are both
        used, and the result with fewer re-read records is returned.

        The offset map is ignored if the newest offset sync contradicts it: MirrorMaker 2 (Java) has
        then replicated the partition after mm2 did, possibly from a recreated topic.
        """
        mine = self.offset_map.get_partition(partition)
        if self.syncs is None:
            return offset_translation.translate_to_target(mine, upstream)
        by_syncs = self.syncs.translate_downstream(partition, upstream)
        slots = self.syncs.list_syncs(partition)
        if slots and not offset_translation.agrees_with_sync(mine, slots[0]):
            return by_syncs
        return offset_translation.choose_closest_translation(
            offset_translation.translate_to_target(mine, upstream), by_syncs
        )

    def translate_back(self, partition: TopicPartition, downstream: int) -> TranslatedOffset:
        """Translate a mirror topic's offset to a source offset. Uses only the offset map, because
        offset syncs are too sparse."""
        mine = self.offset_map.get_partition(partition)
        slots = self.syncs.list_syncs(partition) if self.syncs is not None else ()
        if slots and not offset_translation.agrees_with_sync(mine, slots[0]):
            return UntranslatedReason.UNKNOWN
        return offset_translation.translate_to_source(mine, downstream)

    def count_unreplicated_offsets(self, partition: TopicPartition, upstream: int) -> int:
        """Return the number of source offsets before `upstream` that the offset map does not record
        as replicated."""
        copied_to = self.offset_map.get_partition(partition).next_source_offset
        return 0 if copied_to is None else max(0, upstream - copied_to)


_LOG = logging.getLogger(__name__)


class FlowOffsetReader:
    """Reads the offset map and offset syncs of one flow. Not thread-safe."""

    def __init__(
        self,
        target: OffsetTranslationClients,
        *,
        source_alias: str,
        clock: Clock,
        syncs: tuple[OffsetTranslationClients, str] | None = None,
        response_timeout_s: float = math.inf,
    ) -> None:
        """Create a reader for the flow from `source_alias` to the cluster `target`, without sending
        a request.

        `syncs` are the cluster and topic of the flow's offset syncs, or None if they are unknown.
        `response_timeout_s` limits how long a read waits for a cluster that does not respond.
        """
        self._target = target
        self._topic = replication_policy.format_offset_map_topic(source_alias)
        self._map = OffsetMapReader(
            lambda: target.open_new_record_reader(self._topic), where="the target"
        )
        self._clock = clock
        self._response_timeout_s = response_timeout_s
        self._syncs = syncs
        self._sync_tail: TopicTail | None = None
        self._sync_store = OffsetSyncStore(keep_history=True)
        self._sync_applier = RecordApplier(self._apply_offset_sync)
        self._existing_topics: set[str] = set()

    def read_offset_map(self, timeout_s: float) -> OffsetMap:
        """Read the current offset map. It is empty if its topic does not exist.

        Raises `RetriableError` or `FatalError` on failure, and `MapReadTimeoutError` if records
        still arrive after the timeout.
        """
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        response_s = min(timeout_s, self._response_timeout_s)
        if not self._topic_exists(self._target, self._topic, response_s):
            return OffsetMap()
        return self._map.read_map(response_s, must_end=lambda: end.is_expired(self._clock.now_s()))

    def read_offset_syncs(self, timeout_s: float) -> OffsetSyncStore | None:
        """Read the current offset syncs. Returns None if their topic does not exist or cannot be
        read.

        Raises `RetriableError` if the cluster that stores the topic does not respond.
        """
        if self._syncs is None:
            return None
        cluster, topic = self._syncs
        try:
            if not self._topic_exists(cluster, topic, timeout_s):
                return None
            if self._sync_tail is None:
                self._sync_store = OffsetSyncStore(keep_history=True)
                self._sync_tail = cluster.open_new_record_reader(topic)
            ignored = self._sync_store.ignored_syncs
            self._sync_tail.read_to_end(timeout_s, self._sync_applier.apply_record)
            if self._sync_store.ignored_syncs > ignored:
                _LOG.warning("%s", self._sync_store.describe_ignored_syncs())
        except FatalError as error:
            self._close_syncs_reader()
            _LOG.warning("translating without offset syncs: %s", error)
            return None
        except ConnectError:
            self._close_syncs_reader()
            raise
        if not self._sync_store.is_ready:
            self._sync_store.mark_ready()
        return self._sync_store

    def close(self) -> None:
        """Close the readers' connections."""
        self._map.close()
        self._close_syncs_reader()

    def _topic_exists(
        self, cluster: OffsetTranslationClients, topic: str, timeout_s: float
    ) -> bool:
        """Return True if the topic exists. Call before reading a topic, because reading a missing
        topic waits for its creation."""
        if topic not in self._existing_topics and topic in cluster.topics.list_topics(timeout_s):
            self._existing_topics.add(topic)
        return topic in self._existing_topics

    def _apply_offset_sync(self, key: bytes, value: bytes | None) -> None:
        self._sync_store.apply_record(key, value)

    def _close_syncs_reader(self) -> None:
        tail, self._sync_tail = self._sync_tail, None
        if tail is not None:
            tail.close()


T = TypeVar("T")
TranslateOffset: TypeAlias = Callable[[TopicPartition, int], Outcome]

SOURCE_TIMEOUT_S = 10.0
"""Response timeout in seconds, after which the source counts as unreachable."""
SOURCE_RETRY_DELAY_S = 30.0
"""Time in seconds for which an unreachable source is not queried again."""
_REVERSE_MAP_REQUIRED = (
    "translation needs the reverse flow's offset map, which is stored on the source cluster: pass "
    "the source cluster's client properties and the target alias; the source must be reachable"
)
_UNTRANSLATED_REASONS: Mapping[UntranslatedReason, str] = {
    UntranslatedReason.UNKNOWN: "the offset map has no replicated records of this partition",
    UntranslatedReason.NOT_READY: "this partition's offset map has not been read yet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationClusterPair:
    """Clients and aliases of the two clusters of a flow, for offset translation."""

    target: OffsetTranslationClients
    """Target cluster of the flow."""
    source_alias: str
    """Alias of the source cluster."""
    policy: ReplicationPolicy
    source: OffsetTranslationClients | None = None
    """Source cluster of the flow; None if it is not configured."""
    target_alias: str = ""
    """Alias of the target cluster. If empty, offsets of topics that originated on the target have
    the outcome `Unknown`."""
    syncs_on_source: bool = True
    """True if the offset syncs are stored on the source cluster."""


class ClusterPairTranslator:
    """Translates offsets between the clusters of a `TranslationClusterPair`, in both directions.
    Not thread-safe."""

    def __init__(self, link: TranslationClusterPair, *, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._silent_until_s = float("-inf")
        self.source_error = ""
        self._forward = FlowOffsetReader(
            link.target,
            source_alias=link.source_alias,
            clock=clock,
            syncs=_locate_offset_syncs(link),
        )
        self._reverse: FlowOffsetReader | None = None
        if link.source is not None and link.target_alias:
            self._reverse = FlowOffsetReader(
                link.source,
                source_alias=link.target_alias,
                clock=clock,
                response_timeout_s=SOURCE_TIMEOUT_S,
            )

    def close(self) -> None:
        """Close all of the translator's connections."""
        for each in (self._forward, self._reverse, self._link.target, self._link.source):
            if each is not None:
                each.close()

    def query_source_cluster(
        self, ask: Callable[[OffsetTranslationClients, float], T], timeout_s: float
    ) -> T | None:
        """Return the result of a query to the source cluster; None if the source is not configured
        or unreachable.

        If the source is unreachable, `source_error` contains the reason.
        """
        there = self._link.source
        if there is None or self._clock.now_s() < self._silent_until_s:
            return None
        try:
            found = ask(there, min(timeout_s, SOURCE_TIMEOUT_S))
        except MapReadTimeoutError:
            raise  # the source answers
        except RetriableError as error:
            self.source_error = str(error)
            self._silent_until_s = self._clock.now_s() + SOURCE_RETRY_DELAY_S
            return None
        self.source_error = ""
        return found

    def map_partition_to_target(self, partition: TopicPartition) -> TopicPartition:
        """Return the target partition to which a source partition is replicated."""
        return self._rename_partition(replication_policy.map_topic_to_target, partition)

    def map_partition_to_source(self, partition: TopicPartition) -> TopicPartition:
        """Return the source partition from which a target partition is replicated."""
        return self._rename_partition(replication_policy.map_topic_to_source, partition)

    def build_forward_translation(self, timeout_s: float) -> TranslateOffset:
        """Return a function that translates source offsets to the target, using the current offset
        maps."""
        known = self._read_forward_offsets(timeout_s)
        opposite = _LazyReverseOffsets(lambda: self._read_reverse_map(timeout_s))

        def translate_offset(partition: TopicPartition, offset: int) -> Outcome:
            there = self.map_partition_to_target(partition)
            if not self._is_partition_from_cluster(partition, self._link.target_alias):
                return _translate_replicated_offset(known, partition, offset, there=there)
            if (other := opposite.get_reverse_offsets()) is None:
                return Unknown(partition=there, reason=_REVERSE_MAP_REQUIRED)
            return _build_translation_outcome(other.translate_back(there, offset), there)

        return translate_offset

    def build_backward_translation(self, timeout_s: float) -> TranslateOffset:
        """Return a function that translates target offsets to the source, using the current offset
        maps."""
        known = self._read_forward_offsets(timeout_s)
        opposite = _LazyReverseOffsets(lambda: self._read_reverse_map(timeout_s))

        def translate_offset(partition: TopicPartition, offset: int) -> Outcome:
            there = self.map_partition_to_source(partition)
            if self._is_partition_from_cluster(partition, self._link.source_alias):
                return _build_translation_outcome(known.translate_back(there, offset), there)
            if (other := opposite.get_reverse_offsets()) is None:
                return Unknown(partition=there, reason=_REVERSE_MAP_REQUIRED)
            return _translate_replicated_offset(other, partition, offset, there=there)

        return translate_offset

    def _is_partition_from_cluster(self, partition: TopicPartition, alias: str) -> bool:
        return alias != "" and self._link.policy.topic_source(partition.topic) == alias

    def _rename_partition(
        self, name: Callable[..., str], partition: TopicPartition
    ) -> TopicPartition:
        link = self._link
        topic = name(
            link.policy,
            partition.topic,
            source_alias=link.source_alias,
            target_alias=link.target_alias,
        )
        return TopicPartition(topic, partition.partition)

    def _read_forward_offsets(self, timeout_s: float) -> OffsetMapWithSyncs:
        known = self._forward.read_offset_map(timeout_s)
        return OffsetMapWithSyncs(offset_map=known, syncs=self._read_forward_syncs(timeout_s))

    def _read_forward_syncs(self, timeout_s: float) -> OffsetSyncStore | None:
        if not self._link.syncs_on_source:
            return self._forward.read_offset_syncs(timeout_s)
        return self.query_source_cluster(
            lambda _, left_s: self._forward.read_offset_syncs(left_s), timeout_s
        )

    def _read_reverse_map(self, timeout_s: float) -> OffsetMapWithSyncs | None:
        opposite = self._reverse
        if opposite is None:
            return None
        known = self.query_source_cluster(lambda *_: opposite.read_offset_map(timeout_s), timeout_s)
        return None if known is None else OffsetMapWithSyncs(offset_map=known)


class _LazyReverseOffsets:
    """The reverse flow's offset map and syncs, read on first use."""

    def __init__(self, read: Callable[[], OffsetMapWithSyncs | None]) -> None:
        self._read = read
        self._found: list[OffsetMapWithSyncs | None] = []

    def get_reverse_offsets(self) -> OffsetMapWithSyncs | None:
        if not self._found:
            self._found.append(self._read())
        return self._found[0]


def _locate_offset_syncs(
    link: TranslationClusterPair,
) -> tuple[OffsetTranslationClients, str] | None:
    if not link.syncs_on_source:
        return link.target, link.policy.offset_syncs_topic(link.source_alias)
    if link.source is None or not link.target_alias:
        return None
    return link.source, link.policy.offset_syncs_topic(link.target_alias)


def _translate_replicated_offset(
    known: OffsetMapWithSyncs,
    partition: TopicPartition,
    offset: int,
    *,
    there: TopicPartition,
) -> Outcome:
    found = known.translate(partition, offset)
    if isinstance(found, EarlierOffset) and known.count_unreplicated_offsets(partition, offset):
        return NotReady(partition=there, offset=found.downstream, again_max=found.reread_max)
    return _build_translation_outcome(found, there)


def _build_translation_outcome(found: TranslatedOffset, there: TopicPartition) -> Outcome:
    match found:
        case ExactOffset():
            return Exact(partition=there, offset=found.downstream)
        case EarlierOffset():
            return Earlier(partition=there, offset=found.downstream, again_max=found.reread_max)
        case UntranslatedReason.TOO_OLD:
            return TooOld(partition=there)
        case _:
            return Unknown(partition=there, reason=_UNTRANSLATED_REASONS[found])


TRANSLATION_TIMEOUT_S = 60.0


class OffsetTranslator:
    """Translates offsets, consumer group offsets and timestamps between two clusters. Use it as a
    context manager, or call `close`.

    Methods translate from the source cluster (`remote_alias`) to the target cluster; methods with
    "back" in their name translate in the opposite direction. All methods raise `RetriableError` or
    `FatalError` if the target does not respond. An unreachable source is skipped and reported by
    `source_error`. Not thread-safe.
    """

    def __init__(
        self,
        link: TranslationClusterPair,
        *,
        timeout_s: float = TRANSLATION_TIMEOUT_S,
        clock: Clock | None = None,
    ) -> None:
        """Create a translator without sending a request; `timeout_s` limits each translation."""
        self._link = link
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._offsets = ClusterPairTranslator(link, clock=self._clock)

    @classmethod
    def connect(
        cls,
        properties: ClientProperties,
        remote_alias: str,
        *,
        source_properties: ClientProperties | None = None,
        alias: str = "",
        timeout_s: float = TRANSLATION_TIMEOUT_S,
    ) -> OffsetTranslator:
        """Create a translator from client properties without sending a request.

        `properties` are the client properties of the target cluster, as for `MirrorClient`,
        including `offset-syncs.topic.location` if the offset syncs are on the target.
        `source_properties` are the client properties of the cluster `remote_alias`. `alias` is the
        alias of the target cluster in the flow. Raises `FatalError` for invalid properties.
        """
        clock = SystemClock()
        link = TranslationClusterPair(
            target=mirror_client_config.connect_cluster(properties, clock=clock),
            source=None
            if source_properties is None
            else mirror_client_config.connect_cluster(source_properties, clock=clock),
            policy=mirror_client_config.build_replication_policy(
                {"source.cluster.alias": remote_alias, **properties}
            ),
            source_alias=remote_alias,
            target_alias=alias,
            syncs_on_source=mirror_client_config.are_syncs_on_source(properties),
        )
        return cls(link, timeout_s=timeout_s, clock=clock)

    def __enter__(self) -> OffsetTranslator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all of the translator's connections."""
        self._offsets.close()

    @property
    def source_error(self) -> str:
        """Reason why the source did not respond to the last query; empty if it responded."""
        return self._offsets.source_error

    def translate(self, topic: str, partition: int, offset: int) -> Outcome:
        """Translate a source offset to the target; `topic` is the source topic's name."""
        asked = TopicPartition(topic, partition)
        outcome = self._offsets.build_forward_translation(self._timeout_s)(asked, offset)
        waits = [asked] if isinstance(outcome, NotReady) else []
        return _replace_outcome_beyond_log_end(
            outcome, offset, self._fetch_source_end_offsets(waits).get(asked)
        )

    def translate_back(self, topic: str, partition: int, offset: int) -> Outcome:
        """Translate a target offset to the source; `topic` is the target topic's name.

        Records that were not replicated from the source (foreign records) have no source offset.
        Their offsets are translated to the source offset of the next replicated record.
        """
        asked = TopicPartition(topic, partition)
        outcome = self._offsets.build_backward_translation(self._timeout_s)(asked, offset)
        ends = self._link.target.logs.fetch_log_bounds({asked}, self._timeout_s).succeeded
        return _replace_outcome_beyond_log_end(outcome, offset, ends.get(asked))

    def translate_timestamp(self, topic: str, partition: int, timestamp_ms: int) -> Place:
        """Translate the offset of the first source record with a timestamp at or after
        `timestamp_ms` (UTC milliseconds), or the log end offset if all records are older.

        If the source does not respond, the mirror topic's log is searched instead. A consumer that
        resumes at the result misses no record, but re-reads an unknown number of records.
        """
        asked = TopicPartition(topic, partition)
        at = self._offsets.query_source_cluster(
            lambda there, left_s: _find_offset_at_time(
                there, asked, timestamp_ms, timeout_s=left_s
            ),
            self._timeout_s,
        )
        if at is not None:
            outcome = self._offsets.build_forward_translation(self._timeout_s)(asked, at)
            return Place(partition=asked, offset=at, outcome=outcome, basis=Basis.TIME)
        outcome = self._translate_time_on_target(
            self._offsets.map_partition_to_target(asked), timestamp_ms
        )
        return Place(partition=asked, offset=None, outcome=outcome, basis=Basis.TIME_ON_DESTINATION)

    def translate_timestamp_back(self, topic: str, partition: int, timestamp_ms: int) -> Place:
        """Translate the offset of the first target record with a timestamp at or after
        `timestamp_ms` (UTC milliseconds) to the source."""
        asked = TopicPartition(topic, partition)
        at = _find_offset_at_time(self._link.target, asked, timestamp_ms, timeout_s=self._timeout_s)
        outcome = self._offsets.build_backward_translation(self._timeout_s)(asked, at)
        return Place(partition=asked, offset=at, outcome=outcome, basis=Basis.TIME)

    def translate_group(self, group: str) -> GroupPlaces:
        """Translate the committed offsets of a source group, or its last checkpoints if the source
        does not respond.

        Raises `TopicMissingError` if no checkpoints exist either.
        """
        committed = self._offsets.query_source_cluster(
            lambda there, left_s: _fetch_group_positions(there, group, left_s), self._timeout_s
        )
        if committed is None:
            return self._translate_checkpoints(group)
        translate = self._offsets.build_forward_translation(self._timeout_s)
        found = _translate_group_positions(group, committed, translate)
        ends = self._fetch_source_end_offsets(
            each.partition for each in found.places if isinstance(each.outcome, NotReady)
        )
        return _replace_group_outcomes_beyond_log_end(found, ends)

    def translate_group_back(self, group: str) -> GroupPlaces:
        """Translate the committed offsets of a target group to the source."""
        committed = _fetch_group_positions(self._link.target, group, self._timeout_s)
        found = _translate_group_positions(
            group, committed, self._offsets.build_backward_translation(self._timeout_s)
        )
        partitions = {each.partition for each in found.places}
        return _replace_group_outcomes_beyond_log_end(
            found, self._link.target.logs.fetch_log_bounds(partitions, self._timeout_s).succeeded
        )

    def _fetch_source_end_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, LogBounds]:
        """Return the log end offsets of the source partitions. Partitions that the source cluster
        does not report, or that mm2 is not authorized to read, are omitted."""
        asked = set(partitions)
        if not asked:
            return {}
        found = self._offsets.query_source_cluster(
            lambda there, left_s: there.logs.fetch_log_bounds(asked, left_s), self._timeout_s
        )
        return {} if found is None else found.succeeded

    def _translate_time_on_target(
        self, mirror: TopicPartition, timestamp_ms: int
    ) -> Earlier | Unknown:
        try:
            at = _find_offset_at_time(
                self._link.target, mirror, timestamp_ms, timeout_s=self._timeout_s
            )
        except TopicMissingError:
            return Unknown(partition=mirror, reason="the partition does not exist on the target")
        return Earlier(partition=mirror, offset=at, again_max=None)

    def _translate_checkpoints(self, group: str) -> GroupPlaces:
        """Translate a group's checkpoints.

        Each checkpoint's source offset is translated with the offset map; if that fails, the
        checkpoint's own target offset is used. The outcome is always `Earlier`, because it is
        unknown how much the group has read since the checkpoint.
        """
        link = self._link
        times = CheckpointWriteTimes()
        table = checkpoint_reader.read_checkpoints(
            link.target.topics,
            link.policy,
            link.source_alias,
            group_filter=group.__eq__,
            clock=self._clock,
            timeout_s=self._timeout_s,
            on_record=times.record_checkpoint,
        )
        checkpoint_reader.check_group_readable(table, group)
        translate = self._offsets.build_forward_translation(self._timeout_s)
        places = []
        for place, point in sorted(table.get_group_checkpoints(group).items()):
            partition = self._offsets.map_partition_to_source(place)
            outcome = translate(partition, point.upstream)
            at = translation_outcomes.get_destination_offset(outcome)
            there = place if at is None else outcome.partition
            places.append(
                Place(
                    partition=partition,
                    offset=point.upstream,
                    outcome=Earlier(
                        partition=there,
                        offset=point.downstream if at is None else at,
                        again_max=None,
                    ),
                    basis=Basis.CHECKPOINT,
                    metadata=point.metadata,
                    written_ms=times.get_checkpoint_write_times(group).get(place),
                )
            )
        return GroupPlaces(
            group=group,
            basis=Basis.CHECKPOINT,
            places=tuple(places),
            cluster_error=self._offsets.source_error,
        )


def _translate_group_positions(
    group: str, positions: CommittedPositions, translate: TranslateOffset
) -> GroupPlaces:
    return GroupPlaces(
        group=group,
        basis=Basis.COMMITTED,
        places=tuple(
            Place(
                partition=partition,
                offset=position.offset,
                outcome=translate(partition, position.offset),
                basis=Basis.COMMITTED,
                metadata=position.metadata,
            )
            for partition, position in sorted(positions.items())
            if position is not None
        ),
    )


def _replace_outcome_beyond_log_end(
    outcome: Outcome, offset: int, ends: LogBounds | None
) -> Outcome:
    """Return `outcome`, the translation of `offset`, or `BeyondEnd` if `offset` is beyond the log
    end of its partition on the origin cluster. `ends` are that partition's log bounds; None if
    unknown."""
    if ends is None or offset <= ends.high_watermark:
        return outcome
    return BeyondEnd(partition=outcome.partition, end=ends.high_watermark)


def _replace_group_outcomes_beyond_log_end(
    found: GroupPlaces, ends: Mapping[TopicPartition, LogBounds]
) -> GroupPlaces:
    places = tuple(
        dataclasses.replace(
            each,
            outcome=_replace_outcome_beyond_log_end(
                each.outcome, each.offset or 0, ends.get(each.partition)
            ),
        )
        for each in found.places
    )
    return dataclasses.replace(found, places=places)


def _fetch_group_positions(
    cluster: OffsetTranslationClients, group: str, timeout_s: float
) -> CommittedPositions:
    found = cluster.groups.fetch_committed_offsets([group], timeout_s)
    failure = found.get_first_failure()
    if failure is not None:
        raise failure
    return found.succeeded[group]


def _find_offset_at_time(
    cluster: OffsetTranslationClients,
    partition: TopicPartition,
    timestamp_ms: int,
    *,
    timeout_s: float,
) -> int:
    """Return the offset of the first record with a timestamp at or after `timestamp_ms`. If all
    records are older, return the last stable offset."""
    found = cluster.logs.find_offsets_by_time({partition: timestamp_ms}, timeout_s)
    for error in found.failed.values():
        raise error
    at = found.succeeded[partition]
    if at is not None:
        return at
    ends = cluster.logs.fetch_log_bounds({partition}, timeout_s)
    for error in ends.failed.values():
        raise error
    return ends.succeeded[partition].end
