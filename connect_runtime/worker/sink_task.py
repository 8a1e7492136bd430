"""Runs a sink task: polls, converts and puts records, and commits the offsets that the task returns
from `pre_commit`.

Offsets are those of the next record to deliver: one past the last delivered record. If `put` raises
`RetriableError`, the batch is kept and put again. Meanwhile the consumer is paused but remains in
its group. Java: WorkerSinkTask.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api.errors import ConnectError, RetriableError
from connect_runtime.api.records import SinkRecord
from connect_runtime.api.task import SinkTask
from connect_runtime.base import plurals
from connect_runtime.base.bounded_regex import BoundedPattern
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker.offset_commits import OffsetCommitTiming
from connect_runtime.worker.plugin_contexts import WorkerSinkTaskContext
from connect_runtime.worker.record_conversion import RecordConversion
from connect_runtime.worker.task_client_interfaces import ConsumerRecord, RecordConsumer
from connect_runtime.worker.task_metrics import SinkTaskMetrics
from connect_runtime.worker.worker_task import CloseSteps

OffsetsByPartition = Mapping[TopicPartition, int]


@dataclass(slots=True)
class SinkTaskOffsets:
    """Offsets of the assigned partitions: up to which offset records were delivered to the task,
    and the last committed offset.

    Invariant: `_current` and `_committed` contain exactly the assigned partitions.
    """

    _current: dict[TopicPartition, int] = field(default_factory=dict)
    _committed: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._current)

    def assign_partitions(self, positions: OffsetsByPartition) -> None:
        """Add newly assigned partitions with their initial offsets."""
        self._current.update(positions)
        self._committed.update(positions)

    def revoke_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove the offsets of revoked partitions."""
        for each in partitions:
            self._current.pop(each, None)
            self._committed.pop(each, None)

    def record_delivery(self, partition: TopicPartition, next_offset: int) -> None:
        """Record that all records before `next_offset` were delivered to the task."""
        if partition in self._current:
            self._current[partition] = next_offset

    def rewind_partitions(self, offsets: OffsetsByPartition) -> None:
        """Set the offsets from which the partitions are consumed again. The new offsets also count
        as committed."""
        for each, offset in offsets.items():
            if each in self._current:
                self._current[each] = self._committed[each] = offset

    def get_current_offsets(self) -> dict[TopicPartition, int]:
        return dict(self._current)

    def reset_to_committed_offsets(self) -> dict[TopicPartition, int]:
        """Discard deliveries that are not committed. Return the committed offsets, from which
        consumption resumes."""
        self._current = dict(self._committed)
        return dict(self._committed)

    def record_commit(self, offsets: OffsetsByPartition) -> None:
        """Record that these offsets were committed to Kafka."""
        for each, offset in offsets.items():
            if each in self._committed:
                self._committed[each] = offset

    def select_committable_offsets(
        self, returned: Mapping[object, object], requested: OffsetsByPartition
    ) -> tuple[dict[TopicPartition, int], list[str]]:
        """Return the offsets to commit, and an error message for each rejected offset.

        `requested` is the argument of the task's `pre_commit`, and `returned` is its result. If at
        least one returned offset differs from the last commit, the offsets of all requested
        partitions are committed, even of partitions without new records. A partition without a
        committed offset that is consumed from the log end would otherwise skip records after a
        restart.
        """
        wanted: dict[TopicPartition, int] = {}
        errors = []
        for each, offset in returned.items():
            if not isinstance(each, TopicPartition) or each not in requested:
                errors.append(f"{each} was not passed to pre_commit: its offset is not committed")
            elif not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                errors.append(f"{each}: {offset!r} is not a valid offset")
            elif offset > requested[each]:
                errors.append(
                    f"{each}: offset {offset} is not committed: only records before offset "
                    f"{requested[each]} were delivered"
                )
            elif offset != self._committed.get(each):
                wanted[each] = offset
        known = {each: self._committed[each] for each in requested if each in self._committed}
        return ({**known, **wanted} if wanted else {}), errors

    def check_invariants(self) -> None:
        assert self._current.keys() == self._committed.keys()


_LOG = logging.getLogger(__name__)
_POLL_TIMEOUT_S = 0.5
_CLOSE_TIMEOUT_S = 30.0
_BatchItem = tuple[ConsumerRecord, SinkRecord | None]
"""Consumed record and its converted form, which is None if the record was dropped or skipped."""


