"""Which task copies which partition, and its share of what the flow may use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.core import flows


def round_robin(
    partitions: Iterable[ids.TopicPartition], tasks_max: int
) -> list[list[ids.TopicPartition]]:
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
    partitions: Iterable[ids.TopicPartition],
    before: Sequence[Iterable[ids.TopicPartition]],
    tasks_max: int,
) -> list[list[ids.TopicPartition]]:
    """A later plan: whoever copied a partition goes on; new ones go where there are fewest.

    Task i of `before` is task i of the result, which may be empty; new tasks come behind, as long
    as there are fewer than `tasks_max`. So only tasks whose share changes have to be told.
    """
    wanted = set(partitions)
    held = [set(share) for share in before]
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
    return [sorted(share) for share in shares]


def _same(
    shares: Sequence[Iterable[ids.TopicPartition]],
    held: Sequence[set[ids.TopicPartition]],
    at: int,
) -> bool:
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
