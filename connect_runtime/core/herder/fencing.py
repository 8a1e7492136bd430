"""Whether producers of earlier tasks must be fenced before new ones start: KIP-618.

Only for source connectors on workers with `exactly.once.source.support=enabled`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.core.state import cluster_config


@dataclass(frozen=True, slots=True)
class NothingToFence:
    """These task configs were fenced already."""


@dataclass(frozen=True, slots=True)
class OnlyRecord:
    """Nobody is to be fenced, but it must be written that `tasks` may be, next time."""

    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Fence `producers` earlier producers, then write that `tasks` may be, next time.

    It is for nothing if the connector's task configs have another `generation` by then.
    """

    producers: int
    tasks: int
    generation: int | None


FencingPlan: TypeAlias = NothingToFence | OnlyRecord | Fence


def plan(view: cluster_config.ClusterConfig, connector: str) -> FencingPlan:
    """`view` must be of the end of the config topic."""
    if not view.fencing_pending(connector):
        return NothingToFence()
    producers, tasks = view.fencing_count(connector), view.task_count(connector)
    if producers is None:  # no task had a transactional producer so far
        return OnlyRecord(tasks)
    if producers == 1 and tasks == 1:  # the new task has the old one's transactional id
        return OnlyRecord(tasks)
    return Fence(producers=producers, tasks=tasks, generation=view.generation(connector))
