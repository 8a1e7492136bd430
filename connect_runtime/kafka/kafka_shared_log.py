"""Shared log on a topic (Java: KafkaBasedLog): a consumer that reads the topic to its end, and a
producer.

The consumer reads from the beginning, without a group or committed offsets, because the log itself
is the state. The last offsets of a partition may have no records because of compaction or
transaction markers. librdkafka can detect the end even then, so its setting `enable.partition.eof`
is on. Concurrent end-offset requests of many tasks are combined.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import confluent_kafka

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka import (
    client_errors,
    internal_topic_writer,
    librdkafka_clients,
    librdkafka_connection_settings,
)
from connect_runtime.kafka.client_errors import (
    AuthenticationError,
    NotAuthorizedError,
    RecentConnectionErrors,
)
from connect_runtime.kafka.internal_topic_writer import LogRetryPolicy, SharedLogWriter
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import LogListener, OnRecorded, SharedLogRecord
from connect_runtime.system import system_clock
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd

EndOffsets = Mapping[int, int]


class EndOffsetsQuery:
    """Fetches a log's end offsets. Combines the requests of tasks that start at the same time.

    `fetch_end_offsets` never returns the response to a request that was already in flight when it
    was called, because that response may not include the caller's last record.
    """

    def __init__(self, ask: Callable[[Deadline], EndOffsets], *, clock: Clock) -> None:
        self._request_end_offsets = ask
        self._clock = clock
        self._changed = threading.Condition()
        self._begun = 0
        self._under_way = False
        self._answered = 0
        self._ends: EndOffsets = {}

    def fetch_end_offsets(self, end: Deadline) -> EndOffsets:
        """Return the log's current end offsets. Raises `RetriableError` after the deadline."""
        with self._changed:
            wanted = self._begun + 1
            self._changed.wait_for(
                lambda: self._answered >= wanted or not self._under_way,
                timeout=end.remaining_s(self._clock.now_s()),
            )
            if self._answered >= wanted:
                return self._ends
            if self._under_way:
                raise RetriableError(
                    "requesting the end offsets of a log: an earlier request is still pending"
                )
            self._under_way = True
            self._begun += 1
        ends: EndOffsets | None = None
        try:
            ends = self._request_end_offsets(end)
        finally:
            with self._changed:
                self._under_way = False
                if ends is not None:
                    self._answered, self._ends = self._begun, ends
                self._changed.notify_all()
        return ends


