"""Who ran each task last: a worker of ours, or one of another make (Java's), as statuses tell.

Both write the same statuses; ours mark the records. A worker says RUNNING when it has begun a task,
and UNASSIGNED or FAILED once its producer is closed. Who was killed, cut off or frozen, or did not
end a task in time, says neither: he may still send what he holds. That its task is removed changes
nothing in that.
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


@dataclass(frozen=True, slots=True)
class _OwnRun:
    """By a worker of ours, from its first RUNNING on."""

    worker_id: str
    began_ms: int
    ended: bool = False


@dataclass(slots=True)
class TaskRuns:
    """A fold over statuses of tasks. Invariant: no task is in `_ours` and in `_others`."""

    _ours: dict[ids.ConnectorTaskId, _OwnRun] = field(default_factory=dict)
    _others: dict[ids.ConnectorTaskId, _Run] = field(default_factory=dict)

    def take(
        self, task: ids.ConnectorTaskId, status: status_records.Status | None, author: Author
    ) -> None:
        """A status of one task, in the order of its records; None: it is forgotten."""
        if status is None:
            self._take_removal(task, author)
        elif author.ours:
            self._take_ours(task, status, author)
        elif status.state in _RUNS:
            self._take_run(task, status, author)
        elif status.state in _ENDED:
            self._take_end(task, status, author)

    def _take_removal(self, task: ids.ConnectorTaskId, author: Author) -> None:
        """Whoever led had no such task any more; who ran it may not have heard of it yet."""
        self._ours.pop(task, None)
        run = self._others.get(task)
        if run is None:
            return
        if run.seen.ended_ms is not None and not run.seen.overlaps:
            del self._others[task]
        else:
            self._others[task] = replace(run, seen=replace(run.seen, removed_ms=author.wall_ms))

    def _take_ours(
        self, task: ids.ConnectorTaskId, status: status_records.Status, author: Author
    ) -> None:
        """Only RUNNING says that it has work in hand; what we say while we wait tells nothing."""
        run = self._ours.get(task)
        if status.state is State.RUNNING:
            self._others.pop(task, None)
            if run is None or run.ended or run.worker_id != status.worker_id:
                self._ours[task] = _OwnRun(status.worker_id, author.wall_ms)
        elif status.state in _ENDED and run is not None and run.worker_id == status.worker_id:
            self._ours[task] = replace(run, ended=True)

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
        self._ours.pop(task, None)
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

    def ours(self, connector: str) -> Mapping[int, int]:
        """Numbers of the connector's tasks that a worker of ours ran last, and when that began."""
        return MappingProxyType(
            {
                each.task: run.began_ms
                for each, run in self._ours.items()
                if each.connector == connector
            }
        )

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
        assert not self._ours.keys() & self._others.keys()
