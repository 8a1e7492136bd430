"""Reads partitions with an ordinary consumer, in bounded memory, so that logs can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import confluent_kafka

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import sandbox_clients
from mm2.sandbox.compared_records import RawRecord, RecordChunk
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"

_READ_CHUNK_RECORDS = 1_000
_CONSUMER_QUEUE_KB = 16_384
_STALL_TIMEOUT_S = 30.0
_POLL_TIMEOUT_S = 0.2
_REQUEST_TIMEOUT_S = 30.0


_MALFORMED_HEADERS: Sequence[tuple[str, bytes | None]] = (("(a name that is not UTF-8)", None),)


class ConsumerLogReader:
    """Reads a cluster's partitions one at a time. Not thread-safe."""

    def __init__(
        self,
        properties: ClientProperties,
        *,
        alias: str,
        isolation: str = READ_COMMITTED,
        now: Clock | None = None,
        stall_s: float = _STALL_TIMEOUT_S,
    ) -> None:
        self._clients = SandboxClients(properties, alias=alias)
        self._clock = now or SystemClock()
        self._stall_s = stall_s
        self._consumer = self._clients.create_consumer(
            f"proof-{alias}",
            isolation_level=isolation,
            queued_max_messages_kbytes=_CONSUMER_QUEUE_KB,
            fetch_wait_max_ms=50,
        )

    def count_partitions(self, topic: str) -> int:
        """Return the topic's partition count, or 0 if the topic does not exist."""
        doing = f"looking up topic {topic}"
        metadata = self._retry_request(
            doing, lambda: self._consumer.list_topics(topic, timeout=_REQUEST_TIMEOUT_S)
        )
        found = metadata.topics[topic]
        if found.error is not None and not client_errors.is_missing_topic_error(found.error):
            raise self._clients.create_error(found.error, doing)
        return len(found.partitions)

    def iterate_record_chunks(self, partition: TopicPartition) -> Iterator[RecordChunk]:
        """Yield a partition's records in chunks, from the log start to the current end: the last
        stable offset with read_committed, otherwise the high watermark.

        Finish one partition before reading another. Raises an exception if no record arrives for 30
        s, or if the cluster rejects a request.
        """
        start, end = self.read_log_bounds(partition)
        if start >= end:
            return
        place = confluent_kafka.TopicPartition(partition.topic, partition.partition, start)
        self._consumer.assign([place])
        try:
            yield from self._iterate_record_chunks(partition, end)
        finally:
            self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _iterate_record_chunks(self, partition: TopicPartition, end: int) -> Iterator[RecordChunk]:
        stalled = self._make_stall_deadline()
        finished = False
        while not finished:
            records, finished = self._select_messages_below_end_offset(
                partition, self._poll_messages(), end
            )
            if records:
                yield _make_record_chunk(records)
                stalled = self._make_stall_deadline()
            elif stalled.is_expired(self._clock.now_s()):
                raise self._clients.create_timeout_error(f"reading {partition} up to offset {end}")

    def _make_stall_deadline(self) -> Deadline:
        return Deadline.after(self._stall_s, now_s=self._clock.now_s())

    def _poll_messages(self) -> list[Any]:
        """Return the messages that have arrived. Block until the first message arrives or the poll
        times out.

        The method does not wait for a full chunk, because that could buffer a thousand records of 5
        MB in memory.
        """
        messages: list[Any] = self._consumer.consume(_READ_CHUNK_RECORDS, timeout=0)
        return messages or self._consumer.consume(1, timeout=_POLL_TIMEOUT_S)

    def _select_messages_below_end_offset(
        self, partition: TopicPartition, messages: Sequence[Any], end: int
    ) -> tuple[list[Any], bool]:
        """Return the messages below `end`, and True if `end` was reached."""
        records: list[Any] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == client_errors.PARTITION_EOF:
                # The log may end with transaction markers, which consumers do not see.
                if message.offset() >= end:
                    return records, True
            elif not (error.retriable() or client_errors.is_retriable_error(error)):
                raise self._clients.create_error(error, f"reading {partition}")
        if not records or records[-1].offset() < end - 1:
            return records, False
        return [message for message in records if message.offset() < end], True

    def read_log_bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """Return a partition's log start offset and end offset. With read_committed, the end is the
        last stable offset."""
        place = confluent_kafka.TopicPartition(partition.topic, partition.partition)
        doing = f"looking up the end offsets of {partition}"
        start, end = self._retry_request(
            doing, lambda: self._consumer.get_watermark_offsets(place, timeout=_REQUEST_TIMEOUT_S)
        )
        return int(start), int(end)

    def _retry_request(self, doing: str, request: Callable[[], Any]) -> Any:
        return sandbox_clients.retry_transient_errors(
            lambda: self._execute_request(doing, request), timeout_s=_REQUEST_TIMEOUT_S
        )

    def _execute_request(self, doing: str, request: Callable[[], Any]) -> Any:
        try:
            answer = request()
        except confluent_kafka.KafkaException as error:
            raise self._clients.create_error(error.args[0], doing) from None
        if answer is None:
            raise self._clients.create_timeout_error(doing)
        return answer


def _read_headers(message: Any) -> Sequence[tuple[str, bytes | None]]:
    found = librdkafka_clients.read_headers(message)
    return _MALFORMED_HEADERS if found is None else found


def _make_record_chunk(messages: Sequence[Any]) -> RecordChunk:
    contents: list[RawRecord] = [
        (
            message.key(),
            message.value(),
            _read_headers(message),
            message.timestamp(),
        )
        for message in messages
    ]
    keys = sum(len(content[0]) for content in contents if content[0])
    return RecordChunk(
        [message.offset() for message in messages], contents, keys + sum(map(len, messages))
    )
