"""Runs a sink task: poll, convert, put, and commit the offsets that the task allows.

Offsets are those of the next record. A batch that `put` refuses with `RetriableError` is kept and
put again; meanwhile the consumer is paused but stays in its group. Java: WorkerSinkTask.
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
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
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
    """Invariant: both hold the same partitions, those that are assigned."""

    _current: dict[TopicPartition, int] = field(default_factory=dict)
    _committed: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._current)

    def assign(self, positions: OffsetsByPartition) -> None:
        """These partitions begin at these offsets."""
        self._current.update(positions)
        self._committed.update(positions)

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._current.pop(each, None)
            self._committed.pop(each, None)

    def deliver(self, partition: TopicPartition, behind: int) -> None:
        """The task has the record before this offset, and all before it."""
        if partition in self._current:
            self._current[partition] = behind

    def rewind(self, offsets: OffsetsByPartition) -> None:
        """Consumption goes on from here, which counts as committed, too."""
        for each, offset in offsets.items():
            if each in self._current:
                self._current[each] = self._committed[each] = offset

    def current(self) -> dict[TopicPartition, int]:
        return dict(self._current)

    def back_to_committed(self) -> dict[TopicPartition, int]:
        """Where to consume from again, since what came later cannot be committed."""
        self._current = dict(self._committed)
        return dict(self._committed)

    def committed(self, offsets: OffsetsByPartition) -> None:
        for each, offset in offsets.items():
            if each in self._committed:
                self._committed[each] = offset

    def to_commit(
        self, answer: Mapping[object, object], asked: OffsetsByPartition
    ) -> tuple[dict[TopicPartition, int], list[str]]:
        """What may be committed of a task's answer, and what is wrong with the rest of it.

        If any of it is news, all that was asked about is committed, idle partitions where they
        began: one that begins at its end would else begin at a later end, next time.
        """
        wanted: dict[TopicPartition, int] = {}
        wrong = []
        for each, offset in answer.items():
            if not isinstance(each, TopicPartition) or each not in asked:
                wrong.append(f"{each} was not asked about, its offset is not committed")
            elif not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                wrong.append(f"{each}: {offset!r} is no offset")
            elif offset > asked[each]:
                wrong.append(f"{each}: {offset} is beyond {asked[each]}, which was delivered last")
            elif offset != self._committed.get(each):
                wanted[each] = offset
        known = {each: self._committed[each] for each in asked if each in self._committed}
        return ({**known, **wanted} if wanted else {}), wrong

    def check_invariants(self) -> None:
        assert self._current.keys() == self._committed.keys()


_LOG = logging.getLogger(__name__)
_POLL_TIMEOUT_S = 0.5
_CLOSE_TIMEOUT_S = 30.0
_BatchItem = tuple[ConsumerRecord, SinkRecord | None]
"""As it was read, and what it was converted to; None: it is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class _CommitAttempt:
    """One attempt; without offsets there is nothing to do."""

    wanted: Mapping[TopicPartition, int]
    begun_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSinkTaskDeps:
    """What one sink task is made of; see `source_task.SourceParts`."""

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
    """Implements `task_run.Body` and `ConsumerRebalanceListener`, both on the task's thread."""

    def __init__(self, parts: WorkerSinkTaskDeps) -> None:
        self._parts = parts
        self._task = parts.task
        self._context = parts.context
        self._consumer: RecordConsumer | None = None
        self._start_tried = False
        self._resting = False
        self._held = False  # paused, since what was put was refused
        self._kept: list[_BatchItem] = []
        self._retry_at_s = -math.inf
        self._offsets = SinkTaskOffsets()
        self._commits_begun = 0
        self._committing: _CommitAttempt | None = None
        self._next_commit_s = parts.clock.now_s() + parts.timing.interval_s

    def start_up(self) -> None:
        """See `task_run.Body`; so for all below."""
        self._consumer = self._parts.make_consumer()
        self._consumer.subscribe(self._parts.topics, self)
        self._context.on_pause = self._task_pauses
        props = self._parts.props()
        self._task.initialize(self._context)
        self._start_tried = True
        self._task.start(props)

    def come_round(self) -> None:
        self._rest_partitions(resting=False)
        self._commit_if_due()
        self._keep(self._polled(self._wait_s()))
        if not (self._held and self._kept and self._parts.clock.now_s() < self._retry_at_s):
            self._put(self._kept)

    def rest(self) -> None:
        if self._start_tried:
            self._rest_partitions(resting=True)
            self._commit_if_due()
            self._keep(self._polled(0.0))

    def shown(self) -> tuple[RunState, str | None]:
        return RunState.RUNNING, None

    def stop_asked(self) -> None:
        self._parts.stopping.set()

    def given_up(self) -> None:
        self._parts.given_up.set()

    def close_down(self) -> None:
        self._parts.stopping.set()
        steps = CloseSteps(str(self._context.task_id))
        if self._start_tried and self._offsets.assigned:
            let_go = functools.partial(self._let_go, self._offsets.assigned)
            steps.take("closing its partitions", let_go)
        if self._start_tried:
            steps.take("stopping it", self._task.stop)
        self._context.close()
        if self._consumer is not None:
            steps.take(
                "closing its consumer", functools.partial(self._consumer.close, _CLOSE_TIMEOUT_S)
            )
        steps.take("closing its converters", self._parts.pipeline.close)
        steps.raise_first()

    # RebalanceListener

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`; so for both below."""
        consumer = self._made()
        positions = consumer.positions(partitions)
        self._offsets.assign(positions)
        self._parts.metrics.assigned(positions)
        self._context.assigned = self._offsets.assigned
        self._context.paused &= self._offsets.assigned  # what came back at once stays paused
        if self._resting or self._held:
            consumer.pause(partitions)
        else:
            consumer.pause(self._context.paused.intersection(partitions))
        if self._start_tried and partitions:
            self._task.open(sorted(partitions))
        self._rewind()

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        known = self._offsets.assigned.intersection(partitions)
        if known:
            self._let_go(known)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        known = self._offsets.assigned.intersection(partitions)
        if known:
            try:
                self._close(known)
            finally:
                self._forget(known)

    # Delivering

    def _made(self) -> RecordConsumer:
        assert self._consumer is not None, "it is made at the start"
        return self._consumer

    def _wait_s(self) -> float:
        now_s = self._parts.clock.now_s()
        retry_s = self._context.take_retry_s()
        if retry_s is not None:
            self._retry_at_s = now_s + retry_s
        wait_s = min(_POLL_TIMEOUT_S, max(0.0, self._next_commit_s - now_s))
        return min(wait_s, self._retry_at_s - now_s) if now_s < self._retry_at_s else wait_s

    def _polled(self, timeout_s: float) -> Sequence[ConsumerRecord]:
        self._rewind()
        return self._made().poll(timeout_s)

    def _keep(self, consumed: Sequence[ConsumerRecord]) -> None:
        """To be put next: for a task that is paused, once it goes on."""
        for topic in {each.topic for each in consumed}:
            self._parts.on_topic(topic)
        self._parts.metrics.read(len(consumed), {each.place: each.offset + 1 for each in consumed})
        items = [(each, self._parts.pipeline.from_kafka(each)) for each in consumed]
        self._kept = [*self._kept, *items]

    def _put(self, batch: list[_BatchItem]) -> None:
        """What conversion left out counts as delivered, once all before it is."""
        consumer = self._made()
        records_put = [record for _, record in batch if record is not None]
        begun_s = self._parts.clock.now_s()
        try:
            self._task.put(records_put)
        except RetriableError as error:
            records = plurals.format_count(len(batch), "record")
            _LOG.warning("putting %s failed and is tried again: %s", records, error)
            if not self._held:
                consumer.pause(self._offsets.assigned)
            self._held, self._kept = True, batch
            self._parts.stopping.wait(_POLL_TIMEOUT_S / 5)
            return
        self._parts.metrics.put(len(records_put), took_s=self._parts.clock.now_s() - begun_s)
        if self._held:
            consumer.resume(self._offsets.assigned - self._context.paused)
        self._held, self._kept = False, []
        for consumed, _ in batch:
            self._offsets.deliver(consumed.place, consumed.offset + 1)

    def _rewind(self) -> None:
        rewound = self._context.take_rewinds(self._offsets.assigned)
        if rewound:
            self._made().seek(rewound)
            self._offsets.rewind(rewound)
            self._parts.metrics.assigned(rewound)
            self._kept = [each for each in self._kept if each[0].place not in rewound]

    def _rest_partitions(self, *, resting: bool) -> None:
        if resting is self._resting:
            return
        self._resting = resting
        if resting:
            self._made().pause(self._offsets.assigned)
            self._context.request_commit()
        elif not self._held:
            self._made().resume(self._offsets.assigned - self._context.paused)

    def _task_pauses(self, partitions: frozenset[TopicPartition], paused: bool) -> None:
        if paused:
            self._made().pause(partitions)
        elif not self._resting and not self._held:
            self._made().resume(partitions)

    # Committing

    def _commit_if_due(self) -> None:
        now_s = self._parts.clock.now_s()
        if self._parts.given_up.is_set() or not self._offsets.assigned:
            return
        if self._still_commits(now_s):
            return
        if now_s < self._next_commit_s and not self._context.take_commit_request():
            return
        self._next_commit_s = now_s + self._parts.timing.interval_s
        try:
            wanted = self._may_commit(self._offsets.current())
        except Exception:  # noqa: BLE001 - of a plugin: records are delivered again, as in Java
            _LOG.exception("pre_commit of task %s threw", self._context.task_id)
            self._parts.metrics.commit_ended(took_s=None)
            committed = self._offsets.back_to_committed()
            self._parts.metrics.assigned(committed)
            self._kept = []
            self._made().seek(committed)
            return
        commit = self._begin_commit(wanted, now_s)
        if wanted:
            self._made().commit(wanted, on_committed=functools.partial(self._committed, commit))
        else:
            self._committed(commit, None)

    def _still_commits(self, now_s: float) -> bool:
        """One at a time; one that takes too long has failed, and its answer comes too late."""
        commit = self._committing
        if commit is None:
            return False
        if now_s < commit.begun_s + self._parts.timing.timeout_s:
            return True
        self._parts.metrics.commit_ended(took_s=None)
        _LOG.warning("offsets were not committed within %g s", self._parts.timing.timeout_s)
        self._committing = None
        return False

    def _begin_commit(self, wanted: Mapping[TopicPartition, int], now_s: float) -> _CommitAttempt:
        self._commits_begun += 1
        self._parts.metrics.commit_begun(self._commits_begun)
        self._committing = _CommitAttempt(wanted, now_s)
        return self._committing

    def _committed(self, commit: _CommitAttempt, error: ConnectError | None) -> None:
        metrics = self._parts.metrics
        if commit is not self._committing:
            metrics.commit_skipped()
            return
        self._committing = None
        if error is None:
            self._offsets.committed(commit.wanted)
            took_s = self._parts.clock.now_s() - commit.begun_s
            metrics.commit_completed(commit.wanted, took_s=took_s)
        else:
            metrics.commit_ended(took_s=None)
            _LOG.error("offsets were not committed, newer ones will be: %s", error)

    def _may_commit(self, current: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        answer: object = self._task.pre_commit(dict(current))
        if not isinstance(answer, Mapping):
            raise ConnectError(
                f"pre_commit must return a mapping of partitions to offsets, not "
                f"{type(answer).__name__}"
            )
        wanted, refused = self._offsets.to_commit(answer, current)
        for each in refused:
            _LOG.warning("pre_commit of task %s: %s", self._context.task_id, each)
        return wanted

    def _let_go(self, partitions: frozenset[TopicPartition]) -> None:
        """Java's order: what cannot be closed is not committed either."""
        try:
            wanted = self._last_wanted(partitions)
            self._close(partitions)
            if not self._parts.given_up.is_set():
                self._commit_now(wanted)
        finally:
            self._forget(partitions)

    def _last_wanted(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, int]:
        current = self._offsets.current()
        try:
            return self._may_commit({each: current[each] for each in partitions})
        except Exception:  # noqa: BLE001 - of a plugin: records are delivered again, as in Java
            _LOG.warning(
                "pre_commit of task %s threw: where it is in partitions that it gives back is not"
                " committed",
                self._context.task_id,
                exc_info=True,
            )
            self._parts.metrics.commit_ended(took_s=None)
            return {}

    def _commit_now(self, wanted: Mapping[TopicPartition, int]) -> None:
        commit = self._begin_commit(wanted, self._parts.clock.now_s())
        try:
            if wanted:
                self._made().commit_now(wanted, self._parts.timing.timeout_s)
        except ConnectError as error:
            self._committed(commit, error)
        else:
            self._committed(commit, None)

    def _close(self, partitions: frozenset[TopicPartition]) -> None:
        if self._start_tried:
            self._task.close(sorted(partitions))

    def _forget(self, gone: frozenset[TopicPartition]) -> None:
        self._offsets.revoke(gone)
        self._parts.metrics.gone(gone)
        self._context.assigned = self._offsets.assigned
        self._kept = [each for each in self._kept if each[0].place not in gone]
