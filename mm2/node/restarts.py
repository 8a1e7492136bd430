"""Decides when a failed connector or task is restarted, and when a flow is given up.

Kafka Connect leaves failed connectors and tasks alone. `mm2 run` restarts them after a delay
that grows with each failure in a row; a long run without failure resets it. Only failures of
the configuration in force count: at a start the group's topics still hold the previous one,
until the leader has written what its file says.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.group.connectors_and_tasks import WorkItem
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig
from connect_runtime.storage.status_records import RunState, StatusSubject
from connect_runtime.worker.worker import StartedItem
from mm2.config import flow_plan, operator_overrides
from mm2.config.flow_plan import FlowPlan
from mm2.status import flow_state

_State = RunState

MIN_RESTART_DELAY_S = 1.0
MAX_RESTART_DELAY_S = 60.0
STABLE_RUN_S = 600.0
"""What has run so long without failing counts as new; pauses and waiting are no running."""
UNLIMITED_RESTARTS = -1


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """`number` counts how often it was begun: one that fails may be over between two looks.
    `state` None: it has said nothing yet."""

    number: int
    state: _State | None


@dataclass(slots=True)
class _FailureHistory:
    """`failed_at_s` None: it has not failed since. `ran_s`: so long it was seen to run since the
    last failure; `running_at_s`: at the last look it did, else None."""

    attempt: int = 0
    failures: int = 0
    failed_at_s: float | None = None
    ran_s: float = 0.0
    running_at_s: float | None = None
    restarted: bool = False


@dataclass(slots=True)
class RestartPlanner:
    """`most`: how often in a row; `UNLIMITED_RESTARTS`: always again, 0: never.

    Subjects are names of anything that fails: connectors, tasks.
    """

    most: int
    _cases: dict[str, _FailureHistory] = field(default_factory=dict)

    def due(self, attempts: Mapping[str, RunAttempt], now_s: float) -> list[str]:
        """What is to be started again now; `attempts` has all there is by name. Each once until it
        is seen to run, or was begun again."""
        self._cases = {name: case for name, case in self._cases.items() if name in attempts}
        found = []
        for name, attempt in attempts.items():
            case = self._cases.setdefault(name, _FailureHistory())
            if attempt.number != case.attempt:
                case.attempt, case.failed_at_s = attempt.number, None
            if attempt.state is not _State.FAILED:
                _record_run(case, now_s, runs=attempt.state is _State.RUNNING)
                continue
            _record_failure(case, now_s)
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

    def _is_over(self, case: _FailureHistory) -> bool:
        return (
            case.failed_at_s is not None
            and self.most != UNLIMITED_RESTARTS
            and case.failures > self.most
        )

    def _is_due(self, case: _FailureHistory, now_s: float) -> bool:
        if case.restarted or case.failed_at_s is None or self._is_over(case):
            return False
        pause_s: float = min(
            MAX_RESTART_DELAY_S, MIN_RESTART_DELAY_S * 2 ** min(case.failures - 1, 10)
        )
        return now_s - case.failed_at_s >= pause_s


def _record_failure(case: _FailureHistory, now_s: float) -> None:
    if case.failed_at_s is None:
        if case.ran_s >= STABLE_RUN_S:
            case.failures = 0
        case.failures += 1
        case.failed_at_s, case.ran_s, case.running_at_s = now_s, 0.0, None
        case.restarted = False


def _record_run(case: _FailureHistory, now_s: float, *, runs: bool) -> None:
    case.failed_at_s, case.restarted = None, False
    if runs and case.running_at_s is not None:
        case.ran_s += now_s - case.running_at_s
    case.running_at_s = now_s if runs else None


_HEALTHY_STATES = (_State.RUNNING, _State.PAUSED, _State.STOPPED)


class ConfigOrigin(enum.Enum):
    """Of a configuration: this node's file makes it; the leader's, which is another; or nobody's,
    it was there before and is about to be replaced."""

    OURS = "ours"
    OTHERS = "others"
    OLD = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningItem:
    """A connector or task that this node was given to run, and has begun."""

    item: WorkItem
    begun: StartedItem
    whose: ConfigOrigin

    @property
    def has_failed(self) -> bool:
        return self.begun.state is _State.FAILED

    @property
    def mirrors(self) -> bool:
        return str(self.item).startswith(flow_plan.SOURCE_CONNECTOR)

    @property
    def reason(self) -> str:
        return flow_state.extract_error_message(self.begun.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision:
    """`due` are to be started again now; `given_up`: why the flow goes on no more, "" while it
    may."""

    due: tuple[RunningItem, ...] = ()
    given_up: str = ""


def list_running_items(
    given: Iterable[WorkItem],
    found: Mapping[StatusSubject, StartedItem],
    *,
    config: ClusterConfigState,
    plan: FlowPlan,
    leads: bool,
) -> list[RunningItem]:
    """Of those `given` to this node, the ones that it has begun."""
    whose = _ConfigClassifier(config, plan, leads=leads)
    return [
        RunningItem(item=item, begun=found[item], whose=whose(item, found[item].config))
        for item in given
        if item in found
    ]


@dataclass(frozen=True, slots=True)
class _ConfigClassifier:
    config: ClusterConfigState
    plan: FlowPlan
    leads: bool = field(kw_only=True)

    def __call__(self, item: WorkItem, begun_with: RawConfig) -> ConfigOrigin:
        config = self.config
        name = item if isinstance(item, str) else item.connector
        stored = config.config(name)
        planned = stored is not None and operator_overrides.strip_overrides(
            _drop_nulls(stored)
        ) == self.plan.connectors.get(name)
        if isinstance(item, str):
            in_force = begun_with == stored
        else:
            applied = config.applied_config(name)
            in_force = begun_with == config.task_config(item) and applied == stored
        if not in_force or (self.leads and not planned):
            return ConfigOrigin.OLD
        return ConfigOrigin.OURS if planned else ConfigOrigin.OTHERS


def _drop_nulls(config: RawConfig) -> dict[str, str]:
    return {key: value for key, value in config.items() if value is not None}


@dataclass(slots=True)
class FailureTracker:
    """`restarts` says how often. `_ran`: of connectors and of tasks that mirror, those kinds of
    which one went well here once."""

    restarts: RestartPlanner
    _ran: set[type[WorkItem]] = field(default_factory=set)

    def look(self, found: Iterable[RunningItem], now_s: float) -> RestartDecision:
        """What to do about what there is now."""
        by_name = {str(each.item): each for each in found}
        self._ran.update(
            type(each.item)
            for each in by_name.values()
            if each.mirrors and each.begun.state in _HEALTHY_STATES
        )
        due = self.restarts.due(
            {
                name: RunAttempt(number=each.begun.times, state=each.begun.state)
                for name, each in by_name.items()
            },
            now_s,
        )
        bad = [each for each in by_name.values() if each.has_failed and each.mirrors]
        return RestartDecision(
            due=tuple(by_name[name] for name in due if not self._begins_badly(by_name[name])),
            given_up=next((each.reason for each in bad if self._is_over(each)), ""),
        )

    def _is_over(self, part: RunningItem) -> bool:
        """Heartbeats and checkpoints that fail stop nothing else: they are not asked for."""
        if part.whose is ConfigOrigin.OLD:
            return False
        return self._begins_badly(part) or bool(self.restarts.given_up([str(part.item)]))

    def _begins_badly(self, part: RunningItem) -> bool:
        """What the mirror begins with does not mend by itself. A task that comes here later, from
        another node say, is one of many."""
        return part.mirrors and part.whose is ConfigOrigin.OURS and type(part.item) not in self._ran
