"""Partition 0 of a topic of our own on a real target, for `target_probe`."""

from __future__ import annotations

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from mm2.formats import record_batch, record_sets, records
from mm2.pipeline import fenced_partition, single_questions

VALUE = b"mm2 probe: what this cluster does with producers; nothing reads it"


class WireScratchPartition:
    """Implements `target_probe.ScratchPartition` under one transactional id."""

    def __init__(
        self,
        questions: single_questions.SingleQuestions,
        *,
        topic: str,
        transactional_id: str,
        clock: base_clock.Clock,
    ) -> None:
        self._questions = questions
        self._topic = topic
        self._fenced = fenced_partition.FencedPartition(
            questions,
            ids.TopicPartition(topic, 0),
            transactional_id=transactional_id,
            clock=clock,
        )
        self._clock = clock
        self._marker_from = 0
        self._sent = b""

    def new_owner(self) -> fenced_partition.Owner | fenced_partition.Refused:
        return self._fenced.new_owner()

    def new_plain_owner(self) -> fenced_partition.Owner | fenced_partition.Refused:
        return self._fenced.new_plain_owner()

    def commit_empty(self, owner: fenced_partition.Owner) -> fenced_partition.Refused | None:
        self._marker_from = self.end()
        return self._fenced.commit_empty(owner)

    def marker_seen(self, owner: fenced_partition.Owner) -> bool:
        return self._fenced.marker_of(owner, start=self._marker_from) is not None

    def end(self) -> int:
        return self._fenced.end()

    def send(self, owner: fenced_partition.Owner, sequence: int) -> int | fenced_partition.Refused:
        record = records.Record(
            offset=0,
            timestamp=self._clock.wall_ms(),
            body=records.write_body(records.Fields(key=None, value=VALUE)),
        )
        batch = records.build([record], codec=0)
        producer = (owner.id, owner.epoch, sequence)
        record_batch.stamp(memoryview(batch), attributes=0, producer=producer)
        answer = self._questions.produce(self._topic, memoryview(batch))
        if answer.error_code:
            return fenced_partition.Refused(code=answer.error_code)
        self._sent = bytes(batch[record_batch.CRC_START :])
        return answer.base_offset

    def unchanged(self, offset: int) -> bool:
        fetched = memoryview(self._questions.fetch(self._topic, offset).records)
        return any(
            header.base_offset == offset and batch[record_batch.CRC_START :] == self._sent
            for header, batch in record_sets.batches(fetched)
        )
