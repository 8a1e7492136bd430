"""Begins a new era of a mirror topic's partition, or continues the current one.

An era is a generation of a mirror partition in which the target contains the source's records
without a break. An era begins at the first start, at an operator's request, and whenever source and
target can no longer be compared. Producer id, incidents and era are stored in this order before
replication starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mm2.formats import incident_records, offset_map_records
from mm2.formats.incident_records import Incident, IncidentKind, OffsetRange
from mm2.formats.offset_map_records import (
    Era,
    EraKey,
    MapKey,
    MapProducer,
    MapProducerKey,
    MapValue,
    OffsetRun,
)
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.replication import (
    outbound_batches,
    partition_halt_messages,
    producer_fencing,
    recovery_outcomes,
    target_log_tail_reader,
)
from mm2.replication.java_offset_map_reconstruction import MapReconstruction
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.recovery_instructions import (
    AppendToFlowState,
    Delay,
    FetchedRecords,
    FindSourceOffset,
    FlowStateRecord,
    InstructionDone,
    InstructionRefused,
    ReadTarget,
    RecoveredState,
    Script,
    SourceLogOffset,
)
from mm2.replication.recovery_outcomes import (
    OwnershipLost,
    PartitionAcquired,
    RecoveryAttempt,
    RecoveryOutcome,
    RetryRecovery,
)
from mm2.replication.target_log_tail_matching import SegmentSplitPoint, TailMatcher
from mm2.topics.flow_config import TargetTopicAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEra:
    """Parameters of a new era (generation of the mirror): its first source offset `source`, the
    `reason` why it begins, and the records to store first."""

    source: int
    reason: str
    source_epoch: int = -1
    incidents: tuple[Incident, ...] = ()
    """Incidents to store before the record of the new era (generation of the mirror)."""
    previous_era_records: tuple[FlowStateRecord, ...] = ()
    """Records about the previous era (generation of the mirror), stored before the incidents and
    the new era."""
    request: str = ""
    """Id of the operator's request that started the era (generation of the mirror); "" if no
    request started it."""
    first_offsets: tuple[int, int] | None = None
    """First source and target offset of the era (generation of the mirror) if another writer
    already copied a part of it."""
    runs: tuple[OffsetRun, ...] = ()
    """Offset runs (ranges of offsets with a constant difference) of the part that another writer
    copied."""
    junctions: tuple[SegmentSplitPoint, ...] = ()
    """Positions at which the offset map of the part copied by another writer is split into
    segments."""


def begin_first_era(attempt: RecoveryAttempt) -> Script[RecoveryOutcome]:
    """Begin the first era (generation of the mirror) of a partition. The mirror topic's partition
    must be empty, unless other producers may write to it."""
    if attempt.setup.target_topics is TargetTopicAccess.EXCLUSIVE:
        refusal = yield from _check_mirror_is_empty(attempt)
        if refusal is not None:
            return refusal
    start = yield from _resolve_start_position(attempt.setup.start)
    if not isinstance(start, int):
        return start
    return (
        yield from begin_era(
            attempt, NewEra(source=start, reason=offset_map_records.FIRST_START_REASON)
        )
    )


def begin_requested_era(attempt: RecoveryAttempt) -> Script[RecoveryOutcome]:
    """Begin the era (generation of the mirror) that an operator requested, regardless of the
    partition's progress."""
    request, anchor = attempt.state.request, attempt.state.resume_point
    assert request is not None
    start = yield from _resolve_start_position(request.position)
    if not isinstance(start, int):
        return start
    last = anchor.segment if anchor is not None else None
    marker = attempt.fence.tail_end  # a recreated mirror has fewer offsets than the resume point
    stated = create_incident(
        attempt,
        kind=IncidentKind.NEW_ERA_REQUESTED,
        target=(min(last.target_next, marker) if last else 0, marker),
        source=(last.through, start) if last and last.through < start else None,
        detail=f"new era from {request.position}, source offset {start}",
        request_id=request.request,
    )
    era = NewEra(
        source=start,
        reason=f"requested from {request.position}",
        incidents=(stated,),
        request=request.request,
    )
    return (yield from begin_era(attempt, era))


