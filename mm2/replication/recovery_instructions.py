"""Instructions that a partition's scripts give, their answers, and the recovered state.

Every instruction is about the partition of the machine that gave it. A script has one instruction
outstanding at a time. Each is answered by exactly one of the answers named with it, by
`InstructionRefused` (with Kafka's error code) or by `NoResponse` (nothing arrived in time: the
outcome is unknown).

`RecoveredState` is what the offset map topic holds about a partition when it is acquired.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeVar

from mm2.formats.offset_map_records import Era, NewEraRequest
from mm2.offsets.offset_map import PartitionMap, ResumePoint, UnreadableMapRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaMirrorProgress:
    """What the topics that MirrorMaker 2 keeps say of the partition; our own flows write them too.

    `next_offset`: the source offset behind the last record that the target acknowledged (its
    Connect source offset and 1), 0 where none was ever stored. `sync`: of an OffsetSync below it
    the two offsets (source, target), as `java_syncs.JavaSyncs.below` chooses; None without one.
    """

    next_offset: int
    sync: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableStateRecord:
    """`offset` is that of the map topic. `is_era`: its key is that of an era."""

    offset: int
    why: str
    is_era: bool = False


def describe_unreadable(found: UnreadableMapRecord) -> UnreadableStateRecord:
    return UnreadableStateRecord(offset=found.offset, why=found.why, is_era=found.is_era)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """The partition's newest era and anchor, every producer id of ours, an unanswered request.

    `untaken`: the era was begun by a newer owner than the anchor's, and holds nothing yet.
    `describe_unreadable`: a record of the map that may concern the partition and cannot be read, so
    that all else may be wrong. `era_ordinal` is the place of the newest owner that began one, 0 for
    none. `producers` maps producer id to its ordinal.

    `source_position` answers the target offset that was asked about: the source offset to go on
    from when the target's log ends there. What is at `target_position` is to be compared from
    there on: mostly that is the same target offset, and an earlier one where the map is thin.
    `java` is None where neither Java nor we ever stored progress as Java does.
    """

    era_number: int = 0
    era: Era | None = None
    anchor: ResumePoint | None = None
    untaken: bool = False
    era_ordinal: int = 0
    producers: dict[int, int] = field(default_factory=dict)
    request: NewEraRequest | None = None
    source_position: int | None = None
    target_position: int | None = None
    java: JavaMirrorProgress | None = None
    unreadable: UnreadableStateRecord | None = None


def extract_recovered_state(partition: PartitionMap, *, target: int | None) -> RecoveredState:
    """The facts that one partition's map holds; `target` as in `ReadFacts`."""
    number = partition.newest_era
    position = partition.source_position(target) if target is not None else None
    return RecoveredState(
        era_number=number,
        era=partition.eras.get(number),
        anchor=partition.anchor,
        untaken=partition.untaken,
        era_ordinal=max((key.ordinal for key in partition.begun), default=0),
        producers={key: value.ordinal for key, value in partition.producers.items()},
        request=partition.open_request,
        source_position=None if position is None else position.source,
        target_position=None if position is None else position.target,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """A producer id and the epoch granted with it."""

    id: int
    epoch: int


# Instructions


@dataclass(frozen=True, slots=True)
class RequestAcquisition:
    """Ask the worker whether this copy may take the partition. Answer: `InstructionDone`."""


@dataclass(frozen=True, slots=True)
class FindTargetEnd:
    """ListOffsets(latest, read_uncommitted) of the target partition. Answer: `TargetEnd`."""


@dataclass(frozen=True, slots=True)
class InitProducer:
    """InitProducerId with the partition's own transactional id. Answer: `ProducerIdentity`."""


@dataclass(frozen=True, slots=True)
class InitIdempotentProducer:
    """InitProducerId without a transactional id: a new id, which fences nobody. Answer:
    `ProducerIdentity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddToTransaction:
    """AddPartitionsToTxn for the target partition. Answer: `InstructionDone`."""

    producer: ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTransaction:
    """EndTxn(commit) of the partition's transactional id. Answer: `InstructionDone`."""

    producer: ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTarget:
    """Fetch(read_uncommitted) of the target partition from `offset` on. Answer: `FetchedRecords`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSource:
    """Fetch(read_committed) of the source partition from `offset` on. Answer: `FetchedRecords`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecoveredState:
    """What the map topic says of the partition, read to its end as seen when asked.

    With `target`: also the source position that belongs to that target offset. Answer: `Facts`.
    """

    target: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindReverseFlowProducers:
    """Ask the worker which of these producer ids of the source are the opposite flow's, whose map
    topic is read to its end for that. Answer: `ReverseFlowProducers`."""

    producers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindEpochEnd:
    """OffsetForLeaderEpoch on the target. Answer: `EpochEnd`."""

    leader_epoch: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True)
