"""Waits until a Java MirrorMaker 2 worker can no longer write to a task's partitions.

A worker that stopped cleanly has closed its producer, so no wait is needed. A worker that was
killed, frozen or partitioned may still send batches for as long as its producer retries
(`delivery.timeout.ms`). Batches that arrive even later are detected by tail matching, the
comparison of the last records of the target partition with the source.

Partitions can be reassigned between tasks. Whether a task waits therefore depends on all Java
workers that have replicated its partitions, in any task. An mm2 task reports RUNNING only after the
wait. This process remembers when a wait began, so that a restarted task waits only for the
remaining time.
"""

from __future__ import annotations

import datetime
import logging
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect_runtime.api.errors import ConnectError
from connect_runtime.api.plugin_context import (
    JavaWorkerTaskRun,
    LastTaskRuns,
    LeaderlessPeriod,
    PublishedTaskConfig,
)
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from mm2.topics import task_assignment

DELIVERY_TIMEOUT_CONFIG = "delivery.timeout.ms"
DEFAULT_DELIVERY_TIMEOUT_S = 120.0
"""Default of the producer setting `delivery.timeout.ms`, in seconds. Connect's default is unlimited
(2^31-1) and is replaced by this value, which suffices because a partitioned worker stops its tasks
within a minute."""
_UNLIMITED_TIMEOUT_MS = 2**31 - 1
MAX_CLOCK_SKEW_S = 600.0
"""Maximum difference in seconds that is assumed between the clocks of two machines."""

_PartitionSet = frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaTaskRun:
    """A run of a task on a Java worker that may not have ended yet."""

    worker_id: str
    started_ms: int
    """Start time of the task run (wall clock of the worker)."""
    has_known_partitions: bool = field(default=True, compare=False)
    """True if the task run certainly included partitions of the waiting task; False if its
    partitions are unknown. Ignored in comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverQuery:
    """Information needed to decide whether a task must wait for Java workers."""

    partitions: Collection[TopicPartition]
    """Partitions of the waiting task."""
    delivery_timeout_s: float
    """Time in seconds for which the producer of a Java task retries (`delivery.timeout.ms`)."""
    wall_ms: int
    """Current wall clock time."""


def read_delivery_timeout_s(producer: Mapping[str, str]) -> float:
    """Return the delivery timeout of a Java task's producer, from the producer's properties."""
    text = producer.get(DELIVERY_TIMEOUT_CONFIG, "").strip()
    given = int(text) if text.isdecimal() else _UNLIMITED_TIMEOUT_MS
    return given / 1000 if given < _UNLIMITED_TIMEOUT_MS else DEFAULT_DELIVERY_TIMEOUT_S


def find_unfinished_java_runs(runs: LastTaskRuns, query: HandoverQuery) -> frozenset[JavaTaskRun]:
    """Find the task runs on Java workers that may still write to the waiting task's partitions."""
    if not runs.foreign:
        return frozenset()
    owned_since_ms = _find_ownership_start_times(runs, query.partitions)
    unfinished = set()
    for number, run in runs.foreign.items():
        if _has_java_run_stopped_writing(run, runs.leaderless_period, query):
            continue
        partitions = _find_run_partitions(runs.configs.get(number, ()), run)
        if any(
            owned_since_ms.get(each, -1) < run.started_ms
            for each in query.partitions
            if partitions is None or each in partitions
        ):
            unfinished.add(
                JavaTaskRun(
                    worker_id=run.worker_id,
                    started_ms=run.started_ms,
                    has_known_partitions=partitions is not None,
                )
            )
    return frozenset(unfinished)


def find_tasks_run_by_java(
    runs: LastTaskRuns, number: int, *, delivery_timeout_s: float, wall_ms: int
) -> tuple[int, ...]:
    """Find the connector's other tasks that a Java worker is known to run.

    Only Java's delivery guarantees apply while a Java worker runs any of the connector's tasks.
    """
    query = HandoverQuery(partitions=(), delivery_timeout_s=delivery_timeout_s, wall_ms=wall_ms)
    return tuple(
        sorted(
            each
            for each, run in runs.foreign.items()
            if each != number
            and run.ended_ms is None
            and run.removed_ms is None
            and not _has_java_run_stopped_writing(run, runs.leaderless_period, query)
        )
    )


def _has_java_run_stopped_writing(
    run: JavaWorkerTaskRun, leaderless: LeaderlessPeriod | None, query: HandoverQuery
) -> bool:
    """Return True if no more batches of this Java task run can arrive, on any partition."""
    if run.ended_ms is not None and not run.overlaps:
        return True
    # The previous run, which reported no end, had lost the task when this run began. Its producer
    # has stopped retrying if this run lasted at least as long as the delivery timeout. Both times
    # are from the clock of this run's worker.
    if (
        run.ended_ms is not None
        and run.ended_ms - run.started_ms >= query.delivery_timeout_s * 1000
    ):
        return True
    long_ms = (query.delivery_timeout_s + MAX_CLOCK_SKEW_S) * 1000
    known_ms = (each for each in (run.ended_ms, run.removed_ms) if each is not None)
    if any(query.wall_ms - each >= long_ms for each in known_ms):
        return True
    if leaderless is None or run.started_ms >= leaderless.from_ms:
        return False
    return (
        leaderless.to_ms - leaderless.from_ms >= long_ms
    )  # for this time before this worker started, the Connect group had no live worker


