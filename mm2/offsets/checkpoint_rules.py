"""Decides which checkpoints a flow publishes for consumer groups, and when a round is complete.

As `MirrorCheckpointTask` and `CheckpointStore` of MirrorMaker 2: a checkpoint is built from a
group's committed offset and published when it differs from the previous one. It never goes back
on the target unless the group went back on the source.

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
from mm2.formats.mm2_records import Checkpoint
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
"""By the partition's name on the target."""
_NO_CHECKPOINTS: GroupCheckpoints = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """What a group has committed for one partition. `metadata` is its own note, "" for none."""

    offset: int
    metadata: str = ""


CommittedPositions = Mapping[TopicPartition, OffsetAndMetadata | None]
"""One group's; None where it has no offset, as clients that reset to -1 leave it."""


@dataclass(slots=True)
class CheckpointTable:
    """The checkpoints topic as a fold, of those groups that `takes_group` takes.

    Also holds what was published since, so it is both: what stands, and what readers translate by.
    `changed`: the groups of which something else stands since whoever looks there last cleared it.
    Names that stand in many are held once.
    """

    takes_group: NamePredicate
    changed: set[str] = field(default_factory=set)
    _places: dict[TopicPartition, TopicPartition] = field(default_factory=dict)
    _groups: dict[str, dict[TopicPartition, Checkpoint]] = field(default_factory=dict)

    def apply(self, key: bytes, value: bytes | None) -> str | None:
        """Fold one record in; None is a tombstone. The group, if something else stood before.

        Raises `MalformedRecordError`, and holds what it held then: whoever reads a
        topic says so, and goes on.
        """
        about = mm2_records.decode_checkpoint_key(key)
        if not self.takes_group(about.group):
            return None
        after = None if value is None else mm2_records.decode_checkpoint(key, value)
        before = self._groups.get(about.group, _NO_CHECKPOINTS).get(about.partition)
        if before == after:
            return None
        if after is not None:
            self._put(after)
        else:
            del self._groups[about.group][about.partition]
        self.changed.add(about.group)
        return about.group

    def publish(self, point: Checkpoint) -> None:
        """It stands from now on, or is about to."""
        self._put(point)
        self.changed.add(point.group)

    def _put(self, point: Checkpoint) -> None:
        points = self._groups.setdefault(point.group, {})
        place = self._places.setdefault(point.partition, point.partition)
        group = next((each.group for each in points.values()), point.group)
        points[place] = dataclasses.replace(point, group=group, partition=place)

    def group(self, group: str) -> GroupCheckpoints:
        """Empty for a group without any."""
        return self._groups.get(group, {})

    def groups(self) -> list[str]:
        """Those with at least one checkpoint."""
        return sorted(group for group, points in self._groups.items() if points)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCheckpoints:
    """`news` is to be published. `final`: as long as the group stays where it is there is nothing
    to look at again, unless the map begins anew."""

    news: list[Checkpoint]
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRules:
    """What one flow makes checkpoints by.

    `takes_topic`: the flow's topic filter alone, by names on the source: what is mirrored for
    other reasons (heartbeats) or never (internal topics) makes no difference here, as in Java.
    `exactly`: what the complete map alone says, whose word refutes a checkpoint. `copied`: is the
    offset known to be copied? What comes tells no more of it then.
    """

    source: str
    target: str
    policy: ReplicationPolicy
    takes_topic: NamePredicate
    translate: TranslateOffset
    exactly: TranslateOffset = lambda *_: Untranslated.UNKNOWN
    copied: Callable[[TopicPartition, int], bool] = lambda *_: False
    _renamed: dict[TopicPartition, TopicPartition] = field(default_factory=dict)

    def new_checkpoints(
        self, group: str, positions: CommittedPositions, standing: GroupCheckpoints
    ) -> list[Checkpoint]:
        """What `group` should publish now; see `look`."""
        return self.look(group, positions, standing).news

    def look(
        self, group: str, positions: CommittedPositions, standing: GroupCheckpoints
    ) -> NewCheckpoints:
        """`positions` are the group's on the source, `standing` was published before.

        Leaves out what cannot be told: text that no checkpoint can hold is left empty.
        """
        found: dict[TopicPartition, Checkpoint] = {}
        final = True
        for partition in sorted(positions):
            committed = positions[partition]
            if committed is None or not self.takes_topic(partition.topic):
                continue
            outcome = self.translate(partition, committed.offset)
            final = final and (_is_final(outcome) or self.copied(partition, committed.offset))
            point = self._checkpoint(group, partition, committed, outcome=outcome)
            if point is None:
                continue
            before = standing.get(point.partition)
            if is_newer_checkpoint(point, before) or self._refuted(partition, point, before):
                found.setdefault(point.partition, point)
        return NewCheckpoints(news=list(found.values()), final=final)

    def _refuted(
        self,
        partition: TopicPartition,
        point: Checkpoint,
        standing: Checkpoint | None,
    ) -> bool:
        """Is what stands ahead of what is known exactly? It is of topics that are no more, or was
        written by somebody who knew less."""
        if standing is None or point.downstream >= standing.downstream:
            return False
        match self.exactly(partition, standing.upstream):
            case ExactOffset(downstream=downstream):
                return downstream < standing.downstream
            case _:
                return False

    def renamed(self, partition: TopicPartition) -> TopicPartition:
        """The partition on the target that holds what this one of the source holds."""
        known = self._renamed.get(partition)
        if known is not None:
            return known
        topic = naming.topic_on_target(
            self.policy, partition.topic, source_alias=self.source, target_alias=self.target
        )
        return self._renamed.setdefault(partition, TopicPartition(topic, partition.partition))

    def _checkpoint(
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
        if downstream < 0:  # of a sync that nobody should have written
            return None
        return Checkpoint(
            group=group,
            partition=self.renamed(partition),
            upstream=committed.offset,
            downstream=downstream,
            metadata=_limit_metadata(committed.metadata),
        )


def is_newer_checkpoint(point: Checkpoint, standing: Checkpoint | None) -> bool:
    """Should `point` be published where `standing` is (`checkpointIsMoreRecent`)?

    Yes if there is none, if its group went back on the source, or if it is further on the target.
    The same place or an earlier one says nothing: translations of old offsets get less precise
    while time passes.
    """
    if standing is None:
        return True
    return point.upstream < standing.upstream or point.downstream > standing.downstream


def _is_final(outcome: TranslatedOffset) -> bool:
    too_old = outcome is Untranslated.TOO_OLD
    return too_old or isinstance(outcome, ExactOffset)


def _limit_metadata(metadata: str) -> str:
    """Brokers take longer notes than a checkpoint holds, if set so."""
    fits = len(metadata.encode(errors="replace")) <= primitive_types.STRING_BYTES_MAX
    return metadata if fits else ""


class CheckpointRound(NamedTuple):
    """One that went through all groups: when it did (monotonic clock), and how many of them have a
    checkpoint."""

    at_s: float
    groups: int


@dataclass(slots=True)
class AcknowledgedRounds:
    """One thread's.

    Invariants: no more records are acknowledged than were sent; of the rounds that wait each ended
    after more records than the one before it.
    """

    sent: int = 0
    acknowledged: int = 0
    _waiting: deque[tuple[int, CheckpointRound]] = field(default_factory=deque)

    def send(self, records: int) -> None:
        self.sent += records

    def acknowledge(self, records: int) -> None:
        """Stored on the target, or filtered on the way."""
        self.acknowledged += records

    def end(self, found: CheckpointRound) -> None:
        """A round is through; all its records were sent."""
        if self._waiting and self._waiting[-1][0] == self.sent:
            self._waiting.pop()
        self._waiting.append((self.sent, found))

    def take(self) -> CheckpointRound | None:
        """The latest of those that count since the last call, None for none."""
        found = None
        while self._waiting and self._waiting[0][0] <= self.acknowledged:
            _, found = self._waiting.popleft()
        return found

    def check_invariants(self) -> None:
        assert 0 <= self.acknowledged <= self.sent
        after = [sent for sent, _ in self._waiting]
        assert after == sorted(set(after))
