"""What plugins are given: implementations of `api.context` by this worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from connect_runtime.api import context, errors
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids

_Answer = TypeVar("_Answer")


class PluginContext:
    """Implements `context.PluginContext`; `stopping` is set when the plugin is asked to stop."""

    def __init__(self, *, clock: base_clock.Clock, stopping: threading.Event) -> None:
        self._clock = clock
        self._stopping = stopping
        self._closed = False

    @property
    def clock(self) -> base_clock.Clock:
        """See `api.context`; so for all below."""
        return self._clock

    def wait(self, timeout_s: float) -> bool:
        return self._stopping.wait(max(0.0, timeout_s))

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
        *,
        clock: base_clock.Clock,
        stopping: threading.Event,
        offset_reader: context.OffsetReader,
        on_reconfiguration: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        super().__init__(clock=clock, stopping=stopping)
        self._offset_reader = offset_reader
        self._on_reconfiguration = on_reconfiguration
        self._on_error = on_error

    @property
    def offset_reader(self) -> context.OffsetReader:
        return self._open(self._offset_reader)

    def request_task_reconfiguration(self) -> None:
        self._open(self._on_reconfiguration)()

    def raise_error(self, error: Exception) -> None:
        self._open(self._on_error)(error)


class TaskContext(PluginContext):
    """Implements `context.TaskContext`; `resolve` gives the configuration as of now."""

    def __init__(
        self,
        task: ids.ConnectorTaskId,
        *,
        clock: base_clock.Clock,
        stopping: threading.Event,
        resolve: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(clock=clock, stopping=stopping)
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
        *,
        clock: base_clock.Clock,
        stopping: threading.Event,
        resolve: Callable[[], Mapping[str, str]],
        offset_reader: context.OffsetReader,
    ) -> None:
        super().__init__(task, clock=clock, stopping=stopping, resolve=resolve)
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
        *,
        clock: base_clock.Clock,
        stopping: threading.Event,
        resolve: Callable[[], Mapping[str, str]],
        offset_reader: context.OffsetReader,
        stop_timeout_s: float,
        on_report: Callable[[context.PipelineProgress], None],
    ) -> None:
        super().__init__(
            task, clock=clock, stopping=stopping, resolve=resolve, offset_reader=offset_reader
        )
        self._stop_timeout_s = stop_timeout_s
        self._on_report = on_report

    @property
    def stop_timeout_s(self) -> float:
        return self._stop_timeout_s

    def report(self, progress: context.PipelineProgress) -> None:
        self._open(self._on_report)(progress)