def _find_ownership_start_times(
    runs: LastTaskRuns, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Find the time (wall clock, ms) at which an mm2 task took over each partition. Partitions that
    no mm2 task runs are omitted."""
    owned_since_ms: dict[TopicPartition, int] = {}
    for number, began_ms in runs.own_start_ms.items():
        configs = _select_configs_as_of_time(runs.configs.get(number, ()), began_ms)
        owned = _parse_all_partitions(configs[-1:]) or frozenset()
        for each in owned.intersection(partitions):
            owned_since_ms[each] = max(owned_since_ms.get(each, began_ms), began_ms)
    return owned_since_ms


def _find_run_partitions(
    configs: Sequence[PublishedTaskConfig], run: JavaWorkerTaskRun
) -> _PartitionSet | None:
    """Return the partitions of a Java task run; None if they are unknown.

    If the run began before the end of the previous run was reported, the partitions of all earlier
    configurations of the task are included.
    """
    run_configs = _select_configs_as_of_time(configs, run.started_ms)
    return _parse_all_partitions(run_configs if run.overlaps else run_configs[-1:])


def _select_configs_as_of_time(
    configs: Sequence[PublishedTaskConfig], at_ms: int
) -> Sequence[PublishedTaskConfig]:
    """Select the configurations that the task had received by `at_ms`. The last one was in
    effect."""
    indexes = [at for at, each in enumerate(configs) if 0 <= each.published_ms <= at_ms]
    return configs[: indexes[-1] + 1] if indexes else ()


def _parse_all_partitions(configs: Iterable[PublishedTaskConfig]) -> _PartitionSet | None:
    partitions: set[TopicPartition] = set()
    has_configs = False
    for each in configs:
        has_configs = True
        props = {key: value for key, value in each.config.items() if value is not None}
        try:
            partitions.update(task_assignment.parse_partitions(props))
        except ConnectError:
            return None
    return frozenset(partitions) if has_configs else None


RUNS_POLL_INTERVAL_S = 0.5
_LOG = logging.getLogger(__name__)
_TaskKey = tuple[str, ConnectorTaskId]


@dataclass(frozen=True, slots=True)
class HandoverWait:
    """A task's wait for the end of Java task runs. The wait began at `started_s` (monotonic
    seconds)."""

    runs: frozenset[JavaTaskRun]
    started_s: float
    has_copied: bool = False
    """True if the task has replicated records since the wait began."""

    def is_sufficient_for_java_runs(self, runs: Collection[JavaTaskRun]) -> bool:
        """Return True if no new wait is needed for the given Java task runs.

        Runs with unknown partitions, for example of a Java worker that restarts repeatedly, do not
        prolong the wait.
        """
        news = (each for each in runs if each not in self.runs)
        return not any(each.has_known_partitions or self.has_copied for each in news)


class HandoverWaitRegistry:
    """Handover wait of each task: its start (monotonic seconds) and the Java task runs to wait for.
    Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[_TaskKey, HandoverWait] = {}

    def get_or_begin_wait(
        self, key: _TaskKey, runs: frozenset[JavaTaskRun], *, now_s: float
    ) -> HandoverWait:
        """Return the task's current wait. If it does not cover the given Java task runs, begin a
        new wait."""
        with self._lock:
            known = self._begun.get(key)
            if known is None or not known.is_sufficient_for_java_runs(runs):
                known = self._begun[key] = HandoverWait(runs, now_s)
            return known

    def mark_task_as_copying(self, key: _TaskKey) -> None:
        """Record that the task is replicating records, so its wait is over."""
        with self._lock:
            if key in self._begun:
                self._begun[key] = replace(self._begun[key], has_copied=True)

    def forget_wait(self, key: _TaskKey) -> None:
        with self._lock:
            self._begun.pop(key, None)


