"""Zombie fencing (KIP-618): decides whether producers of earlier task generations must be fenced.

Applies to source connectors on workers with `exactly.once.source.support=enabled`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.storage.cluster_config_state import ClusterConfigState


@dataclass(frozen=True, slots=True)
class FencingNotNeeded:
    """The producers of earlier task generations are already fenced."""


@dataclass(frozen=True, slots=True)
class RecordTaskCount:
    """No producers need to be fenced. Only write the number of tasks, which the next fencing
    uses."""

    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FencePreviousProducers:
    """Fence the producers of earlier tasks, then write the number of tasks. The next fencing uses
    this number.

    The plan becomes invalid if the `generation` of the connector's task configs changes before the
    fencing completes.
    """

    producers: int
    """Number of producers to fence."""
    tasks: int
    generation: int | None


FencingPlan: TypeAlias = FencingNotNeeded | RecordTaskCount | FencePreviousProducers


def plan_producer_fencing(view: ClusterConfigState, connector: str) -> FencingPlan:
    """Decide whether the producers of earlier tasks must be fenced before a connector's new tasks
    start.

    `view`, the state of the config topic, must include every record up to the topic's end.
    """
    if not view.fencing_pending(connector):
        return FencingNotNeeded()
    producers, tasks = view.fencing_count(connector), view.task_count(connector)
    if producers is None:  # no task has had a transactional producer yet
        return RecordTaskCount(tasks)
    if producers == 1 and tasks == 1:  # the new task reuses the same transactional id
        return RecordTaskCount(tasks)
    return FencePreviousProducers(
        producers=producers, tasks=tasks, generation=view.task_config_generation(connector)
    )