def _check_mirror_is_empty(
    attempt: RecoveryAttempt,
) -> Script[RetryRecovery | OwnershipLost | PartitionHalt | None]:
    """Return a halt if the mirror contains records before this owner's transaction marker, or if
    records were deleted from it.

    Raises `DamagedBatchError` if a batch remains unreadable after all retries.
    """
    deleted = "its log no longer starts at offset 0, so records were deleted from it"
    reading = "reading the mirror from its start"
    at = idle = 0
    while at < attempt.fence.tail_end:
        answer = yield ReadTarget(offset=at)
        told = answer if isinstance(answer, FetchedRecords | InstructionRefused) else None
        if told is not None and told.log_start > 0:
            return _build_mirror_not_empty_halt(attempt.setup, deleted)
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_failed_instruction(
                reading, answer
            )  # for example after an unclean leader election
        before = at
        at, found = _scan_for_records(attempt, answer.records, start=at)
        if isinstance(found, OwnershipLost | PartitionHalt):
            return found
        idle = 0 if at > before else idle + 1
        if found is not None:
            if idle >= target_log_tail_reader.READ_ATTEMPTS_MAX:
                raise found
            yield Delay(delay_s=target_log_tail_reader.READ_RETRY_DELAY_S)
        if idle > recovery_outcomes.EMPTY_READS_MAX:
            return recovery_outcomes.retry_after_empty_reads(reading)
    return None


def _scan_for_records(
    attempt: RecoveryAttempt, held: memoryview, *, start: int
) -> tuple[int, OwnershipLost | PartitionHalt | DamagedBatchError | None]:
    """Check whether a fetch result of the mirror contains data records. Return the offset up to
    which it was checked, and the reason to stop, or None if the check continues."""
    at = start
    try:
        for header, _ in target_log_tail_reader.iter_valid_batches(held, start=start):
            if producer_fencing.is_from_newer_epoch(header, attempt.fence.producer):
                return at, OwnershipLost(fenced_producer=attempt.fence.producer)
            if header.base_offset > attempt.fence.marker_offset:
                return attempt.fence.tail_end, None  # a newer owner wrote after this owner's marker
            if not header.is_control and header.record_count > 0:
                why = f"the mirror topic contains records at offset {header.base_offset}"
                return at, _build_mirror_not_empty_halt(attempt.setup, why)
            at = header.last_offset + 1
    except DamagedBatchError as error:
        return at, error if at < attempt.fence.tail_end else None
    return at, None


def _build_mirror_not_empty_halt(setup: PartitionSetup, why: str) -> PartitionHalt:
    rebuild = setup.operator.build_rebuild_offset_map_command(setup.flow, setup.topic)
    delete = setup.operator.target.build_delete_topic_command(setup.remote_topic)
    lost = f"rebuild the lost offset map ({rebuild}), or " if rebuild else ""
    return PartitionHalt(
        cause=HaltCause.TARGET_NOT_EMPTY,
        message=(
            f"{setup.mirror_name}: this flow has no recorded progress for this partition, but "
            f"{why}. If this flow wrote the existing records, "
            f"{lost}delete the mirror topic ({delete}) and restart the flow. The remedy keeps the "
            "existing records and appends new ones. "
            f"{partition_halt_messages.format_reset_remedy(setup, position=setup.start)}"
        ),
    )


