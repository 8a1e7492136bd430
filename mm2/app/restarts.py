"""When a failed connector or task is started again: a planner.

Connect leaves what has failed as it is until somebody restarts it. `mm2 run` does that itself,
after a pause that grows with each failure in a row. What has run for a while since counts as new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.core.state import status_records

_State = status_records.State

FIRST_S = 1.0
MOST_S = 60.0
FORGOTTEN_S = 600.0
"""What has run so long without failing counts as new; pauses and waiting are no running."""
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Attempt:
    """`number` counts how often it was begun: one that fails may be over between two looks.
    `state` None: it has said nothing yet."""

    number: int
    state: _State | None


@dataclass(slots=True)
class _Case:
    """`failed_at_s` None: it has not failed since. `ran_s`: so long it was seen to run since the
    last failure; `running_at_s`: at the last look it did, else None."""

    attempt: int = 0
    failures: int = 0
    failed_at_s: float | None = None
    ran_s: float = 0.0
    running_at_s: float | None = None
    restarted: bool = False


@dataclass(slots=True)
class Restarts:
    """`most`: how often in a row; `UNLIMITED`: always again, 0: never.

    Subjects are names of anything that fails: connectors, tasks.
    """

    most: int
    _cases: dict[str, _Case] = field(default_factory=dict)

    def due(self, attempts: Mapping[str, Attempt], now_s: float) -> list[str]:
        """What is to be started again now; `attempts` has all there is by name. Each once until it
        is seen to run, or was begun again."""
        self._cases = {name: case for name, case in self._cases.items() if name in attempts}
        found = []
        for name, attempt in attempts.items():
            case = self._cases.setdefault(name, _Case())
            if attempt.number != case.attempt:
                case.attempt, case.failed_at_s = attempt.number, None
            if attempt.state is not _State.FAILED:
                _not_failed(case, now_s, runs=attempt.state is _State.RUNNING)
                continue
            _failed(case, now_s)
            if self._is_due(case, now_s):
                case.restarted = True
                found.append(name)
        return found

    def restarted(self, name: str, *, failed: bool) -> None:
        """How the attempt went that `due` asked for: after one that failed it is due again."""
        case = self._cases.get(name)
        if case is not None and failed:
            case.failed_at_s, case.restarted = None, False

    def refused(self, name: str, now_s: float) -> None:
        """The attempt was not made, as while a rebalance is about to come: it is due again after
        the same delay, and counts for nothing."""
        case = self._cases.get(name)
        if case is not None:
            case.failed_at_s, case.restarted = now_s, False

    def given_up(self, names: Iterable[str]) -> list[str]:
        """Those of these that have failed too often."""
        return [name for name in names if name in self._cases and self._is_over(self._cases[name])]

    def _is_over(self, case: _Case) -> bool:
        return case.failed_at_s is not None and self.most != UNLIMITED and case.failures > self.most

    def _is_due(self, case: _Case, now_s: float) -> bool:
        if case.restarted or case.failed_at_s is None or self._is_over(case):
            return False
        pause_s: float = min(MOST_S, FIRST_S * 2 ** min(case.failures - 1, 10))
        return now_s - case.failed_at_s >= pause_s


def _failed(case: _Case, now_s: float) -> None:
    if case.failed_at_s is None:
        if case.ran_s >= FORGOTTEN_S:
            case.failures = 0
        case.failures += 1
        case.failed_at_s, case.ran_s, case.running_at_s = now_s, 0.0, None
        case.restarted = False


def _not_failed(case: _Case, now_s: float, *, runs: bool) -> None:
    case.failed_at_s, case.restarted = None, False
    if runs and case.running_at_s is not None:
        case.ran_s += now_s - case.running_at_s
    case.running_at_s = now_s if runs else None
