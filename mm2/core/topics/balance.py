"""When shares of tasks have become too uneven, and how they are evened out (planner).

Sticky plans leave partitions where they are, whatever their traffic becomes. Every change restarts
the tasks that it touches, so one is made only when a task has carried more than twice the mean for
five minutes, by measured bytes, and only that task gives something away (DESIGN.md 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base import ids

TOO_MUCH = 2.0
PATIENCE_S = 300.0

Share = Sequence[ids.TopicPartition]
Rates = Mapping[ids.TopicPartition, float]
"""Bytes per second of each partition; one that is not there moves nothing."""


@dataclass(frozen=True, slots=True)
class Uneven:
    """What is remembered between two looks: since when it has been too uneven, None: it is not."""

    since_s: float | None = None


def look(
    shares: Sequence[Share], rates: Rates, *, tasks_max: int, before: Uneven, now_s: float
) -> tuple[Uneven, list[list[ids.TopicPartition]] | None]:
    """The memory for the next look, and other shares when it is time for them, else None.

    After a change time begins anew.
    """
    better = evened(shares, rates, tasks_max)
    if better is None:
        return Uneven(), None
    since_s = now_s if before.since_s is None else before.since_s
    if now_s - since_s < PATIENCE_S:
        return Uneven(since_s), None
    return Uneven(), better


def evened(
    shares: Sequence[Share], rates: Rates, tasks_max: int
) -> list[list[ids.TopicPartition]] | None:
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
    for giver in [at for at, load in enumerate(loads) if load > TOO_MUCH * mean]:
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
