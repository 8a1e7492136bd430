"""A shared log over one topic: one consumer that reads it to its end, one producer (KafkaBasedLog).

The consumer reads from the beginning, without a group and without stored positions: the log itself
is the state. Only librdkafka knows that the end is reached behind compacted or transactional
offsets, so `enable.partition.eof` is on. Requests for end offsets that many tasks make at the same
time are combined.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import confluent_kafka

from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors, cluster_access, librdkafka_clients, log_writer
from connect_runtime.kafka.client_errors import (
    AuthenticationError,
    ConnectionReports,
    NotAuthorizedError,
)
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.kafka.log_writer import LogRetryPolicy, SharedLogWriter
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.storage.shared_log import KeyedRecord, LogListener, OnRecorded, SharedLogRecord
from connect_runtime.system import clock
from connect_runtime.system.threads import ThreadDied, ThreadGroup

EndOffsets = Mapping[int, int]


class EndOffsetsQuery:
    """Hundreds of tasks that start at once ask for the same ends: they share questions.

    Nobody is given the answer to a question that was under way when it asked: what it waits for
    may have been written behind that.
    """

    def __init__(self, ask: Callable[[Deadline], EndOffsets], *, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._changed = threading.Condition()
        self._begun = 0
        self._under_way = False
        self._answered = 0
        self._ends: EndOffsets = {}

    def now(self, end: Deadline) -> EndOffsets:
        """Raises what asking raises, `RetriableError` when time is up."""
        with self._changed:
            wanted = self._begun + 1
            self._changed.wait_for(
                lambda: self._answered >= wanted or not self._under_way,
                timeout=end.left_s(self._clock.now_s()),
            )
            if self._answered >= wanted:
                return self._ends
            if self._under_way:
                raise RetriableError("asking for the end of a log: another question hangs")
            self._under_way = True
            self._begun += 1
        ends: EndOffsets | None = None
        try:
            ends = self._ask(end)
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
_MAX_BATCH_RECORDS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsetRanges:
    """By partition, the first offset that is there, and the one behind the last."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]


