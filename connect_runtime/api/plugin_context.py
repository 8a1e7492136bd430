"""Contexts: the services of the worker that a connector or task can use.

Plugins receive a context and never create one, so that tests can pass a fake. After a plugin was
stopped, its context raises IllegalWorkerStateError. A context may only be used on the plugin's own
thread unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from connect_runtime.api.records import SinkRecord, SourceOffset, SourceRecord
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.base.timing import Clock

ReadMetrics = Callable[[], Iterable[MetricFamily]]
"""Returns the current metrics:

`api.Metric` declares one, `api.MetricFamily` adds its values by label.

Called on other threads at every scrape, and must return at once.
"""


class OffsetReader(Protocol):
    """Reads the committed source offsets of this connector.

    Every call reads the offsets topic to its end: call it in `start`, not for each record. Raises
    ConnectError if the read fails, or if the task was cancelled in the meantime.
    """

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the offset of a source partition; None if no offset is committed."""

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any] | None]:
        """Return the offset of each partition, in the same order."""


class PluginContext(Protocol):
    """Services that are available to every connector and task."""

    @property
    def clock(self) -> Clock:
        """The clock. Plugins must not read the time elsewhere, so that tests can control it."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for `timeout_s`, or until the plugin is asked to stop. Returns True if it must stop.

        Use it instead of sleeping, so that stopping does not have to wait for the plugin.
        """

    def add_metrics(self, read: ReadMetrics) -> None:
        """Publish the metrics that `read` returns while the plugin runs (KIP-877).

        No labels are added: the plugin's own labels must identify connector and task. If two
        plugins of a worker declare a metric differently or return the same series, the first one is
        published. An exception of `read` is logged once and drops only the metrics of this plugin.
        """


class ConnectorContext(PluginContext, Protocol):
    """Services for connectors. Both methods may be called from any thread."""

    def request_task_reconfiguration(self) -> None:
        """Request a call of `task_configs` soon, because its result has changed."""

    def raise_error(self, error: Exception) -> None:
        """Set the connector's status to FAILED; its tasks keep running."""


