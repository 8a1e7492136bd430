"""One partition of a real target under one transactional id: new epochs, and the empty transaction
that fences those before.

The rules are those of `core/copy/fence`, for shells that have one partition and time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from connect_runtime.wire.codec import failures, messages, targets
from mm2.formats import record_batch, record_sets
from mm2.pipeline import single_questions

_BUSY = frozenset({14, 15, 16, 51})
_MOVED = frozenset({15, 16})
_MARKER_S = 10.0
_TRANSACTION_TIMEOUT_MS = 60_000
_LATEST = -1
_EARLIEST = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A producer id and epoch."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A Kafka error code."""

    code: int

    def __str__(self) -> str:
        return failures.error_name(self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedOut:
    """All before `owner` write no more: its marker stands at the offset `marker`, of a batch of
    this leader epoch."""

    owner: Owner
    marker: int
    leader_epoch: int


class FencedPartition:
    """Every call waits, and raises `ConnectError` when nobody answers."""

    def __init__(
        self,
        questions: single_questions.SingleQuestions,
        partition: ids.TopicPartition,
        *,
        transactional_id: str,
        clock: base_clock.Clock,
    ) -> None:
        self.questions = questions
        self.partition = partition
        self._to = targets.Coordinator(targets.TRANSACTION, transactional_id)
        self._clock = clock

    def new_owner(self) -> Owner | Refused:
        """InitProducerId with the transactional id."""
        return self._owner(
            self._to, messages.init_producer_id(self._to.key, _TRANSACTION_TIMEOUT_MS)
        )

    def new_plain_owner(self) -> Owner | Refused:
        """InitProducerId without a transactional id: nobody can fence it."""
        message = messages.init_producer_id(None, _TRANSACTION_TIMEOUT_MS)
        return self._owner(targets.AnyNode(), message)

    def commit_empty(self, owner: Owner) -> Refused | None:
        """A transaction with nothing in it."""
        place = {self.partition.topic: [self.partition.partition]}
        added = self._patiently(
            self._to,
            messages.add_partitions_to_txn(
                self._to.key, producer_id=owner.id, epoch=owner.epoch, topics=place
            ),
        )
        if isinstance(added, Refused):
            return added
        ended = self._patiently(
            self._to,
            messages.end_txn(self._to.key, producer_id=owner.id, epoch=owner.epoch, committed=True),
        )
        return ended if isinstance(ended, Refused) else None

    def lock_out(self) -> LockedOut | Refused | None:
        """A new owner, an empty transaction of its own, and the marker read back. None: that could
        not be read."""
        start = self.end()
        owner = self.new_owner()
        if isinstance(owner, Refused):
            return owner
        if (refused := self.commit_empty(owner)) is not None:
            return refused
        marker = self.marker_of(owner, start=start)
        if marker is None:
            return None
        return LockedOut(owner=owner, marker=marker.base_offset, leader_epoch=marker.leader_epoch)

    def marker_of(self, owner: Owner, *, start: int) -> record_batch.BatchHeader | None:
        """The marker of its empty transaction, at `start` or behind; None: it could not be read
        within a deadline. Everything before it is final."""
        end_s = self._clock.now_s() + _MARKER_S
        at = start
        while self._clock.now_s() < end_s:
            for header in self.headers(at):
                at = max(at, header.last_offset + 1)
                ours = (header.producer_id, header.producer_epoch) == (owner.id, owner.epoch)
                if header.is_control and ours and header.base_offset >= start:
                    return header
        return None

    def headers(self, offset: int) -> list[record_batch.BatchHeader]:
        """Of the batches that can be read from there on, as many as one answer holds."""
        return [header for header, _ in self.batches(offset)]

    def batches(self, offset: int) -> list[tuple[record_batch.BatchHeader, memoryview]]:
        """Those that can be read from there on, uncommitted too, as many as one answer holds."""
        place = self.partition
        fetched = self.questions.fetch(place.topic, offset, partition=place.partition)
        return list(record_sets.batches(memoryview(fetched.records)))

    def start(self) -> int:
        """The offset of the first batch that is still there."""
        return self._listed(_EARLIEST, "start")

    def end(self) -> int:
        """The offset that the next batch gets."""
        return self._listed(_LATEST, "end")

    def _listed(self, timestamp: int, what: str) -> int:
        place = self.partition
        node = targets.Node(self.questions.leader(place.topic, place.partition))
        query = messages.OffsetQuery(partition=place.partition, timestamp=timestamp)
        message = messages.list_offsets({place.topic: [query]}, read_committed=False)
        ((found,),) = (each.partitions for each in self.questions.ask(node, message).topics)
        if int(found.error_code):
            raise single_questions.AnsweredError(
                f"asking for the {what} of {place}", int(found.error_code)
            )
        return int(found.offset)

    def _owner(self, to: targets.Target, message: messages.Message) -> Owner | Refused:
        found = self._patiently(to, message)
        if isinstance(found, Refused):
            return found
        return Owner(id=int(found.producer_id), epoch=int(found.producer_epoch))

    def _patiently(self, to: targets.Target, message: messages.Message) -> Any:
        """The answer, or `Refused`; coordinators ask for patience while they load or are busy."""

        def settled() -> Any | None:
            try:
                body = self.questions.ask(to, message)
            except failures.CoordinatorRefused as refused:
                return Refused(code=refused.error_code)
            code = _code(body)
            if code in _MOVED:
                self.questions.forget_coordinator(self._to)
            if code in _BUSY:
                return None
            return Refused(code=code) if code else body

        return self.questions.until(settled, f"{message.api} for {to}")


def _code(body: Any) -> int:
    if hasattr(body, "error_code"):
        return int(body.error_code)
    ((result,),) = (each.results_by_partition for each in body.results_by_topic_v3_and_below)
    return int(result.partition_error_code)
