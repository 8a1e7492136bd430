"""Reads partitions with an ordinary consumer, in bounded memory: the eyes of the proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import confluent_kafka

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, ids
from connect_runtime.kafka_client import translate_errors
from connect_runtime.system import clock as system_clock
from mm2.sandbox import clients, record

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"

_CHUNK_RECORDS = 1_000
_QUEUE_KB = 16_384
_STALL_S = 30.0
_WAIT_S = 0.2
_ANSWER_S = 30.0


class LogReader:
    """Reads one cluster, partition by partition, with one consumer. One thread."""

    def __init__(
        self,
        properties: clients.Properties,
        *,
        alias: str,
        isolation: str = READ_COMMITTED,
        now: base_clock.Clock | None = None,
        stall_s: float = _STALL_S,
    ) -> None:
        self._clients = clients.Clients(properties, alias=alias)
        self._clock = now or system_clock.SystemClock()
        self._stall_s = stall_s
        self._consumer = self._clients.consumer(
            f"proof-{alias}",
            isolation_level=isolation,
            queued_max_messages_kbytes=_QUEUE_KB,
            fetch_wait_max_ms=50,
        )

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0 when there is no such topic."""
        doing = f"looking up topic {topic}"
        metadata = self._asked(doing, lambda: self._consumer.list_topics(topic, timeout=_ANSWER_S))
        found = metadata.topics[topic]
        if found.error is not None and not translate_errors.is_missing_topic(found.error):
            raise self._clients.explain(found.error, doing)
        return len(found.partitions)

    def read(self, partition: ids.TopicPartition) -> Iterator[record.Chunk]:
        """Chunks of records from the log start to what is the end (by isolation level) now.

        One partition at a time. Raises when nothing comes for 30 s, or the cluster refuses.
        """
        start, end = self.bounds(partition)
        if start >= end:
            return
        place = confluent_kafka.TopicPartition(partition.topic, partition.partition, start)
        self._consumer.assign([place])
        try:
            yield from self._chunks(partition, end)
        finally:
            self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _chunks(self, partition: ids.TopicPartition, end: int) -> Iterator[record.Chunk]:
        stalled = self._stalled_after()
        finished = False
        while not finished:
            records, finished = self._taken(partition, self._some_messages(), end)
            if records:
                yield _chunk(records)
                stalled = self._stalled_after()
            elif stalled.passed(self._clock.now_s()):
                raise self._clients.overdue(f"reading {partition} up to offset {end}")

    def _stalled_after(self) -> deadline.Deadline:
        return deadline.Deadline.after(self._stall_s, now_s=self._clock.now_s())

    def _some_messages(self) -> list[Any]:
        """What has arrived, at once; only the first message is waited for.

        Waiting for a full chunk would hold a thousand records of 5 MB in memory.
        """
        messages: list[Any] = self._consumer.consume(_CHUNK_RECORDS, timeout=0)
        return messages or self._consumer.consume(1, timeout=_WAIT_S)

    def _taken(
        self, partition: ids.TopicPartition, messages: Sequence[Any], end: int
    ) -> tuple[list[Any], bool]:
        """Those below `end`, and whether it was reached."""
        records: list[Any] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == translate_errors.PARTITION_EOF:
                # The log may end with markers of transactions, which no consumer sees.
                if message.offset() >= end:
                    return records, True
            elif not (error.retriable() or translate_errors.is_retriable(error)):
                raise self._clients.explain(error, f"reading {partition}")
        if not records or records[-1].offset() < end - 1:
            return records, False
        return [message for message in records if message.offset() < end], True

    def bounds(self, partition: ids.TopicPartition) -> tuple[int, int]:
        """First offset and end; with read_committed the end is the last stable offset."""
        place = confluent_kafka.TopicPartition(partition.topic, partition.partition)
        doing = f"looking up the ends of {partition}"
        start, end = self._asked(
            doing, lambda: self._consumer.get_watermark_offsets(place, timeout=_ANSWER_S)
        )
        return int(start), int(end)

    def _asked(self, doing: str, question: Callable[[], Any]) -> Any:
        return clients.repeated(lambda: self._ask_once(doing, question), timeout_s=_ANSWER_S)

    def _ask_once(self, doing: str, question: Callable[[], Any]) -> Any:
        try:
            answer = question()
        except confluent_kafka.KafkaException as error:
            raise self._clients.explain(error.args[0], doing) from None
        if answer is None:
            raise self._clients.overdue(doing)
        return answer


def _chunk(messages: Sequence[Any]) -> record.Chunk:
    contents = [
        (message.key(), message.value(), message.headers(), message.timestamp())
        for message in messages
    ]
    keys = sum(len(content[0]) for content in contents if content[0])
    return record.Chunk(
        [message.offset() for message in messages], contents, keys + sum(map(len, messages))
    )
