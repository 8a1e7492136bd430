"""Waits until a Java MirrorMaker 2 worker can no longer write to a task's partitions.

A worker that ended in order has closed its producer, so nothing is waited for. A worker that
was killed, frozen or partitioned may still send batches for as long as its producer retries
(`delivery.timeout.ms`). Anything sent later is found by tail matching.

What counts is which worker ran the task's partitions under any task number, because partitions
move between tasks. An mm2 task reports RUNNING only after it has waited. The time waited is
remembered in this process: a restarted task waits only for the rest.
"""

from __future__ import annotations

import datetime
import logging
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect_runtime.api.errors import ConnectError
from connect_runtime.api.plugin_context import (
    DatedTaskConfig,
    ForeignTaskRun,
    LastTaskRuns,
    LeaderlessPeriod,
)
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.timing import Clock
from mm2.topics import assignment

DELIVERY_TIMEOUT_CONFIG = "delivery.timeout.ms"
DEFAULT_DELIVERY_TIMEOUT_S = 120.0
"""A producer's own default. Connect sets none (2^31-1) where nobody does: then this is enough for a
worker that is cut off, which ends its tasks within a minute."""
_UNLIMITED_TIMEOUT_MS = 2**31 - 1
MAX_CLOCK_SKEW_S = 600.0
"""Clocks of Java's machines and ours are less apart than this, where long times are compared."""

_PartitionSet = frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRun:
    """A run by a worker of Java that may not have ended; `began_ms` by its clock (wall). `sure`: it
    had partitions of the task that asks; else what it had is not known any more, which makes it no
    other run."""

    worker_id: str
    began_ms: int
    sure: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverQuery:
    """What a wait is about: `partitions` are the task's; Java's producer tries for `for_s`; and now
    is `wall_ms`."""

    partitions: Collection[TopicPartition]
    for_s: float
    wall_ms: int


def read_delivery_timeout_s(producer: Mapping[str, str]) -> float:
    """How long the producer of Java's task tries, as its properties say."""
    text = producer.get(DELIVERY_TIMEOUT_CONFIG, "").strip()
    given = int(text) if text.isdecimal() else _UNLIMITED_TIMEOUT_MS
    return given / 1000 if given < _UNLIMITED_TIMEOUT_MS else DEFAULT_DELIVERY_TIMEOUT_S


def find_unfinished_java_runs(runs: LastTaskRuns, asks: HandoverQuery) -> frozenset[JavaRun]:
    """Whom a task has to wait for."""
    if not runs.others:
        return frozenset()
    settled_ms = _find_owned_since(runs, asks.partitions)
    found = set()
    for number, run in runs.others.items():
        if _can_no_longer_write(run, runs.quiet, asks):
            continue
        had = _run_partitions(runs.given.get(number, ()), run)
        if any(
            settled_ms.get(each, -1) < run.began_ms
            for each in asks.partitions
            if had is None or each in had
        ):
            found.add(JavaRun(worker_id=run.worker_id, began_ms=run.began_ms, sure=had is not None))
    return frozenset(found)


def find_tasks_run_by_java(
    runs: LastTaskRuns, number: int, *, for_s: float, wall_ms: int
) -> tuple[int, ...]:
    """Tasks but this one that a worker of Java runs, as far as it is known; while there are some,
    what Java guarantees is all that holds."""
    asks = HandoverQuery(partitions=(), for_s=for_s, wall_ms=wall_ms)
    return tuple(
        sorted(
            each
            for each, run in runs.others.items()
            if each != number
            and run.ended_ms is None
            and run.removed_ms is None
            and not _can_no_longer_write(run, runs.quiet, asks)
        )
    )


def _can_no_longer_write(
    run: ForeignTaskRun, quiet: LeaderlessPeriod | None, asks: HandoverQuery
) -> bool:
    """Whatever it had: nothing of it is waited for."""
    if run.ended_ms is not None and not run.overlaps:
        return True
    # Who ran it before had lost it, at the latest, when this run began: by one clock.
    if run.ended_ms is not None and run.ended_ms - run.began_ms >= asks.for_s * 1000:
        return True
    long_ms = (asks.for_s + MAX_CLOCK_SKEW_S) * 1000
    known_ms = (each for each in (run.ended_ms, run.removed_ms) if each is not None)
    if any(asks.wall_ms - each >= long_ms for each in known_ms):
        return True
    if quiet is None or run.began_ms >= quiet.from_ms:
        return False
    return quiet.to_ms - quiet.from_ms >= long_ms  # no worker of its group lived before ours began


