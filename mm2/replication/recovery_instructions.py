"""Instructions that a partition's scripts yield, their answers, and the recovered state.

Every instruction concerns the partition whose script yields it. A script has one outstanding
instruction at a time, answered by the answer named with it, by `InstructionRefused` (Kafka's error
code) or by `NoResponse` (timeout: the outcome is unknown).

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
    """Progress of the partition in MirrorMaker 2's topics, which our own flows write too."""

    next_offset: int
    """Source offset after the last acknowledged record (the Connect source offset plus 1); 0 if
    none was stored."""
    sync: tuple[int, int] | None = None
    """Source and target offset of an offset sync below `next_offset`, chosen by
    `JavaOffsetSyncs.find_below`; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableStateRecord:
    """A record of the offset map topic that cannot be read; `offset` is in the map topic."""

    offset: int
    why: str
    is_era: bool = False
    """True if its key is that of an era."""


def describe_unreadable(found: UnreadableMapRecord) -> UnreadableStateRecord:
    """Convert an unreadable record of the offset map to the form that scripts use."""
    return UnreadableStateRecord(offset=found.offset, why=found.why, is_era=found.is_era)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """A partition's newest era and resume point, our producer ids, and an open operator request."""

    era_number: int = 0
    era: Era | None = None
    anchor: ResumePoint | None = None
    is_era_empty: bool = False
    """True if a newer owner than the resume point's began the era, which has no records yet."""
    era_ordinal: int = 0
    """Ordinal of the newest owner that began an era; 0 for none."""
    producers: dict[int, int] = field(default_factory=dict)
    """Ordinal of each of our producer ids."""
    request: NewEraRequest | None = None
    source_position: int | None = None
    """Source offset to continue from if the target's log ended at the requested target offset."""
    target_position: int | None = None
    """Where comparing must start: mostly the requested target offset, or an earlier one if the map
    is sparse."""
    java: JavaMirrorProgress | None = None
    """Progress in MirrorMaker 2's topics; None if neither it nor we stored any."""
    unreadable: UnreadableStateRecord | None = None
    """A map record that may concern the partition but cannot be read, so that the rest may be
    wrong."""


def extract_recovered_state(partition: PartitionMap, *, target: int | None) -> RecoveredState:
    """Extract the recovered state from one partition's map; `target` as in `ReadRecoveredState`."""
    number = partition.newest_era
    position = partition.find_resume_position(target) if target is not None else None
    return RecoveredState(
        era_number=number,
        era=partition.eras.get(number),
        anchor=partition.resume_point,
        is_era_empty=partition.is_newest_era_empty,
        era_ordinal=max((key.ordinal for key in partition.era_records), default=0),
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
    """Ask the worker for permission to acquire the partition. Answer: `InstructionDone`."""


@dataclass(frozen=True, slots=True)
class FindTargetEnd:
    """ListOffsets(latest, read_uncommitted) of the target partition. Answer: `TargetEnd`."""


@dataclass(frozen=True, slots=True)
class InitProducer:
    """InitProducerId with the partition's own transactional id. Answer: `ProducerIdentity`."""


@dataclass(frozen=True, slots=True)
class InitIdempotentProducer:
    """InitProducerId without a transactional id: a new id, which fences no other. Answer:
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
    """Fetch(read_uncommitted) of the target partition from `offset`. Answer: `FetchedRecords`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSource:
    """Fetch(read_committed) of the source partition from `offset`. Answer: `FetchedRecords`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecoveredState:
    """Read the offset map topic to its current end. Answer: `RecoveredState`.

    With `target_offset`, the answer includes the source position of that target offset.
    """

    target_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindReverseFlowProducers:
    """Ask the worker which of these producer ids belong to the reverse flow, after reading its map
    topic to the end. Answer: `ReverseFlowProducers`."""

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
    ms. Answer: `SourceLogOffset`."""

    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToFlowLog:
    """Append records to the flow's offset map or incident topic, in this order. Answer:
    `InstructionDone`, once stored.

    Outside a script, the answer is `PartitionReplicator.on_segment_stored` with the same `token`.
    """

    items: tuple[FlowLogItem, ...]
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLogItem:
    """One record for the offset map topic or the incident topic; value None is a tombstone."""

    key: bytes
    value: bytes | None
    incident: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Continue after `delay_s` seconds. Answer: `InstructionDone`."""

    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTargetMetadata:
    """Refresh the target's metadata because leaders have changed. Answer: `InstructionDone`,
    immediately."""


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
    """The instruction was carried out; there is no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEnd:
    """High watermark of the target partition, and the leader epoch of the broker that reported
    it."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """Fetched batches; the last one may be truncated."""

    records: memoryview
    log_start: int
    end: int
    """High watermark, or last stable offset for read_committed."""
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset) of aborted transactions; read_committed only."""
    last_stable_offset: int | None = None
    """The last stable offset of the target; None if not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowProducers:
    """The requested producer ids that belong to the reverse flow."""

    producers: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """End offset of the requested leader epoch on the target; -1 if the broker does not know it."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """An open transaction. It begins at target offset `start`, which retention may have deleted."""

    producer_id: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactions:
    """Transactions of the target partition without a marker, as reported by its leader."""

    transactions: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLogOffset:
    """Result of a ListOffsets request on the source."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionRefused:
    """Kafka rejected the request with error `code`; `log_start` is set if a Fetch response names
    it."""

    code: int
    message: str = ""
    log_start: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponse:
    """Disconnected or timed out: the request may have been executed."""

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
"""A sequence of instructions, each yielded after the answer to the previous one; returns its
result."""