class SharedLogReader:
    """One consumer's life. `run` is the body of its thread; other threads wait for what it does.

    Invariant: the listener was told every record below `_positions`.
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
        span: Callable[[], LogOffsetRanges],
    ) -> None:
        """`span` asks where the log begins and ends now; needed anew when it starts over."""
        self._where = access.where
        self._topic = topic
        self._clock = clock
        self._listener = listener
        self._span = span
        self._reports = ConnectionReports()
        self._moved = threading.Condition()
        self._positions: dict[int, int] = {}
        self._replay_to: Mapping[int, int] | None = None
        self._trouble: ConnectError | None = None
        self._troubles = 0
        self._ended: BaseException | None = None
        self._consumer = librdkafka_clients.create_consumer(
            access,
            client_id=client_id,
            settings={
                **_CONSUMER_SETTINGS,
                "group.id": client_id,  # the library wants one; no group is ever used
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            },
            reports=self._reports,
        )

    def begin(self, span: LogOffsetRanges) -> None:
        """Before `run`: all that is in `span` is the past, and told as such."""
        self._assign(span)

    def run(self, stop: threading.Event) -> None:
        """Read until stopped; then let go of the consumer."""
        try:
            self._look_whether_replayed()
            while not stop.is_set():
                first = self._consumer.poll(_CONSUMER_POLL_S)
                if first is None:
                    self._note(self._reports.refused())
                else:
                    self._take_all([first, *self._consumer.consume(_MAX_BATCH_RECORDS, 0)], stop)
        finally:
            self._consumer.close()

    def ended(self, why: BaseException) -> None:
        """The thread is no more: nobody needs to wait for it."""
        with self._moved:
            self._ended = why
            self._moved.notify_all()

    def wait_replayed(self, end: Deadline) -> None:
        """Until the past was told. Raises as `SharedLog.start`."""
        self._wait(lambda: self._replay_to is None, end)

    def wait_for(self, ends: Mapping[int, int], end: Deadline) -> None:
        """Until everything before `ends` was told. Raises as `SharedLog.read_to_end`."""
        self._wait(lambda: self._is_past(ends), end)

    def _wait(self, reached: Callable[[], bool], end: Deadline) -> None:
        with self._moved:
            troubles = self._troubles
            self._moved.wait_for(
                lambda: reached() or self._is_hopeless(troubles),
                timeout=end.left_s(self._clock.now_s()),
            )
            if reached():
                return
            if self._ended is not None:
                raise FatalError(
                    f"reading {self._topic} on {self._where}: this worker reads it no more: "
                    f"{self._ended}; restart the worker"
                ) from self._ended
            if self._trouble is not None and self._troubles > troubles:
                raise self._trouble
        raise self._translated(self._reports.reason() or client_errors.create_timeout_error())

    def _is_hopeless(self, troubles: int) -> bool:
        """Refused since the wait began, or nobody reads any more."""
        refused = isinstance(self._trouble, AuthenticationError | NotAuthorizedError)
        return self._ended is not None or (refused and self._troubles > troubles)

    def _is_past(self, ends: Mapping[int, int]) -> bool:
        return all(self._positions.get(each, 0) >= offset for each, offset in ends.items())

    def _assign(self, span: LogOffsetRanges) -> None:
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
            elif error.code() == client_errors.PARTITION_EOF:
                self._advance(message.partition(), message.offset())
            elif error.code() in client_errors.OUT_OF_RANGE_ERRORS:
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
            SharedLogRecord(
                topic=self._topic,
                partition=partition,
                offset=offset,
                key=message.key(),
                value=message.value(),
                ours=log_writer.is_own_record(message),
                wall_ms=log_writer.read_timestamp_ms(message),
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

    def _ask_for_span(self, stop: threading.Event) -> LogOffsetRanges | None:
        """None: stopped meanwhile."""
        while not stop.is_set():
            try:
                return self._span()
            except RetriableError as failure:
                self._fail(failure)
                stop.wait(_CONSUMER_POLL_S)
        return None

    def _failed(self, error: confluent_kafka.KafkaError, message: confluent_kafka.Message) -> None:
        if error.code() in client_errors.GROUP_ERRORS:
            return  # no group is used: the right to one is not needed
        if error.code() in client_errors.CORRUPT_BATCH_ERRORS:
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

    def _fail(self, failure: ConnectError) -> None:
        with self._moved:
            self._trouble = failure
            self._troubles += 1
            self._moved.notify_all()

    def _translated(self, error: confluent_kafka.KafkaError) -> ConnectError:
        doing = f"reading {self._topic}"
        return client_errors.translate_error(error, doing, where=self._where, reports=self._reports)


_OFFSET_RANGES_TIMEOUT_S = 30.0
_END_OFFSETS_RETRY_DELAY_S = 0.05
_THREADS_STOP_TIMEOUT_S = 10.0

PrepareTopic = Callable[[float], int]
"""Makes and checks the topic within so many seconds; answers the number of its partitions."""

OnLogBroken = Callable[[str], None]
"""Hears why; runs on the thread that ends: note it, no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How a log is written and read: `committed_only` passes over what is not committed (yet)."""

    patience: LogRetryPolicy = LogRetryPolicy.TRIED_FOREVER
    committed_only: bool = False


_DEFAULT_OPTIONS = LogOptions()


class KafkaSharedLog:
    """Implements `SharedLog`. `admin` may be shared; it is not closed here.

    `on_broken` is told when a thread of it ended that nobody had asked to: from then on nothing is
    read any more, or written, and whoever goes on acts by what was.

    Invariant: reader and writer are both there (started) or both None.
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
        manner: LogOptions = _DEFAULT_OPTIONS,
        on_broken: OnLogBroken = lambda _: None,
    ) -> None:
        self._access = cluster_access.shorten_request_timeout(access)
        self._topic = topic
        self._client_id = client_id
        self._admin = admin
        self._prepare = prepare
        self._clock = clock
        self._manner = manner
        self._on_broken = on_broken
        self._threads = ThreadGroup(on_unasked_end=self._on_unasked_end)
        self._newest = EndOffsetsQuery(
            lambda end: admin.end_offsets(topic, self._partitions, end), clock=clock
        )
        self._partitions = 0
        self._stopped = False
        self._grown = False
        self._reader: SharedLogReader | None = None
        self._writer: SharedLogWriter | None = None

    @property
    def name(self) -> str:
        """See `SharedLog`; so for all below."""
        return self._topic

    def start(self, listener: LogListener, timeout_s: float) -> None:
        assert self._reader is None, f"{self._topic} is started already"
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        self._partitions = self._prepare(timeout_s)
        span = self._span(end)
        self._writer = SharedLogWriter(
            self._access,
            topic=self._topic,
            client_id=self._client_id,
            patience=self._manner.patience,
            clock=self._clock,
        )
        self._reader = SharedLogReader(
            self._access,
            topic=self._topic,
            client_id=self._client_id,
            committed_only=self._manner.committed_only,
            clock=self._clock,
            listener=listener,
            span=self._span_anew,
        )
        self._reader.begin(span)
        self._threads.start(f"reads {self._topic}", self._reader.run)
        self._threads.start(f"writes {self._topic}", self._writer.run)
        try:
            self._reader.wait_replayed(end)
        except BaseException:
            self.stop(0.0)
            raise

    def send(self, record: KeyedRecord, *, on_recorded: OnRecorded) -> None:
        self._started_writer().send(record, on_recorded=on_recorded)

    def read_to_end(self, timeout_s: float) -> None:
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        writer, reader = self._started_writer(), self._reader
        assert reader is not None
        if self._stopped:
            raise FatalError(f"reading {self._topic} to its end: the log was stopped")
        writer.settle(end)
        reader.wait_for(self._ends(writer, end), end)

    def stop(self, timeout_s: float) -> None:
        writer, reader = self._writer, self._reader
        if writer is None or reader is None:
            return
        self._stopped = True
        writer.close(timeout_s)
        running = self._threads.stop_all(_THREADS_STOP_TIMEOUT_S)
        if running:
            _LOG.error(
                "%s did not stop within %.0f s", " and ".join(running), _THREADS_STOP_TIMEOUT_S
            )
        reader.ended(FatalError("it was stopped"))

    def _started_writer(self) -> SharedLogWriter:
        assert self._writer is not None, f"start the log of {self._topic} first"
        return self._writer

    def _ends(self, writer: SharedLogWriter, end: Deadline) -> Mapping[int, int]:
        """The ends now; an answer that is older than what we know is asked for again.

        (It is that of a leader that was deposed and has not heard of it.)
        """
        known = writer.recorded_ends()
        self._look_for_growth(known)
        found: Mapping[int, int] = {}

        def new_enough() -> bool:
            nonlocal found
            found = self._newest.now(end)
            return all(found.get(each, offset) >= offset for each, offset in known.items())

        left_s = end.left_s(self._clock.now_s())
        if not clock.wait_until(
            new_enough, timeout_s=left_s, interval_s=_END_OFFSETS_RETRY_DELAY_S
        ):
            raise RetriableError(
                f"asking for the ends of {self._topic} on {self._admin.where}: {dict(found)} is "
                f"less than {dict(known)}, where records were written: the topic was truncated, or "
                "its leader is not the leader any more"
            )
        return found

    def _look_for_growth(self, known: Mapping[int, int]) -> None:
        """Partitions are assigned once, as Java does: what is in newer ones is read by nobody."""
        if not self._grown and any(each >= self._partitions for each in known):
            self._grown = True
            _LOG.error(
                "%s had %s when this worker started, and has more: restart all workers,"
                " or what they write there is not seen",
                self._topic,
                plurals.format_count(self._partitions, "partition"),
            )

    def _span(self, end: Deadline) -> LogOffsetRanges:
        return LogOffsetRanges(
            starts=self._admin.start_offsets(self._topic, self._partitions, end),
            ends=self._admin.end_offsets(self._topic, self._partitions, end),
        )

    def _span_anew(self) -> LogOffsetRanges:
        """Of a topic that is another one now."""
        if self._writer is not None:
            self._writer.forget_ends()
        return self._span(Deadline.after(_OFFSET_RANGES_TIMEOUT_S, now_s=self._clock.now_s()))

    def _on_unasked_end(self, ended: ThreadDied) -> None:
        why = ended.error or FatalError("it just ended")
        _LOG.error("the thread that %s ended: %s", ended.name, why, exc_info=ended.error)
        if self._reader is not None:
            self._reader.ended(why)
        self._on_broken(f"the thread that {ended.name} ended: {why}")
