"""Tasks: the part of a connector that moves records.

A worker creates a task, calls `initialize` and `start` once, then the methods of its kind
repeatedly, and `stop` once, all on the task's own thread. An exception fails the task, with its
trace in the status; after a RetriableError from `poll` or `put` the call is repeated.
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
"""Per partition the offset to consume next."""


class TransactionBoundary(enum.Enum):
    """`transaction.boundary` of a source connector: what one transaction holds."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"

    @classmethod
    def parse(cls, text: str) -> TransactionBoundary:
        """In any case; ConfigError for something else."""
        try:
            return cls(text.strip().lower())
        except ValueError as error:
            allowed = ", ".join(each.value for each in cls)
            raise ConfigError(f"transaction.boundary is one of {allowed}, not {text}") from error


class Task(abc.ABC):
    """What all kinds share."""

    def version(self) -> str:
        """Shown in the task's status; usually the connector's."""
        return plugin.UNDEFINED_VERSION

    @abc.abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Begin, with one of the configurations that the connector's `task_configs` gave."""

    @abc.abstractmethod
    def stop(self) -> None:
        """End and release everything; called also when `start` has failed."""


class SourceTask(Task):
    """Reads a source and gives records to the worker, which writes them to Kafka."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records; none if there are none now.

        It may wait for them (`context.wait`), but must return every second or so: only between
        calls can the task be paused or stopped.
        """

    def commit(self) -> None:
        """Offsets of records given so far were committed; for sources that keep their own.

        May come from another thread than `poll`, unless the task writes exactly once.
        """

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Kafka has the record, or (without `metadata`) it was filtered or skipped.

        May come from another thread than `poll`: return soon.
        """


class SinkTask(Task):
    """Is given records that the worker has consumed, and puts them somewhere."""

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def put(self, sink_records: Sequence[SinkRecord]) -> None:
        """Take these; perhaps none. To buffer them is fine, up to `flush`."""

    def flush(self, offsets: ConsumedOffsets) -> None:
        """Store everything that was put before these offsets, for good."""

    def pre_commit(self, offsets: ConsumedOffsets) -> ConsumedOffsets:
        """What may be committed: all of `offsets` after a `flush`, less, or nothing (empty)."""
        self.flush(offsets)
        return offsets

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Records of these may come from now on."""

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """No more of these: finish what is open; offsets were committed just before."""


class PipelineTask(Task):
    """A source task that moves its data itself, elsewhere, and reports how far it is.

    The worker treats it like any task: starts it when it is assigned, pauses and stops it, shows
    its status, commits the offsets that it reports. It never sees the records. Calls:

        initialize · start · (pause | resume | reconfigure | run_once)* · stop

    all on the task's thread; a task that is assigned while paused is not started before it is
    resumed. It is RUNNING once `context.report` has said so, not earlier. `run_once` raising
    fails the task; what a pipeline can mend itself it reports as RESTARTING.
    """

    context: PipelineTaskContext

    def initialize(self, context: PipelineTaskContext) -> None:
        self.context = context

    @abc.abstractmethod
    def run_once(self, timeout_s: float) -> None:
        """Look after the pipeline: wait for news no longer than that, act on it, report.

        Called again and again; how often follows from how long it waits.
        """

    @abc.abstractmethod
    def pause(self) -> None:
        """Move nothing until `resume`. Return soon; settling may go on in `run_once`."""

    @abc.abstractmethod
    def resume(self) -> None: ...

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Other configurations were published, this one for this task, while it runs (or rests).

        True: taken up, it goes on, and the worker counts it as running with `props`. False: it is
        stopped, and started anew with them. Not called where only the connector's own
        configuration has changed. Return soon; raising fails the task.
        """
        del props
        return False

    @abc.abstractmethod
    def stop(self) -> None:
        """Settle what is on its way, report the last offsets and end the pipeline.

        Must return within `context.stop_timeout_s`; after that nothing may be written any more,
        since another worker may run this task.
        """

    def abandon(self) -> None:
        """`stop` has not returned in time: end the pipeline at once, unsettled.

        Called from another thread, while `stop` still runs; must not wait.
        """
