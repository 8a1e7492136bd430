"""The main loop of `mm2 run`: watches the flows, shows them, and knows when to end and with what.

It copies nothing and decides nothing about copying. What it does beside watching (table, metrics)
may fail without a word to those who copy.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base import amounts, clock
from mm2.app import changes, displays, exits, figures, metrics, overview, progress, rates, table
from mm2.connectors import flow_status
from mm2.core import catch_up
from mm2.pipeline import engine

LOOK_EVERY_S = 0.5
HURRY_S = 0.1
"""From turn to turn where somebody waits for the end of it."""
LOOK_RARELY_S = 5.0
LOOK_AT_REST_S = 15.0
"""While no flow tells anything new, which only lets lags grow older."""
LOOK_SHARE = 0.01
"""Looking takes about this share of a core: thousands of partitions are looked at less often."""
SHOW_SHARE = 0.05
"""The same with drawing, for somebody sits there and watches."""

_TABLE = "table"

_log = logging.getLogger(__name__)


class Engine(Protocol):
    """As much of an engine as is looked at."""

    @property
    def state(self) -> engine.EngineState: ...


class Running(Protocol):
    """What `mm2 run` runs: `mm2.app.node.Node`."""

    @property
    def engine(self) -> Engine: ...

    def start(self) -> None: ...

    def statuses(self) -> Sequence[flow_status.FlowStatus]: ...

    @property
    def ended(self) -> bool: ...

    @property
    def crashed(self) -> str: ...

    def stop(self) -> None: ...


class Why(enum.Enum):
    """Why the loop ended."""

    SIGNAL = "signal"
    CRASHED = "crashed"
    ENDED = "ended"
    VERDICT = "verdict"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`until_caught_up`: end when all that the source holds now is copied, or after `timeout_s`."""

    until_caught_up: bool = False
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended. `results` are for stdout, `errors` for stderr."""

    why: Why
    code: int
    results: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """`stop_signal` is the number of a signal that asked to stop, None while none did; `wait`
    returns after so many seconds, or earlier when a signal came."""

    clock: clock.Clock
    display: displays.Display
    metrics: metrics.FlowMetrics
    stop_signal: Callable[[], int | None]
    wait: Callable[[float], object]
    notes: tuple[str, ...] = ()
    unreachable: Callable[[], Mapping[str, str]] = dict
    """By flow, which of its clusters does not answer; as in `overview.make`."""


class RunLoop:
    """Runs once, on one thread."""

    def __init__(self, running: Running, goal: Goal, around: Surroundings) -> None:
        self._running = running
        self._goal = goal
        self._around = around
        self._rates = rates.Rates()
        self._progress = progress.Progress()
        self._changes = changes.Changes()
        self._seen_statuses: tuple[flow_status.FlowStatus, ...] = ()
        self._shown_statuses: tuple[flow_status.FlowStatus, ...] = ()
        self._progress_now: progress.Snapshot | None = None
        self._looked_s = float("-inf")
        self._pause_s = 0.0
        self._broken_sides: set[str] = set()

    def run(self) -> Ending:
        """Start, watch until there is a reason to end, stop."""
        start_s = self._around.clock.now_s()
        self._running.start()
        try:
            why = None
            while why is None:
                why = self._turn(start_s)
                if why is None:
                    self._around.wait(HURRY_S if self._goal.until_caught_up else LOOK_EVERY_S)
            self._look(self._around.clock.now_s())
        finally:
            self._side(_TABLE, self._around.display.close)
            _log.info("stopping: what is in flight is acknowledged and recorded first")
            self._running.stop()
        return self._ending(why, self._around.clock.now_s() - start_s)

    def _turn(self, start_s: float) -> Why | None:
        now_s = self._around.clock.now_s()
        self._take_statuses(now_s)
        rests = self._shown_statuses is self._seen_statuses
        if now_s >= self._looked_s + min(LOOK_AT_REST_S if rests else LOOK_RARELY_S, self._pause_s):
            shown_s = self._look(now_s)
            cost_s = self._around.clock.now_s() - now_s
            self._looked_s = now_s
            self._pause_s = max(LOOK_EVERY_S, (cost_s - shown_s) / LOOK_SHARE, cost_s / SHOW_SHARE)
        return self._why_end(now_s - start_s)

    def _take_statuses(self, now_s: float) -> None:
        statuses = tuple(self._running.statuses())
        same = [*map(id, statuses)] == [*map(id, self._seen_statuses)]
        if same and not self._progress.waits:
            return
        self._seen_statuses = statuses
        if self._goal.until_caught_up:
            self._progress_now = self._progress.observe(statuses, now_s)

    def _why_end(self, passed_s: float) -> Why | None:
        if self._around.stop_signal() is not None:
            return Why.SIGNAL
        if self._running.crashed:
            return Why.CRASHED
        progressed = self._progress_now
        if progressed is not None and progressed.verdict is not catch_up.Verdict.COPYING:
            return Why.VERDICT
        if self._running.ended:
            return Why.ENDED
        if self._goal.timeout_s is not None and passed_s >= self._goal.timeout_s:
            return Why.TIMEOUT
        return None

    # Looking

    def _look(self, now_s: float) -> float:
        """Returns how many seconds the drawing took."""
        statuses = self._shown_statuses = self._seen_statuses
        ready = self._running.engine.state is engine.EngineState.READY
        self._rates.observe(statuses, now_s)
        lost: dict[str, str] = {}
        self._side("cluster watch", lambda: lost.update(self._around.unreachable()))
        seen = overview.make(
            statuses,
            self._rates,
            wall_ms=self._around.clock.wall_ms(),
            engine_ready=ready,
            unreachable=lost,
        )
        for line in self._changes.observe(seen, statuses, now_s):
            _log.log(line.level, "%s", line.text, extra=line.fields)
        frame = table.Frame(
            seen=seen,
            notes=(*self._around.notes, *self._engine_note()),
            progress=self._progress_now,
        )
        self._side(
            "metrics", lambda: self._around.metrics.observe(statuses, seen, engine_ready=ready)
        )
        before_s = self._around.clock.now_s()
        self._side(_TABLE, lambda: self._around.display.show(frame, now_s))
        return self._around.clock.now_s() - before_s

    def _engine_note(self) -> tuple[str, ...]:
        starting = self._running.engine.state is engine.EngineState.STARTING
        return ("starting Spark …",) if starting else ()

    def _side(self, name: str, action: Callable[[], object]) -> None:
        """Something that may fail: it is switched off then."""
        if name in self._broken_sides:
            return
        try:
            action()
        except Exception:  # noqa: BLE001 - what only shows things must never stop the copying
            self._broken_sides.add(name)
            trace = traceback.format_exc()
            with contextlib.suppress(Exception):  # it holds the log's way to the terminal
                if name == _TABLE:
                    self._around.display.close()
            _log.error("the %s has failed and is switched off; copying goes on\n%s", name, trace)

    # Ending

    def _ending(self, why: Why, took_s: float) -> Ending:
        statuses = self._running.statuses()
        errors = [
            f"{each.flow}: {each.reason}"
            for each in statuses
            if each.state is flow_status.FlowState.FAILED
        ]
        if self._running.crashed:
            errors.append(f"an error in mm2 itself, please report it: {self._running.crashed}")
        code = exits.FAILED
        results: tuple[str, ...] = ()
        if why is Why.SIGNAL:
            number = self._around.stop_signal()
            assert number is not None
            code = 128 + number
        elif self._progress_now is not None:
            results = self._results(self._progress_now, why, took_s=took_s)
            reached = self._progress_now.verdict is catch_up.Verdict.CAUGHT_UP
            code = exits.DONE if reached and not errors else exits.FAILED
            if self._progress_now.elsewhere and not errors and why is Why.VERDICT:
                code = exits.UNKNOWN
        return Ending(why=why, code=code, results=results, errors=tuple(errors))

    def _results(
        self, progressed: progress.Snapshot, why: Why, *, took_s: float
    ) -> tuple[str, ...]:
        everything = [each for flow in self._running.statuses() for each in flow.partitions]
        copied = (
            f"{amounts.counted(sum(each.records for each in everything), 'record')} "
            f"({figures.size(sum(each.bytes for each in everything))}) "
            f"in {figures.duration(took_s)}"
        )
        partitions = amounts.counted(progressed.partitions, "partition")
        here = [each for each in self._seen_statuses if each.flow not in progressed.elsewhere]
        others = sum(each.elsewhere for each in here)
        more = f"; {amounts.counted(others, 'more partition', 'are')} assigned to other nodes"
        done = f"{copied}{more if others else ''}"
        if progressed.verdict is catch_up.Verdict.CAUGHT_UP:
            return (f"caught up: {partitions}, {done}",)
        late = f" within {self._goal.timeout_s:g} s" if why is Why.TIMEOUT else ""
        if progressed.elsewhere and why is Why.VERDICT:
            lines = self._progress.unfinished_lines(self._seen_statuses)
            if not here:
                head = "this process had nothing to replicate; for the lag of other nodes: mm2 lag"
                return (head, *lines)
            # Nothing failed and nothing is being copied any more: all the others have caught up.
            names = ", ".join(each.flow for each in here)
            counted = amounts.counted(len(progressed.elsewhere), "flow", "are")
            return (
                f"caught up: {partitions} of {names}, {done}",
                f"{counted} replicated by other nodes; for the lag: mm2 lag",
                *lines,
            )
        head = f"not caught up{late}: {progressed.done:,} of {partitions} done, {copied}"
        # As it was before the stop: afterwards everything is closed.
        return (head, *self._progress.unfinished_lines(self._seen_statuses))
