"""Decides which checkpoints a flow publishes for consumer groups, and when a round is complete.

As in `MirrorCheckpointTask` and `CheckpointStore` of MirrorMaker 2, a checkpoint is built from a
group's committed offset. The checkpoint is published if it is newer than the previously published
checkpoint of the same group and partition. A published target offset is lowered only if the group
was rewound on the source, or if the exact offset map shows that the published offset is too high.

A round of checkpoints (one pass over all groups) is complete once the target has acknowledged all
records sent before the end of the round. Records are acknowledged in any order, possibly after the
next round has begun.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records, primitive_types
from mm2.formats.mirrormaker2_records import Checkpoint, CheckpointKey
from mm2.offsets.offset_translation import (
    EarlierOffset,
    ExactOffset,
    TranslatedOffset,
    TranslateOffset,
    UntranslatedReason,
)
from mm2.topics.replication_policy import ReplicationPolicy

NamePredicate = Callable[[str], bool]
GroupCheckpoints = Mapping[TopicPartition, Checkpoint]
"""Checkpoints of one group, by target partition."""
_NO_CHECKPOINTS: GroupCheckpoints = {}
_MAX_NEXT_OFFSET = mirrormaker2_records.MAX_RECORD_OFFSET + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """Committed offset of a group for one partition. `metadata` is the client's metadata string; ""
    if there is none."""

    offset: int
    metadata: str = ""


CommittedPositions = Mapping[TopicPartition, OffsetAndMetadata | None]
"""Committed offsets of one group by partition. The value is None if the committed offset is
negative: clients commit -1 to reset a partition."""


@dataclass(slots=True)
class CheckpointTable:
    """Current checkpoints: the latest records of the checkpoints topic for groups and topics
    that the filters accept, and checkpoints published by this task.

    Partition and group names are shared between checkpoints to save memory.
    """

    group_filter: NamePredicate
    topic_filter: NamePredicate = lambda _: True
    """Accepts a target topic. Records of other topics are skipped."""
    changed: set[str] = field(default_factory=set)
    """Groups whose checkpoints have changed. The code that reads this set clears it afterwards."""
    _partition_names: dict[TopicPartition, TopicPartition] = field(default_factory=dict)
    _groups: dict[str, dict[TopicPartition, Checkpoint]] = field(default_factory=dict)
    _unreadable: dict[CheckpointKey, str] = field(default_factory=dict)

    def apply_record(self, key: bytes, value: bytes | None) -> str | None:
        """Apply one record of the checkpoints topic; a `value` of None is a tombstone. Return the
        name of the group if one of its checkpoints changed, else None.

        Raises `MalformedRecordError`, without applying anything, if the record is malformed.
        """
        about = mirrormaker2_records.decode_checkpoint_key(key)
        if not self.group_filter(about.group) or not self.topic_filter(about.partition.topic):
            return None
        after = None if value is None else mirrormaker2_records.decode_checkpoint(key, value)
        self._unreadable.pop(about, None)
        before = self._groups.get(about.group, _NO_CHECKPOINTS).get(about.partition)
        if before == after:
            return None
        if after is not None:
            self._store_checkpoint(after)
        else:
            del self._groups[about.group][about.partition]
        self.changed.add(about.group)
        return about.group

    def mark_checkpoint_unreadable(self, key: bytes, reason: str) -> None:
        """Mark the checkpoint with this record key as unreadable, until a later record with the
        same key is applied. The previous checkpoint, which is now outdated, remains in the
        table."""
        self._unreadable[mirrormaker2_records.decode_checkpoint_key(key)] = reason

    def explain_unreadable_checkpoint(self, group: str) -> str:
        """Return why a current checkpoint of the group cannot be read; "" if all are readable."""
        return next((why for key, why in self._unreadable.items() if key.group == group), "")

    def store_published_checkpoint(self, point: Checkpoint) -> None:
        """Store a checkpoint that has been or will be published."""
        self._store_checkpoint(point)
        self.changed.add(point.group)

    def _store_checkpoint(self, point: Checkpoint) -> None:
        points = self._groups.setdefault(point.group, {})
        place = self._partition_names.setdefault(point.partition, point.partition)
        group = next((each.group for each in points.values()), point.group)
        points[place] = dataclasses.replace(point, group=group, partition=place)

    def get_group_checkpoints(self, group: str) -> GroupCheckpoints:
        """Return the checkpoints of one group; empty if it has none."""
        return self._groups.get(group, {})

    def list_groups(self) -> list[str]:
        """Return the groups that have at least one checkpoint, readable or not."""
        readable = {group for group, points in self._groups.items() if points}
        return sorted(readable.union(key.group for key in self._unreadable))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCheckpoints:
    """Checkpoints to publish for a group."""

    checkpoints: list[Checkpoint]
    """Checkpoints to publish."""
    is_final: bool
    """True if the group's checkpoints cannot change until the group commits offsets or the offset
    map is read again from the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRules:
    """Decides which checkpoints one flow creates from the groups' committed offsets."""

    source: str
    policy: ReplicationPolicy
    takes_topic: NamePredicate
    """Returns whether checkpoints are created for a source topic. Returns False for topics that the
    flow does not replicate."""
    translate: TranslateOffset
    """Translates a source offset with the best available data, even if the result is not exact."""
    translate_exactly: TranslateOffset = lambda *_: UntranslatedReason.UNKNOWN
    """Translates a source offset with the complete offset map only. If a published target offset is
    higher than an exact result, the checkpoint is published again with the lower offset."""
    is_replicated: Callable[[TopicPartition, int], bool] = lambda *_: False
    """Returns whether a source offset is known to be replicated. The translation of a replicated
    offset does not become more precise later."""
    _renamed: dict[TopicPartition, TopicPartition] = field(default_factory=dict)

    def find_new_checkpoints(
        self, group: str, positions: CommittedPositions, published: GroupCheckpoints
    ) -> list[Checkpoint]:
        """Return only the checkpoints from `find_new_group_checkpoints`, without `is_final`."""
        return self.find_new_group_checkpoints(group, positions, published).checkpoints

    def find_new_group_checkpoints(
        self, group: str, positions: CommittedPositions, published: GroupCheckpoints
    ) -> NewCheckpoints:
        """Compare a group's committed offsets on the source with its published checkpoints, and
        return the checkpoints to publish.

        Offsets that cannot be translated are omitted. Metadata that is too long for a checkpoint is
        replaced by "".
        """
        found: dict[TopicPartition, Checkpoint] = {}
        final = True
        for partition in sorted(positions):
            committed = positions[partition]
            if committed is None or not self.takes_topic(partition.topic):
                continue
            outcome = self.translate(partition, committed.offset)
            final = final and (
                _is_final_translation(outcome) or self.is_replicated(partition, committed.offset)
            )
            point = self._create_checkpoint(group, partition, committed, outcome=outcome)
            if point is None:
                continue
            before = published.get(point.partition)
            if is_newer_checkpoint(point, before) or self._is_checkpoint_refuted(
                partition, point, before
            ):
                found.setdefault(point.partition, point)
        return NewCheckpoints(checkpoints=list(found.values()), is_final=final)

    def _is_checkpoint_refuted(
        self,
        partition: TopicPartition,
        point: Checkpoint,
        standing: Checkpoint | None,
    ) -> bool:
        """Return whether the target offset in the published checkpoint `standing` is higher than
        the exact target offset. This happens if the topic was recreated, or if the checkpoint was
        computed from incomplete data."""
        if standing is None or point.downstream >= standing.downstream:
            return False
        match self.translate_exactly(partition, standing.upstream):
            case ExactOffset(downstream=downstream):
                return downstream < standing.downstream
            case _:
                return False

    def map_to_target_partition(self, partition: TopicPartition) -> TopicPartition:
        """Return the mirror partition of a source partition. The flow must replicate the source
        partition's topic."""
        known = self._renamed.get(partition)
        if known is not None:
            return known
        topic = self.policy.format_remote_topic(self.source, partition.topic)
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
            case UntranslatedReason():
                return None
        if not 0 <= downstream <= _MAX_NEXT_OFFSET:  # from an invalid offset sync or map
            return None
        return Checkpoint(
            group=group,
            partition=self.map_to_target_partition(partition),
            upstream=committed.offset,
            downstream=downstream,
            metadata=_limit_metadata(committed.metadata),
        )


