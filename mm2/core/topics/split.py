"""Which task copies which partition, and its share of what the flow may use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from connect_runtime.base import ids
from mm2.core import flows

Item = TypeVar("Item", bound="Ordered")


class Ordered(Hashable, Protocol):
    """Partitions, or ids of groups."""

    def __lt__(self, other: Any, /) -> bool: ...


def round_robin(partitions: Iterable[Item], tasks_max: int) -> list[list[Item]]:
    """The first plan: partition i, in order of name and number, goes to task i modulo n.

    n is `tasks_max` or the number of partitions, whichever is less; no partitions, no tasks
    (`MirrorSourceConnector.taskConfigs`). Unlike Java's, the order does not depend on hashing, so
    that two workers that see the same topics make the same plan.
    """
    assert tasks_max >= 1, tasks_max
    ordered = sorted(partitions)
    count = min(tasks_max, len(ordered))
    return [ordered[task::count] for task in range(count)]


def sticky(
    partitions: Iterable[Item], before: Sequence[Iterable[Item]], tasks_max: int
) -> list[list[Item]]:
    """A later plan: whoever copied a partition goes on; new ones go where there are fewest.

    Task i of `before` is task i of the result, which may be empty; new tasks come behind, as long
    as there are fewer than `tasks_max`. So only tasks whose share changes have to be told.
    Of more tasks than `tasks_max` the last ones lose theirs; of what two tasks hold, both written
    by other planners, the first keeps it.
    """
    assert tasks_max >= 1, tasks_max
    wanted = set(partitions)
    held = _once(before[:tasks_max])
    shares = [sorted(wanted & share) for share in held]
    for partition in sorted(wanted.difference(*shares)):
        smallest = min(
            range(len(shares)),
            key=lambda at: (len(shares[at]), _same(shares, held, at)),
            default=-1,
        )
        if len(shares) < tasks_max and (smallest < 0 or shares[smallest]):
            shares.append([partition])
        else:
            assert smallest >= 0, tasks_max
            shares[smallest].append(partition)
    ended: list[list[Item]] = [[] for _ in before[tasks_max:]]
    return [sorted(share) for share in shares] + ended


def without_holes(shares: Iterable[Sequence[Item]]) -> list[list[Item]]:
    """No share is empty: the last ones take the places of those that are.

    Java's workers fail a task whose configuration names no partition.
    """
    found = [list(share) for share in shares]
    while found and not found[-1]:
        found.pop()
    for at, share in enumerate(found):
        if not share and at < len(found) - 1:
            found[at] = found.pop()
            while found and not found[-1]:
                found.pop()
    return found


def _once(before: Sequence[Iterable[Item]]) -> list[set[Item]]:
    seen: set[Item] = set()
    found = []
    for share in before:
        found.append(set(share) - seen)
        seen |= found[-1]
    return found


def _same(shares: Sequence[Iterable[Item]], held: Sequence[set[Item]], at: int) -> bool:
    """Would this task notice nothing so far? Of equal ones, one that changes anyway is taken."""
    return at < len(held) and set(shares[at]) == held[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBudget:
    """One task's share of the flow's budgets, in bytes per second; `flow` 0: no limit."""

    flow: int
    topics: dict[str, int]


def budgets(
    whole: flows.Budgets, shares: Sequence[Iterable[ids.TopicPartition]]
) -> list[TaskBudget]:
    """The flow's budget goes to its tasks in equal parts, a topic's by its partitions.

    So the sum never exceeds the whole, whichever tasks are busy; a share is 1 byte at least, since
    0 would mean no limit.
    """
    plain = [Counter(each.topic for each in share) for share in shares]
    total = sum(plain, Counter())
    limits = {topic: whole.of_topic(topic) for topic in total}
    busy = sum(bool(topics) for topics in plain)
    return [
        TaskBudget(
            flow=max(1, whole.flow // max(1, busy)) if whole.flow else 0,
            topics={
                topic: max(1, limit * count // total[topic])
                for topic, count in sorted(topics.items())
                if (limit := limits[topic]) is not None
            },
        )
        for topics in plain
    ]