class SourceConnectorContext(ConnectorContext, Protocol):
    """Services for source connectors: offsets and current configurations of their tasks."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    def task_configs(self) -> Sequence[Mapping[str, str]]:
        """Return the last published configurations of this connector's tasks, in task order.

        Lets a connector keep assignments stable, whichever worker published them. `${…}` references
        are unresolved. Empty if nothing was published or the set is incomplete. May be called from
        any thread; returns at once.
        """


class SinkConnectorContext(ConnectorContext, Protocol):
    """Services for sink connectors; nothing in addition to `ConnectorContext`."""


class TaskContext(PluginContext, Protocol):
    """Services that are available to every task."""

    @property
    def task_id(self) -> ConnectorTaskId: ...

    def configs(self) -> Mapping[str, str]:
        """Return the task's configuration with `${…}` resolved again, because secrets may have
        changed."""


class TransactionContext(Protocol):
    """Defines transaction boundaries, for `transaction.boundary=connector` (KIP-618).

    Without a record, the boundary is after the batch that `poll` returns next; with a record, after
    that record. A boundary at a record takes precedence over one at its batch. Requesting both
    commit and abort at one position fails the task. Aborting drops the records but still commits
    their offsets.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None: ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class SourceTaskContext(TaskContext, Protocol):
    """Services for `SourceTask`."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def transaction_context(self) -> TransactionContext | None:
        """None unless the task writes exactly once with `transaction.boundary=connector`."""


class PendingReport(Protocol):
    """A reported record that is being written to the dead letter queue."""

    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> None:
        """Wait up to `timeout` seconds until the record is written.

        Raises the error of the write, or TimeoutError.
        """


class ErrantRecordReporter(Protocol):
    """Reports records that a sink task cannot process (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> PendingReport:
        """Report a record; offsets of its partition are not committed until the report is stored.

        With `errors.tolerance=none` the task fails with `error` at the next `put` or `pre_commit`.
        """


class SinkTaskContext(TaskContext, Protocol):
    """Services for `SinkTask`."""

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the task consumes now."""

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seek these partitions to these offsets before the next `put` (Java's `offset`).

        Raises ConnectError for a partition that is not assigned.
        """

    def set_retry_delay_ms(self, timeout_ms: int) -> None:
        """Set the delay until the next `put`: exact after a `RetriableError`, otherwise a maximum.

        Java's `timeout`.
        """

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop consuming these partitions.

        Raises ConnectError for a partition that is not assigned.
        """

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None:
        """Request an offset commit soon instead of at the next interval."""

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """None if the connector has no dead letter queue and does not log errors."""


class PipelineState(Enum):
    """State of a pipeline, which the worker publishes as the task's status.

    WAITING and STARTING are not RUNNING: a pipeline without a slot to run in, or one that has not
    reported yet, must not look as if it were copying.
    """

    STARTING = "STARTING"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProgress:
    """A progress report of a pipeline. Offsets that it does not list are unchanged."""

    state: PipelineState = PipelineState.RUNNING
    reason: str = ""
    """One sentence that explains why the state is not RUNNING."""
    records_total: int = 0
    """Records since the start of the task; never decreases."""
    bytes_total: int = 0
    """Bytes since the start of the task; never decreases."""
    offsets: Sequence[SourceOffset] = ()
    """Offsets that are safe to commit: all data before them is stored in the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTaskRun:
    """A task run by a Java worker, as that worker reported it in the status topic.

    Times are wall-clock milliseconds.
    """

    worker_id: str
    started_ms: int
    """Start time by that worker's clock."""
    ended_ms: int | None = None
    """End time by that worker's clock; None if it never reported an end (killed, partitioned,
    frozen)."""
    overlaps: bool = False
    """True if the previous run had not reported its end when this run started."""
    removed_ms: int | None = None
    """When the task was removed from the configuration, by the leader's clock; None if it still
    exists.

    The worker may still be running the task after that.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderlessPeriod:
    """A period without a leader: the session key was not rotated.

    It ended when this worker started.

    Times are wall-clock milliseconds.
    """

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedTaskConfig:
    """A configuration that was published for a task."""

    config: Mapping[str, str | None] = field(repr=False)
    """As written: `${…}` references are unresolved."""
    published_ms: int
    """When it was published: wall-clock milliseconds of the leader at that time; -1 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTaskRuns:
    """The worker that ran each task of a connector last, by task number.

    A task is in `own_start_ms`, in `foreign`, or, if it never ran, in neither.
    """

    own_start_ms: Mapping[int, int] = field(default_factory=dict)
    """Start of the last run by a worker of this implementation: wall-clock milliseconds of that
    worker."""
    foreign: Mapping[int, ForeignTaskRun] = field(default_factory=dict)
    """Last runs by Java workers."""
    configs: Mapping[int, Sequence[DatedTaskConfig]] = field(default_factory=dict)
    """Published configurations of each task that are still known, oldest first; always the newest.
    """
    leaderless_period: LeaderlessPeriod | None = None
    """None if no leaderless period is known."""


class PipelineTaskContext(TaskContext, Protocol):
    """Services for `PipelineTask`."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def stop_timeout_s(self) -> float:
        """Time limit for `stop`; after it the worker calls `abandon`."""

    @property
    def session_timeout_s(self) -> float:
        """After this long without a heartbeat the group assigns the task to another worker.

        Infinite for a standalone worker.
        """

    def worker_properties(self, prefix: str) -> Mapping[str, str]:
        """Return the worker's properties whose names begin with `prefix`, with their full names.

        For settings that only the worker's operator may change, not the users who create
        connectors.
        """

    def last_heartbeat_s(self) -> float:
        """Return when the newest successful heartbeat was sent, by `clock.now_s`.

        The task belonged to this worker at that time. A response that reports a rebalance in
        progress counts as success. Returns -inf before the first heartbeat, and the current time on
        a standalone worker. May be called from any thread; returns at once.
        """

    def request_heartbeat(self) -> None:
        """Request a heartbeat now instead of at the next interval.

        For callers that wait until `last_heartbeat_s` passes the present time. May be called from
        any thread; returns at once.
        """

    def last_runs(self) -> LastTaskRuns:
        """Return the last runs of the connector's tasks, according to the status topic.

        This worker's view of the topic lags by milliseconds. A pipeline task counts as run by this
        implementation once it has reported RUNNING. May be called from any thread; returns at once.
        """

    def report(self, progress: PipelineProgress) -> None:
        """Report progress to the worker; returns at once.

        The offsets are committed within about a second, or `offset.flush.interval.ms` if that is
        shorter.
        """