_HANDOVER_WAITS = HandoverWaitRegistry()
"""The waits for Java workers that the tasks of this process have begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTask:
    """A task that waits for Java workers, with its flow and partitions."""

    flow: str
    task: ConnectorTaskId
    partitions: Collection[TopicPartition]

    @property
    def key(self) -> _TaskKey:
        return self.flow, self.task


class JavaHandover:
    """Decides how long a task waits for Java workers. Not thread-safe.

    `skipped` is True if the operator has confirmed that Java stopped cleanly.
    """

    def __init__(
        self,
        task: WaitingTask,
        *,
        runs: Callable[[], LastTaskRuns],
        producer: Mapping[str, str],
        skipped: bool,
        clock: Clock,
        waits: HandoverWaitRegistry = _HANDOVER_WAITS,
    ) -> None:
        """Create the object that decides how long `task` waits for Java workers. `runs` is
        `PipelineTaskContext.last_runs`, which returns the last runs of the connector's tasks.
        `producer` contains the producer properties of the Java task."""
        self.skipped = skipped
        self.warning = ""
        """Warning while Java workers run other tasks of the connector; "" otherwise."""
        self._last_warning = ""
        self._task = task
        self._runs = runs
        self._delivery_timeout_s = read_delivery_timeout_s(producer)
        self._clock = clock
        self._waits = waits
        self._check_due_s = -math.inf
        self._reason = ""
        self._until_s = -math.inf
        self._pending: frozenset[JavaTaskRun] = frozenset()
        self._is_logged = False

    def get_wait_reason(self, now_s: float) -> str:
        """Return why replication must not begin yet; "" if it may begin. The same reason is
        returned until the wait changes."""
        if now_s >= self._check_due_s:
            self._check_due_s = now_s + RUNS_POLL_INTERVAL_S
            self._check_java_runs(now_s)
        return self._reason

    def compute_remaining_s(self, now_s: float) -> float:
        """Compute the maximum remaining wait in seconds; 0 if there is no wait."""
        return max(0.0, self._until_s - now_s) if self._reason else 0.0

    def update_java_tasks_warning(self) -> None:
        """Check whether Java workers run the connector's other tasks, and update `warning`. Call
        while this task is replicating.

        A warning is set only after two consecutive checks with the same result, because mm2 tasks
        may be about to report that they are running. The warning is cleared immediately.
        """
        self._waits.mark_task_as_copying(self._task.key)
        others = find_tasks_run_by_java(
            self._runs(),
            self._task.task.task,
            delivery_timeout_s=self._delivery_timeout_s,
            wall_ms=self._clock.wall_ms(),
        )
        warning = _describe_java_tasks(others) if others else ""
        before, self._last_warning = self._last_warning, warning
        if warning != self.warning and (warning == before or not warning):
            self.warning = warning
            if warning:
                _LOG.warning("%s: %s", self._task.flow, warning)
            else:
                _LOG.info("%s: no Java worker runs tasks of this flow any more", self._task.flow)

    def _check_java_runs(self, now_s: float) -> None:
        unfinished = frozenset[JavaTaskRun]()
        if not self.skipped:
            unfinished = find_unfinished_java_runs(self._runs(), self._build_handover_query())
        if not unfinished:
            self._waits.forget_wait(self._task.key)
            self._end_wait()
            return
        wait = self._waits.get_or_begin_wait(self._task.key, unfinished, now_s=now_s)
        pending, until_s = wait.runs & unfinished, wait.started_s + self._delivery_timeout_s
        if not pending or now_s >= until_s:
            self._end_wait()
        else:
            self._update_wait(pending, until_s, now_s)

    def _build_handover_query(self) -> HandoverQuery:
        return HandoverQuery(
            partitions=self._task.partitions,
            delivery_timeout_s=self._delivery_timeout_s,
            wall_ms=self._clock.wall_ms(),
        )

    def _update_wait(self, pending: frozenset[JavaTaskRun], until_s: float, now_s: float) -> None:
        if (pending, until_s) != (self._pending, self._until_s):
            self._pending, self._until_s = pending, until_s
            self._reason, self._is_logged = self._describe_wait(now_s), False
        elif not self._is_logged:  # logged at the second check, so not for a wait of milliseconds
            self._is_logged = True
            _LOG.warning("%s: %s", self._task_name, self._reason)

    def _end_wait(self) -> None:
        if self._is_logged:
            _LOG.info("%s: no longer waiting for Java workers", self._task_name)
        self._reason, self._is_logged, self._pending = "", False, frozenset()

    @property
    def _task_name(self) -> str:
        return f"{self._task.flow} task {self._task.task.task}"

    def _describe_wait(self, now_s: float) -> str:
        wall_s = self._clock.wall_ms() / 1000 + self._until_s - now_s
        until = datetime.datetime.fromtimestamp(wall_s, datetime.UTC).strftime("%H:%M:%S")
        workers = ", ".join(sorted({each.worker_id for each in self._pending}))
        had = "ran" if any(each.has_known_partitions for each in self._pending) else "may have run"
        return (
            f"Java MirrorMaker 2 ({workers}) {had} partitions of this task and never reported "
            "that it stopped; it may be frozen or partitioned and still send batches, so "
            f"replication is delayed until {until} UTC. If you are sure that it has stopped, "
            "use mm2 run --java-stopped-cleanly, or set java.stopped.cleanly=true in the "
            "connector's configuration"
        )


def _describe_java_tasks(tasks: tuple[int, ...]) -> str:
    numbers = ", ".join(map(str, tasks))
    return (
        f"Java workers also run tasks of this flow ({numbers}): until these workers have stopped, "
        "only MirrorMaker 2's at-least-once guarantee applies, and reassigned tasks may replicate "
        "records twice"
    )
