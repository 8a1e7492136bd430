"""Partition 0 of a topic of our own on a real target, for `target_probe`."""

from __future__ import annotations

from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.wire.codec import failures, messages, targets
from mm2.formats import record_batch, record_sets, records
from mm2.pipeline import single_questions, target_probe

VALUE = b"mm2 probe: what this cluster does with producers; nothing reads it"

_BUSY = frozenset({14, 15, 16, 51})
_MOVED = frozenset({15, 16})
_MARKER_S = 10.0
_TRANSACTION_TIMEOUT_MS = 60_000
_LATEST = -1


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
        self._to = targets.Coordinator(targets.TRANSACTION, transactional_id)
        self._clock = clock
        self._marker_from = 0
        self._sent = b""

    def new_owner(self) -> target_probe.Owner | target_probe.Refused:
        message = messages.init_producer_id(self._to.key, _TRANSACTION_TIMEOUT_MS)
        found = self._patiently(self._to, message)
        if isinstance(found, target_probe.Refused):
            return found
        return target_probe.Owner(id=int(found.producer_id), epoch=int(found.producer_epoch))

    def new_plain_owner(self) -> target_probe.Owner | target_probe.Refused:
        message = messages.init_producer_id(None, _TRANSACTION_TIMEOUT_MS)
        found = self._patiently(targets.AnyNode(), message)
        if isinstance(found, target_probe.Refused):
            return found
        return target_probe.Owner(id=int(found.producer_id), epoch=int(found.producer_epoch))

    def commit_empty(self, owner: target_probe.Owner) -> target_probe.Refused | None:
        self._marker_from = self.end()
        added = self._patiently(
            self._to,
            messages.add_partitions_to_txn(
                self._to.key,
                producer_id=owner.id,
                epoch=owner.epoch,
                topics={self._topic: [0]},
            ),
        )
        if isinstance(added, target_probe.Refused):
            return added
        ended = self._patiently(
            self._to,
            messages.end_txn(self._to.key, producer_id=owner.id, epoch=owner.epoch, committed=True),
        )
        return ended if isinstance(ended, target_probe.Refused) else None

    def marker_seen(self, owner: target_probe.Owner) -> bool:
        end_s = self._clock.now_s() + _MARKER_S
        at = self._marker_from
        while self._clock.now_s() < end_s:
            fetched = memoryview(self._questions.fetch(self._topic, at).records)
            for header, _ in record_sets.batches(fetched):
                at = max(at, header.last_offset + 1)
                ours = (header.producer_id, header.producer_epoch) == (owner.id, owner.epoch)
                if header.is_control and ours:
                    return True
        return False

    def end(self) -> int:
        node = targets.Node(self._questions.leader(self._topic))
        query = messages.OffsetQuery(partition=0, timestamp=_LATEST)
        message = messages.list_offsets({self._topic: [query]}, read_committed=False)
        ((found,),) = (each.partitions for each in self._questions.ask(node, message).topics)
        if int(found.error_code):
            raise errors.RetriableError(
                f"asking for the end of {self._topic}: {failures.error_name(found.error_code)}"
            )
        return int(found.offset)

    def send(self, owner: target_probe.Owner, sequence: int) -> int | target_probe.Refused:
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
            return target_probe.Refused(code=answer.error_code)
        self._sent = bytes(batch[record_batch.CRC_START :])
        return answer.base_offset

    def unchanged(self, offset: int) -> bool:
        fetched = memoryview(self._questions.fetch(self._topic, offset).records)
        return any(
            header.base_offset == offset and batch[record_batch.CRC_START :] == self._sent
            for header, batch in record_sets.batches(fetched)
        )

    def _patiently(self, to: targets.Target, message: messages.Message) -> Any:
        """The answer, or `Refused`; coordinators ask for patience while they load or are busy."""

        def settled() -> Any | None:
            try:
                body = self._questions.ask(to, message)
            except failures.CoordinatorRefused as refused:
                return target_probe.Refused(code=refused.error_code)
            code = _code(body)
            if code in _MOVED:
                self._questions.forget_coordinator(self._to)
            if code in _BUSY:
                return None
            return target_probe.Refused(code=code) if code else body

        return self._questions.until(settled, f"{message.api} for {to}")


def _code(body: Any) -> int:
    if hasattr(body, "error_code"):
        return int(body.error_code)
    ((result,),) = (each.results_by_partition for each in body.results_by_topic_v3_and_below)
    return int(result.partition_error_code)
