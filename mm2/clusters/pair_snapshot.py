"""`ClusterPairSnapshot`: everything that the plan of a failover or failback reads.

`from` is the cluster that applications leave, `to` the cluster that they move to. Partitions
have their names on `from` unless stated otherwise; times are UTC milliseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.checkpoint_rules import CommittedPositions
from mm2.offsets.group_offset_sync import GroupState, TargetGroup
from mm2.offsets.log_bounds import LogBounds
from mm2.offsets.translation import TranslatedOffset
from mm2.operator_commands import ClusterCommands
from mm2.replication import latency


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredPartition:
    """One partition of `from` and its mirror on `to`.

    `copied_to` is the next source offset to copy, None where nothing was copied yet. At most `tail`
    records stand on the mirror behind what the flow has recorded as copied. `here` None: `from`
    does not answer for it. `there` None: the mirror does not exist. `waiting_since_ms` is the
    timestamp of the oldest record not yet copied; where `here` is None, `newest_ms` is that of the
    last one on the mirror. `stopped` says why what is recorded of it no longer holds, or copying
    has ended for good; "" where neither is so. `unknown`: why `here` is None, where `from` as a
    whole answers; `unheard`: why `there` is, though the mirror may exist.
    """

    partition: TopicPartition
    mirror: TopicPartition
    copied_to: int | None = None
    tail: int = 0
    here: LogBounds | None = None
    there: LogBounds | None = None
    waiting_since_ms: int | None = None
    newest_ms: int | None = None
    stopped: str = ""
    unknown: str = ""
    unheard: str = ""

    @property
    def lag_records(self) -> int | None:
        """By offsets: an upper bound where the log has gaps. None: it cannot be told."""
        return None if self.here is None else self.here.left(self.copied_to)

    def lag_ms(self, now_ms: int) -> int | None:
        """Age of the oldest record not yet copied, 0 if none, never negative; None: it cannot be
        told."""
        if self.lag_records == 0:
            return 0
        if self.here is None or self.waiting_since_ms is None:
            return None
        return latency.compute_age_ms(self.waiting_since_ms, now_ms)


_ABSENT_GROUP = TargetGroup(state=GroupState.ABSENT)


class PositionBasis(enum.Enum):
    """The basis of a group's position on `from`."""

    COMMITTED = "committed"
    """The group's own offsets, read from `from` now."""
    CHECKPOINTED = "checkpoint"
    """The last checkpoint on `to`: as of some seconds before `from` was lost."""
    BEGUN = "committed at the start"
    """What the group had committed when the move was begun; `from` has stopped answering since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPair:
    """A checkpoint: who went on at `upstream` on `from` misses nothing from `downstream` on."""

    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """One consumer group. `state` is that on `from`, UNKNOWN where `from` does not answer for it.
    `pairs` are its checkpoints; `unread` says why its own offsets could not be read, "" where they
    were, or where `from` as a whole is silent; where we were `refused` they never will be.
    `there_unread`: why its state `there` is UNKNOWN. `written_ms`: when the checkpoints were
    written that positions are from; a position of a group that is not COMMITTED and has no such
    time is what it had committed when the move was begun. `is_streams`: its members are of a Kafka
    Streams application; None: not known, as of a group without members."""

    name: str
    origin: PositionBasis
    is_streams: bool | None = None
    positions: CommittedPositions
    written_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    state: GroupState = GroupState.UNKNOWN
    there: TargetGroup = _ABSENT_GROUP
    pairs: Mapping[TopicPartition, CheckpointPair] = field(default_factory=dict)
    unread: str = ""
    refused: bool = False
    there_unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmovedGroup:
    """A share group (KIP-932) or a streams group (KIP-1071) of `from`, whose positions mm2 does not
    move. `type` as ListGroups has it, in lower case. `topics`: those of the flow that it reads, and
    what they are called on `to`; None: that could not be read, `unread` says why."""

    name: str
    type: str
    topics: Mapping[str, str] | None = field(default_factory=dict)
    unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedPosition:
    """Where an offset of `from` is on `to`: by which map, and the outcome. `unsure` says why what
    was written on `to` itself may be missed by who goes on there; "" where it is not. `known_from`:
    of what is `TOO_OLD` the first place behind it that is known: a checkpoint that goes further may
    be of a mirror before this one. None: any may be. `stopped` as in `MirroredPartition`, of what
    flows the other way."""

    partition: TopicPartition
    outcome: TranslatedOffset
    known_from: int | None = None
    stopped: str = ""
    unsure: str = ""


TranslatePosition = Callable[[TopicPartition, int], TranslatedPosition | None]
"""A partition and offset of `from`; None: no flow leads the topic to `to`, or led it from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreplicatedRecords:
    """What `to` holds in a partition, by its name there, that never reached `from`: what was
    written there before it was left. `records` None: not all could be counted, `why`, where that is
    known; `at_least` is what was. Times are those of the first and the last of them, None where
    there is none.
    """

    partition: TopicPartition
    start: int
    end: int
    records: int | None
    at_least: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBaseline:
    """What the plan said that the move was begun with: where groups stood on `from`, and of its
    findings code and group. `streams`: groups of Kafka Streams applications."""

    positions: Mapping[str, CommittedPositions]
    findings: frozenset[tuple[str, str]]
    streams: frozenset[str] = frozenset()


def merge_furthest(one: CommittedPositions, other: CommittedPositions) -> CommittedPositions:
    """Of each partition where the group had got further."""
    found = dict(one)
    for partition, position in other.items():
        known = found.get(partition)
        if known is None or (position is not None and position.offset > known.offset):
            found[partition] = position
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPairSnapshot:
    """Everything, as of `at_ms`.

    `logs` are partitions of `to`, by their names there, as far as groups go there; `unheard` are
    those of them that `to` does not answer for, though they may exist, and why. `silent` says
    why `from` does not answer, `unlisted` why not all of its groups may be known, `checkpointed_ms`
    when the newest checkpoint was written, None for never, `way_back` why the flow that leads back
    could not be looked at there, `unsynced` why the flow's own offset syncs could not be read, ""
    where none is so. `untold` are topics of `from` whose partitions it does not tell, and why.
    `left_out` are topics that are on `to`, and why they are not mirrored now. `unfenced` are
    partitions whose writers nobody could lock out, and why. `losses` counts incidents of the flow
    that say records were lost on the way. `before`: None where the move is not begun yet.
    `unmoved`: groups of other kinds than consumer groups, as far as `from` lists them. `tools`: how
    Kafka's tools reach `to`.
    """

    at_ms: int
    flow: str
    mirrored: tuple[MirroredPartition, ...]
    groups: tuple[GroupSnapshot, ...]
    unmoved: tuple[UnmovedGroup, ...] = ()
    tools: ClusterCommands = field(default_factory=ClusterCommands)
    logs: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    unheard: Mapping[TopicPartition, str] = field(default_factory=dict)
    silent: str = ""
    unlisted: str = ""
    checkpointed_ms: int | None = None
    untold: Mapping[str, str] = field(default_factory=dict)
    way_back: str = ""
    unsynced: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    unfenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    unreplicated: tuple[UnreplicatedRecords, ...] = ()
    losses: int = 0
    before: PlanBaseline | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedEnds:
    """What was agreed on before a planned move's final look: ends on `from`, by partition there."""

    ends: Mapping[TopicPartition, int]
