"""Moves partitions away from a task that replicates too many bytes.

Sticky plans leave partitions with their tasks regardless of traffic. Every change restarts the
tasks involved, so partitions move only after a task has replicated more than twice the mean byte
rate for five minutes, and only away from that task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base.ids import TopicPartition

OVERLOAD_FACTOR = 2.0
OVERLOAD_DURATION_S = 300.0

TaskPartitions = Sequence[TopicPartition]
PartitionByteRates = Mapping[TopicPartition, float]
"""Bytes per second of each partition. Partitions without an entry count as idle."""


@dataclass(frozen=True, slots=True)
class OverloadState:
    """Time at which a task became overloaded (monotonic seconds); None if no task is overloaded."""

    since_s: float | None = None


def plan_reassignment_if_overloaded(
    assignments: Sequence[TaskPartitions],
    rates: PartitionByteRates,
    *,
    tasks_max: int,
    before: OverloadState,
    now_s: float,
) -> tuple[OverloadState, list[list[TopicPartition]] | None]:
    """Check the load of the tasks. Returns the state for the next check, and new assignments if the
    overload has lasted long enough, else None.

    The overload timer restarts after each change.
    """
    better = balance_load(assignments, rates, tasks_max)
    if better is None:
        return OverloadState(), None
    since_s = now_s if before.since_s is None else before.since_s
    if now_s - since_s < OVERLOAD_DURATION_S:
        return OverloadState(since_s), None
    return OverloadState(), better


def balance_load(
    assignments: Sequence[TaskPartitions], rates: PartitionByteRates, tasks_max: int
) -> list[list[TopicPartition]] | None:
    """Plan assignments that balance the load of the tasks. Returns None if no task is overloaded or
    no reassignment would reduce the load.

    Partitions of an overloaded task move to the least loaded tasks (including new tasks if there
    are fewer than `tasks_max`) until the overloaded task's load has decreased to the mean.
    """
    found = [list(share) for share in assignments]
    count = min(tasks_max, sum(map(len, found)))
    found += [[] for _ in range(count - len(found))]
    loads = [sum(rates.get(each, 0.0) for each in share) for share in found]
    mean = sum(loads) / max(1, count)
    changed = False
    for giver in [at for at, load in enumerate(loads) if load > OVERLOAD_FACTOR * mean]:
        for partition in sorted(found[giver], key=lambda each: (-rates.get(each, 0.0), each)):
            rate = rates.get(partition, 0.0)
            taker = min(range(len(found)), key=lambda at: (loads[at], at))
            if loads[giver] <= mean or loads[taker] + rate >= loads[giver]:
                continue
            found[giver].remove(partition)
            found[taker].append(partition)
            loads[giver] -= rate
            loads[taker] += rate
            changed = changed or rate > 0
    return [sorted(share) for share in found if share] if changed else None
