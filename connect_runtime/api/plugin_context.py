"""Contexts: worker services that a connector or task can use.

Plugins receive a context and never create one, so that tests can pass a fake. After a plugin has
been stopped, its context raises IllegalWorkerStateError. Unless stated otherwise, a context may
only be used on the plugin's own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from connect_runtime.api.records import SinkRecord, SourceOffset, SourceRecord
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.metrics import MetricFamily

ReadMetrics = Callable[[], Iterable[MetricFamily]]
"""Function that returns a plugin's current metrics as `api.MetricFamily` objects. Called on other
threads at every scrape, and must return immediately."""


class OffsetReader(Protocol):
    """Reads the committed source offsets of this connector.

    Every call reads the offsets topic to its end, so use the reader in `start`, not for each
    record. Raises ConnectError if the read fails or the task is cancelled during the read.
    """

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the committed offset of a source partition; None if no offset is committed."""

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any] | None]:
        """Return the committed offset of each source partition, in the same order."""


class PluginContext(Protocol):
    """Services that are available to every connector and task."""

    @property
    def clock(self) -> Clock:
        """Return the clock. Plugins must read the time only from this clock, so that tests can
        control it."""

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds. Return True as soon as the worker stops the plugin, or
        False if the time has elapsed.

        Call this method instead of sleeping, so that the worker can stop the plugin without delay.
        """

    def add_metrics(self, read: ReadMetrics) -> None:
        """Publish the metrics that `read` returns while the plugin is running (KIP-877).

        No labels are added, so the plugin's own labels must identify connector and task. If two
        plugins of a worker declare a metric differently or return the same series, only the first
        declaration or series is published. An exception raised by `read` is logged once and removes
        only this plugin's metrics.
        """


class ConnectorContext(PluginContext, Protocol):
    """Services for connectors. `request_task_reconfiguration` and `raise_error` may be called on
    any thread."""

    def request_task_reconfiguration(self) -> None:
        """Ask the worker to call `task_configs` soon, because its result has changed."""

    def raise_error(self, error: Exception) -> None:
        """Set the connector's status to FAILED. Its tasks keep running."""


