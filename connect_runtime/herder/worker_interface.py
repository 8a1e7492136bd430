"""`WorkerInterface`: the interface through which the herder runs connectors and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connect_runtime.api.errors import ConfigError
from connect_runtime.api.plugin_context import LastTaskRuns
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState
from connect_runtime.storage.status_records import RunStatus, StatusSubject, TopicStatus


class TooManyTasksError(ConfigError):
    """A connector returned more task configs than `tasks.max`; retrying cannot help."""


class WorkerListener(Protocol):
    """Callbacks on threads of the worker; they must only post an event."""

    def on_target_state_reached(
        self, connector: str, state: TargetState, error: str | None
    ) -> None:
        """Called when a connector reached its target state, or with `error` if it could not."""

    def on_reconfiguration_requested(self, connector: str) -> None:
        """Called when a connector requests a new call of `task_configs`."""


class GroupMembership(Protocol):
    """Heartbeat state of this worker in its group.

    May be called from any thread; returns at once.
    """

    @property
    def session_timeout_s(self) -> float:
        """After this long without a heartbeat the group assigns this worker's work to others."""

    def last_heartbeat_s(self) -> float:
        """Return the monotonic time at which the newest successful heartbeat was sent.

        A response that reports a rebalance in progress counts as success. -inf before the first
        heartbeat; the current time on a standalone worker.
        """

    def request_heartbeat(self) -> None:
        """Request a heartbeat now instead of at the next interval."""


class StatusWriterInterface(Protocol):
    """Writes statuses to the status topic; does not block."""

    def put(self, subject: StatusSubject, status: RunStatus, *, safe: bool = False) -> None: ...

    def put_topic(self, topic: TopicStatus) -> None: ...

    def is_topic_recorded(self, connector: str, topic: str) -> bool:
        """Return whether the topic is already recorded as active for the connector."""

    def last_runs(self, connector: str) -> LastTaskRuns:
        """Return the last runs of the connector's tasks; `configs` and `leaderless_period` are left
        empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTask:
    """Unresolved configurations of a task and of its connector."""

    connector: RawConfig = field(repr=False)
    config: RawConfig = field(repr=False)


class WorkerInterface(Protocol):
    """Runs connectors and tasks; called by one thread.

    Plugin errors are published as a FAILED status and never raised, except as documented.
    """

    def start_connector(self, name: str, config: RawConfig, state: TargetState) -> None:
        """Start a connector; `on_target_state_reached` is called later.

        Raises `ConnectError` if it cannot be created; its status is then FAILED and there is no
        callback.
        """

    def start_task(
        self,
        task: ConnectorTaskId,
        *,
        connector: RawConfig,
        config: RawConfig,
        state: TargetState,
        tasks: int,
    ) -> None:
        """Start a task; `tasks` is the number of tasks of its connector.

        Raises as `start_connector`.

        Raises `TooManyTasksError` if there are more tasks than `tasks.max`.
        """

    def offer_task_configs(
        self, configured: Mapping[ConnectorTaskId, ConfiguredTask]
    ) -> frozenset[ConnectorTaskId]:
        """Offer new configurations to running tasks, and return the tasks that must be restarted.

        A task whose configuration is unchanged, or that accepts the new one, keeps running.
        """

    def set_target_state(self, connector: str, state: TargetState) -> None:
        """Set the target state of a connector and its tasks on this worker.

        `on_target_state_reached` is called for the connector itself.
        """

    def stop(self, items: ConnectorsAndTasks) -> None:
        """Stop these connectors and tasks in parallel; those that exceed the graceful timeout
        are abandoned."""

    def running(self) -> ConnectorsAndTasks:
        """Return all items that were started and not stopped, failed ones included."""

    def task_configs(self, connector: str, config: RawConfig) -> Sequence[RawConfig] | None:
        """Ask a connector for its task configs; None if it does not run on this worker.

        `config` is its current configuration. Raises `ConfigError` for more than `tasks.max`
        configs; the status is then FAILED. Raises another `ConnectError` if the connector raises or
        returns an invalid result.
        """

    def close(self) -> None:
        """Stop everything that runs."""
