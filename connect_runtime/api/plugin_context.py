"""Contexts: the worker's services for a connector or task.

Plugins receive their context and create none of it, so that a test can pass a fake. After a
plugin was stopped, its context raises IllegalWorkerStateError. Unless stated otherwise a context
may be used on the plugin's own thread only.
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
"""What there is to show at this moment, by metric: `api.Metric` declares one, `api.MetricFamily` is
one with its values by label values. Asked on other threads, at every scrape: answer at once."""


class OffsetReader(Protocol):
    """The source offsets of this connector, as last committed.

    Every call reads the offsets topic to its end: ask in `start`, not for each record. Raises
    ConnectError when that fails, or when the task was given up meanwhile.
    """

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """None if nothing was committed for the partition."""

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any] | None]:
        """One answer for each, in their order."""


class PluginContext(Protocol):
    """What every connector and task gets."""

    @property
    def clock(self) -> Clock:
        """The time; plugins do not read it elsewhere, so that tests can steer it."""

    def wait(self, timeout_s: float) -> bool:
        """Wait that long, or until the plugin is asked to stop: whether it is.

        In place of sleeping, so that nobody waits for a sleeper.
        """

    def add_metrics(self, read: ReadMetrics) -> None:
        """Show these besides the worker's own, for as long as the plugin runs (KIP-877).

        No label is added: connector and task are told apart by labels of the plugin's own. Of two
        plugins on one worker that declare a metric differently, or give the same series, the first
        is shown. What `read` raises is logged once, and costs its metrics alone.
        """


class ConnectorContext(PluginContext, Protocol):
    """Both methods may be called from any thread."""

    def request_task_reconfiguration(self) -> None:
        """Have `task_configs` called again, soon, since it would answer otherwise now."""

    def raise_error(self, error: Exception) -> None:
        """Set the connector's status to FAILED; its tasks go on."""


class SourceConnectorContext(ConnectorContext, Protocol):
    """With a look at the connector's tasks: their offsets, and how they are configured."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    def task_configs(self) -> Sequence[Mapping[str, str]]:
        """What was published last for this connector's tasks, in their order, whichever worker
        led then: to leave as much as can be as it is. `${…}` stands as it was written. Empty where
        nothing was, or not all of it is known. Any thread, at once.
        """


class SinkConnectorContext(ConnectorContext, Protocol):
    """Nothing more so far."""


class TaskContext(PluginContext, Protocol):
    """What every task gets."""

    @property
    def task_id(self) -> ConnectorTaskId: ...

    def configs(self) -> Mapping[str, str]:
        """The task's configuration, `${…}` resolved anew: secrets may have changed."""


class TransactionContext(Protocol):
    """Where transactions end, for `transaction.boundary=connector` (KIP-618).

    Without a record: after the batch that `poll` returns next. With one: after that record. What
    is said of a record goes before what is said of its batch; to commit and to abort at the same
    place is an error that ends the task. Aborting drops records, and still commits their offsets.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None: ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class SourceTaskContext(TaskContext, Protocol):
    """For `SourceTask`."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def transaction_context(self) -> TransactionContext | None:
        """None unless the task writes exactly once and may say where transactions end."""


class PendingReport(Protocol):
    """A reported record on its way to the dead letter topic."""

    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> None:
        """Wait for it, in seconds; raises what went wrong, TimeoutError if it takes longer."""


class ErrantRecordReporter(Protocol):
    """Where a sink task leaves records that it cannot use (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> PendingReport:
        """Report it; offsets of its partition wait until it is stored.

        With `errors.tolerance=none` the next call of `put` or `pre_commit` does not come: the
        task fails with `error`.
        """


class SinkTaskContext(TaskContext, Protocol):
    """For `SinkTask`."""

    def assignment(self) -> frozenset[TopicPartition]:
        """What the task consumes now."""

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Consume from these offsets on, from the next `put`; others go on where they are.

        Java's `offset`. Raises ConnectError for a partition that is not assigned.
        """

    def retry_after_ms(self, timeout_ms: int) -> None:
        """Have `put`, when it raises `RetriableError`, called again after that; otherwise, not
        later than that (Java's `timeout`)."""

    def pause(self, *partitions: TopicPartition) -> None:
        """Consume no more of these; ConnectError for one that is not assigned."""

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None:
        """Have offsets committed soon, not only at the next interval."""

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """None if the connector has neither a dead letter topic nor logs errors."""


