"""Tasks: the part of a connector that moves records.

A worker creates a task and calls `initialize` and `start` once, then the methods of the task's type
repeatedly, and finally `stop`. All calls are made on the task's own thread. An exception fails the
task, and the status then contains its stack trace. After a RetriableError from `poll` or `put`, the
call is retried.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Collection, Mapping, Sequence

from connect_runtime.api import plugin
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.plugin_context import (
    PipelineTaskContext,
    SinkTaskContext,
    SourceTaskContext,
)
from connect_runtime.api.records import RecordMetadata, SinkRecord, SourceRecord
from connect_runtime.base.ids import TopicPartition

ConsumedOffsets = Mapping[TopicPartition, int]
"""The next offset to consume for each topic partition."""


class TransactionBoundary(enum.Enum):
    """Transaction boundary of a source connector (`transaction.boundary`): defines when a
    transaction is committed."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"

    @classmethod
    def parse(cls, text: str) -> TransactionBoundary:
        """Parse a value of `transaction.boundary`, ignoring case. Raises ConfigError if the value
        is invalid."""
        try:
            return cls(text.strip().lower())
        except ValueError as error:
            allowed = ", ".join(each.value for each in cls)
            raise ConfigError(
                f"transaction.boundary must be one of {allowed}, not {text}"
            ) from error


class Task(abc.ABC):
    """Base class of all tasks."""

    def version(self) -> str:
        """Return the task version that is shown in the status, usually the connector's version."""
        return plugin.UNDEFINED_VERSION

    @abc.abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Start the task with one of the configurations that the connector's `task_configs`
        returned."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop the task and release all resources. Also called if `start` failed."""


class SourceTask(Task):
    """Reads records from a source; the worker writes them to Kafka."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records, or None or an empty sequence if no records are available.

        May wait for records (`context.wait`), but must return about every second, because a task
        can only be paused or stopped between calls.
        """

    def commit(self) -> None:
        """Called after offsets of records that `poll` returned were committed, for sources that
        track their own offsets.

        May be called on a different thread than `poll`, unless exactly-once support is enabled for
        the task.
        """

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Called for each record that `poll` returned, after Kafka acknowledged it or after it was
        filtered or skipped.

        `metadata` is None if the record was filtered or skipped. May be called on a different
        thread than `poll`. Must return quickly.
        """


class SinkTask(Task):
    """Writes records that the worker consumes from Kafka to a target system."""

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def put(self, sink_records: Sequence[SinkRecord]) -> None:
        """Write records to the target system. `sink_records` may be empty. The task may buffer
        records until `flush`."""

    def flush(self, offsets: ConsumedOffsets) -> None:
        """Durably store every record that was passed to `put` and whose offset is lower than its
        partition's offset in `offsets`."""

    def pre_commit(self, offsets: ConsumedOffsets) -> ConsumedOffsets:
        """Flush buffered records and return the offsets to commit; the default is all of `offsets`.

        May return lower offsets, or an empty mapping to commit no offsets.
        """
        self.flush(offsets)
        return offsets

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Prepare for newly assigned partitions. Called before records of these partitions are
        passed to `put`."""

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Release revoked partitions. Called after their offsets were committed."""


class PipelineTask(Task):
    """A source task that moves data outside the worker and reports its progress.

    The worker starts, pauses and stops the task like any other task, publishes its status and
    commits the offsets that the task reports, but never sees the records. Order of the calls:

        initialize · start · (pause | resume | reconfigure | run_once)* · stop

    All calls are made on the task's thread. A task that is assigned while it is paused is started
    when it is resumed. Its status becomes RUNNING only after a `context.report` with this state. An
    exception from `run_once` fails the task. A pipeline that can recover without the worker reports
    RESTARTING instead.
    """

    context: PipelineTaskContext

    def initialize(self, context: PipelineTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def run_once(self, timeout_s: float) -> None:
        """Supervise the pipeline: wait up to `timeout_s` for events, handle them, and report
        progress.

        The worker calls this method in a loop.
        """

    @abc.abstractmethod
    def pause(self) -> None:
        """Stop moving data until `resume` is called.

        Must return quickly. `run_once` may continue to drain the pipeline.
        """

    @abc.abstractmethod
    def resume(self) -> None: ...

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Apply a new configuration that was published while the task is running or paused.

        Returns True if the configuration was applied without a restart. The worker then treats the
        task as running with `props`. If False is returned, the worker stops the task and starts it
        with the new configuration. Not called if only the connector's own configuration changed.
        Must return quickly. An exception fails the task.
        """
        del props
        return False

    @abc.abstractmethod
    def stop(self) -> None:
        """Drain the pipeline, report the last offsets, and stop the pipeline.

        Must return within `context.stop_timeout_s`. Nothing may be written after that time, because
        another worker may already be running this task.
        """

    def abandon(self) -> None:
        """Stop the pipeline immediately without draining, because `stop` did not return in time.

        Called on a different thread while `stop` is still running. Must not block.
        """
