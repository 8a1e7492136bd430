"""What plugins are given: implementations of `api.context` by this worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from connect_runtime.api import context, errors
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from connect_runtime.ports import worker as port

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Basics:
    """What every context is made with: `stopping` is set when the plugin is asked to stop,
    `on_metrics` takes what it wants to be shown."""

    clock: base_clock.Clock
    stopping: threading.Event
    on_metrics: Callable[[context.ReadMetrics], None]


class PluginContext:
    """Implements `context.PluginContext`."""

    def __init__(self, basics: Basics) -> None:
        self._basics = basics
        self._closed = False

    @property
    def clock(self) -> base_clock.Clock:
        """See `api.context`; so for all below."""
        return self._basics.clock

    def wait(self, timeout_s: float) -> bool:
        return self._basics.stopping.wait(max(0.0, timeout_s))

    def add_metrics(self, read: context.ReadMetrics) -> None:
        self._open(self._basics.on_metrics)(lambda: () if self._closed else read())

    def close(self) -> None:
        """The worker's: from now on the plugin is refused."""
        self._closed = True

    def _open(self, answer: _Answer) -> _Answer:
        if self._closed:
            raise errors.IllegalWorkerStateError(
                "the plugin was stopped: its context answers no more"
            )
        return answer


class ConnectorContext(PluginContext):
    """Implements `context.SourceConnectorContext` and `SinkConnectorContext`."""

    def __init__(
        self,
        basics: Basics,
        *,
        offset_reader: context.OffsetReader,
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
    def offset_reader(self) -> context.OffsetReader:
        return self._open(self._offset_reader)

    def task_configs(self) -> Sequence[Mapping[str, str]]:
        return self._open(self._published)()

    def request_task_reconfiguration(self) -> None:
        self._open(self._on_reconfiguration)()

    def raise_error(self, error: Exception) -> None:
        self._open(self._on_error)(error)


class TaskContext(PluginContext):
    """Implements `context.TaskContext`; `resolve` gives the configuration as of now."""

    def __init__(
        self,
        task: ids.ConnectorTaskId,
        basics: Basics,
        *,
        resolve: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(basics)
        self._task = task
        self._resolve = resolve

    @property
    def task_id(self) -> ids.ConnectorTaskId:
        return self._task

    def configs(self) -> Mapping[str, str]:
        return self._open(self._resolve)()


class SourceTaskContext(TaskContext):
    """Implements `context.SourceTaskContext`."""

    def __init__(
        self,
        task: ids.ConnectorTaskId,
        basics: Basics,
        *,
        resolve: Callable[[], Mapping[str, str]],
        offset_reader: context.OffsetReader,
    ) -> None:
        super().__init__(task, basics, resolve=resolve)
        self._offset_reader = offset_reader

    @property
    def offset_reader(self) -> context.OffsetReader:
        return self._open(self._offset_reader)

    @property
    def transaction_context(self) -> context.TransactionContext | None:
        return None


class PipelineTaskContext(SourceTaskContext):
    """Implements `context.PipelineTaskContext`."""

    def __init__(
        self,
        task: ids.ConnectorTaskId,
        basics: Basics,
        *,
        resolve: Callable[[], Mapping[str, str]],
        offset_reader: context.OffsetReader,
        stop_timeout_s: float,
        worker: Mapping[str, str],
        membership: port.Membership,
        last_runs: Callable[[], context.LastRuns],
        on_report: Callable[[context.PipelineProgress], None],
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

    def last_runs(self) -> context.LastRuns:
        return self._open(self._last_runs)()

    def report(self, progress: context.PipelineProgress) -> None:
        self._open(self._on_report)(progress)
