"""Tasks: the part of a connector that moves records.

A worker creates a task, calls `initialize` and `start` once, then the methods of its kind
repeatedly, and `stop` once, all on the task's own thread. An exception fails the task, and the
status contains its stack trace; after a RetriableError from `poll` or `put` the call is repeated.
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
"""The next offset to consume, by partition."""


class TransactionBoundary(enum.Enum):
    """`transaction.boundary` of a source connector: when a transaction is committed."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"

    @classmethod
    def parse(cls, text: str) -> TransactionBoundary:
        """Parse the value, ignoring case. Raises ConfigError if it is not a boundary."""
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
        """Return the version that is shown in the task's status; usually the connector's."""
        return plugin.UNDEFINED_VERSION

    @abc.abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Start with one of the configurations that the connector's `task_configs` returned."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop and release all resources; also called if `start` failed."""


class SourceTask(Task):
    """Reads records from a source; the worker writes them to Kafka."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records, or None or an empty sequence if there are none now.

        May wait for records (`context.wait`), but must return about every second, because a task
        can only be paused or stopped between calls.
        """

    def commit(self) -> None:
        """Called after offsets of returned records were committed; for sources that track their
        own.

        May be called from another thread than `poll`, unless the task writes exactly once.
        """

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Called after Kafka acknowledged a record, or after it was filtered or skipped.

        `metadata` is None in the latter case. May be called from another thread than `poll`; must
        return quickly.
        """


class SinkTask(Task):
    """Writes records that the worker has consumed from Kafka to a target system."""

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def put(self, sink_records: Sequence[SinkRecord]) -> None:
        """Write these records, possibly none. They may be buffered until `flush`."""

    def flush(self, offsets: ConsumedOffsets) -> None:
        """Store durably every record that was put before these offsets."""

    def pre_commit(self, offsets: ConsumedOffsets) -> ConsumedOffsets:
        """Return the offsets to commit: by default all of `offsets`, after a `flush`.

        May return lower offsets, or an empty mapping to commit nothing.
        """
        self.flush(offsets)
        return offsets

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Called after these partitions were assigned, before their first records."""

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Called after these partitions were revoked; their offsets were committed just before."""


class PipelineTask(Task):
    """A source task that moves its data outside the worker, and reports its progress.

    The worker starts, pauses and stops it like any other task, publishes its status and commits the
    offsets that it reports, but never sees the records. Order of the calls:

        initialize · start · (pause | resume | reconfigure | run_once)* · stop

    all on the task's thread. A task that is assigned while paused is started when it is resumed.
    Its status becomes RUNNING only after `context.report` said so. An exception from `run_once`
    fails the task; a pipeline that can recover by itself reports RESTARTING instead.
    """

    context: PipelineTaskContext

    def initialize(self, context: PipelineTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def run_once(self, timeout_s: float) -> None:
        """Supervise the pipeline: wait up to `timeout_s` for events, handle them, and report
        progress.

        Called in a loop.
        """

    @abc.abstractmethod
    def pause(self) -> None:
        """Stop moving data until `resume`.

        Must return quickly; draining may continue in `run_once`.
        """

    @abc.abstractmethod
    def resume(self) -> None: ...

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Apply a new configuration that was published while the task is running or paused.

        Returns True if it was applied without a restart: the worker then treats the task as running
        with `props`. With False the task is stopped and started with the new configuration. Not
        called if only the connector's own configuration changed. Must return quickly; an exception
        fails the task.
        """
        del props
        return False

    @abc.abstractmethod
    def stop(self) -> None:
        """Drain the pipeline, report the last offsets and end it.

        Must return within `context.stop_timeout_s`; nothing may be written after that, because
        another worker may already run this task.
        """

    def abandon(self) -> None:
        """End the pipeline at once without draining, because `stop` did not return in time.

        Called from another thread while `stop` is still running; must not block.
        """
