"""Runs a source task: polls, converts and sends records, and commits the offsets of acknowledged
records.

An offset is committed when its record and all earlier records of the same source partition are
acknowledged. `commit_record` is called on the producer's thread, `commit` on the task's thread.
Java: WorkerSourceTask.
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
from connect_runtime.base.clock_and_deadline import Clock
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
    """Dependencies of one source task. When the task starts, `make_producer` is called to create
    the producer, and `props` is called to resolve the task's configuration."""

    task: SourceTask
    props: Callable[[], Mapping[str, str]] = field(repr=False)
    context: WorkerSourceTaskContext
    pipeline: RecordConversion
    make_producer: Callable[[], RecordProducer]
    offsets: OffsetBackingStore
    timing: OffsetCommitTiming
    on_topic: Callable[[str], None]
    """Called with the topic of each sent record."""
    metrics: SourceTaskMetrics
    stopping: threading.Event
    """Event that is set when the task must stop; it interrupts waits in the task's context."""
    given_up: threading.Event
    clock: Clock


class WorkerSourceTask:
    """Implements `TypeSpecificTask` for source tasks.

    `_lock` guards the fields that the producer's thread changes: `_submitted` and `_failure`.
    """

    def __init__(self, deps: WorkerSourceTaskDeps) -> None:
        self._deps = deps
        self._task = deps.task
        self._producer: RecordProducer | None = None
        self._start_attempted = False
        self._to_send: deque[SourceRecord] = deque()
        self._lock = threading.Lock()
        self._submitted = SubmittedRecords()
        self._failure: ConnectError | None = None
        self._commits = SourceOffsetCommitter(
            deps.context.task_id.connector,
            offsets=deps.offsets,
            take_committable=self._take_committable_offsets,
            timing=deps.timing,
            metrics=deps.metrics,
            clock=deps.clock,
        )

    def start_up(self) -> None:
        """Start the task. This and the following methods are documented in `TypeSpecificTask`."""
        self._producer = self._deps.make_producer()
        props = self._deps.props()
        self._task.initialize(self._deps.context)
        self._start_attempted = True
        self._task.start(props)

    def run_once(self) -> None:
        self._raise_producer_error()
        self._commit_offsets()
        if not self._to_send:
            self._to_send.extend(self._poll_task())
        self._send_records()

    def keep_paused_task_alive(self) -> None:
        if self._start_attempted:
            self._raise_producer_error()
            self._commit_offsets()

    def get_status(self) -> tuple[RunState, str | None]:
        return RunState.RUNNING, None

    def on_stop_requested(self) -> None:
        self._deps.stopping.set()

    def on_abandoned(self) -> None:
        self._deps.given_up.set()
        producer = self._producer
        if producer is not None:
            producer.close(0.0)

    def shut_down(self) -> None:
        self._deps.stopping.set()
        steps = CloseSteps(str(self._deps.context.task_id))
        if self._producer is not None:
            steps.run_shutdown_step(
                "committing its last offsets", self._commit_final_offsets, is_fatal=False
            )
        if self._start_attempted:
            steps.run_shutdown_step("stopping it", self._task.stop)
        self._deps.context.close()
        if self._producer is not None:
            steps.run_shutdown_step(
                "closing its producer", functools.partial(self._producer.close, _CLOSE_TIMEOUT_S)
            )
        steps.run_shutdown_step("closing its converters", self._deps.pipeline.close)
        steps.raise_first_error()

    def _poll_task(self) -> Sequence[SourceRecord]:
        begun_s = self._deps.clock.now_s()
        try:
            polled: object = self._task.poll()
        except RetriableError as error:
            _LOG.warning("poll failed, retrying: %s", error)
            self._deps.stopping.wait(_SEND_RETRY_DELAY_S)
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
                    f"poll must return only records, but it returned a {type(each).__name__}"
                )
        took_s = self._deps.clock.now_s() - begun_s
        self._deps.metrics.record_poll(len(polled), took_s=took_s)
        return polled

    def _send_records(self) -> None:
        while self._to_send and not self._deps.given_up.is_set():
            self._raise_producer_error()
            if not self._send_record(self._to_send[0]):
                self._deps.stopping.wait(_SEND_RETRY_DELAY_S)
                return
            self._to_send.popleft()

    def _send_record(self, record: SourceRecord) -> bool:
        """Send one record to the producer. Return False if the producer's queue is full, so the
        record must be sent again later."""
        written = self._deps.pipeline.transform_and_serialize_record(record)
        if written is None:
            self._deps.metrics.count_skipped_record()
            self._notify_record_committed(record, None)
            return True
        assert self._producer is not None, "the task has no producer before it is started"
        with self._lock:
            ticket = self._submitted.submit(record.source_partition, record.source_offset)
        try:
            self._producer.send(
                written,
                on_delivered=lambda found, error: self._handle_delivery(
                    (record, ticket), found, error
                ),
            )
        except RetriableError as error:
            with self._lock:
                self._submitted.drop(ticket)
            _LOG.debug("send failed, retrying: %s", error)
            return False
        self._deps.on_topic(written.topic)
        return True

    def _handle_delivery(
        self,
        sent: tuple[SourceRecord, SubmittedRecord],
        metadata: RecordMetadata | None,
        error: ConnectError | None,
    ) -> None:
        """Process a delivery report. Runs on the producer's thread.

        Calls the task's `commit_record` before the record's offset can be committed.
        """
        record, ticket = sent
        if error is not None:
            with self._lock:
                self._failure = self._failure or error
            return
        self._deps.metrics.count_acknowledged_record()
        self._notify_record_committed(record, metadata)
        with self._lock:
            self._submitted.ack(ticket)

    def _notify_record_committed(
        self, record: SourceRecord, metadata: RecordMetadata | None
    ) -> None:
        try:
            self._task.commit_record(record, metadata)
        except BaseException:  # noqa: BLE001 - of a plugin: it is logged, as in Java
            _LOG.exception("commit_record of task %s failed", self._deps.context.task_id)

    def _raise_producer_error(self) -> None:
        with self._lock:
            failure = self._failure
        if failure is not None:
            raise ConnectError("Unrecoverable exception from producer send") from failure

    def _take_committable_offsets(self) -> CommittableOffsets:
        with self._lock:
            return self._submitted.take_committable_offsets()

    def _commit_offsets(self) -> None:
        if not self._deps.given_up.is_set() and self._commits.commit_if_due():
            self._notify_offsets_committed()

    def _commit_final_offsets(self) -> None:
        if self._deps.given_up.is_set() or self._producer is None:
            return
        if not self._producer.flush(self._deps.timing.timeout_s):
            _LOG.warning(
                "the task stops while records are in flight: their offsets are not committed, so"
                " these records may be sent again after a restart"
            )
        if not self._deps.given_up.is_set():
            self._commits.commit_all()
            self._notify_offsets_committed()

    def _notify_offsets_committed(self) -> None:
        try:
            self._task.commit()
        except BaseException:  # noqa: BLE001 - of a plugin: it is logged, as in Java
            _LOG.exception("commit of task %s failed", self._deps.context.task_id)
