"""What is handed out: connectors and their tasks, and what of them is configured.

A connector is named by a string, a task by its id; an `Item` is either, so that sets of both can
be added and subtracted together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.base import ids

Item: TypeAlias = str | ids.ConnectorTaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Connectors and tasks. Their order says only what is taken away first: the first."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[ids.ConnectorTaskId, ...] = ()

    @classmethod
    def of(cls, items: Iterable[Item]) -> Work:
        """Connectors and tasks told apart, each in the order given."""
        connectors, tasks = [], []
        for item in items:
            if isinstance(item, str):
                connectors.append(item)
            else:
                tasks.append(item)
        return cls(connectors=tuple(connectors), tasks=tuple(tasks))

    @property
    def items(self) -> tuple[Item, ...]:
        return (*self.connectors, *self.tasks)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def without(self, gone: Iterable[Item]) -> Work:
        lacking = frozenset(gone)
        return Work(
            connectors=tuple(each for each in self.connectors if each not in lacking),
            tasks=tuple(each for each in self.tasks if each not in lacking),
        )

    def then(self, more: Work) -> Work:
        """This first, then what `more` has besides."""
        known = frozenset(self.items)
        return Work(
            connectors=self.connectors
            + tuple(each for each in more.connectors if each not in known),
            tasks=self.tasks + tuple(each for each in more.tasks if each not in known),
        )

    @property
    def counted(self) -> str:
        """For people, where all names would be too many."""
        return f"{len(self.connectors)} connector(s) and {len(self.tasks)} task(s)"

    def __str__(self) -> str:
        return f"connectors {list(self.connectors)}, tasks {[str(each) for each in self.tasks]}"


NO_WORK = Work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What the config topic asks for, as far as it was read.

    offset: of the next record to read, -1 before the first was read (as members report it).
    task_counts: connector -> number of its tasks, 0 for one whose task configurations are
    incomplete, which runs no tasks until they are written anew.
    """

    offset: int = -1
    task_counts: Mapping[str, int] = field(default_factory=dict)

    def connectors(self) -> list[str]:
        """In Java's order of strings."""
        return sorted(self.task_counts, key=java_order)

    def work(self) -> Work:
        """Everything, in order: connectors by name, tasks by connector and number."""
        names = self.connectors()
        tasks = [
            ids.ConnectorTaskId(name, number)
            for name in names
            for number in range(self.task_counts[name])
        ]
        return Work(connectors=tuple(names), tasks=tuple(tasks))


def java_order(name: str) -> bytes:
    """Sort key: Java compares UTF-16 units, which differs from code points beyond U+D7FF."""
    return name.encode("utf-16-be", "surrogatepass")


def in_order(items: Iterable[Item]) -> list[Item]:
    """Connectors by name, then tasks by connector and number."""
    work = Work.of(items)
    places = {each.connector: java_order(each.connector) for each in work.tasks}
    tasks = sorted(work.tasks, key=lambda each: (places[each.connector], each.task))
    return [*sorted(work.connectors, key=java_order), *tasks]
