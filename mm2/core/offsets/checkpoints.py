"""From where consumer groups stand on the source to where they go on on the target: checkpoints.

What `MirrorCheckpointTask` and `CheckpointStore` of MirrorMaker 2 decide. A checkpoint is made of
what a group has committed, and published when it says something new; it never goes back on the
target unless its group went back on the source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.core import naming
from mm2.core.offsets import translation
from mm2.formats import checkpoint, schema_fields

TakesName = Callable[[str], bool]
Points = Mapping[ids.TopicPartition, checkpoint.Checkpoint]
"""By the partition's name on the target."""
_NOTHING: Points = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """What a group has committed for one partition. `metadata` is its own note, "" for none."""

    offset: int
    metadata: str = ""


Positions = Mapping[ids.TopicPartition, OffsetAndMetadata | None]
"""One group's; None where it has no offset, as clients that reset to -1 leave it."""


@dataclass(slots=True)
class CheckpointTable:
    """The checkpoints topic as a fold, of those groups that `takes_group` takes.

    Also holds what was published since, so it is both: what stands, and what readers translate by.
    `changed`: the groups of which something else stands since whoever looks there last cleared it.
    Names that stand in many are held once.
    """

    takes_group: TakesName
    changed: set[str] = field(default_factory=set)
    _places: dict[ids.TopicPartition, ids.TopicPartition] = field(default_factory=dict)
    _groups: dict[str, dict[ids.TopicPartition, checkpoint.Checkpoint]] = field(
        default_factory=dict
    )

    def apply(self, key: bytes, value: bytes | None) -> str | None:
        """Fold one record in; None is a tombstone. The group, if something else stood before.

        Raises `schema_fields.MalformedRecordError`, and holds what it held then: whoever reads a
        topic says so, and goes on.
        """
        about = checkpoint.decode_key(key)
        if not self.takes_group(about.group):
            return None
        after = None if value is None else checkpoint.decode(key, value)
        before = self._groups.get(about.group, _NOTHING).get(about.partition)
        if before == after:
            return None
        if after is not None:
            self._put(after)
        else:
            del self._groups[about.group][about.partition]
        self.changed.add(about.group)
        return about.group

    def publish(self, point: checkpoint.Checkpoint) -> None:
        """It stands from now on, or is about to."""
        self._put(point)
        self.changed.add(point.group)

    def _put(self, point: checkpoint.Checkpoint) -> None:
        points = self._groups.setdefault(point.group, {})
        place = self._places.setdefault(point.partition, point.partition)
        group = next((each.group for each in points.values()), point.group)
        points[place] = dataclasses.replace(point, group=group, partition=place)

    def group(self, group: str) -> Points:
        """Empty for a group without any."""
        return self._groups.get(group, {})

    def groups(self) -> list[str]:
        """Those with at least one checkpoint."""
        return sorted(group for group, points in self._groups.items() if points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`news` is to be published. `final`: as long as the group stays where it is there is nothing
    to look at again, unless the map begins anew."""

    news: list[checkpoint.Checkpoint]
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointing:
    """What one flow makes checkpoints by.

    `takes_topic`: the flow's topic filter alone, by names on the source: what is mirrored for
    other reasons (heartbeats) or never (internal topics) makes no difference here, as in Java.
    `exactly`: what the complete map alone says, whose word refutes a checkpoint. `copied`: is the
    offset known to be copied? What comes tells no more of it then.
    """

    source: str
    target: str
    policy: naming.ReplicationPolicy
    takes_topic: TakesName
    translate: translation.Translate
    exactly: translation.Translate = lambda *_: translation.Untranslated.UNKNOWN
    copied: Callable[[ids.TopicPartition, int], bool] = lambda *_: False
    _renamed: dict[ids.TopicPartition, ids.TopicPartition] = field(default_factory=dict)

    def new_checkpoints(
        self, group: str, positions: Positions, standing: Points
    ) -> list[checkpoint.Checkpoint]:
        """What `group` should publish now; see `look`."""
        return self.look(group, positions, standing).news

    def look(self, group: str, positions: Positions, standing: Points) -> Look:
        """`positions` are the group's on the source, `standing` was published before.

        Leaves out what cannot be told: text that no checkpoint can hold is left empty.
        """
        found: dict[ids.TopicPartition, checkpoint.Checkpoint] = {}
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
            if is_news(point, before) or self._refuted(partition, point, before):
                found.setdefault(point.partition, point)
        return Look(news=list(found.values()), final=final)

    def _refuted(
        self,
        partition: ids.TopicPartition,
        point: checkpoint.Checkpoint,
        standing: checkpoint.Checkpoint | None,
    ) -> bool:
        """Is what stands ahead of what is known exactly? It is of topics that are no more, or was
        written by somebody who knew less."""
        if standing is None or point.downstream >= standing.downstream:
            return False
        match self.exactly(partition, standing.upstream):
            case translation.Exact(downstream=downstream):
                return downstream < standing.downstream
            case _:
                return False

    def renamed(self, partition: ids.TopicPartition) -> ids.TopicPartition:
        """The partition on the target that holds what this one of the source holds."""
        known = self._renamed.get(partition)
        if known is not None:
            return known
        topic = naming.topic_on_target(
            self.policy, partition.topic, source_alias=self.source, target_alias=self.target
        )
        return self._renamed.setdefault(partition, ids.TopicPartition(topic, partition.partition))

    def _checkpoint(
        self,
        group: str,
        partition: ids.TopicPartition,
        committed: OffsetAndMetadata,
        *,
        outcome: translation.Translation,
    ) -> checkpoint.Checkpoint | None:
        match outcome:
            case translation.Exact(downstream=downstream):
                pass
            case translation.Earlier(downstream=downstream):
                pass
            case translation.Untranslated():
                return None
        if downstream < 0:  # of a sync that nobody should have written
            return None
        return checkpoint.Checkpoint(
            group=group,
            partition=self.renamed(partition),
            upstream=committed.offset,
            downstream=downstream,
            metadata=_fitting(committed.metadata),
        )


def is_news(point: checkpoint.Checkpoint, standing: checkpoint.Checkpoint | None) -> bool:
    """Should `point` be published where `standing` is (`checkpointIsMoreRecent`)?

    Yes if there is none, if its group went back on the source, or if it is further on the target.
    The same place or an earlier one says nothing: translations of old offsets get less precise
    while time passes.
    """
    if standing is None:
        return True
    return point.upstream < standing.upstream or point.downstream > standing.downstream


def _is_final(outcome: translation.Translation) -> bool:
    too_old = outcome is translation.Untranslated.TOO_OLD
    return too_old or isinstance(outcome, translation.Exact)


def _fitting(metadata: str) -> str:
    """Brokers take longer notes than a checkpoint holds, if set so."""
    fits = len(metadata.encode(errors="replace")) <= schema_fields.STRING_BYTES_MAX
    return metadata if fits else ""
