"""Runs a source task: poll, convert, send, and commit the offsets of acknowledged records.

An offset is committed when its record and all earlier records of its source partition are
acknowledged. `commit_record` is called on the producer's thread, `commit` on the task's. Java:
WorkerSourceTask.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api.errors import ConnectError, RetriableError
from connect_runtime.api.records import RecordMetadata, SourceRecord
from connect_runtime.api.task import SourceTask
from connect_runtime.base.timing import Clock
from connect_runtime.storage.offset_store import OffsetBackingStore
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker.offset_commits import OffsetCommitTiming, SourceOffsetCommitter
from connect_runtime.worker.plugin_contexts import WorkerSourceTaskContext
from connect_runtime.worker.record_conversion import RecordConversion
from connect_runtime.worker.submitted_offsets import (
    CommittableOffsets,
    SubmittedRecord,
    SubmittedRecords,
)
from connect_runtime.worker.task_client_interfaces import RecordProducer
from connect_runtime.worker.task_metrics import SourceTaskMetrics
from connect_runtime.worker.worker_task import CloseSteps

_LOG = logging.getLogger(__name__)
_SEND_RETRY_DELAY_S = 0.1
_CLOSE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSourceTaskDeps:
    """What one source task is made of. `stopping` is what its context waits for; `on_topic` hears
    the topic of each record that is sent. `make_producer`, `props`: made when it starts."""

    task: SourceTask
    props: Callable[[], Mapping[str, str]] = field(repr=False)
    context: WorkerSourceTaskContext
    pipeline: RecordConversion
    make_producer: Callable[[], RecordProducer]
    offsets: OffsetBackingStore
    timing: OffsetCommitTiming
    on_topic: Callable[[str], None]
    metrics: SourceTaskMetrics
    stopping: threading.Event
    given_up: threading.Event
    clock: Clock


class WorkerSourceTask:
    """Implements `task_run.Body`. `_lock` guards what the producer's thread touches:
    `_submitted` and `_failure`."""

    def __init__(self, parts: WorkerSourceTaskDeps) -> None:
        self._parts = parts
        self._task = parts.task
        self._producer: RecordProducer | None = None
        self._start_tried = False
        self._to_send: deque[SourceRecord] = deque()
        self._lock = threading.Lock()
        self._submitted = SubmittedRecords()
        self._failure: ConnectError | None = None
        self._commits = SourceOffsetCommitter(
            parts.context.task_id.connector,
            offsets=parts.offsets,
            take=self._take,
            timing=parts.timing,
            metrics=parts.metrics,
            clock=parts.clock,
        )

    def start_up(self) -> None:
        """See `task_run.Body`; so for all below."""
        self._producer = self._parts.make_producer()
        props = self._parts.props()
        self._task.initialize(self._parts.context)
        self._start_tried = True
        self._task.start(props)

    def come_round(self) -> None:
        self._raise_failure()
        self._commit()
        if not self._to_send:
            self._to_send.extend(self._polled())
        self._send_all()

    def rest(self) -> None:
        if self._start_tried:
            self._raise_failure()
            self._commit()

    def shown(self) -> tuple[RunState, str | None]:
        return RunState.RUNNING, None

    def stop_asked(self) -> None:
        self._parts.stopping.set()

    def given_up(self) -> None:
        self._parts.given_up.set()
        producer = self._producer
        if producer is not None:
            producer.close(0.0)

    def close_down(self) -> None:
        self._parts.stopping.set()
        steps = CloseSteps(str(self._parts.context.task_id))
        if self._producer is not None:
            steps.take("committing its last offsets", self._commit_last, fails=False)
        if self._start_tried:
            steps.take("stopping it", self._task.stop)
        self._parts.context.close()
        if self._producer is not None:
            steps.take(
                "closing its producer", functools.partial(self._producer.close, _CLOSE_TIMEOUT_S)
            )
        steps.take("closing its converters", self._parts.pipeline.close)
        steps.raise_first()

    def _polled(self) -> Sequence[SourceRecord]:
        begun_s = self._parts.clock.now_s()
        try:
            polled: object = self._task.poll()
        except RetriableError as error:
            _LOG.warning("polling failed and is tried again: %s", error)
            self._parts.stopping.wait(_SEND_RETRY_DELAY_S)
            return ()
        if polled is None:
            return ()
        if isinstance(polled, (str, bytes)) or not isinstance(polled, Sequence):
            raise ConnectError(
                f"poll must return a sequence of records or None, not {type(polled).__name__}"
            )
        for each in polled:
            if not isinstance(each, SourceRecord):
                raise ConnectError(
                    f"poll must return records; among them was a {type(each).__name__}"
                )
        took_s = self._parts.clock.now_s() - begun_s
        self._parts.metrics.polled(len(polled), took_s=took_s)
        return polled

    def _send_all(self) -> None:
        while self._to_send and not self._parts.given_up.is_set():
            self._raise_failure()
            if not self._send(self._to_send[0]):
                self._parts.stopping.wait(_SEND_RETRY_DELAY_S)
                return
            self._to_send.popleft()

    def _send(self, record: SourceRecord) -> bool:
        """False: not now."""
        written = self._parts.pipeline.to_kafka(record)
        if written is None:
            self._parts.metrics.left_out()
            self._tell_task(record, None)
            return True
        assert self._producer is not None, "records are polled after the start"
        with self._lock:
            ticket = self._submitted.submit(record.source_partition, record.source_offset)
        try:
            self._producer.send(
                written,
                on_delivered=lambda found, error: self._delivered((record, ticket), found, error),
            )
        except RetriableError as error:
            with self._lock:
                self._submitted.drop(ticket)
            _LOG.debug("sending failed and is tried again: %s", error)
            return False
        self._parts.on_topic(written.topic)
        return True

    def _delivered(
        self,
        sent: tuple[SourceRecord, SubmittedRecord],
        metadata: RecordMetadata | None,
        error: ConnectError | None,
    ) -> None:
        """On the producer's thread. The task hears of a record before its offset is committed."""
        record, ticket = sent
        if error is not None:
            with self._lock:
                self._failure = self._failure or error
            return
        self._parts.metrics.written()
        self._tell_task(record, metadata)
        with self._lock:
            self._submitted.ack(ticket)

    def _tell_task(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        try:
            self._task.commit_record(record, metadata)
        except BaseException:  # noqa: BLE001 - of a plugin: it is logged, as in Java
            _LOG.exception("commit_record of task %s threw", self._parts.context.task_id)

    def _raise_failure(self) -> None:
        with self._lock:
            failure = self._failure
        if failure is not None:
            raise ConnectError("Unrecoverable exception from producer send") from failure

    def _take(self) -> CommittableOffsets:
        with self._lock:
            return self._submitted.take_committable()

    def _commit(self) -> None:
        if not self._parts.given_up.is_set() and self._commits.tick():
            self._tell_committed()

    def _commit_last(self) -> None:
        if self._parts.given_up.is_set() or self._producer is None:
            return
        if not self._producer.flush(self._parts.timing.timeout_s):
            _LOG.warning("records are on their way still: their offsets are not committed")
        if not self._parts.given_up.is_set():
            self._commits.finish()
            self._tell_committed()

    def _tell_committed(self) -> None:
        try:
            self._task.commit()
        except BaseException:  # noqa: BLE001 - of a plugin: it is logged, as in Java
            _LOG.exception("commit of task %s threw", self._parts.context.task_id)