def _resolve_start_position(position: str) -> Script[int | RetryRecovery]:
    """Resolve a start position (format as in `NewEraRequest`) to a source offset. A timestamp
    resolves to the first record at or after it."""
    if position in ("earliest", "latest"):
        return (yield from _find_source_offset(position))
    if position.startswith(offset_map_records.OFFSET_POSITION_PREFIX):
        start = yield from _find_source_offset("earliest")
        return (
            max(start, int(position.removeprefix(offset_map_records.OFFSET_POSITION_PREFIX)))
            if isinstance(start, int)
            else start
        )
    # Query the end first, so that records appended between the two queries are not left out.
    end = yield from _find_source_offset("latest")
    if not isinstance(end, int):
        return end
    found = yield from _find_source_offset(position)
    if not isinstance(found, int):
        return found
    return end if found < 0 else found


def _find_source_offset(position: str) -> Script[int | RetryRecovery]:
    found = yield FindSourceOffset(position=position)
    if not isinstance(found, SourceLogOffset):
        return recovery_outcomes.retry_after_failed_instruction(
            f"finding the source offset of {position}", found
        )
    return found.offset


# Storing an era


def begin_era(attempt: RecoveryAttempt, era: NewEra) -> Script[RecoveryOutcome]:
    """Store the producer id, the incidents and the era (generation of the mirror), in this order,
    and complete the acquisition."""
    setup, fenced = attempt.setup, attempt.fence
    number = attempt.state.era_number + 1
    target = fenced.marker_offset + 1
    first_source, first_target = era.first_offsets or (era.source, target)
    key = EraKey(
        topic=setup.topic,
        partition=setup.partition,
        era=number,
        ordinal=attempt.ordinal,
        epoch=fenced.producer.epoch,
    )
    value = Era(
        source_cluster=setup.source_cluster,
        target_cluster=setup.target_cluster,
        source_topic_id=setup.source_topic_id,
        target_topic_id=setup.target_topic_id,
        first_source=first_source,
        first_target=first_target,
        filter_hash=outbound_batches.hash_transform(attempt.context.transform),
        request=era.request,
        reason=era.reason,
    )
    failed: RetryRecovery | PartitionHalt | None
    failed = yield from record_producer_id(attempt, era=number)
    if failed is None:
        incidents = [_create_incident_record(each) for each in era.incidents]
        failed = yield from store_flow_state_records(
            [*era.previous_era_records, *incidents, _create_map_record(key, value)]
        )
    if failed is not None:
        return failed
    return PartitionAcquired(
        producer=fenced.producer,
        leader_epoch=fenced.leader_epoch,
        era=number,
        ordinal=attempt.ordinal,
        match_start=first_source,
        source=era.source,
        target=target,
        source_epoch=era.source_epoch,
        runs=era.runs,
        junctions=era.junctions,
        is_fenced=fenced.is_fenced,
    )


def store_flow_state_records(
    items: Sequence[FlowStateRecord],
) -> Script[RetryRecovery | None]:
    """Append records to the flow's topics one by one. Each record must be durable before the next
    one is sent."""
    for item in items:
        answer = yield AppendToFlowState(items=(item,))
        if not isinstance(answer, InstructionDone):
            return recovery_outcomes.retry_after_failed_instruction(
                "storing the acquisition in the offset map", answer
            )
    return None


def record_producer_id(
    attempt: RecoveryAttempt, *, era: int
) -> Script[RetryRecovery | PartitionHalt | None]:
    """Store this owner's producer id with the highest ordinal (its rank among all owners' producer
    ids), before any other record with that ordinal.

    Two processes may choose the same ordinal because they read the same offset map. This can happen
    if fencing is impossible, or if a process was suspended until its producer id expired. Segments
    with a lower ordinal than another owner's are ignored.
    """
    items = create_producer_records(attempt, era=era)
    if not items:
        return None
    ours = attempt.fence.producer.id
    failed = yield from store_flow_state_records(items)
    if failed is not None:
        return failed
    known = yield from recovery_outcomes.read_recovered_state(attempt.context)
    if not isinstance(known, RecoveredState):
        return known
    others = [place for each, place in known.producers.items() if each != ours]
    if max(others, default=0) >= attempt.ordinal:
        return RetryRecovery(reason="another owner acquired the partition at the same time")
    if known.era_number != attempt.state.era_number:
        # Otherwise, this owner's first segment would supersede the record of the other owner's era.
        return RetryRecovery(reason="another owner began an era of the partition at the same time")
    return None


