"""Decides which checkpoints a flow publishes for consumer groups, and when a round is complete.

As `MirrorCheckpointTask` and `CheckpointStore` of MirrorMaker 2: a checkpoint is built from a
group's committed offset and published when it differs from the previous one. It never goes back on
the target unless the group went back on the source.

A round of checkpoints counts once the target has acknowledged all records sent before its end.
Records are acknowledged in any order, and possibly after the next round has begun.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from mm2.formats import mm2_records, primitive_types
from mm2.formats.mm2_records import Checkpoint, CheckpointKey
from mm2.offsets.translation import (
    EarlierOffset,
    ExactOffset,
    TranslatedOffset,
    TranslateOffset,
    Untranslated,
)
from mm2.topics import naming
from mm2.topics.naming import ReplicationPolicy

NamePredicate = Callable[[str], bool]
GroupCheckpoints = Mapping[TopicPartition, Checkpoint]
"""Checkpoints of one group by the partition's name on the target."""
_NO_CHECKPOINTS: GroupCheckpoints = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """Committed offset of a group for one partition; `metadata` is the client's note, "" for
    none."""

    offset: int
    metadata: str = ""


CommittedPositions = Mapping[TopicPartition, OffsetAndMetadata | None]
"""Committed offsets of one group by partition; None for a partition without an offset, as
clients leave it that reset to -1."""


