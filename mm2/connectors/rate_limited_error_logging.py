"""Rate-limited log lines about persistent errors, and waiting and stopped partitions.

Retries that succeed within seconds are not logged. Persistent problems are logged once, then every
minute with the newest reason, and once more when they are resolved.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from mm2.copier.progress_reports import PartitionProgressReport

REPEAT_INTERVAL_S = 60.0


class RateLimitedWarnings:
    """Logs at most one warning per subject and minute. Not thread-safe. Subjects are kept in
    memory, so their number must be small."""

    def __init__(self, log: logging.Logger, *, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._due_s: dict[str, float] = {}

    def warn(self, subject: str, text: object) -> None:
        """Log a warning, or a debug line if a warning for `subject` was logged within the last
        minute."""
        now_s = self._clock.now_s()
        quiet = now_s < self._due_s.get(subject, now_s)
        if not quiet:
            self._due_s[subject] = now_s + REPEAT_INTERVAL_S
        self._log.log(logging.DEBUG if quiet else logging.WARNING, "%s: %s", subject, text)

    def reset(self, subject: str) -> None:
        """Reset the rate limit for `subject`, so that its next problem is logged immediately."""
        self._due_s.pop(subject, None)


_Key = TypeVar("_Key", int, str)

STALL_THRESHOLD_S = 8.0
STALL_REPEAT_INTERVAL_S = 60.0
"""Interval at which a persistent stall is logged again, with the newest reason."""

_WAITING_PHASES = ("waiting", "acquiring")
_CLOSED_PHASE = "closed"


@dataclass(slots=True)
class _Stall:
    """A problem that began at `since_s` and was last logged at `logged_s` (-inf if never), in
    monotonic seconds."""

    since_s: float
    reason: str = ""
    logged_s: float = float("-inf")

    def is_due(self, now_s: float) -> bool:
        return (
            now_s - self.since_s >= STALL_THRESHOLD_S
            and now_s - self.logged_s >= STALL_REPEAT_INTERVAL_S
        )


@dataclass(slots=True)
class StallLog:
    """Selects the log lines about a copy process's waiting partitions and connection errors.

    Invariant: a logged problem is logged again only after a minute, or if it recurs after it was
    resolved.
    """

    _waits: dict[int, _Stall] = field(default_factory=dict)
    _logged_waits: set[int] = field(default_factory=set)
    _troubles: dict[str, _Stall] = field(default_factory=dict)
    _logged_troubles: set[str] = field(default_factory=set)

    def record_progress_report(self, report: PartitionProgressReport, now_s: float) -> None:
        """Record the progress report of one partition."""
        if report.phase not in _WAITING_PHASES:
            self._waits.pop(report.index, None)
            if report.phase == _CLOSED_PHASE:  # closed without having recovered
                self._logged_waits.discard(report.index)
            return
        self._waits.setdefault(report.index, _Stall(now_s)).reason = report.reason

    def record_connection_errors(self, errors: Mapping[str, str], now_s: float) -> None:
        """Record all current connection errors by broker address."""
        for address in self._troubles.keys() - errors.keys():
            del self._troubles[address]
        for address, reason in errors.items():
            self._troubles.setdefault(address, _Stall(now_s)).reason = reason

    def take_due_lines(self, names: Sequence[str], now_s: float) -> list[str]:
        """Return the lines to log now and mark their problems as logged. `names` contains the names
        of the task's partitions."""
        return [
            *self._build_problem_lines(now_s),
            *self._build_waiting_partition_lines(names, now_s),
        ]

    def _build_problem_lines(self, now_s: float) -> list[str]:
        new, over = _update_reported_problems(self._troubles, self._logged_troubles, now_s)
        lines = [
            f"cannot connect to {address}: {self._troubles[address].reason}; retrying"
            for address in sorted(new)
        ]
        if over and not self._logged_troubles:
            lines.append("all connections are restored")
        return lines

    def _build_waiting_partition_lines(self, names: Sequence[str], now_s: float) -> list[str]:
        new, over = _update_reported_problems(self._waits, self._logged_waits, now_s)
        lines = []
        if new:
            first = min(new)
            others = len(new) - 1
            more = f" (and {plurals.format_count(others, 'more partition')})" if others else ""
            reason = self._waits[first].reason
            lines.append(f"{names[first]} is waiting{more}: {reason}; retrying")
        if over and not self._logged_waits:
            lines.append("no partition is waiting any more")
        return lines


_STOPPED_PHASES = ("halted", "fenced")
PHASE_LOG_INTERVAL_S = 1.0


@dataclass(slots=True)
class StoppedPartitionLog:
    """Selects the halted and fenced partitions to log. Each partition is logged at most once per
    second, because a faulty copy process may report changes endlessly."""

    _unlogged: dict[int, PartitionProgressReport] = field(default_factory=dict)
    _logged_s: dict[int, float] = field(default_factory=dict)

    def record_phase_change(self, report: PartitionProgressReport) -> None:
        """Record a progress report whose phase or reason has changed."""
        if report.phase in _STOPPED_PHASES:
            self._unlogged[report.index] = report
        else:
            self._unlogged.pop(report.index, None)

    def take_due_reports(self, now_s: float) -> list[PartitionProgressReport]:
        """Return the progress reports to log now, the newest of each partition."""
        due = [
            report
            for index, report in self._unlogged.items()
            if now_s - self._logged_s.get(index, float("-inf")) >= PHASE_LOG_INTERVAL_S
        ]
        for report in due:
            del self._unlogged[report.index]
            self._logged_s[report.index] = now_s
        return due


def _update_reported_problems(
    waits: Mapping[_Key, _Stall], logged: set[_Key], now_s: float
) -> tuple[set[_Key], bool]:
    """Return the keys of the problems to log now, and whether a logged problem has been resolved.
    `logged` (keys of the problems logged so far) is updated."""
    over = bool(logged - waits.keys())
    logged.intersection_update(waits)
    due = {key for key, wait in waits.items() if wait.is_due(now_s)}
    for key in due:
        waits[key].logged_s = now_s
    logged.update(due)
    return due, over
