"""Applies the records of the status topic in order, decides which statuses may be written, and
tracks which worker ran a task last.

A worker may report the status of a connector or task after the group has assigned the connector or
task to another worker. The first worker therefore uses a safe write to report UNASSIGNED or FAILED
for a connector or task that it no longer runs. A safe write is dropped if a status of a newer group
generation was read. The status can still be wrong for a short time, if two workers write it before
they read each other's status.

Task runs: workers of this implementation and Java workers write the same statuses, but this
implementation marks its records. A worker writes RUNNING when it has started a task, and UNASSIGNED
or FAILED after the task's producer was closed. A worker that was killed, partitioned or frozen, or
that did not stop a task in time, writes neither. It may still send records, even after the task is
removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from connect_runtime.api.plugin_context import JavaWorkerTaskRun
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import java_hash_map_json, status_records
from connect_runtime.storage.config_records import InvalidRecord
from connect_runtime.storage.internal_topic_log import SkippedRecord
from connect_runtime.storage.java_hash_map_json import MalformedJson
from connect_runtime.storage.status_records import (
    RunState,
    RunStatus,
    StatusSubject,
    TopicStatus,
    TopicStatusKey,
)

K = TypeVar("K")
V = TypeVar("V")

_RUNNING_STATES = (RunState.RUNNING, RunState.PAUSED)
_ENDED_STATES = (RunState.UNASSIGNED, RunState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRecordOrigin:
    """Kind of worker that wrote a status record, and the time of the write."""

    is_own: bool
    """True if a worker of this implementation wrote the record, False if a Java worker wrote it."""
    wall_ms: int
    """Time of the write by the writer's clock, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class _JavaTaskRun:
    """The last run of a task on a Java worker."""

    seen: JavaWorkerTaskRun

    generation: int
    """Group generation in which the run began."""
    paused: bool


@dataclass(frozen=True, slots=True)
class _PythonTaskRun:
    """The last run of a task on a worker of this implementation, beginning with its first RUNNING
    status."""

    worker_id: str
    began_ms: int
    ended: bool = False


@dataclass(slots=True)
class TaskRunHistory:
    """The last run of every task (which worker ran it, and since when), derived from the task's
    statuses in order.

    Invariant: no task is both in `_ours` and in `_others`.
    """

    _ours: dict[ConnectorTaskId, _PythonTaskRun] = field(default_factory=dict)
    _others: dict[ConnectorTaskId, _JavaTaskRun] = field(default_factory=dict)

    def apply_status(
        self, task: ConnectorTaskId, status: RunStatus | None, author: StatusRecordOrigin
    ) -> None:
        """Apply the next status of a task; None means that the status was deleted."""
        if status is None:
            self._apply_removal(task, author)
        elif author.is_own:
            self._apply_own_status(task, status, author)
        elif status.state in _RUNNING_STATES:
            self._apply_java_run_start(task, status, author)
        elif status.state in _ENDED_STATES:
            self._apply_java_run_end(task, status, author)

    def _apply_removal(self, task: ConnectorTaskId, author: StatusRecordOrigin) -> None:
        """Apply the deletion of a task's status by the leader.

        If the last run was on a Java worker and may not have ended, the run is kept, with the time
        of the deletion. The Java worker may run the task until it reads the deletion.
        """
        self._ours.pop(task, None)
        run = self._others.get(task)
        if run is None:
            return
        if run.seen.ended_ms is not None and not run.seen.overlaps:
            del self._others[task]
        else:
            self._others[task] = replace(run, seen=replace(run.seen, removed_ms=author.wall_ms))

    def _apply_own_status(
        self, task: ConnectorTaskId, status: RunStatus, author: StatusRecordOrigin
    ) -> None:
        """Apply a task status written by this implementation. Only RUNNING means that the task has
        started."""
        run = self._ours.get(task)
        if status.state is RunState.RUNNING:
            self._others.pop(task, None)
            if run is None or run.ended or run.worker_id != status.worker_id:
                self._ours[task] = _PythonTaskRun(status.worker_id, author.wall_ms)
        elif (
            status.state in _ENDED_STATES and run is not None and run.worker_id == status.worker_id
        ):
            self._ours[task] = replace(run, ended=True)

    def _apply_java_run_start(
        self, task: ConnectorTaskId, status: RunStatus, author: StatusRecordOrigin
    ) -> None:
        before = self._others.get(task)
        paused = status.state is RunState.PAUSED
        open_before = before is not None and before.seen.ended_ms is None
        if before is not None and open_before:
            resumed = before.paused or paused
            if resumed and before.seen.worker_id == status.worker_id:
                self._others[task] = replace(before, paused=paused)
                return
        self._ours.pop(task, None)
        self._others[task] = _JavaTaskRun(
            JavaWorkerTaskRun(
                worker_id=status.worker_id, started_ms=author.wall_ms, overlaps=open_before
            ),
            status.generation,
            paused,
        )

    def _apply_java_run_end(
        self, task: ConnectorTaskId, status: RunStatus, author: StatusRecordOrigin
    ) -> None:
        run = self._others.get(task)
        if run is None or run.seen.ended_ms is not None:
            return
        if status.generation < run.generation:  # a late status: the end of the previous run
            self._others[task] = replace(run, seen=replace(run.seen, overlaps=False))
            return
        self._others[task] = replace(run, seen=replace(run.seen, ended_ms=author.wall_ms))

    def get_python_task_start_times(self, connector: str) -> Mapping[int, int]:
        """Return the start time of each task's last run, by task number, for tasks that last ran on
        a worker of this implementation."""
        return MappingProxyType(
            {
                each.task: run.began_ms
                for each, run in self._ours.items()
                if each.connector == connector
            }
        )

    def get_java_task_runs(self, connector: str) -> Mapping[int, JavaWorkerTaskRun]:
        """Return each task's last run, by task number, for tasks that last ran on a Java worker."""
        return MappingProxyType(
            {
                each.task: run.seen
                for each, run in self._others.items()
                if each.connector == connector
            }
        )

    def check_invariants(self) -> None:
        assert not self._ours.keys() & self._others.keys()


