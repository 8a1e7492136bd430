"""Machines that take what the opposite flow brought for what is to be copied."""

from __future__ import annotations

import dataclasses
from typing import Any

from mm2.core.copy import instructions, partition, setup
from mm2.formats import record_sets
from tests.model.delivery import faults


def nobody_asked(where: setup.PartitionSetup, **rest: Any) -> partition.PartitionCopy:
    """A machine that does not know that another flow leads back."""
    return partition.PartitionCopy(dataclasses.replace(where, opposite_map=""), **rest)


class NotReadToTheEnd(faults.BentCopy):
    """The newest id was not read yet when it was answered."""

    def bend(self, question: instructions.Instruction) -> faults.Bent:
        answer = yield question
        if isinstance(answer, instructions.Theirs) and answer.producers:
            newest = max(answer.producers)
            return instructions.Theirs(producers=answer.producers.difference({newest}))
        return answer


class AskedAtMarkers(partition.PartitionCopy):
    """Wants to know whose a marker is: the id of one that takes a partition is not stored yet."""

    def offer(self, records: instructions.Records, now_s: float) -> partition.Instructions:
        found = {
            header.producer_id
            for header, _ in record_sets.batches(records.records)
            if header.is_control and header.base_offset >= self.source.position
        }
        known = self._context.opposite
        known.learn(found.difference(known.by_id), theirs=())
        return super().offer(records, now_s)


class TheirsPaired(partition.PartitionCopy):
    """What the opposite flow brought is skipped when copying, and not when pairing."""

    def __init__(self, where: setup.PartitionSetup, **rest: Any) -> None:
        super().__init__(where, **rest)
        blind = dataclasses.replace(where, opposite_map="")
        self._way_in._context = dataclasses.replace(self._way_in._context, where=blind)
