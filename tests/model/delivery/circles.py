"""Machines that take what the opposite flow brought for what is to be copied."""

from __future__ import annotations

import dataclasses
from typing import Any

from mm2.formats import record_set_splitter
from mm2.replication.partition_replicator import Instructions, PartitionReplicator
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.recovery_instructions import FetchedRecords, Instruction, ReverseFlowProducers
from tests.model.delivery.faults import Bent, BentCopy


def nobody_asked(where: PartitionSetup, **rest: Any) -> PartitionReplicator:
    """A machine that does not know that another flow leads back."""
    return PartitionReplicator(dataclasses.replace(where, opposite_map=""), **rest)


class NotReadToTheEnd(BentCopy):
    """The newest id was not read yet when it was answered."""

    def bend(self, question: Instruction) -> Bent:
        answer = yield question
        if isinstance(answer, ReverseFlowProducers) and answer.producers:
            newest = max(answer.producers)
            return ReverseFlowProducers(producers=answer.producers.difference({newest}))
        return answer


class AskedAtMarkers(PartitionReplicator):
    """Wants to know whose a marker is: the id of one that takes a partition is not stored yet."""

    def on_records_fetched(self, records: FetchedRecords, now_s: float) -> Instructions:
        found = {
            header.producer_id
            for header, _ in record_set_splitter.iter_batches(records.records)
            if header.is_control and header.base_offset >= self.source.position
        }
        known = self._context.reverse_flow_filter
        known.add_resolved_producers(found.difference(known.is_reverse_by_id), reverse_producers=())
        return super().on_records_fetched(records, now_s)


class TheirsPaired(PartitionReplicator):
    """What the opposite flow brought is skipped when copying, and not when pairing."""

    def __init__(self, where: PartitionSetup, **rest: Any) -> None:
        super().__init__(where, **rest)
        blind = dataclasses.replace(where, opposite_map="")
        self._recovery._context = dataclasses.replace(self._recovery._context, setup=blind)
