"""Zombie fencing (KIP-618): decides whether producers of earlier task generations must be fenced.

Applies to source connectors on workers with `exactly.once.source.support=enabled`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.storage.cluster_config_state import ClusterConfigState


@dataclass(frozen=True, slots=True)
class FencingNotNeeded:
    """These task configs were fenced already."""


@dataclass(frozen=True, slots=True)
class RecordTaskCount:
    """Nobody is to be fenced, but it must be written that `tasks` may be, next time."""

    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FencePreviousProducers:
    """Fence `producers` earlier producers, then write that `tasks` may be, next time.

    It is for nothing if the connector's task configs have another `generation` by then.
    """

    producers: int
    tasks: int
    generation: int | None


FencingPlan: TypeAlias = FencingNotNeeded | RecordTaskCount | FencePreviousProducers


def plan_fencing(view: ClusterConfigState, connector: str) -> FencingPlan:
    """`view` must be of the end of the config topic."""
    if not view.fencing_pending(connector):
        return FencingNotNeeded()
    producers, tasks = view.fencing_count(connector), view.task_count(connector)
    if producers is None:  # no task had a transactional producer so far
        return RecordTaskCount(tasks)
    if producers == 1 and tasks == 1:  # the new task has the old one's transactional id
        return RecordTaskCount(tasks)
    return FencePreviousProducers(
        producers=producers, tasks=tasks, generation=view.generation(connector)
    )
