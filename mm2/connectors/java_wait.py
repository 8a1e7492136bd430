"""A task's wait for what MirrorMaker 2 of Java may still send, before its first copy begins.

Who waited is remembered for this process: a task that is started again meanwhile waits for the
rest. `core/java_left` decides; the worker tells who ran the task.
"""

from __future__ import annotations

import datetime
import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect_runtime.api import context
from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from mm2.core import java_left

LOOK_S = 0.5
_LOG = logging.getLogger(__name__)
_Place = tuple[str, ids.ConnectorTaskId]


@dataclass(frozen=True, slots=True)
class _Begun:
    left: java_left.Left
    at_s: float


class Memory:
    """Since when each task waits, and for whom (monotonic seconds). Safe from any thread; a task
    has one place in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[_Place, _Begun] = {}

    def begun_s(self, place: _Place, left: java_left.Left, *, now_s: float) -> float:
        """When the wait for this one began: now, unless it had."""
        with self._lock:
            known = self._begun.get(place)
            if known is None or known.left != left:
                known = self._begun[place] = _Begun(left, now_s)
            return known.at_s

    def forget(self, place: _Place) -> None:
        with self._lock:
            self._begun.pop(place, None)


_MEMORY = Memory()
"""This process's."""


class JavaWait:
    """One thread's. `skipped` True: a person knows that Java has ended."""

    def __init__(
        self,
        flow: str,
        task: ids.ConnectorTaskId,
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
        self._flow = flow
        self._task = task
        self._runs = runs
        self._for_s = java_left.wait_s(producer)
        self._clock = clock
        self._memory = memory
        self._look_due_s = -math.inf
        self._reason = ""
        self._until_s = -math.inf
        self._told = False

    def reason(self, now_s: float) -> str:
        """Why the copy must not begin yet; "" where it may. The same words as long as it lasts."""
        if now_s >= self._look_due_s:
            self._look_due_s = now_s + LOOK_S
            self._look(now_s)
        return self._reason

    def left_s(self, now_s: float) -> float:
        """How long that lasts at most; 0 where it does not wait."""
        return max(0.0, self._until_s - now_s) if self._reason else 0.0

    def observe(self) -> None:
        """Look who runs the other tasks, while this one copies; `beside` says what it means."""
        others = java_left.shared_with(self._runs(), self._task.task)
        found = _beside(others) if others else ""
        if found != self.beside:
            self.beside = found
            if found:
                _LOG.warning("%s: %s", self._flow, found)
            else:
                _LOG.info("%s: no worker of Java runs its tasks any more", self._flow)

    def _look(self, now_s: float) -> None:
        number = self._task.task
        left = None
        if not self.skipped:
            left = java_left.left_by_java(self._runs(), number, for_s=self._for_s)
        if left is None:
            self._memory.forget((self._flow, self._task))
            self._go_on()
            return
        begun_s = self._memory.begun_s((self._flow, self._task), left, now_s=now_s)
        self._until_s = begun_s + self._for_s
        if now_s >= self._until_s:
            self._go_on()
        elif not self._reason:
            self._reason = self._words(left, now_s)
        elif not self._told:  # it was no matter of milliseconds
            self._told = True
            _LOG.warning("%s task %d: %s", self._flow, number, self._reason)

    def _go_on(self) -> None:
        if self._told:
            number = self._task.task
            _LOG.info("%s task %d: nothing more of Java's is waited for", self._flow, number)
        self._reason, self._told = "", False

    def _words(self, left: java_left.Left, now_s: float) -> str:
        wall_s = self._clock.wall_ms() / 1000 + self._until_s - now_s
        until = datetime.datetime.fromtimestamp(wall_s, datetime.UTC).strftime("%H:%M:%S")
        return (
            f"a worker of Java ({left.worker_id}) ran this and never said that it had stopped; it "
            f"may be frozen or cut off, so what it may still send is waited for until {until} UTC. "
            "If it has ended for certain: mm2 run --java-stopped-cleanly, or "
            "java.stopped.cleanly=true in the connector's configuration"
        )


def _beside(tasks: tuple[int, ...]) -> str:
    numbers = ", ".join(map(str, tasks))
    return (
        f"workers of Java run its tasks, too ({numbers}): until they have stopped, MirrorMaker 2's "
        "own guarantee is all there is, and tasks that change hands may copy records twice"
    )
