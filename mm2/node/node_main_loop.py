"""The main loop of `mm2 run`: monitors and displays the flows, and decides when and how to exit.

It is not involved in replication: a failing table or metric must not affect the flows.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from mm2 import exit_codes, text_format
from mm2.connectors.status_registry import FlowState, FlowStatus
from mm2.copier.copy_engine import EngineState
from mm2.metrics.collector import FlowMetricsCollector
from mm2.node.terminal_flow_display import FlowDisplay
from mm2.status import topic_rows
from mm2.status.catch_up_progress import CatchUpSnapshot, CatchUpState, CatchUpTracker
from mm2.status.live_flow_table import LiveTableContent
from mm2.status.status_changes import StatusChangeLog
from mm2.status.topic_rows import CopyRates

POLL_INTERVAL_S = 0.5
CATCH_UP_POLL_INTERVAL_S = 0.1
"""Poll interval in seconds with `--until-caught-up`."""
MAX_POLL_INTERVAL_S = 5.0
IDLE_POLL_INTERVAL_S = 15.0
"""Maximum interval in seconds between updates of the log, metrics and display while no flow status
has changed."""
POLL_CPU_SHARE = 0.01
"""Maximum share of a CPU core used for status polls. With thousands of partitions, the poll
interval grows."""
DISPLAY_CPU_SHARE = 0.05
"""Maximum share of a CPU core used for drawing the table. It is higher than for polls, because a
user is watching."""
RETRY_DELAY_S = 60.0
"""Delay in seconds before metrics or cluster observation are retried after a failure."""

_TABLE_ACTION = "table"

_log = logging.getLogger(__name__)


class ObservedEngine(Protocol):
    """The part of an engine that the main loop needs."""

    @property
    def state(self) -> EngineState: ...


class RunnableNode(Protocol):
    """The part of `Mm2Node` that the main loop needs."""

    @property
    def engine(self) -> ObservedEngine: ...

    def start(self) -> None: ...

    def statuses(self) -> Sequence[FlowStatus]: ...

    @property
    def has_ended(self) -> bool: ...

    @property
    def crash_reason(self) -> str: ...

    def stop(self) -> None: ...


class ExitReason(enum.Enum):
    """Reason why the main loop ended."""

    SIGNAL = "signal"
    CRASHED = "crashed"
    ENDED = "ended"
    VERDICT = "verdict"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCondition:
    """Conditions under which the main loop ends without a signal."""

    until_caught_up: bool = False
    """True to exit once all records that the source currently contains are replicated."""
    timeout_s: float | None = None
    """Seconds after which the main loop ends in any case; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of `mm2 run`: reason for the exit, exit code, and output lines that are printed
    last."""

    reason: ExitReason
    code: int
    results: tuple[str, ...] = ()
    """Output lines for stdout."""
    errors: tuple[str, ...] = ()
    """Output lines for stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLoopDependencies:
    """Dependencies of the main loop."""

    clock: Clock
    display: FlowDisplay
    metrics: FlowMetricsCollector
    stop_signal: Callable[[], int | None]
    """Returns the number of the signal that requested a stop, or None if no stop was requested."""
    wait: Callable[[float], object]
    """Waits for a number of seconds or until a signal is received."""
    notes: tuple[str, ...] = ()
    unreachable: Callable[[], Mapping[str, str]] = dict
    """Returns a description of each flow's unreachable cluster, by flow; passed to
    `topic_rows.make_overview`."""