_UNKNOWN_WRITER = StatusRecordOrigin(is_own=True, wall_ms=-1)
_NO_TASKS: Mapping[int, RunStatus] = MappingProxyType({})
_NO_TOPICS: Mapping[str, TopicStatus] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """Change: a new status of a connector or task was reported."""

    subject: StatusSubject


@dataclass(frozen=True, slots=True)
class StatusRemoved:
    """Change: a status was deleted. With a connector's status, the statuses of its tasks are
    deleted too."""

    subject: StatusSubject


@dataclass(frozen=True, slots=True)
class ActiveTopicsChanged:
    """Change: the set of active topics of a connector changed."""

    connector: str


StatusChange: TypeAlias = StatusChanged | StatusRemoved | ActiveTopicsChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSnapshot:
    """Immutable snapshot of all statuses in the status topic. A connector and its tasks may have
    statuses independently of each other."""

    by_connector: Mapping[str, RunStatus] = field(default_factory=lambda: MappingProxyType({}))
    by_task: Mapping[str, Mapping[int, RunStatus]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    by_topic: Mapping[str, Mapping[str, TopicStatus]] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def connectors(self) -> list[str]:
        """Return the names of all connectors with a status, sorted."""
        return sorted(self.by_connector)

    def connector(self, name: str) -> RunStatus | None:
        """Return the status of a connector; None if it has no status."""
        return self.by_connector.get(name)

    def task(self, task: ConnectorTaskId) -> RunStatus | None:
        """Return the status of a task; None if it has no status."""
        return self.by_task.get(task.connector, _NO_TASKS).get(task.task)

    def get(self, subject: StatusSubject) -> RunStatus | None:
        """Return the status of a connector or task; None if it has no status."""
        return self.connector(subject) if isinstance(subject, str) else self.task(subject)

    def tasks(self, connector: str) -> dict[ConnectorTaskId, RunStatus]:
        """Return the status of each of the connector's tasks, sorted by task number."""
        found = self.by_task.get(connector, _NO_TASKS)
        return {ConnectorTaskId(connector, each): found[each] for each in sorted(found)}

    def topics(self, connector: str) -> list[TopicStatus]:
        """Return the statuses of the topics that the connector uses, sorted by topic name."""
        found = self.by_topic.get(connector, _NO_TOPICS)
        return [found[each] for each in sorted(found)]

    def topic(self, connector: str, topic: str) -> TopicStatus | None:
        """Return the status of a topic that the connector uses; None if it does not use the
        topic."""
        return self.by_topic.get(connector, _NO_TOPICS).get(topic)


@dataclass(slots=True)
class StatusTopicState:
    """State of the status topic, built by applying its records in order.

    Invariant: no connector has an empty table of tasks or topics.
    """

    runs: TaskRunHistory = field(default_factory=TaskRunHistory)
    """Last run of every task. The worker that ran a task last is not always the worker that wrote
    its last status."""
    _connectors: dict[str, RunStatus] = field(default_factory=dict)
    _tasks: dict[str, dict[int, RunStatus]] = field(default_factory=dict)
    _topics: dict[str, dict[str, TopicStatus]] = field(default_factory=dict)
    _task_views: dict[str, Mapping[int, RunStatus]] = field(default_factory=dict)
    """Cache for `snapshot`: an immutable copy of each connector's entry in `_tasks`. When an entry
    changes, its copy is removed."""
    _topic_views: dict[str, Mapping[str, TopicStatus]] = field(default_factory=dict)
    _snapshot: StatusSnapshot | None = None

    def apply_record(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        offset: int,
        author: StatusRecordOrigin = _UNKNOWN_WRITER,
    ) -> StatusChange | SkippedRecord | None:
        """Apply the record at `offset` of its partition. Return the change, if any.

        All records of a key are in one partition, so only the order within the partition matters.
        """
        del offset  # unused, for the common signature of folds
        name = "" if key is None else key.decode("utf-8", "replace")
        try:
            change = self._apply_status_value(status_records.split_status_key(name), value, author)
        except (InvalidRecord, MalformedJson) as error:
            return SkippedRecord(f"'{name}': {error}")
        if change is not None:
            self._snapshot = None
        return change

    def snapshot(self) -> StatusSnapshot:
        """Return the statuses as of the last applied record."""
        if self._snapshot is None:
            self._snapshot = StatusSnapshot(
                by_connector=MappingProxyType(dict(self._connectors)),
                by_task=_copy_changed_status_tables(self._tasks, self._task_views),
                by_topic=_copy_changed_status_tables(self._topics, self._topic_views),
            )
        return self._snapshot

    def _apply_status_value(
        self,
        subject: StatusSubject | TopicStatusKey,
        value: bytes | None,
        author: StatusRecordOrigin,
    ) -> StatusChange | None:
        match subject:
            case TopicStatusKey():
                return self._apply_topic_status(subject, value)
            case ConnectorTaskId():
                return self._apply_task_status(subject, value, author)
            case _:
                return self._apply_connector_status(subject, value)

    def _apply_connector_status(self, name: str, value: bytes | None) -> StatusChange:
        if value is None:
            self._connectors.pop(name, None)
            self._tasks.pop(name, None)
            self._task_views.pop(name, None)
            return StatusRemoved(name)
        self._connectors[name] = status_records.decode_status(java_hash_map_json.decode_json(value))
        return StatusChanged(name)

    def _apply_task_status(
        self, task: ConnectorTaskId, value: bytes | None, author: StatusRecordOrigin
    ) -> StatusChange | None:
        """Apply a task status.

        UNASSIGNED is ignored if the task is RUNNING in the same or a newer group generation: the
        task was started again before its previous worker reported that it had stopped
        (KAFKA-12525). If group generations have restarted from a lower number, a current UNASSIGNED
        may be ignored too, until the task's next status arrives.
        """
        if value is None:
            self.runs.apply_status(task, None, author)
            _remove_status_table_entry(self._tasks, task.connector, task.task)
            self._task_views.pop(task.connector, None)
            return StatusRemoved(task)
        status = status_records.decode_status(java_hash_map_json.decode_json(value))
        self.runs.apply_status(task, status, author)
        known = self._tasks.get(task.connector, _NO_TASKS).get(task.task)
        if (
            status.state is RunState.UNASSIGNED
            and known is not None
            and known.state is RunState.RUNNING
            and known.generation >= status.generation
        ):
            return None
        self._tasks.setdefault(task.connector, {})[task.task] = status
        self._task_views.pop(task.connector, None)
        return StatusChanged(task)

    def _apply_topic_status(self, key: TopicStatusKey, value: bytes | None) -> StatusChange:
        if value is None:
            _remove_status_table_entry(self._topics, key.connector, key.topic)
        else:
            status = status_records.decode_topic_status(java_hash_map_json.decode_json(value))
            self._topics.setdefault(key.connector, {})[key.topic] = status
        self._topic_views.pop(key.connector, None)
        return ActiveTopicsChanged(key.connector)

    def check_invariants(self) -> None:
        assert all(self._tasks.values()), self._tasks
        assert all(self._topics.values()), self._topics
        assert self._task_views.keys() <= self._tasks.keys()
        assert self._topic_views.keys() <= self._topics.keys()
        self.runs.check_invariants()


def _copy_changed_status_tables(
    tables: Mapping[str, Mapping[K, V]], views: dict[str, Mapping[K, V]]
) -> Mapping[str, Mapping[K, V]]:
    """Return immutable copies of all tables. A table that has a copy in `views` has not changed
    since it was copied, so this copy is used."""
    for name, table in tables.items():
        if name not in views:
            views[name] = MappingProxyType(dict(table))
    return MappingProxyType(dict(views))


def _remove_status_table_entry(tables: dict[str, dict[K, V]], name: str, key: K) -> None:
    """Remove an entry from its table, and the table itself if it is then empty."""
    table = tables.get(name)
    if table is not None:
        table.pop(key, None)
        if not table:
            del tables[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedStatusWrite:
    """Identifies a status write that `StatusWriteGuard.admit_write` permitted. Pass it to
    `may_retry` if the write fails."""

    subject: StatusSubject
    status: RunStatus
    safe: bool
    life: int
    sequence: int


@dataclass(slots=True)
class _StatusWriteCounters:
    life: int
    sequence: int = 0


@dataclass(slots=True)
class StatusWriteGuard:
    """Decides which statuses may be written, and which failed writes may be retried.

    Invariant: a `life` number is never reused. A connector or task gets a new `life` number with
    the first write after its status was deleted. A failed write from before the deletion has an
    older number and is not retried.
    """

    _generation: int = 0
    _lives: int = 0
    _subjects: dict[StatusSubject, _StatusWriteCounters] = field(default_factory=dict)

    def admit_write(
        self,
        subject: StatusSubject,
        status: RunStatus,
        *,
        safe: bool,
        known: StatusSnapshot,
    ) -> AdmittedStatusWrite | None:
        """Return a ticket for `may_retry` if the status may be written. Return None for a safe
        write if another worker has reported a newer status."""
        self._generation = status.generation
        if safe and not _is_status_superseded_by(known.get(subject), status):
            return None
        entry = self._subjects.get(subject)
        if entry is None:
            self._lives += 1
            entry = self._subjects[subject] = _StatusWriteCounters(self._lives)
        entry.sequence += 1
        return AdmittedStatusWrite(
            subject=subject, status=status, safe=safe, life=entry.life, sequence=entry.sequence
        )

    def discard_writes_of_removed_status(self, change: StatusChange) -> None:
        """If `change` is the deletion of a status, make its earlier writes invalid, so that a retry
        of a failed write does not restore the status. Ignore other changes."""
        if not isinstance(change, StatusRemoved):
            return
        self._subjects.pop(change.subject, None)
        if isinstance(change.subject, str):
            for subject in list(self._subjects):
                if isinstance(subject, ConnectorTaskId) and subject.connector == change.subject:
                    del self._subjects[subject]

    def may_retry(self, ticket: AdmittedStatusWrite, *, known: StatusSnapshot) -> bool:
        """Return True if a failed status write should be retried.

        The write is not retried after a newer write of the same status, after the deletion of the
        status, or after a write of any status in another group generation. A safe write is not
        retried either if another worker has reported a newer status. Java always retries writes
        that are not safe, and may overwrite a newer status.
        """
        entry = self._subjects.get(ticket.subject)
        if entry is None or (entry.life, entry.sequence) != (ticket.life, ticket.sequence):
            return False
        if ticket.status.generation != self._generation:
            return False
        return not ticket.safe or _is_status_superseded_by(known.get(ticket.subject), ticket.status)


def _is_status_superseded_by(known: RunStatus | None, status: RunStatus) -> bool:
    return (
        known is None
        or known.worker_id == status.worker_id
        or known.generation <= status.generation
    )
