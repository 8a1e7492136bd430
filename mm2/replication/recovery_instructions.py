"""Instructions that a partition's scripts (generators) yield, the responses to them, and the
recovered state.

Every instruction concerns the partition whose script yields it. A script has one outstanding
instruction at a time. The response is of the type named in the instruction's docstring,
`InstructionRefused` (Kafka error code) or `NoResponse` (timeout: the outcome is unknown).

`RecoveredState` is what the offset map topic contains about a partition at its acquisition.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeVar

from mm2.formats.offset_map_records import Era, NewEraRequest
from mm2.offsets.offset_map import PartitionMap, ResumePoint, UnreadableMapRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaMirrorProgress:
    """Progress of a partition as stored in MirrorMaker 2's internal topics. mm2's own flows also
    write these topics."""

    next_offset: int
    """Source offset after the last acknowledged record (the Connect source offset plus 1); 0 if
    none was stored."""
    sync: tuple[int, int] | None = None
    """Source and target offset of an offset sync below `next_offset`, chosen by
    `JavaOffsetSyncs.find_sync_below`; None if no such sync exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableStateRecord:
    """A record of the offset map topic that cannot be read. `offset` is its offset in that
    topic."""

    offset: int
    why: str
    is_era: bool = False
    """True if the record's key is that of an era (generation of the mirror)."""


def convert_unreadable_record(found: UnreadableMapRecord) -> UnreadableStateRecord:
    """Convert an unreadable record of the offset map to an `UnreadableStateRecord`."""
    return UnreadableStateRecord(offset=found.offset, why=found.why, is_era=found.is_era_record)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """State of a partition, recovered from the offset map: the newest era (generation of the
    mirror), the resume point, the flow's producer ids, and a pending operator request, if any."""

    era_number: int = 0
    era: Era | None = None
    resume_point: ResumePoint | None = None
    is_era_empty: bool = False
    """True if an owner newer than the resume point's owner began the era and has not stored records
    in it yet."""
    era_ordinal: int = 0
    """Ordinal (rank among all owners' producer ids) of the newest owner that began an era
    (generation of the mirror); 0 if no era exists."""
    producers: dict[int, int] = field(default_factory=dict)
    """This flow's producer ids, each mapped to its ordinal (rank among all owners' producer
    ids)."""
    request: NewEraRequest | None = None
    source_position: int | None = None
    """Source offset at which replication would continue if the target's log ended at the requested
    target offset."""
    target_position: int | None = None
    """Target offset from which the mirror must be compared with the source: usually the requested
    offset, or an earlier one if the map is sparse."""
    java: JavaMirrorProgress | None = None
    """Progress in MirrorMaker 2's internal topics; None if neither MirrorMaker 2 nor a flow of mm2
    stored any."""
    unreadable: UnreadableStateRecord | None = None
    """An unreadable map record that may belong to the partition; None if there is none. If it is
    set, the other fields may be wrong."""


def extract_recovered_state(partition: PartitionMap, *, target: int | None) -> RecoveredState:
    """Extract the recovered state from one partition's map. If `target` is a target offset, also
    look up its source position."""
    number = partition.newest_era
    position = partition.find_resume_position(target) if target is not None else None
    return RecoveredState(
        era_number=number,
        era=partition.eras.get(number),
        resume_point=partition.resume_point,
        is_era_empty=partition.is_newest_era_empty,
        era_ordinal=max((key.ordinal for key in partition.era_records), default=0),
        producers={key: value.ordinal for key, value in partition.producers.items()},
        request=partition.pending_era_request,
        source_position=None if position is None else position.source,
        target_position=None if position is None else position.target,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """A producer id and the epoch that was granted with it."""

    id: int
    epoch: int


# Instructions


@dataclass(frozen=True, slots=True)
class RequestAcquisition:
    """Request the worker's permission to acquire the partition. Response: `InstructionDone`."""


@dataclass(frozen=True, slots=True)
class FindTargetEnd:
    """Find the log end of the target partition (ListOffsets, latest, read_uncommitted). Response:
    `TargetEnd`."""


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Request a new epoch with the partition's transactional id (InitProducerId). Response:
    `ProducerIdentity`."""


@dataclass(frozen=True, slots=True)
class InitIdempotentProducer:
    """Request a new producer id without a transactional id (InitProducerId), which fences no other
    writer. Response: `ProducerIdentity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddToTransaction:
    """Add the target partition to the transaction (AddPartitionsToTxn). Response:
    `InstructionDone`."""

    producer: ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTransaction:
    """Commit the transaction of the partition's transactional id (EndTxn). Response:
    `InstructionDone`."""

    producer: ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTarget:
    """Fetch from the target partition at `offset` (read_uncommitted). Response:
    `FetchedRecords`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSource:
    """Fetch from the source partition at `offset` (read_committed). Response: `FetchedRecords`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecoveredState:
    """Read the offset map topic to its current end. Response: `RecoveredState`.

    With `target_offset`, the response includes the source position of that target offset.
    """

    target_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindReverseFlowProducers:
    """Look up which of the source producer ids `producers` belong to the reverse flow. The worker
    first reads the reverse flow's map topic to the end. Response: `ReverseFlowProducers`."""

    producers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindEpochEnd:
    """Find the end offset of a leader epoch on the target (OffsetForLeaderEpoch). Response:
    `EpochEnd`."""

    leader_epoch: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True)
class FindOpenTransactions:
    """List the open transactions of the target partition (DescribeProducers). Response:
    `OpenTransactions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindSourceOffset:
    """Find a source offset with ListOffsets: "earliest", "latest" (the last stable offset) or a
    timestamp in ms. Response: `SourceLogOffset`."""

    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToFlowState:
    """Append records to the flow's offset map or incident topic, in this order. Response:
    `InstructionDone`, once the records are stored.

    If the instruction was issued by `PartitionReplicator` itself and not yielded by a script
    (generator of instructions), the response is a call of `PartitionReplicator.on_segment_stored`
    with the same `token`.
    """

    items: tuple[FlowStateRecord, ...]
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStateRecord:
    """One record for the offset map topic or the incident topic. A None value is a tombstone."""

    key: bytes
    value: bytes | None
    incident: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Continue the script (generator of instructions) after `delay_s` seconds. Response:
    `InstructionDone`."""

    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTargetMetadata:
    """Refresh the target's metadata after a leader change. Response: `InstructionDone`, before the
    refresh completes."""


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
    | AppendToFlowState
    | Delay
    | RefreshTargetMetadata
)

# Responses


@dataclass(frozen=True, slots=True)
class InstructionDone:
    """The instruction was carried out and has no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEnd:
    """High watermark of the target partition, and the leader epoch of the broker that reported
    it."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """Batches of a fetch response. The last one may be incomplete."""

    records: memoryview
    log_start: int
    end: int
    """High watermark, or the last stable offset for read_committed."""
    aborted: tuple[tuple[int, int], ...] = ()
    """Aborted transactions as (producer id, first offset); read_committed only."""
    last_stable_offset: int | None = None
    """The last stable offset of the target; None if not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlowProducers:
    """The subset of the requested producer ids that belongs to the reverse flow."""

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
    """Open transactions of the target partition, as reported by its leader. An open transaction has
    no marker yet."""

    transactions: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLogOffset:
    """Result of a ListOffsets request on the source."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionRefused:
    """Kafka rejected the request with error `code`. `log_start` is set if a Fetch response contains
    it."""

    code: int
    message: str = ""
    log_start: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponse:
    """The connection was lost or the request timed out. The broker may have executed the
    request."""

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
"""A sequence of instructions, each yielded after the response to the previous one. The generator
returns the script's result."""