class RunLoop:
    """The main loop of `mm2 run`. Runs once, on one thread."""

    def __init__(
        self, node: RunnableNode, stop_condition: StopCondition, deps: RunLoopDependencies
    ) -> None:
        self._node = node
        self._goal = stop_condition
        self._deps = deps
        self._rates = CopyRates()
        self._progress = CatchUpTracker()
        self._changes = StatusChangeLog()
        self._seen_statuses: tuple[FlowStatus, ...] = ()
        self._shown_statuses: tuple[FlowStatus, ...] = ()
        self._progress_now: CatchUpSnapshot | None = None
        self._observed_s = float("-inf")
        self._observe_interval_s = 0.0
        self._retry_at_s: dict[str, float] = {}
        """Earliest time of the next attempt for each secondary action (metrics, display) that
        failed."""

    def run(self) -> RunResult:
        """Start the node, run until there is a reason to exit, and stop the node."""
        start_s = self._deps.clock.now_s()
        self._node.start()
        try:
            reason = None
            while reason is None:
                reason = self._run_iteration(start_s)
                if reason is None:
                    self._deps.wait(
                        CATCH_UP_POLL_INTERVAL_S if self._goal.until_caught_up else POLL_INTERVAL_S
                    )
            self._observe_flows(self._deps.clock.now_s())
        finally:
            self._run_secondary_action(_TABLE_ACTION, self._deps.display.close)
            _log.info("stopping: waiting for in-flight batches to be acknowledged and recorded")
            self._node.stop()
        return self._build_result(reason, self._deps.clock.now_s() - start_s)

    def _run_iteration(self, start_s: float) -> ExitReason | None:
        now_s = self._deps.clock.now_s()
        self._update_statuses(now_s)
        is_idle = self._shown_statuses is self._seen_statuses
        if now_s >= self._observed_s + min(
            IDLE_POLL_INTERVAL_S if is_idle else MAX_POLL_INTERVAL_S, self._observe_interval_s
        ):
            drawing_s = self._observe_flows(now_s)
            cost_s = self._deps.clock.now_s() - now_s
            self._observed_s = now_s
            self._observe_interval_s = max(
                POLL_INTERVAL_S, (cost_s - drawing_s) / POLL_CPU_SHARE, cost_s / DISPLAY_CPU_SHARE
            )
        return self._find_exit_reason(now_s - start_s)

    def _update_statuses(self, now_s: float) -> None:
        statuses = tuple(self._node.statuses())
        is_unchanged = [*map(id, statuses)] == [*map(id, self._seen_statuses)]
        if is_unchanged and not self._progress.needs_periodic_observation:
            return
        self._seen_statuses = statuses
        if self._goal.until_caught_up:
            self._progress_now = self._progress.observe(statuses, now_s)

    def _find_exit_reason(self, passed_s: float) -> ExitReason | None:
        if self._deps.stop_signal() is not None:
            return ExitReason.SIGNAL
        if self._node.crash_reason:
            return ExitReason.CRASHED
        progress = self._progress_now
        if progress is not None and progress.verdict is not CatchUpState.COPYING:
            return ExitReason.VERDICT
        if self._node.has_ended:
            return ExitReason.ENDED
        if self._goal.timeout_s is not None and passed_s >= self._goal.timeout_s:
            return ExitReason.TIMEOUT
        return None

    # Observation

    def _observe_flows(self, now_s: float) -> float:
        """Update the log, metrics and display. Return how many seconds drawing the table took."""
        statuses = self._shown_statuses = self._seen_statuses
        ready = self._node.engine.state is EngineState.READY
        self._rates.observe(statuses, now_s)
        unreachable: dict[str, str] = {}
        self._run_secondary_action(
            "cluster watch", lambda: unreachable.update(self._deps.unreachable())
        )
        overview = topic_rows.make_overview(
            statuses,
            self._rates,
            wall_ms=self._deps.clock.wall_ms(),
            engine_ready=ready,
            unreachable=unreachable,
        )
        for line in self._changes.observe(overview, statuses, now_s):
            _log.log(line.level, "%s", line.text, extra=line.fields)
        frame = LiveTableContent(
            overview=overview,
            notes=(*self._deps.notes, *self._describe_engine_start()),
            progress=self._progress_now,
        )
        self._run_secondary_action(
            "metrics",
            lambda: self._deps.metrics.update_metrics(statuses, overview, engine_ready=ready),
        )
        before_s = self._deps.clock.now_s()
        self._run_secondary_action(
            _TABLE_ACTION, lambda: self._deps.display.show_frame(frame, now_s)
        )
        return self._deps.clock.now_s() - before_s

    def _describe_engine_start(self) -> tuple[str, ...]:
        starting = self._node.engine.state is EngineState.STARTING
        return ("starting Spark …",) if starting else ()

    def _run_secondary_action(self, name: str, action: Callable[[], object]) -> None:
        """Run a secondary action (metrics, display), and log its failure.

        A failed action is retried after `RETRY_DELAY_S`. If drawing the table fails, the table is
        never drawn again, because the terminal may have been closed.
        """
        now_s = self._deps.clock.now_s()
        if now_s < self._retry_at_s.get(name, -math.inf):
            return
        try:
            action()
        except Exception:  # noqa: BLE001 - must never stop replication
            trace = traceback.format_exc()
            if name == _TABLE_ACTION:
                self._retry_at_s[name] = math.inf
                with contextlib.suppress(Exception):  # the table redirects log output
                    self._deps.display.close()
                _log.error("disabling %s after an error; replication continues\n%s", name, trace)
            else:
                self._retry_at_s[name] = now_s + RETRY_DELAY_S
                _log.error(
                    "%s failed and is retried in %.0f s; replication continues\n%s",
                    name,
                    RETRY_DELAY_S,
                    trace,
                )

    # Ending

    def _build_result(self, reason: ExitReason, took_s: float) -> RunResult:
        statuses = self._node.statuses()
        errors = [
            f"{each.flow}: {each.reason}" for each in statuses if each.state is FlowState.FAILED
        ]
        if self._node.crash_reason:
            errors.append(f"internal error in mm2, please report it: {self._node.crash_reason}")
        code = exit_codes.FAILED
        results: tuple[str, ...] = ()
        if reason is ExitReason.SIGNAL:
            number = self._deps.stop_signal()
            assert number is not None
            code = 128 + number
        elif self._progress_now is not None:
            results = self._build_result_lines(self._progress_now, reason, took_s=took_s)
            reached = self._progress_now.verdict is CatchUpState.CAUGHT_UP
            code = exit_codes.DONE if reached and not errors else exit_codes.FAILED
            if self._progress_now.remote_flows and not errors and reason is ExitReason.VERDICT:
                code = exit_codes.UNKNOWN
        return RunResult(reason=reason, code=code, results=results, errors=tuple(errors))

    def _build_result_lines(
        self, progressed: CatchUpSnapshot, reason: ExitReason, *, took_s: float
    ) -> tuple[str, ...]:
        partition_statuses = [each for flow in self._node.statuses() for each in flow.partitions]
        copied = (
            f"{plurals.format_count(sum(each.records for each in partition_statuses), 'record')} "
            f"({text_format.format_size(sum(each.bytes for each in partition_statuses))}) "
            f"in {text_format.format_duration(took_s)}"
        )
        partitions = plurals.format_count(progressed.partitions, "partition")
        own_flows = [
            each for each in self._seen_statuses if each.flow not in progressed.remote_flows
        ]
        others = sum(each.remote_partitions for each in own_flows)
        other_nodes = (
            f"; {plurals.format_count(others, 'more partition', 'are')} assigned to other nodes"
        )
        done = f"{copied}{other_nodes if others else ''}"
        if progressed.verdict is CatchUpState.CAUGHT_UP:
            return (f"caught up: {partitions}, {done}",)
        late = f" within {self._goal.timeout_s:g} s" if reason is ExitReason.TIMEOUT else ""
        if progressed.remote_flows and reason is ExitReason.VERDICT:
            lines = self._progress.format_unfinished_lines(self._seen_statuses)
            if not own_flows:
                head = "other nodes replicate all partitions; to show their lag, run mm2 lag"
                return (head, *lines)
            # Nothing failed and nothing is being copied any more: all other flows have caught up.
            names = ", ".join(each.flow for each in own_flows)
            counted = plurals.format_count(len(progressed.remote_flows), "flow", "are")
            return (
                f"caught up: {partitions} of {names}, {done}",
                f"{counted} replicated by other nodes; to show the lag, run mm2 lag",
                *lines,
            )
        head = f"not caught up{late}: {progressed.done:,} of {partitions} done, {copied}"
        # Uses the statuses before the stop, because it closes all partitions.
        return (head, *self._progress.format_unfinished_lines(self._seen_statuses))
