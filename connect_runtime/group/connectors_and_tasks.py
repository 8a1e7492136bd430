"""Connectors and tasks as assignable items, and the work that the config topic defines.

A connector is identified by its name, a task by its id. A `WorkItem` is a connector name or a task
id, so that one set can contain both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId

WorkItem: TypeAlias = str | ConnectorTaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorsAndTasks:
    """A list of connectors and a list of tasks. The order matters: work is revoked in this
    order."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()

    @classmethod
    def from_items(cls, items: Iterable[WorkItem]) -> ConnectorsAndTasks:
        """Separate items into connectors and tasks, keeping their order."""
        connectors, tasks = [], []
        for item in items:
            if isinstance(item, str):
                connectors.append(item)
            else:
                tasks.append(item)
        return cls(connectors=tuple(connectors), tasks=tuple(tasks))

    @property
    def items(self) -> tuple[WorkItem, ...]:
        """All items: first connectors, then tasks."""
        return (*self.connectors, *self.tasks)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def difference(self, gone: Iterable[WorkItem]) -> ConnectorsAndTasks:
        """Return the connectors and tasks except those in `gone`."""
        lacking = frozenset(gone)
        return ConnectorsAndTasks(
            connectors=tuple(each for each in self.connectors if each not in lacking),
            tasks=tuple(each for each in self.tasks if each not in lacking),
        )

    def union(self, more: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """Return these connectors and tasks, followed by the items of `more` that are not among
        them."""
        known = frozenset(self.items)
        return ConnectorsAndTasks(
            connectors=self.connectors
            + tuple(each for each in more.connectors if each not in known),
            tasks=self.tasks + tuple(each for each in more.tasks if each not in known),
        )

    @property
    def summary(self) -> str:
        """Numbers of connectors and tasks, for messages in which listing all names would take too
        much space."""
        return f"{len(self.connectors)} connector(s) and {len(self.tasks)} task(s)"

    def __str__(self) -> str:
        return f"connectors {list(self.connectors)}, tasks {[str(each) for each in self.tasks]}"


NO_WORK = ConnectorsAndTasks()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredWork:
    """Connectors and tasks that are configured, as of an offset in the config topic."""

    offset: int = -1
    """Offset of the next config topic record to read, as members report it; -1 before the first
    record."""
    task_counts: Mapping[str, int] = field(default_factory=dict)
    """Number of tasks by connector; 0 while a connector's task configurations are incomplete."""

    def without_connectors(self, names: Set[str]) -> ConfiguredWork:
        """Return the configured work except these connectors and their tasks."""
        if not names:
            return self
        kept = {name: tasks for name, tasks in self.task_counts.items() if name not in names}
        return ConfiguredWork(offset=self.offset, task_counts=kept)

    def list_connectors(self) -> list[str]:
        """Connector names in Java's string order."""
        return sorted(self.task_counts, key=build_utf16_sort_key)

    def list_work(self) -> ConnectorsAndTasks:
        """All configured work: connectors by name, then tasks by connector and number."""
        names = self.list_connectors()
        tasks = [
            ConnectorTaskId(name, number)
            for name in names
            for number in range(self.task_counts[name])
        ]
        return ConnectorsAndTasks(connectors=tuple(names), tasks=tuple(tasks))


def build_utf16_sort_key(name: str) -> bytes:
    """Return a sort key for Java's string order, which compares UTF-16 units instead of code
    points."""
    return name.encode("utf-16-be", "surrogatepass")


def sort_connectors_and_tasks(items: Iterable[WorkItem]) -> list[WorkItem]:
    """Sort connectors by name, then tasks by connector and number."""
    work = ConnectorsAndTasks.from_items(items)
    places = {each.connector: build_utf16_sort_key(each.connector) for each in work.tasks}
    tasks = sorted(work.tasks, key=lambda each: (places[each.connector], each.task))
    return [*sorted(work.connectors, key=build_utf16_sort_key), *tasks]