class PipelineState(Enum):
    """How far a pipeline is; the worker shows it as the task's status.

    WAITING and STARTING are not RUNNING: a pipeline that has no place to run, or was heard of
    never, must not look as if it copied.
    """

    STARTING = "STARTING"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProgress:
    """A report; what it does not name has not changed.

    `reason` says in a sentence why the state is not RUNNING. `records_total` and `bytes_total`
    count from the start of the task and never fall. `offsets` are safe to commit: everything
    before them is stored where it belongs.
    """

    state: PipelineState = PipelineState.RUNNING
    reason: str = ""
    records_total: int = 0
    bytes_total: int = 0
    offsets: Sequence[SourceOffset] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTaskRun:
    """A run of a task by a worker of another make, Java's, as it told it in the status topic.

    Times are wall time by that worker's clock, in milliseconds. `ended_ms` None: it never said that
    it had ended it, as one does not that is killed, cut off or frozen. `overlaps`: nor had whoever
    ran it before, when this run began. `removed_ms`: since then (by the leader's clock) there is no
    such task any more, which says nothing of what its worker still does.
    """

    worker_id: str
    began_ms: int
    ended_ms: int | None = None
    overlaps: bool = False
    removed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderlessPeriod:
    """A time (wall, milliseconds) in which the group had no leader, as nobody renewed its session
    key; it ended when this worker started."""

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedTaskConfig:
    """What a task was configured with (as it was written: `${…}` stands), and since when: wall
    time by the clock of the worker that led then, in milliseconds; -1: not known."""

    config: Mapping[str, str | None] = field(repr=False)
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTaskRuns:
    """Who ran each task of a connector last, by number: workers of this make, or `others`.

    Tasks that nobody ran are in neither. `ours` have the time at which such a run began (wall, that
    worker's clock, milliseconds). `given` is what tasks were configured with, in order, as far as
    it is still known: the newest at least. `quiet` None: no such time is known of.
    """

    ours: Mapping[int, int] = field(default_factory=dict)
    others: Mapping[int, ForeignTaskRun] = field(default_factory=dict)
    given: Mapping[int, Sequence[DatedTaskConfig]] = field(default_factory=dict)
    quiet: LeaderlessPeriod | None = None


class PipelineTaskContext(TaskContext, Protocol):
    """For `PipelineTask`."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def stop_timeout_s(self) -> float:
        """How long `stop` may take before the worker calls `abandon`."""

    @property
    def session_timeout_s(self) -> float:
        """After so much silence of this worker its group gives the task to another; infinite for
        a worker alone."""

    def worker_properties(self, prefix: str) -> Mapping[str, str]:
        """Properties of the Connect worker whose names begin with `prefix`, by their full names.

        For settings that only the worker's operator may decide, not users who create connectors.
        """

    def confirmed_at_s(self) -> float:
        """The time, by `clock.now_s`, at which the newest heartbeat was sent that the group
        answered without error (a rebalance under way is one): then the task was this worker's.

        -inf before the first; for a worker alone, now. Any thread, at once.
        """

    def confirm_soon(self) -> None:
        """Have a heartbeat sent now, not only at the next interval, since somebody waits for
        `confirmed_at_s` to pass this moment. Any thread; returns at once."""

    def last_runs(self) -> LastTaskRuns:
        """Who ran the connector's tasks last, as far as this worker has read the status topic (it
        is behind by milliseconds). A task of this kind counts as run by us once it has reported
        RUNNING. Any thread, at once."""

    def report(self, progress: PipelineProgress) -> None:
        """Tell the worker; returns at once. Its offsets are committed within a second or so, or
        after `offset.flush.interval.ms` if that is less."""
