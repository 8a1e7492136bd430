"""Who ran each task last: a worker of ours, or one of another make (Java's), as statuses tell.

Both write the same statuses; ours mark the records. A worker says RUNNING when it has begun a task,
and UNASSIGNED or FAILED once its producer is closed. Who was killed, cut off or frozen, or did not
end a task in time, says neither: he may still send what he holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from connect_runtime.api import context
from connect_runtime.base import ids
from connect_runtime.core.state import status_records

State = status_records.State
_RUNS = (State.RUNNING, State.PAUSED)
_ENDED = (State.UNASSIGNED, State.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who wrote a record, and when by his clock (wall time, milliseconds)."""

    ours: bool
    wall_ms: int


@dataclass(frozen=True, slots=True)
class _Run:
    """By others; `generation` is the group's when it began."""

    seen: context.OthersRun
    generation: int
    paused: bool


@dataclass(slots=True)
class TaskRuns:
    """A fold over statuses of tasks. Invariant: no task is in `_ours` and in `_others`."""

    _ours: set[ids.ConnectorTaskId] = field(default_factory=set)
    _others: dict[ids.ConnectorTaskId, _Run] = field(default_factory=dict)

    def take(
        self, task: ids.ConnectorTaskId, status: status_records.Status | None, author: Author
    ) -> None:
        """A status of one task, in the order of its records; None: it is forgotten."""
        if status is None:
            self._ours.discard(task)
            self._others.pop(task, None)
        elif author.ours:
            self._take_ours(task, status)
        elif status.state in _RUNS:
            self._take_run(task, status, author)
        elif status.state in _ENDED:
            self._take_end(task, status, author)

    def _take_ours(self, task: ids.ConnectorTaskId, status: status_records.Status) -> None:
        """Only RUNNING says that it has work in hand; what we say while we wait tells nothing."""
        if status.state is State.RUNNING:
            self._others.pop(task, None)
            self._ours.add(task)

    def _take_run(
        self, task: ids.ConnectorTaskId, status: status_records.Status, author: Author
    ) -> None:
        before = self._others.get(task)
        paused = status.state is State.PAUSED
        open_before = before is not None and before.seen.ended_ms is None
        if before is not None and open_before:
            resumed = before.paused or paused
            if resumed and before.seen.worker_id == status.worker_id:
                self._others[task] = replace(before, paused=paused)
                return
        self._ours.discard(task)
        self._others[task] = _Run(
            context.OthersRun(
                worker_id=status.worker_id, began_ms=author.wall_ms, overlaps=open_before
            ),
            status.generation,
            paused,
        )

    def _take_end(
        self, task: ids.ConnectorTaskId, status: status_records.Status, author: Author
    ) -> None:
        run = self._others.get(task)
        if run is None or run.seen.ended_ms is not None:
            return
        if status.generation < run.generation:  # the run before it, told late
            self._others[task] = replace(run, seen=replace(run.seen, overlaps=False))
            return
        self._others[task] = replace(run, seen=replace(run.seen, ended_ms=author.wall_ms))

    def ours(self, connector: str) -> frozenset[int]:
        """Numbers of the connector's tasks that a worker of ours ran last."""
        return frozenset(each.task for each in self._ours if each.connector == connector)

    def others(self, connector: str) -> Mapping[int, context.OthersRun]:
        """The last run of tasks that others ran last, by number."""
        return MappingProxyType(
            {
                each.task: run.seen
                for each, run in self._others.items()
                if each.connector == connector
            }
        )

    def check_invariants(self) -> None:
        assert not self._ours & self._others.keys()
