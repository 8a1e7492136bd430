"""Machines that keep quiet about a loss or a doubt, do not see that there is one, or see one where
there is none.

What incidents do not name must be exact, and they must have a cause: each of these has to end as a
broken promise.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from mm2.formats import incident_records, record_set_splitter
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.replication import error_policy
from mm2.replication.recovery_instructions import (
    AppendToFlowState,
    EpochEnd,
    FetchedRecords,
    FindEpochEnd,
    FlowStateRecord,
    Instruction,
    InstructionAnswer,
    InstructionDone,
    InstructionRefused,
    ReadRecoveredState,
    ReadSource,
    ReadTarget,
    RecoveredState,
    Script,
)
from tests.model.delivery.faults import Bent, BentCopy


class NoIncidentForAnotherId(BentCopy):
    """Goes on under another producer id and does not say that the old one is not fenced."""

    def bend(self, question: Instruction) -> Bent:
        if isinstance(question, AppendToFlowState) and any(map(_names_an_id, question.items)):
            return InstructionDone()
        return (yield question)


def _names_an_id(item: FlowStateRecord) -> bool:
    return _incident_of(item).kind is IncidentKind.UNFENCED_TAKE_OVER if item.incident else False


def _incident_of(item: FlowStateRecord) -> Incident:
    assert item.value is not None
    return incident_records.decode_incident(item.key, item.value)


class IncidentsWithoutTarget(BentCopy):
    """No incident says where on the target the records may stand that it speaks of."""

    def bend(self, question: Instruction) -> Bent:
        if isinstance(question, AppendToFlowState):
            items = tuple(map(_without_target, question.items))
            question = dataclasses.replace(question, items=items)
        return (yield question)


def _without_target(item: FlowStateRecord) -> FlowStateRecord:
    if not item.incident:
        return item
    key, value = incident_records.encode_incident(
        dataclasses.replace(_incident_of(item), target=None)
    )
    return dataclasses.replace(item, key=key, value=value)


class NothingBelieved(BentCopy):
    """Never finds that its place on the mirror is still there: every take begins a new era, and its
    incident names what may be doubled."""

    def bend(self, question: Instruction) -> Bent:
        answer = yield question
        if isinstance(question, FindEpochEnd):
            return EpochEnd(offset=-1)
        return answer


class GoneTakenForMatched(BentCopy):
    """What the source no longer has counts as matched: the tail is paired with what is left."""

    def _begun(self, script: Script[object]) -> Script[object]:
        self.has_tail = False
        return super()._begun(script)

    def bend(self, question: Instruction) -> Bent:
        answer = yield question
        if not self.in_tail:
            return answer
        if isinstance(answer, FetchedRecords) and isinstance(question, ReadTarget):
            self.has_tail |= self._holds_ours(answer)
        if not isinstance(question, ReadSource) or not self.has_tail:
            return answer
        if not _is_deleted(answer) or answer.log_start <= question.offset:
            return answer
        return (yield ReadSource(offset=answer.log_start))

    def _holds_ours(self, answer: FetchedRecords) -> bool:
        start = self.facts.resume_point.segment.target_next if self.facts.resume_point else 0
        return any(
            not header.is_control and header.base_offset >= start
            for header, _ in record_set_splitter.iter_batches(answer.records)
        )


class DeletedHeadCounted(BentCopy):
    """As many source offsets are done as target offsets were deleted behind the anchor."""

    def bend(self, question: Instruction) -> Bent:
        answer = yield question
        if not isinstance(question, ReadRecoveredState) or not isinstance(answer, RecoveredState):
            return answer
        if answer.resume_point is None:
            return answer
        segment = answer.resume_point.segment
        head = yield ReadTarget(offset=segment.target_next)
        if not _is_deleted(head) or head.log_start <= segment.target_next:
            return answer
        deleted = head.log_start - segment.target_next
        counted = dataclasses.replace(
            segment, through=segment.through + deleted, target_next=head.log_start
        )
        anchor = dataclasses.replace(answer.resume_point, segment=counted)
        return dataclasses.replace(answer, resume_point=anchor)


def _is_deleted(answer: InstructionAnswer) -> TypeGuard[InstructionRefused]:
    return (
        isinstance(answer, InstructionRefused) and answer.code == error_policy.OFFSET_OUT_OF_RANGE
    )
