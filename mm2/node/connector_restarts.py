"""Decides when a failed connector or task is restarted, and when `mm2 run` gives up restarting a
flow.

Kafka Connect does not restart failed connectors and tasks. `mm2 run` restarts them after a delay
that grows with each consecutive failure; a long run without failure resets the delay. After a
start, the group's topics contain the previous configuration until the leader has written the
configuration in its file. Failures with the previous configuration never make `mm2 run` give up.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.group.connectors_and_tasks import WorkItem
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig
from connect_runtime.storage.status_records import RunState, StatusSubject
from connect_runtime.worker.worker import StartedConnectorOrTask
from mm2.config import flow_connector_configs, pause_and_throttle_overrides
from mm2.config.flow_connector_configs import FlowPlan
from mm2.status import flow_status

_State = RunState

MIN_RESTART_DELAY_S = 1.0
MAX_RESTART_DELAY_S = 60.0
STABLE_RUN_S = 600.0
"""Running time in seconds without failure after which the failure count is reset. Time spent paused
or waiting is excluded."""
UNLIMITED_RESTARTS = -1


@dataclass(frozen=True, slots=True)
class ConnectorOrTaskRun:
    """The current run of a connector or task: its number and its reported state."""

    number: int
    """Number of starts so far. It distinguishes runs, because a run may fail and be restarted
    between two polls."""
    state: _State | None
    """Reported state; None if no state has been reported yet."""


@dataclass(slots=True)
class _FailureHistory:
    """When a connector or task failed, and how long it has run since."""

    attempt: int = 0
    failures: int = 0
    failed_at_s: float | None = None
    """Time of the failure of the connector or task; None if it has not failed since its last
    start."""
    ran_s: float = 0.0
    """Observed running time since the last failure, in seconds."""
    running_at_s: float | None = None
    """Time of the last poll if the connector or task was running at that poll, otherwise None."""
    restarted: bool = False


@dataclass(slots=True)
class RestartPlanner:
    """Decides when connectors and tasks, identified by name, are restarted."""

    max_restarts: int
    """Maximum number of consecutive restarts; `UNLIMITED_RESTARTS` for no limit, 0 to disable
    restarts."""
    _histories: dict[str, _FailureHistory] = field(default_factory=dict)

    def find_due_restarts(
        self, attempts: Mapping[str, ConnectorOrTaskRun], now_s: float
    ) -> list[str]:
        """Return the names of the connectors and tasks to restart now.

        `attempts` contains the current run of every connector and task that is assigned to this
        node, by name. After a name was returned, it is returned again only after the connector or
        task has been running or was started again.
        """
        self._histories = {
            name: history for name, history in self._histories.items() if name in attempts
        }
        due_names = []
        for name, attempt in attempts.items():
            history = self._histories.setdefault(name, _FailureHistory())
            if attempt.number != history.attempt:
                history.attempt, history.failed_at_s = attempt.number, None
            if attempt.state is not _State.FAILED:
                _record_run_state(history, now_s, is_running=attempt.state is _State.RUNNING)
                continue
            _record_failure(history, now_s)
            if self._is_restart_due(history, now_s):
                history.restarted = True
                due_names.append(name)
        return due_names

    def record_restart_result(self, name: str, *, failed: bool) -> None:
        """Record the result of restarting a connector or task. A failed restart schedules another
        restart."""
        history = self._histories.get(name)
        if history is not None and failed:
            history.failed_at_s, history.restarted = None, False

    def record_restart_rejection(self, name: str, now_s: float) -> None:
        """Record that the request to restart a connector or task was rejected, for example because
        of a rebalance.

        Another restart becomes due after the same delay. The rejected restart is not counted.
        """
        history = self._histories.get(name)
        if history is not None:
            history.failed_at_s, history.restarted = now_s, False

    def find_items_failed_too_often(self, names: Iterable[str]) -> list[str]:
        """Return the connectors and tasks among `names` that have failed too often to be
        restarted."""
        return [
            name
            for name in names
            if name in self._histories and self._is_given_up(self._histories[name])
        ]

    def _is_given_up(self, history: _FailureHistory) -> bool:
        return (
            history.failed_at_s is not None
            and self.max_restarts != UNLIMITED_RESTARTS
            and history.failures > self.max_restarts
        )

    def _is_restart_due(self, history: _FailureHistory, now_s: float) -> bool:
        if history.restarted or history.failed_at_s is None or self._is_given_up(history):
            return False
        delay_s: float = min(
            MAX_RESTART_DELAY_S, MIN_RESTART_DELAY_S * 2 ** min(history.failures - 1, 10)
        )
        return now_s - history.failed_at_s >= delay_s


def _record_failure(history: _FailureHistory, now_s: float) -> None:
    if history.failed_at_s is None:
        if history.ran_s >= STABLE_RUN_S:
            history.failures = 0
        history.failures += 1
        history.failed_at_s, history.ran_s, history.running_at_s = now_s, 0.0, None
        history.restarted = False


def _record_run_state(history: _FailureHistory, now_s: float, *, is_running: bool) -> None:
    history.failed_at_s, history.restarted = None, False
    if is_running and history.running_at_s is not None:
        history.ran_s += now_s - history.running_at_s
    history.running_at_s = now_s if is_running else None


_HEALTHY_STATES = (_State.RUNNING, _State.PAUSED, _State.STOPPED)


class ConfigOrigin(enum.Enum):
    """Origin of the configuration with which a connector or task runs: this node's file, the
    leader's different file, or a previous configuration that is about to be replaced."""

    OURS = "ours"
    OTHERS = "others"
    OLD = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedWorkItem:
    """A connector or task that is assigned to this node and has been started."""

    item: WorkItem
    started: StartedConnectorOrTask
    config_origin: ConfigOrigin

    @property
    def has_failed(self) -> bool:
        return self.started.state is _State.FAILED

    @property
    def is_mirroring(self) -> bool:
        return str(self.item).startswith(flow_connector_configs.SOURCE_CONNECTOR)

    @property
    def failure_reason(self) -> str:
        return flow_status.extract_error_message(self.started.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDecision:
    """Connectors and tasks to restart, and the reason if `mm2 run` stops restarting the flow."""

    due: tuple[StartedWorkItem, ...] = ()
    """Connectors and tasks to restart now."""
    give_up_reason: str = ""
    """Failure because of which `mm2 run` stops restarting the flow; "" if the flow continues."""


def list_started_work_items(
    assigned: Iterable[WorkItem],
    started: Mapping[StatusSubject, StartedConnectorOrTask],
    *,
    config: ClusterConfigState,
    plan: FlowPlan,
    is_leader: bool,
) -> list[StartedWorkItem]:
    """Return the connectors and tasks that are assigned to this node (`assigned`) and have been
    started."""
    classify = _ConfigClassifier(config, plan, leads=is_leader)
    return [
        StartedWorkItem(
            item=item, started=started[item], config_origin=classify(item, started[item].config)
        )
        for item in assigned
        if item in started
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
        planned = stored is not None and pause_and_throttle_overrides.strip_overrides(
            _drop_null_values(stored)
        ) == self.plan.connectors.get(name)
        if isinstance(item, str):
            in_force = begun_with == stored
        else:
            applied = config.applied_config(name)
            in_force = begun_with == config.task_config(item) and applied == stored
        if not in_force or (self.leads and not planned):
            return ConfigOrigin.OLD
        return ConfigOrigin.OURS if planned else ConfigOrigin.OTHERS


def _drop_null_values(config: RawConfig) -> dict[str, str]:
    return {key: value for key, value in config.items() if value is not None}


@dataclass(slots=True)
class FailureTracker:
    """Decides which connectors and tasks of a flow to restart.

    `_ran` contains the type of `WorkItem` of the source connector and of its tasks, once one of
    that type has run without failure on this node.
    """

    restarts: RestartPlanner
    _ran: set[type[WorkItem]] = field(default_factory=set)

    def decide_restarts(self, items: Iterable[StartedWorkItem], now_s: float) -> RestartDecision:
        """Decide which of the connectors and tasks on this node to restart, and whether to give up
        the flow."""
        by_name = {str(each.item): each for each in items}
        self._ran.update(
            type(each.item)
            for each in by_name.values()
            if each.is_mirroring and each.started.state in _HEALTHY_STATES
        )
        due = self.restarts.find_due_restarts(
            {
                name: ConnectorOrTaskRun(number=each.started.times, state=each.started.state)
                for name, each in by_name.items()
            },
            now_s,
        )
        failed_items = [each for each in by_name.values() if each.has_failed and each.is_mirroring]
        return RestartDecision(
            due=tuple(
                by_name[name] for name in due if not self._has_failed_at_first_start(by_name[name])
            ),
            give_up_reason=next(
                (each.failure_reason for each in failed_items if self._is_fatal_for_flow(each)), ""
            ),
        )

    def _is_fatal_for_flow(self, item: StartedWorkItem) -> bool:
        """Return True if `mm2 run` gives up the flow because of the failure of this source
        connector or source task. Heartbeat and checkpoint failures never have this effect and are
        not passed to this method."""
        if item.config_origin is ConfigOrigin.OLD:
            return False
        return self._has_failed_at_first_start(item) or bool(
            self.restarts.find_items_failed_too_often([str(item.item)])
        )

    def _has_failed_at_first_start(self, item: StartedWorkItem) -> bool:
        """Return True if the source connector or a source task failed at its first start with the
        configuration in this node's file. A restart would then not help.

        Tasks that other nodes ran before are excluded.
        """
        return (
            item.is_mirroring
            and item.config_origin is ConfigOrigin.OURS
            and type(item.item) not in self._ran
        )
