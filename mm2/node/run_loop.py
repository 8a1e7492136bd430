"""The main loop of `mm2 run`: watches the flows, displays them, decides when and how to end.

It takes no part in replication: a failing table or metric must not affect the flows.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base import plurals
from connect_runtime.base.timing import Clock
from mm2 import exit_codes, text_format
from mm2.connectors.status_registry import FlowState, FlowStatus
from mm2.copier.engine import EngineState
from mm2.metrics.collector import FlowMetricsCollector
from mm2.node.flow_display import FlowDisplay
from mm2.status import topic_rows
from mm2.status.catch_up import CatchUpSnapshot, CatchUpState, CatchUpTracker
from mm2.status.live_table import TableFrame
from mm2.status.status_changes import StatusChangeLog
from mm2.status.topic_rows import CopyRates

POLL_INTERVAL_S = 0.5
CATCH_UP_POLL_INTERVAL_S = 0.1
"""From turn to turn where somebody waits for the end of it."""
MAX_POLL_INTERVAL_S = 5.0
IDLE_POLL_INTERVAL_S = 15.0
"""While no flow tells anything new, which only lets lags grow older."""
POLL_CPU_SHARE = 0.01
"""Looking takes about this share of a core: thousands of partitions are looked at less often."""
DISPLAY_CPU_SHARE = 0.05
"""The same with drawing, for somebody sits there and watches."""

_TABLE_SIDE = "table"

_log = logging.getLogger(__name__)


class ObservedEngine(Protocol):
    """As much of an engine as is looked at."""

    @property
    def state(self) -> EngineState: ...


class RunnableNode(Protocol):
    """What `mm2 run` runs: `mm2.node.node.Mm2Node`."""

    @property
    def engine(self) -> ObservedEngine: ...

    def start(self) -> None: ...

    def statuses(self) -> Sequence[FlowStatus]: ...

    @property
    def ended(self) -> bool: ...

    @property
    def crashed(self) -> str: ...

    def stop(self) -> None: ...


class ExitReason(enum.Enum):
    """Why the loop ended."""

    SIGNAL = "signal"
    CRASHED = "crashed"
    ENDED = "ended"
    VERDICT = "verdict"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCondition:
    """`until_caught_up`: end when all that the source holds now is copied, or after `timeout_s`."""

    until_caught_up: bool = False
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended. `results` are for stdout, `errors` for stderr."""

    why: ExitReason
    code: int
    results: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLoopDeps:
    """`stop_signal` is the number of a signal that asked to stop, None while none did; `wait`
    returns after so many seconds, or earlier when a signal came."""

    clock: Clock
    display: FlowDisplay
    metrics: FlowMetricsCollector
    stop_signal: Callable[[], int | None]
    wait: Callable[[float], object]
    notes: tuple[str, ...] = ()
    unreachable: Callable[[], Mapping[str, str]] = dict
    """By flow, which of its clusters does not answer; as in `topic_rows.make_overview`."""


