"""Log offset client: fetches start and end offsets with ListOffsets, and reads record timestamps
with a consumer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent import futures
from typing import Any

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import ConnectionReports
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from mm2.kafka.batched_admin_requests import BatchedAdminClient
from mm2.kafka.client_interfaces import PerPartitionResult
from mm2.offsets.log_bounds import LogBounds

_EARLIEST = library.OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = library.OffsetSpec.latest()  # type: ignore[no-untyped-call]
_READ_COMMITTED = confluent_kafka.IsolationLevel.READ_COMMITTED
_MAX_PARTITIONS_PER_REQUEST = 1000
_NO_OFFSET = -1
_TAIL_RECORDS = 16
"""Number of offsets before the end in which the last record is searched first. Each further attempt
multiplies the range by this number, because the offsets at the end may be transaction markers."""
_CONSUMER_CONFIG: dict[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",  # retention may delete offsets meanwhile
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 10,
    "fetch.message.max.bytes": 16_384,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 16_384,
}


class KafkaLogOffsets:
    """Implementation of `LogOffsets`. The consumer is created when timestamps are first
    requested."""

    def __init__(self, access: KafkaClusterAccess, *, client_id: str, clock: Clock) -> None:
        self._access = access
        self._client_id = client_id
        self._clock = clock
        self._calls = BatchedAdminClient(access, client_id=client_id, clock=clock)
        self._reports = ConnectionReports()
        self._consumer: confluent_kafka.Consumer | None = None

    def fetch_bounds(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> PerPartitionResult[LogBounds]:
        """Fetch the log bounds. `LogOffsets` documents this method and the methods below."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        starts, no_start = self._list_offsets(
            dict.fromkeys(partitions, _EARLIEST), timeout_s, doing="reading the log start of"
        )
        written, no_last = self._list_offsets(
            dict.fromkeys(starts, _LATEST),
            end.remaining_s(self._clock.now_s()),
            doing="reading the log end of",
            isolation=confluent_kafka.IsolationLevel.READ_UNCOMMITTED,
        )
        # The last stable offset comes later, so records written meanwhile do not count as an open
        # transaction.
        ends, no_end = self._list_offsets(
            dict.fromkeys(written, _LATEST),
            end.remaining_s(self._clock.now_s()),
            doing="reading the last stable offset of",
        )
        found = {
            each: LogBounds(
                start=starts[each],
                end=max(starts[each], ends[each]),
                pending=max(0, written[each] - max(starts[each], ends[each])),
            )
            for each in ends
        }
        return PerPartitionResult(succeeded=found, failed={**no_start, **no_last, **no_end})

    def find_offsets_by_time(
        self, moments_ms: Mapping[TopicPartition, int], timeout_s: float
    ) -> PerPartitionResult[int | None]:
        specs = {
            each: library.OffsetSpec.for_timestamp(moment) for each, moment in moments_ms.items()
        }
        done, failed = self._list_offsets(specs, timeout_s, doing="finding a timestamp in")
        found = {each: None if at == _NO_OFFSET else at for each, at in done.items()}
        return PerPartitionResult(succeeded=found, failed=failed)

    def read_timestamps(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}

        def accept(place: TopicPartition, message: confluent_kafka.Message) -> bool:
            if (time_ms := _to_timestamp_ms(message)) is not None:
                found[place] = time_ms
            return True

        self._consume_records(offsets, Deadline.after(timeout_s, now_s=self._clock.now_s()), accept)
        return found

    def read_newest_timestamps(
        self, ends: Mapping[TopicPartition, LogBounds], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        found: dict[TopicPartition, int] = {}

        def accept(place: TopicPartition, message: confluent_kafka.Message) -> bool:
            if (time_ms := _to_timestamp_ms(message)) is not None:
                found[place] = time_ms
            return message.error() is not None or (message.offset() or 0) >= ends[place].end - 1

        positions = {
            each: max(at.start, at.end - _TAIL_RECORDS)
            for each, at in ends.items()
            if at.start < at.end
        }
        while positions and not end.is_expired(self._clock.now_s()):
            self._consume_records(positions, end, accept)
            positions = {  # further back if only markers were found
                each: max(ends[each].start, ends[each].end - _TAIL_RECORDS * (ends[each].end - at))
                for each, at in positions.items()
                if each not in found and at > ends[each].start
            }
        return found

    def close(self) -> None:
        self._calls.close()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _consume_records(
        self,
        offsets: Mapping[TopicPartition, int],
        end: Deadline,
        accept: Callable[[TopicPartition, confluent_kafka.Message], bool],
    ) -> None:
        """Read committed records from these offsets. Calls `accept` with each message of a
        partition until it returns True for that partition."""
        if not offsets:
            return
        consumer = self._get_consumer()
        consumer.assign(
            [
                confluent_kafka.TopicPartition(each.topic, each.partition, offset)
                for each, offset in offsets.items()
            ]
        )
        waiting = set(offsets)
        try:
            while waiting and not end.is_expired(self._clock.now_s()):
                message = consumer.poll(min(0.1, end.remaining_s(self._clock.now_s())))
                if message is None:
                    continue
                place = TopicPartition(message.topic() or "", message.partition() or 0)
                if place in waiting and self._is_final_message(message) and accept(place, message):
                    waiting.discard(place)
                    consumer.incremental_unassign(
                        [confluent_kafka.TopicPartition(place.topic, place.partition)]
                    )
        finally:
            consumer.unassign()

    @staticmethod
    def _is_final_message(message: confluent_kafka.Message) -> bool:
        """Return True if the message is a record, an end-of-partition event, or a permanent
        error."""
        error = message.error()
        return error is None or not client_errors.is_retriable(error)

    def _get_consumer(self) -> confluent_kafka.Consumer:
        if self._consumer is None:
            self._consumer = librdkafka_clients.create_consumer(
                self._access,
                client_id=self._client_id,
                settings={**_CONSUMER_CONFIG, "group.id": self._client_id},
                reports=self._reports,
            )
        return self._consumer

    def _list_offsets(
        self,
        specs: Mapping[TopicPartition, library.OffsetSpec],
        timeout_s: float,
        *,
        doing: str,
        isolation: confluent_kafka.IsolationLevel = _READ_COMMITTED,
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ConnectError]]:
        def request(
            chunk: Sequence[TopicPartition], left_s: float
        ) -> Mapping[TopicPartition, futures.Future[Any]]:
            waiting = self._calls.client.list_offsets(
                {
                    confluent_kafka.TopicPartition(each.topic, each.partition): specs[each]
                    for each in chunk
                },
                isolation_level=isolation,
                request_timeout=left_s,
            )
            return {
                TopicPartition(each.topic, each.partition): future
                for each, future in waiting.items()
            }

        done, failed = self._calls.send_batched_requests(
            specs,
            request,
            timeout_s,
            operation=doing,
            read=_to_offset,
            batch_size=_MAX_PARTITIONS_PER_REQUEST,
        )
        # For a leader that did not respond, librdkafka returns neither an offset nor an error.
        for each in [each for each, offset in done.items() if offset < _NO_OFFSET]:
            del done[each]
            failed[each] = RetriableError(f"{doing} {each}: the leader did not respond")
        return done, failed


def _to_offset(answer: library.ListOffsetsResultInfo) -> int:
    return int(answer.offset)


def _to_timestamp_ms(message: confluent_kafka.Message) -> int | None:
    kind, timestamp_ms = message.timestamp()
    if message.error() is not None or kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE:
        return None
    return int(timestamp_ms)