_LOG = logging.getLogger(__name__)
_CONSUMER_SETTINGS: Mapping[str, object] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "check.crcs": True,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,
}
_CONSUMER_POLL_S = 0.2
_WARNING_INTERVAL_S = 60.0
_MAX_BATCH_RECORDS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsetRanges:
    """Start offsets and end offsets (exclusive) by partition."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]


class SharedLogReader:
    """Consumer of a shared log. `run_reader_thread` is its thread body; other threads can wait for
    its progress.

    Invariant: the listener has received every record below `_positions`.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        topic: str,
        client_id: str,
        committed_only: bool,
        clock: Clock,
        listener: LogListener,
        request_ranges: Callable[[], LogOffsetRanges],
    ) -> None:
        """Create the reader. `request_ranges` returns the current offset ranges; it is called
        before the log is reread from the start."""
        self._where = access.name_and_addresses
        self._topic = topic
        self._clock = clock
        self._listener = listener
        self._span = request_ranges
        self._reports = RecentConnectionErrors()
        self._moved = threading.Condition()
        self._positions: dict[int, int] = {}
        self._replay_to: Mapping[int, int] | None = None
        self._failure: ConnectError | None = None
        self._failure_count = 0
        self._next_warning_s = -math.inf
        self._ended: BaseException | None = None
        self._consumer = librdkafka_clients.create_consumer(
            access,
            client_id=client_id,
            settings={
                **_CONSUMER_SETTINGS,
                "group.id": client_id,  # required by librdkafka; no group is used
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            },
            reports=self._reports,
        )

    def assign_partitions(self, span: LogOffsetRanges) -> None:
        """Assign the log's partitions to the consumer. Call before `run_reader_thread`.

        `span` contains the log's offset ranges at the start. The log counts as replayed once all
        records in these ranges have been read.
        """
        self._assign_start_offsets(span)

    def run_reader_thread(self, stop: threading.Event) -> None:
        """Read the log until stopped, then close the consumer."""
        try:
            self._check_replay_completed()
            while not stop.is_set():
                messages = self._poll_messages(stop)
                if messages:
                    self._handle_messages(messages, stop)
                else:
                    self._record_error(self._reports.get_security_error())
        finally:
            self._consumer.close()

    def _poll_messages(self, stop: threading.Event) -> list[confluent_kafka.Message]:
        """Return the next messages.

        If a failure may have made librdkafka drop messages, return an empty list after a short
        pause. The next call resumes after the last message that was handled.
        """
        try:
            first = self._consumer.poll(_CONSUMER_POLL_S)
            return [] if first is None else [first, *self._consumer.consume(_MAX_BATCH_RECORDS, 0)]
        except RetriableError as failure:
            now_s = self._clock.now_s()
            if now_s >= self._next_warning_s:
                self._next_warning_s = now_s + _WARNING_INTERVAL_S
                _LOG.warning("reading %s: %s; reading again", self._topic, failure)
            self._record_failure(failure)
            stop.wait(_CONSUMER_POLL_S)
            self._assign_partitions_at_positions(self._positions)
            return []

    def mark_thread_ended(self, reason: BaseException) -> None:
        """Record that the reader's thread has exited, and wake all threads that wait for its
        progress."""
        with self._moved:
            self._ended = reason
            self._moved.notify_all()

    def wait_for_initial_replay(self, end: Deadline) -> None:
        """Wait until the log's initial content has been read. Raises the errors of
        `SharedLog.start`."""
        self._wait_for_reader_progress(lambda: self._replay_to is None, end)

    def wait_until_offsets_are_read(self, ends: Mapping[int, int], end: Deadline) -> None:
        """Wait until all records before `ends` have been read. Raises the errors of
        `SharedLog.read_to_end`."""
        self._wait_for_reader_progress(lambda: self._has_read_to_offsets(ends), end)

    def _wait_for_reader_progress(self, reached: Callable[[], bool], end: Deadline) -> None:
        with self._moved:
            troubles = self._failure_count
            self._moved.wait_for(
                lambda: reached() or self._has_permanent_failure(troubles),
                timeout=end.remaining_s(self._clock.now_s()),
            )
            if reached():
                return
            if self._ended is not None:
                raise FatalError(
                    f"reading {self._topic} on {self._where}: this worker has stopped reading the "
                    f"topic: {self._ended}; restart the worker"
                ) from self._ended
            if self._failure is not None and self._failure_count > troubles:
                raise self._failure
        raise self._translate_error(
            self._reports.get_most_specific_error() or client_errors.create_timeout_error()
        )

    def _has_permanent_failure(self, troubles: int) -> bool:
        """Return whether waiting is pointless, because the reader has ended or was denied
        access."""
        refused = isinstance(self._failure, AuthenticationError | NotAuthorizedError)
        return self._ended is not None or (refused and self._failure_count > troubles)

    def _has_read_to_offsets(self, ends: Mapping[int, int]) -> bool:
        return all(self._positions.get(each, 0) >= offset for each, offset in ends.items())

    def _assign_start_offsets(self, span: LogOffsetRanges) -> None:
        """Assign explicit start offsets, because librdkafka needs half a second to look up the
        beginning."""
        self._positions = dict(span.starts)
        self._replay_to = span.ends
        self._assign_partitions_at_positions(span.starts)

    def _assign_partitions_at_positions(self, positions: Mapping[int, int]) -> None:
        self._consumer.assign(
            [
                confluent_kafka.TopicPartition(self._topic, partition, offset)
                for partition, offset in positions.items()
            ]
        )

    def _handle_messages(
        self, messages: list[confluent_kafka.Message], stop: threading.Event
    ) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self._deliver_record(message)
            elif error.code() == client_errors.PARTITION_EOF:
                self._advance_position(message.partition(), message.offset())
            elif error.code() in client_errors.OUT_OF_RANGE_ERRORS:
                self._restart_from_beginning(error, stop)
                self._check_replay_completed()
                break  # the remaining messages were read before the reset
            else:
                self._handle_error(error, message)
            self._check_replay_completed()
        with self._moved:
            self._moved.notify_all()

    def _deliver_record(self, message: confluent_kafka.Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._listener.on_record(
            SharedLogRecord(
                topic=self._topic,
                partition=partition,
                offset=offset,
                key=message.key(),
                value=message.value(),
                is_own=internal_topic_writer.is_own_record(message),
                wall_ms=internal_topic_writer.read_timestamp_ms(message),
            )
        )
        self._advance_position(partition, offset + 1)

    def _advance_position(self, partition: int | None, offset: int | None) -> None:
        if partition is not None and offset is not None:
            self._positions[partition] = max(self._positions.get(partition, 0), offset)
            self._reports.clear_errors()

    def _check_replay_completed(self) -> None:
        if self._replay_to is not None and self._has_read_to_offsets(self._replay_to):
            self._listener.on_replay_completed()
            with self._moved:
                self._replay_to = None
                self._moved.notify_all()

    def _restart_from_beginning(
        self, error: confluent_kafka.KafkaError, stop: threading.Event
    ) -> None:
        _LOG.error(
            "%s: records that were already read no longer exist because the topic was truncated, "
            "or deleted and recreated. Rereading the topic from the beginning",
            self._translate_error(error),
        )
        span = self._fetch_offset_ranges(stop)
        if span is not None:
            self._listener.on_log_reset()
            self._assign_start_offsets(span)

    def _fetch_offset_ranges(self, stop: threading.Event) -> LogOffsetRanges | None:
        """Fetch the current offset ranges, retrying transient errors. Return None if stopped."""
        while not stop.is_set():
            try:
                return self._span()
            except RetriableError as failure:
                self._record_failure(failure)
                stop.wait(_CONSUMER_POLL_S)
        return None

    def _handle_error(
        self, error: confluent_kafka.KafkaError, message: confluent_kafka.Message
    ) -> None:
        if error.code() in client_errors.GROUP_ERRORS:
            return  # no group is used, so group permissions are not needed
        if error.code() in client_errors.CORRUPT_BATCH_ERRORS:
            _LOG.error(
                "reading %s-%s at offset %s: %s; skipping the unreadable batch",
                self._topic,
                message.partition(),
                message.offset(),
                client_errors.get_error_text(error),
            )
            return
        self._record_error(error)

    def _record_error(self, error: confluent_kafka.KafkaError | None) -> None:
        if error is not None:
            self._record_failure(self._translate_error(error))

    def _record_failure(self, failure: ConnectError) -> None:
        with self._moved:
            self._failure = failure
            self._failure_count += 1
            self._moved.notify_all()

    def _translate_error(self, error: confluent_kafka.KafkaError) -> ConnectError:
        doing = f"reading {self._topic}"
        return client_errors.translate_error(error, doing, where=self._where, reports=self._reports)


_OFFSET_RANGES_TIMEOUT_S = 30.0
_END_OFFSETS_RETRY_DELAY_S = 0.05
_THREADS_STOP_TIMEOUT_S = 10.0

PrepareTopic = Callable[[float], int]
"""Creates and validates the topic within a timeout in seconds; returns its partition count."""

OnLogBroken = Callable[[str], None]
"""Called with the reason when a thread of the log ends unexpectedly. The callback runs on that
thread and should only record the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Read and write options of a log. With `committed_only`, records of open and aborted
    transactions are skipped."""

    retry_policy: LogRetryPolicy = LogRetryPolicy.RETRY_FOREVER
    committed_only: bool = False


_DEFAULT_OPTIONS = LogOptions()


class KafkaSharedLog:
    """Implements `SharedLog` on a topic. `SharedLog` documents the methods.

    `admin` may be shared with other logs and is not closed.

    `on_broken` is called when a thread of the log ends unexpectedly. From then on the log is
    neither read nor written, and its content is outdated.

    Invariant: the reader and the writer either both exist (started) or both do not.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        topic: str,
        client_id: str,
        admin: TopicAdmin,
        prepare: PrepareTopic,
        clock: Clock,
        options: LogOptions = _DEFAULT_OPTIONS,
        on_broken: OnLogBroken = lambda _: None,
    ) -> None:
        self._access = librdkafka_connection_settings.shorten_request_timeout(access)
        self._topic = topic
        self._client_id = client_id
        self._admin = admin
        self._prepare = prepare
        self._clock = clock
        self._manner = options
        self._on_broken = on_broken
        self._threads = ThreadGroup(on_unexpected_end=self._on_thread_ended)
        self._newest = EndOffsetsQuery(
            lambda end: admin.list_end_offsets(topic, self._partitions, end), clock=clock
        )
        self._partitions = 0
        self._stopped = False
        self._grown = False
        self._reader: SharedLogReader | None = None
        self._writer: SharedLogWriter | None = None

    @property
    def name(self) -> str:
        """Return the topic's name."""
        return self._topic

    def start(self, listener: LogListener, timeout_s: float) -> None:
        assert self._reader is None, f"the log of {self._topic} has already been started"
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        self._partitions = self._prepare(timeout_s)
        span = self._fetch_offset_ranges(end)
        self._writer = SharedLogWriter(
            self._access,
            topic=self._topic,
            client_id=self._client_id,
            retry_policy=self._manner.retry_policy,
            clock=self._clock,
        )
        self._reader = SharedLogReader(
            self._access,
            topic=self._topic,
            client_id=self._client_id,
            committed_only=self._manner.committed_only,
            clock=self._clock,
            listener=listener,
            request_ranges=self._fetch_new_offset_ranges,
        )
        self._reader.assign_partitions(span)
        self._threads.start(f"reads {self._topic}", self._reader.run_reader_thread)
        self._threads.start(f"writes {self._topic}", self._writer.run_writer_thread)
        try:
            self._reader.wait_for_initial_replay(end)
        except BaseException:
            self.stop(0.0)
            raise

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        self._get_writer().send(record, on_recorded=on_recorded)

    def read_to_end(self, timeout_s: float) -> None:
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        writer, reader = self._get_writer(), self._reader
        assert reader is not None
        if self._stopped:
            raise FatalError(f"reading {self._topic} to its end: the log was stopped")
        writer.wait_for_acknowledgements(end)
        reader.wait_until_offsets_are_read(self._fetch_end_offsets(writer, end), end)

    def stop(self, timeout_s: float) -> None:
        writer, reader = self._writer, self._reader
        if writer is None or reader is None:
            return
        self._stopped = True
        writer.close(timeout_s)
        running = self._threads.stop_all(_THREADS_STOP_TIMEOUT_S)
        if running:
            _LOG.error(
                "the thread that %s did not stop within %.0f s",
                " and ".join(running),
                _THREADS_STOP_TIMEOUT_S,
            )
        reader.mark_thread_ended(FatalError("the log was stopped"))

    def _get_writer(self) -> SharedLogWriter:
        assert self._writer is not None, f"the log of {self._topic} has not been started"
        return self._writer

    def _fetch_end_offsets(self, writer: SharedLogWriter, end: Deadline) -> Mapping[int, int]:
        """Return the log's current end offsets.

        Retries while an end offset is below that of the acknowledged writes, because a former
        leader may respond before it learns that it was replaced.
        """
        known = writer.get_acknowledged_end_offsets()
        self._check_added_partitions(known)
        found: Mapping[int, int] = {}

        def are_end_offsets_current() -> bool:
            nonlocal found
            found = self._newest.fetch_end_offsets(end)
            return all(found.get(each, offset) >= offset for each, offset in known.items())

        left_s = end.remaining_s(self._clock.now_s())
        if not system_clock.wait_until(
            are_end_offsets_current, timeout_s=left_s, interval_s=_END_OFFSETS_RETRY_DELAY_S
        ):
            raise RetriableError(
                f"requesting the end offsets of {self._topic} on {self._admin.where}: "
                f"{dict(found)} is below {dict(known)}, the end of the acknowledged records: the "
                "topic was truncated, or its leader has changed"
            )
        return found

    def _check_added_partitions(self, known: Mapping[int, int]) -> None:
        """Log an error if partitions were added to the topic. They are not read because, as in
        Java, partitions are assigned only once."""
        if not self._grown and any(each >= self._partitions for each in known):
            self._grown = True
            _LOG.error(
                "%s had %s when this worker started, and now has more: restart all workers, because"
                " records in the new partitions are not read",
                self._topic,
                plurals.format_count(self._partitions, "partition"),
            )

    def _fetch_offset_ranges(self, end: Deadline) -> LogOffsetRanges:
        return LogOffsetRanges(
            starts=self._admin.list_start_offsets(self._topic, self._partitions, end),
            ends=self._admin.list_end_offsets(self._topic, self._partitions, end),
        )

    def _fetch_new_offset_ranges(self) -> LogOffsetRanges:
        """Fetch the offset ranges after the topic was truncated or recreated.

        Clears the acknowledged end offsets first.
        """
        if self._writer is not None:
            self._writer.clear_acknowledged_end_offsets()
        return self._fetch_offset_ranges(
            Deadline.after(_OFFSET_RANGES_TIMEOUT_S, now_s=self._clock.now_s())
        )

    def _on_thread_ended(self, ended: UnexpectedThreadEnd) -> None:
        reason = ended.error or FatalError("the thread ended without an error")
        _LOG.error("the thread that %s ended: %s", ended.name, reason, exc_info=ended.error)
        if self._reader is not None:
            self._reader.mark_thread_ended(reason)
        self._on_broken(f"the thread that {ended.name} ended: {reason}")
