"""Reads a shared log from its beginning and goes on: one consumer on one thread.

No group and no stored position: the log itself is the state. Where reading has come to is kept for
others to wait on; behind compacted or transactional offsets only the library knows that the end is
reached, so it is asked to say so (`enable.partition.eof`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import confluent_kafka

from connect_runtime.adapters.kafka import log_mark
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.kafka_client import translate_errors
from connect_runtime.ports import shared_log

_LOG = logging.getLogger(__name__)
_CONSUMER: Mapping[str, object] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "check.crcs": True,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,
}
_POLL_S = 0.2
_BATCH = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """By partition, the first offset that is there, and the one behind the last."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]


class LogReader:
    """One consumer's life. `run` is the body of its thread; other threads wait for what it does.

    Invariant: the listener was told every record below `_positions`.
    """

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        topic: str,
        client_id: str,
        committed_only: bool,
        clock: base_clock.Clock,
        listener: shared_log.Listener,
        span: Callable[[], Span],
    ) -> None:
        """`span` asks where the log begins and ends now; needed anew when it starts over."""
        self._where = access.where
        self._topic = topic
        self._clock = clock
        self._listener = listener
        self._span = span
        self._reports = translate_errors.ConnectionReports()
        self._moved = threading.Condition()
        self._positions: dict[int, int] = {}
        self._replay_to: Mapping[int, int] | None = None
        self._trouble: errors.ConnectError | None = None
        self._troubles = 0
        self._ended: BaseException | None = None
        self._consumer = kafka_clients.consumer(
            access,
            client_id=client_id,
            settings={
                **_CONSUMER,
                "group.id": client_id,  # the library wants one; no group is ever used
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            },
            reports=self._reports,
        )

    def begin(self, span: Span) -> None:
        """Before `run`: all that is in `span` is the past, and told as such."""
        self._assign(span)

    def run(self, stop: threading.Event) -> None:
        """Read until stopped; then let go of the consumer."""
        try:
            self._look_whether_replayed()
            while not stop.is_set():
                first = self._consumer.poll(_POLL_S)
                if first is None:
                    self._note(self._reports.refused())
                else:
                    self._take_all([first, *self._consumer.consume(_BATCH, 0)], stop)
        finally:
            self._consumer.close()

    def ended(self, why: BaseException) -> None:
        """The thread is no more: nobody needs to wait for it."""
        with self._moved:
            self._ended = why
            self._moved.notify_all()

    def wait_replayed(self, end: base_deadline.Deadline) -> None:
        """Until the past was told. Raises as `SharedLog.start`."""
        self._wait(lambda: self._replay_to is None, end)

    def wait_for(self, ends: Mapping[int, int], end: base_deadline.Deadline) -> None:
        """Until everything before `ends` was told. Raises as `SharedLog.read_to_end`."""
        self._wait(lambda: self._is_past(ends), end)

    def _wait(self, reached: Callable[[], bool], end: base_deadline.Deadline) -> None:
        with self._moved:
            troubles = self._troubles
            self._moved.wait_for(
                lambda: reached() or self._is_hopeless(troubles),
                timeout=end.left_s(self._clock.now_s()),
            )
            if reached():
                return
            if self._ended is not None:
                raise errors.FatalError(
                    f"reading {self._topic} on {self._where}: this worker reads it no more: "
                    f"{self._ended}; restart the worker"
                ) from self._ended
            if self._trouble is not None and self._troubles > troubles:
                raise self._trouble
        raise self._translated(self._reports.reason() or translate_errors.timed_out())

    def _is_hopeless(self, troubles: int) -> bool:
        """Refused since the wait began, or nobody reads any more."""
        refused = isinstance(
            self._trouble, kafka_errors.AuthenticationError | kafka_errors.NotAuthorizedError
        )
        return self._ended is not None or (refused and self._troubles > troubles)

    def _is_past(self, ends: Mapping[int, int]) -> bool:
        return all(self._positions.get(each, 0) >= offset for each, offset in ends.items())

    def _assign(self, span: Span) -> None:
        """At numbers: the library takes half a second to find a beginning by itself."""
        self._positions = dict(span.starts)
        self._replay_to = span.ends
        self._consumer.assign(
            [
                confluent_kafka.TopicPartition(self._topic, partition, offset)
                for partition, offset in span.starts.items()
            ]
        )

    def _take_all(self, messages: list[confluent_kafka.Message], stop: threading.Event) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self._tell(message)
            elif error.code() == translate_errors.PARTITION_EOF:
                self._advance(message.partition(), message.offset())
            elif error.code() in translate_errors.OUT_OF_RANGE:
                self._start_over(error, stop)
                self._look_whether_replayed()
                break  # what is left was read before that
            else:
                self._failed(error, message)
            self._look_whether_replayed()
        with self._moved:
            self._moved.notify_all()

    def _tell(self, message: confluent_kafka.Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._listener.on_record(
            shared_log.LogRecord(
                topic=self._topic,
                partition=partition,
                offset=offset,
                key=message.key(),
                value=message.value(),
                ours=log_mark.is_ours(message),
                wall_ms=log_mark.wall_ms(message),
            )
        )
        self._advance(partition, offset + 1)

    def _advance(self, partition: int | None, offset: int | None) -> None:
        if partition is not None and offset is not None:
            self._positions[partition] = max(self._positions.get(partition, 0), offset)
            self._reports.forget()

    def _look_whether_replayed(self) -> None:
        if self._replay_to is not None and self._is_past(self._replay_to):
            self._listener.on_replayed()
            with self._moved:
                self._replay_to = None
                self._moved.notify_all()

    def _start_over(self, error: confluent_kafka.KafkaError, stop: threading.Event) -> None:
        _LOG.error(
            "%s: records that were read are gone: the topic was truncated, or deleted and made "
            "again. It is read again from its beginning",
            self._translated(error),
        )
        span = self._ask_for_span(stop)
        if span is not None:
            self._listener.on_start_over()
            self._assign(span)

    def _ask_for_span(self, stop: threading.Event) -> Span | None:
        """None: stopped meanwhile."""
        while not stop.is_set():
            try:
                return self._span()
            except errors.RetriableError as failure:
                self._fail(failure)
                stop.wait(_POLL_S)
        return None

    def _failed(self, error: confluent_kafka.KafkaError, message: confluent_kafka.Message) -> None:
        if error.code() in translate_errors.GROUP_TROUBLE:
            return  # no group is used: the right to one is not needed
        if error.code() in translate_errors.DAMAGED:
            _LOG.error(
                "reading %s-%s at offset %s: %s; skipping what cannot be read",
                self._topic,
                message.partition(),
                message.offset(),
                error.str(),
            )
            return
        self._note(error)

    def _note(self, error: confluent_kafka.KafkaError | None) -> None:
        if error is not None:
            self._fail(self._translated(error))

    def _fail(self, failure: errors.ConnectError) -> None:
        with self._moved:
            self._trouble = failure
            self._troubles += 1
            self._moved.notify_all()

    def _translated(self, error: confluent_kafka.KafkaError) -> errors.ConnectError:
        doing = f"reading {self._topic}"
        return translate_errors.translate(error, doing, where=self._where, reports=self._reports)
