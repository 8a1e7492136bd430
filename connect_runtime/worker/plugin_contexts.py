"""Contexts that the worker passes to connectors and tasks. They implement the interfaces of
`api.plugin_context`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from connect_runtime.api.errors import IllegalWorkerStateError
from connect_runtime.api.plugin_context import (
    ErrantRecordReporter,
    LastTaskRuns,
    OffsetReader,
    PipelineProgress,
    ReadMetrics,
    TransactionContext,
)
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.herder.worker_interface import GroupMembership

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDeps:
    """Dependencies that all plugin contexts need."""

    clock: Clock
    stopping: threading.Event
    """Event that is set when the worker requests the connector or task to stop."""
    on_metrics: Callable[[ReadMetrics], None]
    """Registers the plugin's own metrics."""


class WorkerPluginContext:
    """Implements `PluginContext`."""

    def __init__(self, deps: ContextDeps) -> None:
        self._deps = deps
        self._closed = False

    @property
    def clock(self) -> Clock:
        """Clock of the worker. This and the following members are documented in
        `api.plugin_context`."""
        return self._deps.clock

    def wait(self, timeout_s: float) -> bool:
        return self._deps.stopping.wait(max(0.0, timeout_s))

    def add_metrics(self, read: ReadMetrics) -> None:
        self._require_open_context(self._deps.on_metrics)(lambda: () if self._closed else read())

    def close(self) -> None:
        """Close the context because the plugin was stopped. From now on, most methods of the
        context raise `IllegalWorkerStateError`."""
        self._closed = True

    def _require_open_context(self, answer: _Answer) -> _Answer:
        if self._closed:
            raise IllegalWorkerStateError("the context cannot be used after the plugin was stopped")
        return answer


