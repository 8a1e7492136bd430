"""Contexts that the worker passes to connectors and tasks: implementations of `api.context`."""

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
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.timing import Clock
from connect_runtime.herder.worker_interface import GroupMembership

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDeps:
    """What every context is made with: `stopping` is set when the plugin is asked to stop,
    `on_metrics` takes what it wants to be shown."""

    clock: Clock
    stopping: threading.Event
    on_metrics: Callable[[ReadMetrics], None]


class WorkerPluginContext:
    """Implements `PluginContext`."""

    def __init__(self, basics: ContextDeps) -> None:
        self._basics = basics
        self._closed = False

    @property
    def clock(self) -> Clock:
        """See `api.context`; so for all below."""
        return self._basics.clock

    def wait(self, timeout_s: float) -> bool:
        return self._basics.stopping.wait(max(0.0, timeout_s))

    def add_metrics(self, read: ReadMetrics) -> None:
        self._open(self._basics.on_metrics)(lambda: () if self._closed else read())

    def close(self) -> None:
        """The worker's: from now on the plugin is refused."""
        self._closed = True

    def _open(self, answer: _Answer) -> _Answer:
        if self._closed:
            raise IllegalWorkerStateError("the plugin was stopped: its context answers no more")
        return answer


class WorkerConnectorContext(WorkerPluginContext):
    """Implements `SourceConnectorContext` and `SinkConnectorContext`."""

    def __init__(
        self,
        basics: ContextDeps,
        *,
        offset_reader: OffsetReader,
        published: Callable[[], Sequence[Mapping[str, str]]],
        on_reconfiguration: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        super().__init__(basics)
        self._offset_reader = offset_reader
        self._published = published
        self._on_reconfiguration = on_reconfiguration
        self._on_error = on_error

    @property
    def offset_reader(self) -> OffsetReader:
        return self._open(self._offset_reader)

    def task_configs(self) -> Sequence[Mapping[str, str]]:
        return self._open(self._published)()

    def request_task_reconfiguration(self) -> None:
        self._open(self._on_reconfiguration)()

    def raise_error(self, error: Exception) -> None:
        self._open(self._on_error)(error)


class WorkerTaskContext(WorkerPluginContext):
    """Implements `TaskContext`; `resolve` gives the configuration as of now."""

    def __init__(
        self,
        task: ConnectorTaskId,
        basics: ContextDeps,
        *,
        resolve: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(basics)
        self._task = task
        self._resolve = resolve

    @property
    def task_id(self) -> ConnectorTaskId:
        return self._task

    def configs(self) -> Mapping[str, str]:
        return self._open(self._resolve)()


class WorkerSourceTaskContext(WorkerTaskContext):
    """Implements `SourceTaskContext`."""

    def __init__(
        self,
        task: ConnectorTaskId,
        basics: ContextDeps,
        *,
        resolve: Callable[[], Mapping[str, str]],
        offset_reader: OffsetReader,
    ) -> None:
        super().__init__(task, basics, resolve=resolve)
        self._offset_reader = offset_reader

    @property
    def offset_reader(self) -> OffsetReader:
        return self._open(self._offset_reader)

    @property
    def transaction_context(self) -> TransactionContext | None:
        return None


class WorkerPipelineTaskContext(WorkerSourceTaskContext):
    """Implements `PipelineTaskContext`."""

    def __init__(
        self,
        task: ConnectorTaskId,
        basics: ContextDeps,
        *,
        resolve: Callable[[], Mapping[str, str]],
        offset_reader: OffsetReader,
        stop_timeout_s: float,
        worker: Mapping[str, str],
        membership: GroupMembership,
        last_runs: Callable[[], LastTaskRuns],
        on_report: Callable[[PipelineProgress], None],
    ) -> None:
        super().__init__(task, basics, resolve=resolve, offset_reader=offset_reader)
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

    def worker_properties(self, prefix: str) -> Mapping[str, str]:
        return {key: text for key, text in self._worker.items() if key.startswith(prefix)}

    def confirmed_at_s(self) -> float:
        return self._membership.confirmed_at_s()

    def confirm_soon(self) -> None:
        self._membership.confirm_soon()

    def last_runs(self) -> LastTaskRuns:
        return self._open(self._last_runs)()

    def report(self, progress: PipelineProgress) -> None:
        self._open(self._on_report)(progress)


_Partitions = frozenset[TopicPartition]


class WorkerSinkTaskContext(WorkerTaskContext):
    """Implements `SinkTaskContext`, for the task's thread.

    `assigned` is what the worker says, `paused` what the task has paused of it, or of what it had
    until the rebalance that is under way; the consumer is
    told through `on_pause(partitions, paused)`.
    """

    def __init__(
        self,
        task: ConnectorTaskId,
        basics: ContextDeps,
        *,
        resolve: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(task, basics, resolve=resolve)
        self.assigned: _Partitions = frozenset()
        self.paused: _Partitions = frozenset()
        self.on_pause: Callable[[_Partitions, bool], None] = lambda _partitions, _paused: None
        self._rewinds: dict[TopicPartition, int] = {}
        self._retry_s: float | None = None
        self._commit_wanted = False

    def assignment(self) -> frozenset[TopicPartition]:
        """See `api.context`; so for all below."""
        return self._open(self.assigned)

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._open(self._rewinds).update(offsets)

    def retry_after_ms(self, timeout_ms: int) -> None:
        self._open(None)
        self._retry_s = timeout_ms / 1000.0

    def pause(self, *partitions: TopicPartition) -> None:
        chosen = self._assigned("pausing", partitions)
        self.paused |= chosen
        self.on_pause(chosen, True)

    def resume(self, *partitions: TopicPartition) -> None:
        chosen = self._assigned("resuming", partitions)
        self.paused -= chosen
        self.on_pause(chosen, False)

    def request_commit(self) -> None:
        self._open(None)
        self._commit_wanted = True

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        return None

    # The worker's

    def take_rewinds(self, assigned: _Partitions) -> dict[TopicPartition, int]:
        """Asked for since the last call; of partitions that are gone: nobody's any more."""
        wanted, self._rewinds = self._rewinds, {}
        return {each: offset for each, offset in wanted.items() if each in assigned}

    def take_retry_s(self) -> float | None:
        wanted, self._retry_s = self._retry_s, None
        return wanted

    def take_commit_request(self) -> bool:
        wanted, self._commit_wanted = self._commit_wanted, False
        return wanted

    def _assigned(self, doing: str, partitions: Collection[TopicPartition]) -> _Partitions:
        chosen = self._open(frozenset(partitions))
        foreign = sorted(chosen - self.assigned)
        if foreign:
            raise IllegalWorkerStateError(
                f"{doing} {', '.join(map(str, foreign))}: not assigned to {self.task_id} now"
            )
        return chosen
