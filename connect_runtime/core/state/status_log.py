"""The status topic as a fold: what every connector and task of the cluster was last said to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.core.state import json_bytes, skipped, status_records, task_runs

_UNKNOWN = task_runs.Author(ours=True, wall_ms=-1)
_NO_TASKS: Mapping[int, status_records.Status] = MappingProxyType({})
_NO_TOPICS: Mapping[str, status_records.TopicStatus] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """Somebody said what the connector or task is doing."""

    subject: status_records.Subject


@dataclass(frozen=True, slots=True)
class StatusRemoved:
    """The status is forgotten; a connector's takes those of its tasks with it."""

    subject: status_records.Subject


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The topics that the connector is known to use are others now."""

    connector: str


Change: TypeAlias = StatusChanged | StatusRemoved | TopicsChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """A frozen view. Tasks may have a status whose connector has none, and the other way round."""

    by_connector: Mapping[str, status_records.Status] = field(
        default_factory=lambda: MappingProxyType({})
    )
    by_task: Mapping[str, Mapping[int, status_records.Status]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    by_topic: Mapping[str, Mapping[str, status_records.TopicStatus]] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def connectors(self) -> list[str]:
        """Names of connectors with a status of their own, sorted."""
        return sorted(self.by_connector)

    def connector(self, name: str) -> status_records.Status | None:
        return self.by_connector.get(name)

    def task(self, task: ids.ConnectorTaskId) -> status_records.Status | None:
        return self.by_task.get(task.connector, _NO_TASKS).get(task.task)

    def get(self, subject: status_records.Subject) -> status_records.Status | None:
        return self.connector(subject) if isinstance(subject, str) else self.task(subject)

    def tasks(self, connector: str) -> dict[ids.ConnectorTaskId, status_records.Status]:
        """By number."""
        found = self.by_task.get(connector, _NO_TASKS)
        return {ids.ConnectorTaskId(connector, each): found[each] for each in sorted(found)}

    def topics(self, connector: str) -> list[status_records.TopicStatus]:
        """By name."""
        found = self.by_topic.get(connector, _NO_TOPICS)
        return [found[each] for each in sorted(found)]

    def topic(self, connector: str, topic: str) -> status_records.TopicStatus | None:
        return self.by_topic.get(connector, _NO_TOPICS).get(topic)


@dataclass(slots=True)
class StatusLog:
    """Invariant: no connector has an empty table of tasks or topics.

    `runs` says who ran tasks last, which is not always who spoke last.
    """

    runs: task_runs.TaskRuns = field(default_factory=task_runs.TaskRuns)
    _connectors: dict[str, status_records.Status] = field(default_factory=dict)
    _tasks: dict[str, Mapping[int, status_records.Status]] = field(default_factory=dict)
    _topics: dict[str, Mapping[str, status_records.TopicStatus]] = field(default_factory=dict)
    _snapshot: Statuses | None = None

    def apply(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        offset: int,
        author: task_runs.Author = _UNKNOWN,
    ) -> Change | skipped.Skipped | None:
        """Take the record at `offset` of its partition; say what it changed.

        All records of one key are in one partition, so their order is all that counts.
        """
        del offset  # folds are called alike
        name = "" if key is None else key.decode("utf-8", "replace")
        try:
            change = self._take(status_records.split_key(name), value, author)
        except (status_records.Invalid, json_bytes.Malformed) as error:
            return skipped.Skipped(f"'{name}': {error}")
        if change is not None:
            self._snapshot = None
        return change

    def snapshot(self) -> Statuses:
        if self._snapshot is None:
            self._snapshot = Statuses(
                by_connector=MappingProxyType(dict(self._connectors)),
                by_task=MappingProxyType(dict(self._tasks)),
                by_topic=MappingProxyType(dict(self._topics)),
            )
        return self._snapshot

    def _take(
        self,
        about: status_records.Subject | status_records.TopicKey,
        value: bytes | None,
        author: task_runs.Author,
    ) -> Change | None:
        match about:
            case status_records.TopicKey():
                return self._take_topic(about, value)
            case ids.ConnectorTaskId():
                return self._take_task(about, value, author)
            case _:
                return self._take_connector(about, value)

    def _take_connector(self, name: str, value: bytes | None) -> Change:
        if value is None:
            self._connectors.pop(name, None)
            self._tasks.pop(name, None)
            return StatusRemoved(name)
        self._connectors[name] = status_records.status_of(json_bytes.decode(value))
        return StatusChanged(name)

    def _take_task(
        self, task: ids.ConnectorTaskId, value: bytes | None, author: task_runs.Author
    ) -> Change | None:
        """UNASSIGNED by somebody who had not yet heard that it runs elsewhere is stale.

        (KAFKA-12525.) Should generations have started again, a newer word follows soon.
        """
        table = dict(self._tasks.get(task.connector, _NO_TASKS))
        if value is None:
            self.runs.take(task, None, author)
            table.pop(task.task, None)
            self._put_tasks(task.connector, table)
            return StatusRemoved(task)
        status = status_records.status_of(json_bytes.decode(value))
        self.runs.take(task, status, author)
        known = table.get(task.task)
        if (
            status.state is status_records.State.UNASSIGNED
            and known is not None
            and known.state is status_records.State.RUNNING
            and known.generation >= status.generation
        ):
            return None
        table[task.task] = status
        self._put_tasks(task.connector, table)
        return StatusChanged(task)

    def _put_tasks(self, connector: str, table: dict[int, status_records.Status]) -> None:
        if table:
            self._tasks[connector] = MappingProxyType(table)
        else:
            self._tasks.pop(connector, None)

    def _take_topic(self, key: status_records.TopicKey, value: bytes | None) -> Change:
        table = dict(self._topics.get(key.connector, _NO_TOPICS))
        if value is None:
            table.pop(key.topic, None)
        else:
            table[key.topic] = status_records.topic_of(json_bytes.decode(value))
        if table:
            self._topics[key.connector] = MappingProxyType(table)
        else:
            self._topics.pop(key.connector, None)
        return TopicsChanged(key.connector)

    def check_invariants(self) -> None:
        assert all(self._tasks.values()), self._tasks
        assert all(self._topics.values()), self._topics
        self.runs.check_invariants()