def _find_owned_since(
    runs: LastTaskRuns, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Since when (wall, milliseconds) they are ours, of those that were in runs of ours."""
    found: dict[TopicPartition, int] = {}
    for number, began_ms in runs.ours.items():
        given = _configs_until(runs.given.get(number, ()), began_ms)
        had = _parse_all_partitions(given[-1:]) or frozenset()
        for each in had.intersection(partitions):
            found[each] = max(found.get(each, began_ms), began_ms)
    return found


def _run_partitions(given: Sequence[DatedTaskConfig], run: ForeignTaskRun) -> _PartitionSet | None:
    """What the run had; None: it is not known. One that overlaps another that never ended counts
    for that, too, which began earlier."""
    known = _configs_until(given, run.began_ms)
    return _parse_all_partitions(known if run.overlaps else known[-1:])


def _configs_until(given: Sequence[DatedTaskConfig], at_ms: int) -> Sequence[DatedTaskConfig]:
    """What a task had been given by then: it had the last of these."""
    known = [at for at, each in enumerate(given) if 0 <= each.at_ms <= at_ms]
    return given[: known[-1] + 1] if known else ()


def _parse_all_partitions(given: Iterable[DatedTaskConfig]) -> _PartitionSet | None:
    found: set[TopicPartition] = set()
    any_given = False
    for each in given:
        any_given = True
        props = {key: value for key, value in each.config.items() if value is not None}
        try:
            found.update(assignment.parse_partitions(props))
        except ConnectError:
            return None
    return frozenset(found) if any_given else None


RUNS_POLL_INTERVAL_S = 0.5
_LOG = logging.getLogger(__name__)
_TaskKey = tuple[str, ConnectorTaskId]


@dataclass(frozen=True, slots=True)
class StartedWait:
    """A wait for these, since `at_s`; `copied`: the task has begun to copy since."""

    lefts: frozenset[JavaRun]
    at_s: float
    copied: bool = False

    def is_of(self, lefts: Collection[JavaRun]) -> bool:
        """False: Java has had partitions of the task since. A run of which that is not known, as of
        a worker of Java that starts again and again, makes no wait longer."""
        news = (each for each in lefts if each not in self.lefts)
        return not any(each.sure or self.copied for each in news)


class HandoverWaits:
    """Since when each task waits, and for whom (monotonic seconds). Safe from any thread; a task
    has one place in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[_TaskKey, StartedWait] = {}

    def begun(self, place: _TaskKey, lefts: frozenset[JavaRun], *, now_s: float) -> StartedWait:
        """The wait that this task is in: it begins now, unless it had."""
        with self._lock:
            known = self._begun.get(place)
            if known is None or not known.is_of(lefts):
                known = self._begun[place] = StartedWait(lefts, now_s)
            return known

    def copies(self, place: _TaskKey) -> None:
        """Whatever the wait was for, it is over."""
        with self._lock:
            if place in self._begun:
                self._begun[place] = replace(self._begun[place], copied=True)

    def forget(self, place: _TaskKey) -> None:
        with self._lock:
            self._begun.pop(place, None)


_HANDOVER_WAITS = HandoverWaits()
"""This process's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTask:
    """Which task waits, of which flow, and what it is to copy."""

    flow: str
    task: ConnectorTaskId
    partitions: Collection[TopicPartition]

    @property
    def place(self) -> _TaskKey:
        return self.flow, self.task


class JavaHandover:
    """One thread's. `skipped` True: a person knows that Java has ended."""

    def __init__(
        self,
        task: WaitingTask,
        *,
        runs: Callable[[], LastTaskRuns],
        producer: Mapping[str, str],
        skipped: bool,
        clock: Clock,
        memory: HandoverWaits = _HANDOVER_WAITS,
    ) -> None:
        """`runs` is `PipelineTaskContext.last_runs`; `producer` the properties of the producer that
        Java's task would have."""
        self.skipped = skipped
        self.beside = ""
        """What is less safe while workers of Java run tasks of the connector; "" while none do."""
        self._seen_beside = ""
        self._task = task
        self._runs = runs
        self._for_s = read_delivery_timeout_s(producer)
        self._clock = clock
        self._memory = memory
        self._look_due_s = -math.inf
        self._reason = ""
        self._until_s = -math.inf
        self._pending: frozenset[JavaRun] = frozenset()
        self._told = False

    def reason(self, now_s: float) -> str:
        """Why the copy must not begin yet; "" where it may. The same words while it waits for the
        same."""
        if now_s >= self._look_due_s:
            self._look_due_s = now_s + RUNS_POLL_INTERVAL_S
            self._look(now_s)
        return self._reason

    def left_s(self, now_s: float) -> float:
        """How long that lasts at most; 0 where it does not wait."""
        return max(0.0, self._until_s - now_s) if self._reason else 0.0

    def observe(self) -> None:
        """Look who runs the other tasks, while this one copies; `beside` says what it means, once
        two looks say the same: other tasks of ours may be just about to say that they run."""
        self._memory.copies(self._task.place)
        others = find_tasks_run_by_java(
            self._runs(),
            self._task.task.task,
            for_s=self._for_s,
            wall_ms=self._clock.wall_ms(),
        )
        found = _describe_java_tasks(others) if others else ""
        before, self._seen_beside = self._seen_beside, found
        if found != self.beside and (found == before or not found):
            self.beside = found
            if found:
                _LOG.warning("%s: %s", self._task.flow, found)
            else:
                _LOG.info("%s: no worker of Java runs its tasks any more", self._task.flow)

    def _look(self, now_s: float) -> None:
        lefts = frozenset[JavaRun]()
        if not self.skipped:
            lefts = find_unfinished_java_runs(self._runs(), self._asks())
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

    def _asks(self) -> HandoverQuery:
        return HandoverQuery(
            partitions=self._task.partitions, for_s=self._for_s, wall_ms=self._clock.wall_ms()
        )

    def _wait_for(self, pending: frozenset[JavaRun], until_s: float, now_s: float) -> None:
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


def _describe_java_tasks(tasks: tuple[int, ...]) -> str:
    numbers = ", ".join(map(str, tasks))
    return (
        f"workers of Java run its tasks, too ({numbers}): until they have stopped, MirrorMaker 2's "
        "own guarantee is all there is, and tasks that change hands may copy records twice"
    )
