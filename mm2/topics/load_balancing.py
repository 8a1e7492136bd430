"""Moves partitions away from a task that carries too many bytes.

Sticky plans leave partitions where they are, whatever their traffic. Every change restarts the
tasks involved, so partitions move only after a task has carried more than twice the mean byte
rate for five minutes, and only that task gives partitions away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base.ids import TopicPartition

OVERLOAD_FACTOR = 2.0
OVERLOAD_DURATION_S = 300.0

TaskPartitions = Sequence[TopicPartition]
PartitionByteRates = Mapping[TopicPartition, float]
"""Bytes per second of each partition; one that is not there moves nothing."""


@dataclass(frozen=True, slots=True)
class OverloadState:
    """What is remembered between two looks: since when it has been too uneven, None: it is not."""

    since_s: float | None = None


def check_load(
    shares: Sequence[TaskPartitions],
    rates: PartitionByteRates,
    *,
    tasks_max: int,
    before: OverloadState,
    now_s: float,
) -> tuple[OverloadState, list[list[TopicPartition]] | None]:
    """The memory for the next look, and other shares when it is time for them, else None.

    After a change time begins anew.
    """
    better = balance_load(shares, rates, tasks_max)
    if better is None:
        return OverloadState(), None
    since_s = now_s if before.since_s is None else before.since_s
    if now_s - since_s < OVERLOAD_DURATION_S:
        return OverloadState(since_s), None
    return OverloadState(), better


def balance_load(
    shares: Sequence[TaskPartitions], rates: PartitionByteRates, tasks_max: int
) -> list[list[TopicPartition]] | None:
    """None: no task carries too much, or none of its partitions would be better elsewhere.

    A task that carries too much hands partitions to whoever carries least, new tasks included as
    far as `tasks_max` allows, until it is down to the mean.
    """
    found = [list(share) for share in shares]
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
