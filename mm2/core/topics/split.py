"""Which task copies which partition."""

from __future__ import annotations

from collections.abc import Iterable

from connect_runtime.base import ids


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
