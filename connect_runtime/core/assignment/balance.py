"""Evening out: who gets the next item, and who has too many.

Only counts matter, of connectors and of tasks apart: so tasks of one connector may gather on one
member (KAFKA-17049). The lists here are changed in place while one plan is made.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from connect_runtime.base import ids
from connect_runtime.core.assignment import work

T = TypeVar("T")


@dataclass(slots=True)
class Loads:
    """What members are to run, by member id, each list in the member's own order.

    Invariant: both have the same members in the same order.
    """

    connectors: dict[str, list[str]]
    tasks: dict[str, list[ids.ConnectorTaskId]]

    @classmethod
    def of(cls, members: Mapping[str, work.Work], *, without: Set[work.Item]) -> Loads:
        """What members say they run, without these items."""
        left = {member: held.without(without) for member, held in members.items()}
        return cls(
            connectors={member: list(held.connectors) for member, held in left.items()},
            tasks={member: list(held.tasks) for member, held in left.items()},
        )

    @property
    def members(self) -> Set[str]:
        return self.connectors.keys()

    @property
    def idle(self) -> tuple[str, ...]:
        """Members that are to run nothing so far."""
        return tuple(
            member
            for member, connectors in self.connectors.items()
            if not connectors and not self.tasks[member]
        )

    def add(self, member: str, items: Iterable[work.Item]) -> None:
        more = work.Work.of(items)
        self.connectors[member] += more.connectors
        self.tasks[member] += more.tasks

    def remove(self, member: str, items: Set[work.Item]) -> None:
        self.connectors[member] = [each for each in self.connectors[member] if each not in items]
        self.tasks[member] = [each for each in self.tasks[member] if each not in items]

    def hand_out(self, items: Iterable[work.Item]) -> None:
        """Each to whoever has least, connectors and tasks apart."""
        fresh = work.Work.of(items)
        spread(self.connectors, fresh.connectors)
        spread(self.tasks, fresh.tasks)

    def too_many(self, configured: work.Work) -> dict[str, frozenset[work.Item]]:
        """What to take from members so that everything configured can be even afterwards.

        Nothing while nobody runs anything, or nothing is configured.
        """
        if not configured or len(self.idle) == len(self.members):
            return {}
        connectors = surplus(self.connectors, len(configured.connectors))
        tasks = surplus(self.tasks, len(configured.tasks))
        return {
            member: frozenset((*connectors.get(member, ()), *tasks.get(member, ())))
            for member in self.members
            if member in connectors or member in tasks
        }

    def work(self, member: str) -> work.Work:
        return work.Work(connectors=tuple(self.connectors[member]), tasks=tuple(self.tasks[member]))


def spread(held: Mapping[str, list[T]], items: Sequence[T]) -> None:
    """One each to all who have least, in the order of their ids, and again until none is left."""
    order = sorted(held, key=lambda member: (len(held[member]), work.java_order(member)))
    lists = [held[member] for member in order]
    given = 0
    while given < len(items):
        least = len(lists[0])
        for each in lists:  # ascending sizes stay ascending
            if len(each) > least or given == len(items):
                break
            each.append(items[given])
            given += 1


def surplus(held: Mapping[str, Sequence[T]], total: int) -> dict[str, Sequence[T]]:
    """The first items of each member that has more than its part of `total`.

    `total` counts what is not handed out yet too. Members that come first keep the odd ones.
    """
    least, extras = divmod(total, len(held))
    sizes = collections.Counter(len(items) for items in held.values())
    if sizes[least + 1] == extras and sizes[least] + extras == len(held):
        return {}
    found: dict[str, Sequence[T]] = {}
    for member, items in held.items():
        allowed = least
        if len(items) > least and extras:
            extras -= 1
            allowed += 1
        if len(items) > allowed:
            found[member] = items[: len(items) - allowed]
    return found