class RunLoop:
    """Runs once, on one thread."""

    def __init__(self, running: RunnableNode, goal: StopCondition, around: RunLoopDeps) -> None:
        self._running = running
        self._goal = goal
        self._around = around
        self._rates = CopyRates()
        self._progress = CatchUpTracker()
        self._changes = StatusChangeLog()
        self._seen_statuses: tuple[FlowStatus, ...] = ()
        self._shown_statuses: tuple[FlowStatus, ...] = ()
        self._progress_now: CatchUpSnapshot | None = None
        self._looked_s = float("-inf")
        self._pause_s = 0.0
        self._broken_sides: set[str] = set()

    def run(self) -> RunResult:
        """Start, watch until there is a reason to end, stop."""
        start_s = self._around.clock.now_s()
        self._running.start()
        try:
            why = None
            while why is None:
                why = self._turn(start_s)
                if why is None:
                    self._around.wait(
                        CATCH_UP_POLL_INTERVAL_S if self._goal.until_caught_up else POLL_INTERVAL_S
                    )
            self._look(self._around.clock.now_s())
        finally:
            self._side(_TABLE_SIDE, self._around.display.close)
            _log.info("stopping: what is in flight is acknowledged and recorded first")
            self._running.stop()
        return self._ending(why, self._around.clock.now_s() - start_s)

    def _turn(self, start_s: float) -> ExitReason | None:
        now_s = self._around.clock.now_s()
        self._take_statuses(now_s)
        rests = self._shown_statuses is self._seen_statuses
        if now_s >= self._looked_s + min(
            IDLE_POLL_INTERVAL_S if rests else MAX_POLL_INTERVAL_S, self._pause_s
        ):
            shown_s = self._look(now_s)
            cost_s = self._around.clock.now_s() - now_s
            self._looked_s = now_s
            self._pause_s = max(
                POLL_INTERVAL_S, (cost_s - shown_s) / POLL_CPU_SHARE, cost_s / DISPLAY_CPU_SHARE
            )
        return self._why_end(now_s - start_s)

    def _take_statuses(self, now_s: float) -> None:
        statuses = tuple(self._running.statuses())
        same = [*map(id, statuses)] == [*map(id, self._seen_statuses)]
        if same and not self._progress.waits:
            return
        self._seen_statuses = statuses
        if self._goal.until_caught_up:
            self._progress_now = self._progress.observe(statuses, now_s)

    def _why_end(self, passed_s: float) -> ExitReason | None:
        if self._around.stop_signal() is not None:
            return ExitReason.SIGNAL
        if self._running.crashed:
            return ExitReason.CRASHED
        progressed = self._progress_now
        if progressed is not None and progressed.verdict is not CatchUpState.COPYING:
            return ExitReason.VERDICT
        if self._running.ended:
            return ExitReason.ENDED
        if self._goal.timeout_s is not None and passed_s >= self._goal.timeout_s:
            return ExitReason.TIMEOUT
        return None

    # Looking

    def _look(self, now_s: float) -> float:
        """Returns how many seconds the drawing took."""
        statuses = self._shown_statuses = self._seen_statuses
        ready = self._running.engine.state is EngineState.READY
        self._rates.observe(statuses, now_s)
        lost: dict[str, str] = {}
        self._side("cluster watch", lambda: lost.update(self._around.unreachable()))
        seen = topic_rows.make_overview(
            statuses,
            self._rates,
            wall_ms=self._around.clock.wall_ms(),
            engine_ready=ready,
            unreachable=lost,
        )
        for line in self._changes.observe(seen, statuses, now_s):
            _log.log(line.level, "%s", line.text, extra=line.fields)
        frame = TableFrame(
            seen=seen,
            notes=(*self._around.notes, *self._engine_note()),
            progress=self._progress_now,
        )
        self._side(
            "metrics", lambda: self._around.metrics.observe(statuses, seen, engine_ready=ready)
        )
        before_s = self._around.clock.now_s()
        self._side(_TABLE_SIDE, lambda: self._around.display.show(frame, now_s))
        return self._around.clock.now_s() - before_s

    def _engine_note(self) -> tuple[str, ...]:
        starting = self._running.engine.state is EngineState.STARTING
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
                if name == _TABLE_SIDE:
                    self._around.display.close()
            _log.error("the %s has failed and is switched off; copying goes on\n%s", name, trace)

    # Ending

    def _ending(self, why: ExitReason, took_s: float) -> RunResult:
        statuses = self._running.statuses()
        errors = [
            f"{each.flow}: {each.reason}" for each in statuses if each.state is FlowState.FAILED
        ]
        if self._running.crashed:
            errors.append(f"an error in mm2 itself, please report it: {self._running.crashed}")
        code = exit_codes.FAILED
        results: tuple[str, ...] = ()
        if why is ExitReason.SIGNAL:
            number = self._around.stop_signal()
            assert number is not None
            code = 128 + number
        elif self._progress_now is not None:
            results = self._results(self._progress_now, why, took_s=took_s)
            reached = self._progress_now.verdict is CatchUpState.CAUGHT_UP
            code = exit_codes.DONE if reached and not errors else exit_codes.FAILED
            if self._progress_now.elsewhere and not errors and why is ExitReason.VERDICT:
                code = exit_codes.UNKNOWN
        return RunResult(why=why, code=code, results=results, errors=tuple(errors))

    def _results(
        self, progressed: CatchUpSnapshot, why: ExitReason, *, took_s: float
    ) -> tuple[str, ...]:
        everything = [each for flow in self._running.statuses() for each in flow.partitions]
        copied = (
            f"{plurals.format_count(sum(each.records for each in everything), 'record')} "
            f"({text_format.format_size(sum(each.bytes for each in everything))}) "
            f"in {text_format.format_duration(took_s)}"
        )
        partitions = plurals.format_count(progressed.partitions, "partition")
        here = [each for each in self._seen_statuses if each.flow not in progressed.elsewhere]
        others = sum(each.elsewhere for each in here)
        more = f"; {plurals.format_count(others, 'more partition', 'are')} assigned to other nodes"
        done = f"{copied}{more if others else ''}"
        if progressed.verdict is CatchUpState.CAUGHT_UP:
            return (f"caught up: {partitions}, {done}",)
        late = f" within {self._goal.timeout_s:g} s" if why is ExitReason.TIMEOUT else ""
        if progressed.elsewhere and why is ExitReason.VERDICT:
            lines = self._progress.unfinished_lines(self._seen_statuses)
            if not here:
                head = "this process had nothing to replicate; for the lag of other nodes: mm2 lag"
                return (head, *lines)
            # Nothing failed and nothing is being copied any more: all the others have caught up.
            names = ", ".join(each.flow for each in here)
            counted = plurals.format_count(len(progressed.elsewhere), "flow", "are")
            return (
                f"caught up: {partitions} of {names}, {done}",
                f"{counted} replicated by other nodes; for the lag: mm2 lag",
                *lines,
            )
        head = f"not caught up{late}: {progressed.done:,} of {partitions} done, {copied}"
        # As it was before the stop: afterwards everything is closed.
        return (head, *self._progress.unfinished_lines(self._seen_statuses))
