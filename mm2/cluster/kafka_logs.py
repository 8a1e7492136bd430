"""Adapter of `logs.Logs`: ends by confluent-kafka's AdminClient, times by a consumer of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent import futures
from typing import Any

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import translate_errors
from mm2.cluster import admin_calls, logs
from mm2.core.offsets import log_ends

_EARLIEST = library.OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = library.OffsetSpec.latest()  # type: ignore[no-untyped-call]
_COMMITTED = confluent_kafka.IsolationLevel.READ_COMMITTED
_AT_ONCE = 1000
_NO_OFFSET = -1
_TAIL = 16
"""The last record is looked for among so many offsets, then among as many times more: what stands
behind it are markers."""
_CONSUMER: dict[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",  # what retention took meanwhile: the first that is left
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 10,
    "fetch.message.max.bytes": 16_384,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 16_384,
}


class KafkaLogs:
    """Implements `logs.Logs`. The consumer is made when times are asked for first."""

    def __init__(
        self, access: kafka_access.Access, *, client_id: str, clock: base_clock.Clock
    ) -> None:
        self._access = access
        self._client_id = client_id
        self._clock = clock
        self._calls = admin_calls.AdminCalls(access, client_id=client_id, clock=clock)
        self._reports = translate_errors.ConnectionReports()
        self._consumer: confluent_kafka.Consumer | None = None

    def ends(
        self, partitions: Collection[ids.TopicPartition], timeout_s: float
    ) -> logs.PerPartition[log_ends.Ends]:
        """See `logs.Logs`; so for all below."""
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        starts, no_start = self._offsets(
            dict.fromkeys(partitions, _EARLIEST), timeout_s, doing="asking for the start of"
        )
        written, no_last = self._offsets(
            dict.fromkeys(starts, _LATEST),
            end.left_s(self._clock.now_s()),
            doing="asking for the end of",
            isolation=confluent_kafka.IsolationLevel.READ_UNCOMMITTED,
        )
        # Later: what is written meanwhile is no transaction that is open.
        ends, no_end = self._offsets(
            dict.fromkeys(written, _LATEST),
            end.left_s(self._clock.now_s()),
            doing="asking for the last stable offset of",
        )
        found = {
            each: log_ends.Ends(
                start=starts[each],
                end=max(starts[each], ends[each]),
                pending=max(0, written[each] - max(starts[each], ends[each])),
            )
            for each in ends
        }
        return logs.PerPartition(done=found, failed={**no_start, **no_last, **no_end})

    def offsets_at(
        self, moments_ms: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> logs.PerPartition[int | None]:
        specs = {
            each: library.OffsetSpec.for_timestamp(moment) for each, moment in moments_ms.items()
        }
        done, failed = self._offsets(specs, timeout_s, doing="looking for a time in")
        found = {each: None if at == _NO_OFFSET else at for each, at in done.items()}
        return logs.PerPartition(done=found, failed=failed)

    def times_ms(
        self, offsets: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> Mapping[ids.TopicPartition, int]:
        found: dict[ids.TopicPartition, int] = {}

        def take(place: ids.TopicPartition, message: confluent_kafka.Message) -> bool:
            if (time_ms := _time(message)) is not None:
                found[place] = time_ms
            return True

        self._read(
            offsets, base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s()), take
        )
        return found

    def newest_ms(
        self, ends: Mapping[ids.TopicPartition, log_ends.Ends], timeout_s: float
    ) -> Mapping[ids.TopicPartition, int]:
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        found: dict[ids.TopicPartition, int] = {}

        def take(place: ids.TopicPartition, message: confluent_kafka.Message) -> bool:
            if (time_ms := _time(message)) is not None:
                found[place] = time_ms
            return message.error() is not None or (message.offset() or 0) >= ends[place].end - 1

        asked = {
            each: max(at.start, at.end - _TAIL) for each, at in ends.items() if at.start < at.end
        }
        while asked and not end.passed(self._clock.now_s()):
            self._read(asked, end, take)
            asked = {  # further back, where markers alone were found
                each: max(ends[each].start, ends[each].end - _TAIL * (ends[each].end - at))
                for each, at in asked.items()
                if each not in found and at > ends[each].start
            }
        return found

    def close(self) -> None:
        self._calls.close()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _read(
        self,
        offsets: Mapping[ids.TopicPartition, int],
        end: base_deadline.Deadline,
        take: Callable[[ids.TopicPartition, confluent_kafka.Message], bool],
    ) -> None:
        """Committed records from these offsets on; `take` is given each, and what else is said of
        its partition, until it returns True for that one."""
        if not offsets:
            return
        consumer = self._reading()
        consumer.assign(
            [
                confluent_kafka.TopicPartition(each.topic, each.partition, offset)
                for each, offset in offsets.items()
            ]
        )
        waiting = set(offsets)
        try:
            while waiting and not end.passed(self._clock.now_s()):
                message = consumer.poll(min(0.1, end.left_s(self._clock.now_s())))
                if message is None:
                    continue
                place = ids.TopicPartition(message.topic() or "", message.partition() or 0)
                if place in waiting and self._says(message) and take(place, message):
                    waiting.discard(place)
                    consumer.incremental_unassign(
                        [confluent_kafka.TopicPartition(place.topic, place.partition)]
                    )
        finally:
            consumer.unassign()

    @staticmethod
    def _says(message: confluent_kafka.Message) -> bool:
        """Is this the last word on its partition: a record, its end, or what waiting does not
        heal?"""
        error = message.error()
        return error is None or not translate_errors.is_retriable(error)

    def _reading(self) -> confluent_kafka.Consumer:
        if self._consumer is None:
            self._consumer = kafka_clients.consumer(
                self._access,
                client_id=self._client_id,
                settings={**_CONSUMER, "group.id": self._client_id},
                reports=self._reports,
            )
        return self._consumer

    def _offsets(
        self,
        specs: Mapping[ids.TopicPartition, library.OffsetSpec],
        timeout_s: float,
        *,
        doing: str,
        isolation: confluent_kafka.IsolationLevel = _COMMITTED,
    ) -> tuple[dict[ids.TopicPartition, int], dict[ids.TopicPartition, errors.ConnectError]]:
        def request(
            chunk: Sequence[ids.TopicPartition], left_s: float
        ) -> Mapping[ids.TopicPartition, futures.Future[Any]]:
            waiting = self._calls.client.list_offsets(
                {
                    confluent_kafka.TopicPartition(each.topic, each.partition): specs[each]
                    for each in chunk
                },
                isolation_level=isolation,
                request_timeout=left_s,
            )
            return {
                ids.TopicPartition(each.topic, each.partition): future
                for each, future in waiting.items()
            }

        done, failed = self._calls.each(
            specs, request, timeout_s, doing=doing, read=_offset, at_once=_AT_ONCE
        )
        # Of a leader that did not answer the library says neither offset nor error.
        for each in [each for each, offset in done.items() if offset < _NO_OFFSET]:
            del done[each]
            failed[each] = errors.RetriableError(f"{doing} {each}: its leader did not answer")
        return done, failed


def _offset(answer: library.ListOffsetsResultInfo) -> int:
    return int(answer.offset)


def _time(message: confluent_kafka.Message) -> int | None:
    kind, timestamp_ms = message.timestamp()
    if message.error() is not None or kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE:
        return None
    return int(timestamp_ms)