@dataclass(frozen=True, slots=True, eq=False)
class _CommitAttempt:
    """Offset commit in progress. A commit without offsets completes immediately."""

    wanted: Mapping[TopicPartition, int]
    begun_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSinkTaskDeps:
    """Dependencies of one sink task. Fields that source tasks have too are documented in
    `WorkerSourceTaskDeps`."""

    task: SinkTask
    props: Callable[[], Mapping[str, str]] = field(repr=False)
    topics: Sequence[str] | BoundedPattern
    context: WorkerSinkTaskContext
    pipeline: RecordConversion
    make_consumer: Callable[[], RecordConsumer]
    timing: OffsetCommitTiming
    on_topic: Callable[[str], None]
    metrics: SinkTaskMetrics
    stopping: threading.Event
    given_up: threading.Event
    clock: Clock


class WorkerSinkTask:
    """Implements `TypeSpecificTask` and `ConsumerRebalanceListener` for sink tasks. The methods of
    these interfaces are called on the task's thread, except as `TypeSpecificTask` documents."""

    def __init__(self, deps: WorkerSinkTaskDeps) -> None:
        self._deps = deps
        self._task = deps.task
        self._context = deps.context
        self._consumer: RecordConsumer | None = None
        self._start_attempted = False
        self._is_paused = False
        self._is_retrying = False  # paused, because `put` refused a batch
        self._batch: list[_BatchItem] = []
        self._retry_at_s = -math.inf
        self._offsets = SinkTaskOffsets()
        self._commits_begun = 0
        self._committing: _CommitAttempt | None = None
        self._next_commit_s = deps.clock.now_s() + deps.timing.interval_s

    def start_up(self) -> None:
        """Start the task. This and the following methods are documented in `TypeSpecificTask`."""
        self._consumer = self._deps.make_consumer()
        self._consumer.subscribe(self._deps.topics, self)
        self._context.on_pause = self._on_pause_changed
        props = self._deps.props()
        self._task.initialize(self._context)
        self._start_attempted = True
        self._task.start(props)

    def run_once(self) -> None:
        self._set_consumer_paused(resting=False)
        self._commit_if_due()
        self._append_to_batch(self._poll_consumer(self._compute_poll_timeout_s()))
        if not (self._is_retrying and self._batch and self._deps.clock.now_s() < self._retry_at_s):
            self._deliver_batch(self._batch)

    def keep_paused_task_alive(self) -> None:
        if self._start_attempted:
            self._set_consumer_paused(resting=True)
            self._commit_if_due()
            self._append_to_batch(self._poll_consumer(0.0))

    def get_status(self) -> tuple[RunState, str | None]:
        return RunState.RUNNING, None

    def on_stop_requested(self) -> None:
        self._deps.stopping.set()

    def on_abandoned(self) -> None:
        self._deps.given_up.set()

    def shut_down(self) -> None:
        self._deps.stopping.set()
        steps = CloseSteps(str(self._context.task_id))
        if self._start_attempted and self._offsets.assigned:
            let_go = functools.partial(self._release_partitions, self._offsets.assigned)
            steps.run_shutdown_step("closing its partitions", let_go)
        if self._start_attempted:
            steps.run_shutdown_step("stopping it", self._task.stop)
        self._context.close()
        if self._consumer is not None:
            steps.run_shutdown_step(
                "closing its consumer", functools.partial(self._consumer.close, _CLOSE_TIMEOUT_S)
            )
        steps.run_shutdown_step("closing its converters", self._deps.pipeline.close)
        steps.raise_first_error()

    # RebalanceListener

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Handle newly assigned partitions. The callbacks are documented in
        `ConsumerRebalanceListener`."""
        consumer = self._get_consumer()
        positions = consumer.positions(partitions)
        self._offsets.assign_partitions(positions)
        self._deps.metrics.record_assignment(positions)
        self._context.assigned = self._offsets.assigned
        self._context.paused &= (
            self._offsets.assigned
        )  # a partition that is revoked and assigned to this task again stays paused
        if self._is_paused or self._is_retrying:
            consumer.pause(partitions)
        else:
            consumer.pause(self._context.paused.intersection(partitions))
        if self._start_attempted and partitions:
            self._task.open(sorted(partitions))
        self._apply_requested_rewinds()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        known = self._offsets.assigned.intersection(partitions)
        if known:
            self._release_partitions(known)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        known = self._offsets.assigned.intersection(partitions)
        if known:
            try:
                self._close_partitions(known)
            finally:
                self._remove_partitions(known)

    # Delivery

    def _get_consumer(self) -> RecordConsumer:
        assert self._consumer is not None, "the task has no consumer before it is started"
        return self._consumer

    def _compute_poll_timeout_s(self) -> float:
        now_s = self._deps.clock.now_s()
        retry_s = self._context.pop_retry_delay_s()
        if retry_s is not None:
            self._retry_at_s = now_s + retry_s
        wait_s = min(_POLL_TIMEOUT_S, max(0.0, self._next_commit_s - now_s))
        return min(wait_s, self._retry_at_s - now_s) if now_s < self._retry_at_s else wait_s

    def _poll_consumer(self, timeout_s: float) -> Sequence[ConsumerRecord]:
        self._apply_requested_rewinds()
        return self._get_consumer().poll(timeout_s)

    def _append_to_batch(self, consumed: Sequence[ConsumerRecord]) -> None:
        """Convert consumed records and append them to the next batch. A paused task receives the
        batch when it resumes."""
        for topic in {each.topic for each in consumed}:
            self._deps.on_topic(topic)
        self._deps.metrics.count_consumed_records(
            len(consumed), {each.topic_partition: each.offset + 1 for each in consumed}
        )
        items = [
            (each, self._deps.pipeline.deserialize_and_transform_record(each)) for each in consumed
        ]
        self._batch = [*self._batch, *items]

    def _deliver_batch(self, batch: list[_BatchItem]) -> None:
        """Pass a batch of records to the task's `put`. Skipped records count as delivered after all
        earlier records are delivered."""
        consumer = self._get_consumer()
        records_put = [record for _, record in batch if record is not None]
        begun_s = self._deps.clock.now_s()
        try:
            self._task.put(records_put)
        except RetriableError as error:
            records = plurals.format_count(len(batch), "record")
            _LOG.warning("put of %s failed, retrying: %s", records, error)
            if not self._is_retrying:
                consumer.pause(self._offsets.assigned)
            self._is_retrying, self._batch = True, batch
            self._deps.stopping.wait(_POLL_TIMEOUT_S / 5)
            return
        self._deps.metrics.record_put(len(records_put), took_s=self._deps.clock.now_s() - begun_s)
        if self._is_retrying:
            consumer.resume(self._offsets.assigned - self._context.paused)
        self._is_retrying, self._batch = False, []
        for consumed, _ in batch:
            self._offsets.record_delivery(consumed.topic_partition, consumed.offset + 1)

    def _apply_requested_rewinds(self) -> None:
        rewound = self._context.pop_rewinds(self._offsets.assigned)
        if rewound:
            self._get_consumer().seek(rewound)
            self._offsets.rewind_partitions(rewound)
            self._deps.metrics.record_assignment(rewound)
            self._batch = [each for each in self._batch if each[0].topic_partition not in rewound]

    def _set_consumer_paused(self, *, resting: bool) -> None:
        if resting is self._is_paused:
            return
        self._is_paused = resting
        if resting:
            self._get_consumer().pause(self._offsets.assigned)
            self._context.request_commit()
        elif not self._is_retrying:
            self._get_consumer().resume(self._offsets.assigned - self._context.paused)

    def _on_pause_changed(self, partitions: frozenset[TopicPartition], paused: bool) -> None:
        if paused:
            self._get_consumer().pause(partitions)
        elif not self._is_paused and not self._is_retrying:
            self._get_consumer().resume(partitions)

    # Offset commits

    def _commit_if_due(self) -> None:
        now_s = self._deps.clock.now_s()
        if self._deps.given_up.is_set() or not self._offsets.assigned:
            return
        if self._is_commit_in_progress(now_s):
            return
        if now_s < self._next_commit_s and not self._context.pop_commit_request():
            return
        self._next_commit_s = now_s + self._deps.timing.interval_s
        try:
            wanted = self._collect_committable_offsets(self._offsets.get_current_offsets())
        except Exception:  # noqa: BLE001 - of a plugin: records are delivered again, as in Java
            _LOG.exception("pre_commit of task %s failed", self._context.task_id)
            self._deps.metrics.record_commit(took_s=None)
            committed = self._offsets.reset_to_committed_offsets()
            self._deps.metrics.record_assignment(committed)
            self._batch = []
            self._get_consumer().seek(committed)
            return
        commit = self._begin_commit(wanted, now_s)
        if wanted:
            self._get_consumer().commit_async(
                wanted, on_committed=functools.partial(self._on_commit_completed, commit)
            )
        else:
            self._on_commit_completed(commit, None)

    def _is_commit_in_progress(self, now_s: float) -> bool:
        """Return True if an offset commit is in progress. A commit that exceeds
        `offset.flush.timeout.ms` counts as failed and no longer as in progress."""
        commit = self._committing
        if commit is None:
            return False
        if now_s < commit.begun_s + self._deps.timing.timeout_s:
            return True
        self._deps.metrics.record_commit(took_s=None)
        _LOG.warning(
            "the offset commit did not complete within %g s (offset.flush.timeout.ms); the next"
            " commit includes these offsets",
            self._deps.timing.timeout_s,
        )
        self._committing = None
        return False

    def _begin_commit(self, wanted: Mapping[TopicPartition, int], now_s: float) -> _CommitAttempt:
        self._commits_begun += 1
        self._deps.metrics.record_commit_start(self._commits_begun)
        self._committing = _CommitAttempt(wanted, now_s)
        return self._committing

    def _on_commit_completed(self, commit: _CommitAttempt, error: ConnectError | None) -> None:
        metrics = self._deps.metrics
        if commit is not self._committing:
            metrics.record_superseded_commit()
            return
        self._committing = None
        if error is None:
            self._offsets.record_commit(commit.wanted)
            took_s = self._deps.clock.now_s() - commit.begun_s
            metrics.record_commit_completion(commit.wanted, took_s=took_s)
        else:
            metrics.record_commit(took_s=None)
            _LOG.error("offset commit failed, the next commit includes these offsets: %s", error)

    def _collect_committable_offsets(
        self, current: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        answer: object = self._task.pre_commit(dict(current))
        if not isinstance(answer, Mapping):
            raise ConnectError(
                "pre_commit must return a mapping of partitions to offsets, not "
                f"{type(answer).__name__}"
            )
        wanted, refused = self._offsets.select_committable_offsets(answer, current)
        for each in refused:
            _LOG.warning("pre_commit of task %s: %s", self._context.task_id, each)
        return wanted

    def _release_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Close revoked partitions and commit their offsets. As in Java, offsets are not committed
        if closing fails."""
        try:
            wanted = self._collect_final_offsets(partitions)
            self._close_partitions(partitions)
            if not self._deps.given_up.is_set():
                self._commit_offsets_now(wanted)
        finally:
            self._remove_partitions(partitions)

    def _collect_final_offsets(
        self, partitions: frozenset[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        current = self._offsets.get_current_offsets()
        try:
            return self._collect_committable_offsets({each: current[each] for each in partitions})
        except Exception:  # noqa: BLE001 - of a plugin: records are delivered again, as in Java
            _LOG.warning(
                "pre_commit of task %s failed: offsets of revoked partitions are not committed",
                self._context.task_id,
                exc_info=True,
            )
            self._deps.metrics.record_commit(took_s=None)
            return {}

    def _commit_offsets_now(self, wanted: Mapping[TopicPartition, int]) -> None:
        commit = self._begin_commit(wanted, self._deps.clock.now_s())
        try:
            if wanted:
                self._get_consumer().commit_sync(wanted, self._deps.timing.timeout_s)
        except ConnectError as error:
            self._on_commit_completed(commit, error)
        else:
            self._on_commit_completed(commit, None)

    def _close_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        if self._start_attempted:
            self._task.close(sorted(partitions))

    def _remove_partitions(self, gone: frozenset[TopicPartition]) -> None:
        self._offsets.revoke_partitions(gone)
        self._deps.metrics.record_revocation(gone)
        self._context.assigned = self._offsets.assigned
        self._batch = [each for each in self._batch if each[0].topic_partition not in gone]