def is_newer_checkpoint(point: Checkpoint, published: Checkpoint | None) -> bool:
    """Return whether checkpoint `point` should replace the published checkpoint (Java:
    `checkpointIsMoreRecent`).

    True if no checkpoint was published, if the group was rewound on the source, or if the target
    offset of `point` is higher. An equal or lower target offset alone does not mean that the group
    was rewound, because translations of old offsets become less precise over time.
    """
    if published is None:
        return True
    return point.upstream < published.upstream or point.downstream > published.downstream


def _is_final_translation(outcome: TranslatedOffset) -> bool:
    too_old = outcome is UntranslatedReason.TOO_OLD
    return too_old or isinstance(outcome, ExactOffset)


def _limit_metadata(metadata: str) -> str:
    """Return the metadata, or "" if it is longer than `STRING_BYTES_MAX`, the maximum of the
    checkpoint format. Brokers can be configured to accept longer metadata in offset commits."""
    fits = len(metadata.encode(errors="replace")) <= primitive_types.STRING_BYTES_MAX
    return metadata if fits else ""


class CheckpointRound(NamedTuple):
    """A completed round of checkpoints (one pass over all groups): when it ended (monotonic clock),
    and the number of groups with checkpoints."""

    ended_at_s: float
    groups: int


@dataclass(slots=True)
class AcknowledgedRounds:
    """Tracks which rounds of checkpoints the target has acknowledged. Not thread-safe.

    A round is acknowledged once `acknowledged` reaches the value that `sent` had at the end of the
    round. Invariants: `acknowledged` never exceeds `sent`, and no two pending rounds ended at the
    same value of `sent`.
    """

    sent: int = 0
    acknowledged: int = 0
    _waiting: deque[tuple[int, CheckpointRound]] = field(default_factory=deque)

    def count_sent_checkpoints(self, records: int) -> None:
        """Count checkpoint records that were sent to the target."""
        self.sent += records

    def count_acknowledged_records(self, records: int) -> None:
        """Count checkpoint records that were stored on the target or dropped by a transform."""
        self.acknowledged += records

    def end_round(self, found: CheckpointRound) -> None:
        """Record that all checkpoint records of a round have been sent."""
        if self._waiting and self._waiting[-1][0] == self.sent:
            self._waiting.pop()
        self._waiting.append((self.sent, found))

    def take_acknowledged_round(self) -> CheckpointRound | None:
        """Return the latest round of checkpoints for which the target has acknowledged all records,
        or None if no further round was completely acknowledged since the last call."""
        found = None
        while self._waiting and self._waiting[0][0] <= self.acknowledged:
            _, found = self._waiting.popleft()
        return found

    def check_invariants(self) -> None:
        assert 0 <= self.acknowledged <= self.sent
        after = [sent for sent, _ in self._waiting]
        assert after == sorted(set(after))