@dataclass(slots=True)
class CheckpointTable:
    """Current checkpoints: folds the checkpoints topic for groups that `group_filter` accepts, and
    includes published ones.

    Partition and group names are shared between checkpoints to save memory.
    """

    group_filter: NamePredicate
    changed: set[str] = field(default_factory=set)
    """Groups whose checkpoints changed since the reader last cleared the set."""
    _partition_names: dict[TopicPartition, TopicPartition] = field(default_factory=dict)
    _groups: dict[str, dict[TopicPartition, Checkpoint]] = field(default_factory=dict)
    _unreadable: dict[CheckpointKey, str] = field(default_factory=dict)

    def apply(self, key: bytes, value: bytes | None) -> str | None:
        """Apply one record; None is a tombstone. Returns the group if its checkpoint changed.

        Raises `MalformedRecordError` and changes nothing; the reader logs that and continues.
        """
        about = mm2_records.decode_checkpoint_key(key)
        if not self.group_filter(about.group):
            return None
        after = None if value is None else mm2_records.decode_checkpoint(key, value)
        self._unreadable.pop(about, None)
        before = self._groups.get(about.group, _NO_CHECKPOINTS).get(about.partition)
        if before == after:
            return None
        if after is not None:
            self._store(after)
        else:
            del self._groups[about.group][about.partition]
        self.changed.add(about.group)
        return about.group

    def mark_unreadable(self, key: bytes, reason: str) -> None:
        """Remember that the current checkpoint of this key cannot be read, until another record
        replaces it; its predecessor, which is outdated, stays in the table."""
        self._unreadable[mm2_records.decode_checkpoint_key(key)] = reason

    def explain_unreadable(self, group: str) -> str:
        """Why a current checkpoint of the group cannot be read; "" if all can."""
        return next((why for key, why in self._unreadable.items() if key.group == group), "")

    def publish(self, point: Checkpoint) -> None:
        """Store a checkpoint that is published or about to be."""
        self._store(point)
        self.changed.add(point.group)

    def _store(self, point: Checkpoint) -> None:
        points = self._groups.setdefault(point.group, {})
        place = self._partition_names.setdefault(point.partition, point.partition)
        group = next((each.group for each in points.values()), point.group)
        points[place] = dataclasses.replace(point, group=group, partition=place)

    def get_group(self, group: str) -> GroupCheckpoints:
        """Checkpoints of one group; empty if it has none."""
        return self._groups.get(group, {})

    def list_groups(self) -> list[str]:
        """Groups with at least one checkpoint, readable or not."""
        readable = {group for group, points in self._groups.items() if points}
        return sorted(readable.union(key.group for key in self._unreadable))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCheckpoints:
    """Checkpoints to publish for a group."""

    checkpoints: list[Checkpoint]
    """Checkpoints to publish."""
    is_final: bool
    """True if the group need not be checked again until it commits or the map restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRules:
    """How one flow creates checkpoints."""

    source: str
    target: str
    policy: ReplicationPolicy
    takes_topic: NamePredicate
    """The flow's topic filter, by source topic names. As in Java, heartbeats and internal
    topics get no special treatment."""
    translate: TranslateOffset
    """Translates a source offset with everything that is known."""
    translate_exactly: TranslateOffset = lambda *_: Untranslated.UNKNOWN
    """Translates with the complete offset map only, which may refute a published checkpoint."""
    is_replicated: Callable[[TopicPartition, int], bool] = lambda *_: False
    """Returns whether a source offset is known to be replicated, so that its translation no
    longer improves."""
    _renamed: dict[TopicPartition, TopicPartition] = field(default_factory=dict)

    def find_new_checkpoints(
        self, group: str, positions: CommittedPositions, published: GroupCheckpoints
    ) -> list[Checkpoint]:
        """Checkpoints that the group should publish now."""
        return self.compare_group(group, positions, published).checkpoints

    def compare_group(
        self, group: str, positions: CommittedPositions, published: GroupCheckpoints
    ) -> NewCheckpoints:
        """Compare a group's offsets on the source with its published checkpoints (`published`).

        Offsets that cannot be translated are left out; metadata too long for a checkpoint becomes
        "".
        """
        found: dict[TopicPartition, Checkpoint] = {}
        final = True
        for partition in sorted(positions):
            committed = positions[partition]
            if committed is None or not self.takes_topic(partition.topic):
                continue
            outcome = self.translate(partition, committed.offset)
            final = final and (
                _is_final(outcome) or self.is_replicated(partition, committed.offset)
            )
            point = self._create_checkpoint(group, partition, committed, outcome=outcome)
            if point is None:
                continue
            before = published.get(point.partition)
            if is_newer_checkpoint(point, before) or self._is_refuted(partition, point, before):
                found.setdefault(point.partition, point)
        return NewCheckpoints(checkpoints=list(found.values()), is_final=final)

    def _is_refuted(
        self,
        partition: TopicPartition,
        point: Checkpoint,
        standing: Checkpoint | None,
    ) -> bool:
        """Returns whether the published checkpoint is ahead of the exactly known offset: it is
        of a recreated topic, or was written with less knowledge."""
        if standing is None or point.downstream >= standing.downstream:
            return False
        match self.translate_exactly(partition, standing.upstream):
            case ExactOffset(downstream=downstream):
                return downstream < standing.downstream
            case _:
                return False

    def to_target_partition(self, partition: TopicPartition) -> TopicPartition:
        """The target partition that mirrors this source partition."""
        known = self._renamed.get(partition)
        if known is not None:
            return known
        topic = naming.topic_on_target(
            self.policy, partition.topic, source_alias=self.source, target_alias=self.target
        )
        return self._renamed.setdefault(partition, TopicPartition(topic, partition.partition))

    def _create_checkpoint(
        self,
        group: str,
        partition: TopicPartition,
        committed: OffsetAndMetadata,
        *,
        outcome: TranslatedOffset,
    ) -> Checkpoint | None:
        match outcome:
            case ExactOffset(downstream=downstream):
                pass
            case EarlierOffset(downstream=downstream):
                pass
            case Untranslated():
                return None
        if downstream < 0:  # from an invalid offset sync
            return None
        return Checkpoint(
            group=group,
            partition=self.to_target_partition(partition),
            upstream=committed.offset,
            downstream=downstream,
            metadata=_limit_metadata(committed.metadata),
        )


def is_newer_checkpoint(point: Checkpoint, published: Checkpoint | None) -> bool:
    """Returns whether `point` should replace the published checkpoint (`checkpointIsMoreRecent`).

    True if there is none, if the group went back on the source, or if it is further on the target.
    An equal or lower target offset says nothing, because translations of old offsets get less
    precise over time.
    """
    if published is None:
        return True
    return point.upstream < published.upstream or point.downstream > published.downstream


def _is_final(outcome: TranslatedOffset) -> bool:
    too_old = outcome is Untranslated.TOO_OLD
    return too_old or isinstance(outcome, ExactOffset)


def _limit_metadata(metadata: str) -> str:
    """Metadata, or "" if it exceeds what a checkpoint can hold: brokers may be configured to
    accept more."""
    fits = len(metadata.encode(errors="replace")) <= primitive_types.STRING_BYTES_MAX
    return metadata if fits else ""


class CheckpointRound(NamedTuple):
    """A completed round over all groups: its time (monotonic clock) and the number of groups
    with a checkpoint."""

    ended_at_s: float
    groups: int


@dataclass(slots=True)
class AcknowledgedRounds:
    """Tracks which rounds of checkpoints the target has acknowledged. Not thread-safe.

    Invariants: no more records are acknowledged than were sent; each waiting round ended after more
    records than the one before it.
    """

    sent: int = 0
    acknowledged: int = 0
    _waiting: deque[tuple[int, CheckpointRound]] = field(default_factory=deque)

    def send(self, records: int) -> None:
        """Count records that were sent."""
        self.sent += records

    def acknowledge(self, records: int) -> None:
        """Count records that were stored on the target or dropped by a transform."""
        self.acknowledged += records

    def end_round(self, found: CheckpointRound) -> None:
        """End a round: all its records were sent."""
        if self._waiting and self._waiting[-1][0] == self.sent:
            self._waiting.pop()
        self._waiting.append((self.sent, found))

    def pop_acknowledged(self) -> CheckpointRound | None:
        """The latest round that was acknowledged since the last call; None for none."""
        found = None
        while self._waiting and self._waiting[0][0] <= self.acknowledged:
            _, found = self._waiting.popleft()
        return found

    def check_invariants(self) -> None:
        assert 0 <= self.acknowledged <= self.sent
        after = [sent for sent, _ in self._waiting]
        assert after == sorted(set(after))
