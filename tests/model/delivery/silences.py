"""Machines that keep quiet about a loss or a doubt, do not see that there is one, or see one where
there is none.

What receipts do not name must be exact, and they must have a cause: each of these has to end as a
broken promise.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from mm2.core.copy import facts, instructions, refusals
from mm2.formats import receipt, record_sets
from tests.model.delivery import faults


class NoReceiptForAnotherId(faults.BentCopy):
    """Goes on under another producer id and does not say that the old one is not fenced."""

    def bend(self, question: instructions.Instruction) -> faults.Bent:
        if isinstance(question, instructions.Record) and any(map(_names_an_id, question.items)):
            return instructions.Done()
        return (yield question)


def _names_an_id(item: instructions.LogItem) -> bool:
    return (
        _receipt_of(item).kind is receipt.ReceiptKind.UNFENCED_TAKE_OVER if item.receipt else False
    )


def _receipt_of(item: instructions.LogItem) -> receipt.Receipt:
    assert item.value is not None
    return receipt.decode(item.key, item.value)


class ReceiptsWithoutTarget(faults.BentCopy):
    """No receipt says where on the target the records may stand that it speaks of."""

    def bend(self, question: instructions.Instruction) -> faults.Bent:
        if isinstance(question, instructions.Record):
            items = tuple(map(_without_target, question.items))
            question = dataclasses.replace(question, items=items)
        return (yield question)


def _without_target(item: instructions.LogItem) -> instructions.LogItem:
    if not item.receipt:
        return item
    key, value = receipt.encode(dataclasses.replace(_receipt_of(item), target=None))
    return dataclasses.replace(item, key=key, value=value)


class NothingBelieved(faults.BentCopy):
    """Never finds that its place on the mirror is still there: every take begins a new era, and its
    receipt names what may be doubled."""

    def bend(self, question: instructions.Instruction) -> faults.Bent:
        answer = yield question
        if isinstance(question, instructions.FindEpochEnd):
            return instructions.EpochEnd(offset=-1)
        return answer


class GoneTakenForMatched(faults.BentCopy):
    """What the source no longer has counts as matched: the tail is paired with what is left."""

    def _begun(self, script: instructions.Script[object]) -> instructions.Script[object]:
        self.has_tail = False
        return super()._begun(script)

    def bend(self, question: instructions.Instruction) -> faults.Bent:
        answer = yield question
        if not self.in_tail:
            return answer
        if isinstance(answer, instructions.Records) and isinstance(
            question, instructions.ReadTarget
        ):
            self.has_tail |= self._holds_ours(answer)
        if not isinstance(question, instructions.ReadSource) or not self.has_tail:
            return answer
        if not _is_deleted(answer) or answer.log_start <= question.offset:
            return answer
        return (yield instructions.ReadSource(offset=answer.log_start))

    def _holds_ours(self, answer: instructions.Records) -> bool:
        start = self.facts.anchor.segment.target_next if self.facts.anchor else 0
        return any(
            not header.is_control and header.base_offset >= start
            for header, _ in record_sets.batches(answer.records)
        )


class DeletedHeadCounted(faults.BentCopy):
    """As many source offsets are done as target offsets were deleted behind the anchor."""

    def bend(self, question: instructions.Instruction) -> faults.Bent:
        answer = yield question
        if not isinstance(question, instructions.ReadFacts) or not isinstance(answer, facts.Facts):
            return answer
        if answer.anchor is None:
            return answer
        segment = answer.anchor.segment
        head = yield instructions.ReadTarget(offset=segment.target_next)
        if not _is_deleted(head) or head.log_start <= segment.target_next:
            return answer
        deleted = head.log_start - segment.target_next
        counted = dataclasses.replace(
            segment, through=segment.through + deleted, target_next=head.log_start
        )
        anchor = dataclasses.replace(answer.anchor, segment=counted)
        return dataclasses.replace(answer, anchor=anchor)


def _is_deleted(answer: instructions.Answer) -> TypeGuard[instructions.Refused]:
    return isinstance(answer, instructions.Refused) and answer.code == refusals.OFFSET_OUT_OF_RANGE