def create_producer_records(attempt: RecoveryAttempt, *, era: int) -> list[FlowStateRecord]:
    """Create the record of a new producer id, and an incident if the older ids are not fenced."""
    setup, known, fenced = attempt.setup, attempt.state, attempt.fence
    if known.producers.get(fenced.producer.id) == attempt.ordinal:
        return []
    items = []
    if known.producers and fenced.is_fenced:
        start = known.resume_point.segment.target_next if known.resume_point is not None else 0
        stated = create_incident(
            attempt,
            kind=IncidentKind.UNFENCED_TAKE_OVER,
            target=(start, fenced.marker_offset),
            detail=(
                f"transactional id {setup.transactional_id} now has producer id "
                f"{fenced.producer.id}: a writer with an older id is not fenced"
            ),
        )
        items.append(_create_incident_record(stated))
    key = MapProducerKey(
        topic=setup.topic, partition=setup.partition, producer_id=fenced.producer.id
    )
    items.append(_create_map_record(key, MapProducer(ordinal=attempt.ordinal, era=era)))
    return items


def create_incident(
    attempt: RecoveryAttempt,
    *,
    kind: IncidentKind,
    detail: str,
    source: OffsetRange | None = None,
    target: OffsetRange | None = None,
    request_id: str = "",
) -> Incident:
    """Create an incident for this partition. A repeated incident has the same id and replaces the
    first one, unless `request_id` differs."""
    setup = attempt.setup
    place = source or target or (0, 0)
    return Incident(
        topic=setup.topic,
        partition=setup.partition,
        id="-".join(filter(None, (kind.value, str(place[0]), str(place[1]), request_id))),
        kind=kind,
        flow=setup.flow,
        at_ms=attempt.context.wall_ms(),
        detail=detail,
        source=source,
        target=target,
    )


def _create_map_record(key: MapKey, value: MapValue) -> FlowStateRecord:
    return FlowStateRecord(
        key=offset_map_records.encode_map_key(key), value=offset_map_records.encode_map_value(value)
    )


def _create_incident_record(stated: Incident) -> FlowStateRecord:
    key, value = incident_records.encode_incident(stated)
    return FlowStateRecord(key=key, value=value, incident=True)


TailMatch = TailMatcher | MapReconstruction


def continue_era(
    attempt: RecoveryAttempt, *, era: int, start: int, match: TailMatch
) -> Script[RecoveryOutcome]:
    """Continue era `era` (generation of the mirror): new batches are written after this owner's
    transaction marker. Tail matching (comparing the target's last batches with the source) began at
    source offset `start`."""
    target = attempt.fence.marker_offset + 1
    failed = yield from record_producer_id(attempt, era=era)
    return failed or build_acquired_partition(
        attempt, era=era, start=start, match=match, target=target
    )


def build_acquired_partition(
    attempt: RecoveryAttempt, *, era: int, start: int, match: TailMatch, target: int
) -> PartitionAcquired:
    """Build the result of an acquisition from the matched tail (the target's batches after the
    resume point). `target` is the target offset of the next batch."""
    return PartitionAcquired(
        producer=attempt.fence.producer,
        leader_epoch=attempt.fence.leader_epoch,
        era=era,
        ordinal=attempt.ordinal,
        match_start=start,
        source=match.position,
        target=target,
        source_epoch=match.source_epoch,
        runs=tuple(match.runs),
        junctions=tuple(match.junctions),
        is_fenced=attempt.fence.is_fenced,
        already_stored=match.matched_records if isinstance(match, TailMatcher) else 0,
    )