class FindOpenTransactions:
    """DescribeProducers of the target partition. Answer: `OpenTransactions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindSourceOffset:
    """ListOffsets on the source: "earliest", "latest" (the last stable offset) or a timestamp in
    ms.

    Answer: `SourceLogOffset`.
    """

    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToFlowLog:
    """Append these to the flow's map or incident topic, in this order. Answer: `InstructionDone`,
    once stored.

    Outside a script it is answered through `PartitionCopy.recorded` with the same `token`.
    """

    items: tuple[FlowLogItem, ...]
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLogItem:
    """One record for the map topic, or for the incident topic; value None deletes."""

    key: bytes
    value: bytes | None
    incident: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Come back after so many seconds. Answer: `InstructionDone`."""

    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTargetMetadata:
    """The target's leaders have changed: read its metadata again. Answer: `InstructionDone` (at
    once)."""


Instruction = (
    RequestAcquisition
    | FindTargetEnd
    | InitProducer
    | InitIdempotentProducer
    | AddToTransaction
    | CommitTransaction
    | ReadTarget
    | ReadSource
    | ReadRecoveredState
    | FindReverseFlowProducers
    | FindEpochEnd
    | FindOpenTransactions
    | FindSourceOffset
    | AppendToFlowLog
    | Delay
    | RefreshTargetMetadata
)

# Answers


@dataclass(frozen=True, slots=True)
class InstructionDone:
    """It is done; there is nothing to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEnd:
    """High watermark of the target partition, and the leader epoch of the broker that named it."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """Fetched batches as they came, whole or cut off at the end.

    `aborted` lists (producer id, first offset) of aborted transactions (read_committed only);
    `end` is the high watermark, or the last stable offset for read_committed. `last_stable`: up to
    there readers of committed records see the target; None where that is not told.
    """

    records: memoryview
    log_start: int
    end: int
    aborted: tuple[tuple[int, int], ...] = ()
    last_stable: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowProducers:
    """Those of the ids asked of with which the opposite flow writes."""

    producers: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """End of the leader epoch asked for on the target; -1 when the broker does not know."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """It begins at target offset `start`, which retention may have deleted since."""

    producer_id: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactions:
    """Those of the target partition that have no marker, as its leader knows them."""

    transactions: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLogOffset:
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionRefused:
    """Kafka said no. `code` is its error code; `log_start` the log's start where a Fetch names
    it."""

    code: int
    message: str = ""
    log_start: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponse:
    """Disconnected or timed out: what was asked may have happened."""

    reason: str


InstructionAnswer = (
    InstructionDone
    | TargetEnd
    | ProducerIdentity
    | FetchedRecords
    | RecoveredState
    | ReverseFlowProducers
    | EpochEnd
    | OpenTransactions
    | SourceLogOffset
    | InstructionRefused
    | NoResponse
)

Result = TypeVar("Result")
Script = Generator[Instruction, InstructionAnswer, Result]
"""A sequence of questions, each asked with the answer to the one before; returns what came of
it."""
