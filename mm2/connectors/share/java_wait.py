"""A task's wait for what MirrorMaker 2 of Java may still send, before its first copy begins.

Who waited is remembered for this process: a task that is started again meanwhile waits for the
rest. `core/java_left` decides; the worker tells who ran the task's partitions.
"""

from __future__ import annotations

import datetime
import logging
import math
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from connect_runtime.api import context
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from mm2.core import java_left

LOOK_S = 0.5
_LOG = logging.getLogger(__name__)
_Place = tuple[str, ids.ConnectorTaskId]


@dataclass(frozen=True, slots=True)
class Begun:
    """A wait for these, since `at_s`; `copied`: the task has begun to copy since."""

    lefts: frozenset[java_left.Left]
    at_s: float
    copied: bool = False

    def is_of(self, lefts: Collection[java_left.Left]) -> bool:
        """False: Java has had partitions of the task since. A run of which that is not known, as of
        a worker of Java that starts again and again, makes no wait longer."""
        news = (each for each in lefts if each not in self.lefts)
        return not any(each.sure or self.copied for each in news)


class Memory:
    """Since when each task waits, and for whom (monotonic seconds). Safe from any thread; a task
    has one place in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[_Place, Begun] = {}

    def begun(self, place: _Place, lefts: frozenset[java_left.Left], *, now_s: float) -> Begun:
        """The wait that this task is in: it begins now, unless it had."""
        with self._lock:
            known = self._begun.get(place)
            if known is None or not known.is_of(lefts):
                known = self._begun[place] = Begun(lefts, now_s)
            return known

    def copies(self, place: _Place) -> None:
        """Whatever the wait was for, it is over."""
        with self._lock:
            if place in self._begun:
                self._begun[place] = replace(self._begun[place], copied=True)

    def forget(self, place: _Place) -> None:
        with self._lock:
            self._begun.pop(place, None)


_MEMORY = Memory()
"""This process's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTask:
    """Which task waits, of which flow, and what it is to copy."""

    flow: str
    task: ids.ConnectorTaskId
    partitions: Collection[ids.TopicPartition]

    @property
    def place(self) -> _Place:
        return self.flow, self.task


class JavaWait:
    """One thread's. `skipped` True: a person knows that Java has ended."""

    def __init__(
        self,
        task: WaitingTask,
        *,
        runs: Callable[[], context.LastRuns],
        producer: Mapping[str, str],
        skipped: bool,
        clock: base_clock.Clock,
        memory: Memory = _MEMORY,
    ) -> None:
        """`runs` is `PipelineTaskContext.last_runs`; `producer` the properties of the producer that
        Java's task would have."""
        self.skipped = skipped
        self.beside = ""
        """What is less safe while workers of Java run tasks of the connector; "" while none do."""
        self._seen_beside = ""
        self._task = task
        self._runs = runs
        self._for_s = java_left.wait_s(producer)
        self._clock = clock
        self._memory = memory
        self._look_due_s = -math.inf
        self._reason = ""
        self._until_s = -math.inf
        self._pending: frozenset[java_left.Left] = frozenset()
        self._told = False

    def reason(self, now_s: float) -> str:
        """Why the copy must not begin yet; "" where it may. The same words while it waits for the
        same."""
        if now_s >= self._look_due_s:
            self._look_due_s = now_s + LOOK_S
            self._look(now_s)
        return self._reason

    def left_s(self, now_s: float) -> float:
        """How long that lasts at most; 0 where it does not wait."""
        return max(0.0, self._until_s - now_s) if self._reason else 0.0

    def observe(self) -> None:
        """Look who runs the other tasks, while this one copies; `beside` says what it means, once
        two looks say the same: other tasks of ours may be just about to say that they run."""
        self._memory.copies(self._task.place)
        others = java_left.shared_with(
            self._runs(),
            self._task.task.task,
            for_s=self._for_s,
            wall_ms=self._clock.wall_ms(),
        )
        found = _beside(others) if others else ""
        before, self._seen_beside = self._seen_beside, found
        if found != self.beside and (found == before or not found):
            self.beside = found
            if found:
                _LOG.warning("%s: %s", self._task.flow, found)
            else:
                _LOG.info("%s: no worker of Java runs its tasks any more", self._task.flow)

    def _look(self, now_s: float) -> None:
        lefts = frozenset[java_left.Left]()
        if not self.skipped:
            lefts = java_left.left_by_java(self._runs(), self._asks())
        if not lefts:
            self._memory.forget(self._task.place)
            self._go_on()
            return
        begun = self._memory.begun(self._task.place, lefts, now_s=now_s)
        pending, until_s = begun.lefts & lefts, begun.at_s + self._for_s
        if not pending or now_s >= until_s:
            self._go_on()
        else:
            self._wait_for(pending, until_s, now_s)

    def _asks(self) -> java_left.Asks:
        return java_left.Asks(
            partitions=self._task.partitions, for_s=self._for_s, wall_ms=self._clock.wall_ms()
        )

    def _wait_for(self, pending: frozenset[java_left.Left], until_s: float, now_s: float) -> None:
        if (pending, until_s) != (self._pending, self._until_s):
            self._pending, self._until_s = pending, until_s
            self._reason, self._told = self._words(now_s), False
        elif not self._told:  # it was no matter of milliseconds
            self._told = True
            _LOG.warning("%s: %s", self._name, self._reason)

    def _go_on(self) -> None:
        if self._told:
            _LOG.info("%s: nothing more of Java's is waited for", self._name)
        self._reason, self._told, self._pending = "", False, frozenset()

    @property
    def _name(self) -> str:
        return f"{self._task.flow} task {self._task.task.task}"

    def _words(self, now_s: float) -> str:
        wall_s = self._clock.wall_ms() / 1000 + self._until_s - now_s
        until = datetime.datetime.fromtimestamp(wall_s, datetime.UTC).strftime("%H:%M:%S")
        workers = ", ".join(sorted({each.worker_id for each in self._pending}))
        had = "ran" if any(each.sure for each in self._pending) else "may have run"
        return (
            f"MirrorMaker 2 of Java ({workers}) {had} partitions of this task and never said that "
            "it had stopped; it may be frozen or cut off, so what it may still send is waited for "
            f"until {until} UTC. If it has ended for certain: mm2 run --java-stopped-cleanly, or "
            "java.stopped.cleanly=true in the connector's configuration"
        )


def _beside(tasks: tuple[int, ...]) -> str:
    numbers = ", ".join(map(str, tasks))
    return (
        f"workers of Java run its tasks, too ({numbers}): until they have stopped, MirrorMaker 2's "
        "own guarantee is all there is, and tasks that change hands may copy records twice"
    )