class SourceConnectorContext(ConnectorContext, Protocol):
    """Services for source connectors: committed offsets and current task configurations."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    def task_configs(self) -> Sequence[Mapping[str, str]]:
        """Return the most recently published configurations of this connector's tasks, in task
        order, regardless of which worker published them.

        A connector can use them to assign the same work to each task as before. `${…}` references
        are unresolved. The result is empty if no configurations were published or the set is
        incomplete. May be called on any thread; returns immediately.
        """


class SinkConnectorContext(ConnectorContext, Protocol):
    """Services for sink connectors: the same as in `ConnectorContext`."""


class TaskContext(PluginContext, Protocol):
    """Services that are available to every task."""

    @property
    def task_id(self) -> ConnectorTaskId: ...

    def configs(self) -> Mapping[str, str]:
        """Return the task's configuration. `${…}` references are resolved again, because secrets
        may have changed."""


class TransactionContext(Protocol):
    """Defines transaction boundaries for `transaction.boundary=connector` (KIP-618).

    If `commit_transaction` or `abort_transaction` is called without a record, the boundary is after
    the batch that `poll` returns next; if it is called with a record, the boundary is after that
    record. A record's boundary takes precedence over its batch's boundary. The task fails if both
    commit and abort are requested at the same position. Aborting drops the records but still
    commits their offsets.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None: ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class SourceTaskContext(TaskContext, Protocol):
    """Worker services for a `SourceTask`."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def transaction_context(self) -> TransactionContext | None:
        """Return the transaction context; None unless exactly-once support is enabled for the task
        and `transaction.boundary` is `connector`."""


class PendingReport(Protocol):
    """Handle for a record that was reported and is being written to the dead letter queue."""

    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> None:
        """Wait up to `timeout` seconds until the reported record has been written to the dead
        letter queue.

        Raises the write error, or TimeoutError.
        """


class ErrantRecordReporter(Protocol):
    """Reports records that a sink task cannot process (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> PendingReport:
        """Report a record that failed with `error`. Offsets of its partition are not committed
        until the report is stored.

        With `errors.tolerance=none`, the next `put` or `pre_commit` fails the task with `error`.
        """


class SinkTaskContext(TaskContext, Protocol):
    """Worker services for a `SinkTask`."""

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are currently assigned to the task."""

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seek each partition in `offsets` to its offset before the next `put` (Java's `offset`).

        Raises ConnectError if a partition is not assigned.
        """

    def set_retry_delay_ms(self, timeout_ms: int) -> None:
        """Set the delay before the next `put` (Java's `timeout`).

        After a `RetriableError` the delay is exact, otherwise it is a maximum.
        """

    def pause(self, *partitions: TopicPartition) -> None:
        """Pause consumption of the given partitions.

        Raises ConnectError if a partition is not assigned.
        """

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None:
        """Request an offset commit now instead of at the next commit interval."""

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Return the errant record reporter; None if the connector neither has a dead letter queue
        nor logs errors."""


class PipelineState(Enum):
    """State of a pipeline (a process that moves a task's data outside the worker). The worker
    publishes it as the task's status.

    WAITING and STARTING differ from RUNNING so that a pipeline that is waiting for free capacity,
    or has not reported yet, does not appear to be copying.
    """

    STARTING = "STARTING"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProgress:
    """A progress report of a pipeline (a process that moves a task's data outside the worker).
    Offsets of partitions that are not listed are unchanged."""

    state: PipelineState = PipelineState.RUNNING
    reason: str = ""
    """A sentence that explains why the state is not RUNNING."""
    records_total: int = 0
    """Number of records copied since the task started; never decreases."""
    bytes_total: int = 0
    """Number of bytes copied since the task started; never decreases."""
    offsets: Sequence[SourceOffset] = ()
    """Offsets that are safe to commit, because all data before them is stored in the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaWorkerTaskRun:
    """One run of a task by a Java worker, as recorded by that worker in the status topic.

    Times are in milliseconds since 1970-01-01 UTC.
    """

    worker_id: str
    started_ms: int
    """Start time by the Java worker's clock."""
    ended_ms: int | None = None
    """End time by the Java worker's clock; None if the worker never reported an end (for example
    because it was killed, suspended or cut off from the network)."""
    overlaps: bool = False
    """True if this run started before the previous run reported its end."""
    removed_ms: int | None = None
    """Time at which the task was removed from the configuration, by the leader's clock; None if the
    task still exists. The worker may still be running the task after that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderlessPeriod:
    """A period in which the group had no leader, inferred from a session key (KIP-507) that was not
    rotated when it expired.

    The period ended when this worker started. Times are in milliseconds since 1970-01-01 UTC.
    """

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTaskConfig:
    """A task configuration with the time at which it was published."""

    config: Mapping[str, str | None] = field(repr=False)
    """The configuration as published, with unresolved `${…}` references."""
    published_ms: int
    """Wall-clock time of the leader when it published the configuration, in milliseconds; -1 if
    unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTaskRuns:
    """The last run of each task of a connector, by task number.

    A task whose last run was on a Python worker (this implementation) is in `own_start_ms`; a task
    whose last run was on a Java worker is in `foreign`. A task that has never run is in neither.
    """

    own_start_ms: Mapping[int, int] = field(default_factory=dict)
    """Start time of each task's last run on a Python worker, in milliseconds since 1970-01-01 UTC
    by that worker's clock."""
    foreign: Mapping[int, JavaWorkerTaskRun] = field(default_factory=dict)
    """Last run of each task that was last run by a Java worker."""
    configs: Mapping[int, Sequence[PublishedTaskConfig]] = field(default_factory=dict)
    """Known published configurations of each task, oldest first. The newest configuration is always
    included."""
    leaderless_period: LeaderlessPeriod | None = None
    """The period in which the group had no leader; None if no such period is known."""


class PipelineTaskContext(TaskContext, Protocol):
    """Worker services for a `PipelineTask`."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def stop_timeout_s(self) -> float:
        """Return the time limit for `stop` in seconds. After this time the worker calls
        `abandon`."""

    @property
    def session_timeout_s(self) -> float:
        """Return the group's session timeout in seconds. After this time without a heartbeat, the
        group assigns the task to another worker.

        Infinite for a standalone worker.
        """

    def get_worker_properties(self, prefix: str) -> Mapping[str, str]:
        """Return the worker properties whose names start with `prefix`, with their full names.

        Use them for settings that only the worker's operator may change, not the users who create
        connectors.
        """

    def get_last_heartbeat_s(self) -> float:
        """Return the time of the last successful heartbeat in seconds of the monotonic clock
        (`clock.now_s`). When that heartbeat was sent, the group still assigned the task to this
        worker.

        A response that reports a rebalance in progress counts as success. Returns -inf before the
        first heartbeat, and the current time on a standalone worker. May be called on any thread;
        returns immediately.
        """

    def request_heartbeat(self) -> None:
        """Send a heartbeat now instead of at the next interval.

        To verify that the task is still assigned to this worker, call this method and then poll
        `get_last_heartbeat_s` until it returns a time after the call. May be called on any thread;
        returns immediately.
        """

    def get_last_task_runs(self) -> LastTaskRuns:
        """Return the last runs of the connector's tasks, according to the status topic.

        This worker's view of the topic may be some milliseconds old. A pipeline task is recorded as
        run by a Python worker only after it has reported RUNNING. May be called on any thread;
        returns immediately.
        """

    def report(self, progress: PipelineProgress) -> None:
        """Report the task's progress to the worker; returns immediately.

        The worker commits `progress.offsets` within about a second, or within
        `offset.flush.interval.ms` if it is shorter.
        """