class WorkerConnectorContext(WorkerPluginContext):
    """Implements `SourceConnectorContext` and `SinkConnectorContext`."""

    def __init__(
        self,
        deps: ContextDeps,
        *,
        offset_reader: OffsetReader,
        published: Callable[[], Sequence[Mapping[str, str]]],
        on_reconfiguration: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        super().__init__(deps)
        self._offset_reader = offset_reader
        self._published = published
        self._on_reconfiguration = on_reconfiguration
        self._on_error = on_error

    @property
    def offset_reader(self) -> OffsetReader:
        return self._require_open_context(self._offset_reader)

    def task_configs(self) -> Sequence[Mapping[str, str]]:
        return self._require_open_context(self._published)()

    def request_task_reconfiguration(self) -> None:
        self._require_open_context(self._on_reconfiguration)()

    def raise_error(self, error: Exception) -> None:
        self._require_open_context(self._on_error)(error)


class WorkerTaskContext(WorkerPluginContext):
    """Implements `TaskContext`. `resolve` returns the task's configuration with its `${…}`
    references resolved at the time of the call."""

    def __init__(
        self,
        task: ConnectorTaskId,
        deps: ContextDeps,
        *,
        resolve: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(deps)
        self._task = task
        self._resolve = resolve

    @property
    def task_id(self) -> ConnectorTaskId:
        return self._task

    def configs(self) -> Mapping[str, str]:
        return self._require_open_context(self._resolve)()


class WorkerSourceTaskContext(WorkerTaskContext):
    """Implements `SourceTaskContext`."""

    def __init__(
        self,
        task: ConnectorTaskId,
        deps: ContextDeps,
        *,
        resolve: Callable[[], Mapping[str, str]],
        offset_reader: OffsetReader,
    ) -> None:
        super().__init__(task, deps, resolve=resolve)
        self._offset_reader = offset_reader

    @property
    def offset_reader(self) -> OffsetReader:
        return self._require_open_context(self._offset_reader)

    @property
    def transaction_context(self) -> TransactionContext | None:
        return None


class WorkerPipelineTaskContext(WorkerSourceTaskContext):
    """Implements `PipelineTaskContext`."""

    def __init__(
        self,
        task: ConnectorTaskId,
        deps: ContextDeps,
        *,
        resolve: Callable[[], Mapping[str, str]],
        offset_reader: OffsetReader,
        stop_timeout_s: float,
        worker: Mapping[str, str],
        membership: GroupMembership,
        last_runs: Callable[[], LastTaskRuns],
        on_report: Callable[[PipelineProgress], None],
    ) -> None:
        super().__init__(task, deps, resolve=resolve, offset_reader=offset_reader)
        self._stop_timeout_s = stop_timeout_s
        self._worker = worker
        self._membership = membership
        self._last_runs = last_runs
        self._on_report = on_report

    @property
    def stop_timeout_s(self) -> float:
        return self._stop_timeout_s

    @property
    def session_timeout_s(self) -> float:
        return self._membership.session_timeout_s

    def get_worker_properties(self, prefix: str) -> Mapping[str, str]:
        return {key: text for key, text in self._worker.items() if key.startswith(prefix)}

    def get_last_heartbeat_s(self) -> float:
        return self._membership.get_last_heartbeat_s()

    def request_heartbeat(self) -> None:
        self._membership.request_heartbeat()

    def get_last_task_runs(self) -> LastTaskRuns:
        return self._require_open_context(self._last_runs)()

    def report(self, progress: PipelineProgress) -> None:
        self._require_open_context(self._on_report)(progress)


_Partitions = frozenset[TopicPartition]


class WorkerSinkTaskContext(WorkerTaskContext):
    """Implements `SinkTaskContext`. Used only on the task's thread."""

    def __init__(
        self,
        task: ConnectorTaskId,
        deps: ContextDeps,
        *,
        resolve: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(task, deps, resolve=resolve)
        self.assigned: _Partitions = frozenset()
        """Partitions that the worker has assigned to the task."""
        self.paused: _Partitions = frozenset()
        """Assigned partitions whose consumption the task has paused; updated after a rebalance."""
        self.on_pause: Callable[[_Partitions, bool], None] = lambda _partitions, _paused: None
        """Called with the affected partitions and True to pause or False to resume their
        consumption."""
        self._rewinds: dict[TopicPartition, int] = {}
        self._retry_s: float | None = None
        self._commit_requested = False

    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions assigned to the task. This and the following members are documented in
        `api.plugin_context`."""
        return self._require_open_context(self.assigned)

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._require_open_context(self._rewinds).update(offsets)

    def set_retry_delay_ms(self, timeout_ms: int) -> None:
        self._require_open_context(None)
        self._retry_s = timeout_ms / 1000.0

    def pause(self, *partitions: TopicPartition) -> None:
        selected = self._require_assigned_partitions("pausing", partitions)
        self.paused |= selected
        self.on_pause(selected, True)

    def resume(self, *partitions: TopicPartition) -> None:
        selected = self._require_assigned_partitions("resuming", partitions)
        self.paused -= selected
        self.on_pause(selected, False)

    def request_commit(self) -> None:
        self._require_open_context(None)
        self._commit_requested = True

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return None

    # Called by the worker

    def pop_rewinds(self, assigned: _Partitions) -> dict[TopicPartition, int]:
        """Return and clear the rewinds (offsets to consume from again, by partition) that the task
        requested. Rewinds of revoked partitions are discarded."""
        requested, self._rewinds = self._rewinds, {}
        return {each: offset for each, offset in requested.items() if each in assigned}

    def pop_retry_delay_s(self) -> float | None:
        """Return and clear the delay that the task requested before the next `put`; None if none
        was requested."""
        requested, self._retry_s = self._retry_s, None
        return requested

    def pop_commit_request(self) -> bool:
        """Return whether the task requested an offset commit, and clear the request."""
        requested, self._commit_requested = self._commit_requested, False
        return requested

    def _require_assigned_partitions(
        self, doing: str, partitions: Collection[TopicPartition]
    ) -> _Partitions:
        selected = self._require_open_context(frozenset(partitions))
        foreign = sorted(selected - self.assigned)
        if foreign:
            raise IllegalWorkerStateError(
                f"{doing} {', '.join(map(str, foreign))} failed: not assigned to {self.task_id}"
            )
        return selected
