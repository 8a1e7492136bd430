"""Machines that are wrong about transactions that nobody ends: each has to end as a broken promise.

They do not see one, tell of one that is not there, or of another place than where it begins.
"""

from __future__ import annotations

import dataclasses

from mm2.replication.recovery_instructions import (
    FetchedRecords,
    Instruction,
    OpenTransaction,
    OpenTransactions,
    ReadTarget,
)
from tests.model.delivery.faults import Bent, BentCopy


class StableUnseen(BentCopy):
    """Does not look how far readers of committed records see."""

    def bend(self, question: Instruction) -> Bent:
        answer = yield question
        if isinstance(answer, FetchedRecords):
            return dataclasses.replace(answer, last_stable_offset=None)
        return answer


class OpenMadeUp(BentCopy):
    """Takes its own first transaction for one that stands open."""

    def bend(self, question: Instruction) -> Bent:
        answer = yield question
        if isinstance(question, ReadTarget):
            if isinstance(answer, FetchedRecords):
                return dataclasses.replace(answer, last_stable_offset=0)
        elif isinstance(answer, OpenTransactions):
            mine = (OpenTransaction(producer_id=each, start=0) for each in self.ids)
            return OpenTransactions(transactions=tuple(mine))
        return answer

    @property
    def ids(self) -> list[int]:
        return list(self.facts.producers)


class BeginsAtStable(BentCopy):
    """Believes that it begins where readers of committed records stand still."""

    stable = 0

    def bend(self, question: Instruction) -> Bent:
        answer = yield question
        if isinstance(question, ReadTarget):
            if isinstance(answer, FetchedRecords) and answer.last_stable_offset is not None:
                self.stable = answer.last_stable_offset
        elif isinstance(answer, OpenTransactions):
            return OpenTransactions(
                transactions=tuple(
                    dataclasses.replace(each, start=max(each.start, self.stable))
                    for each in answer.transactions
                )
            )
        return answer
