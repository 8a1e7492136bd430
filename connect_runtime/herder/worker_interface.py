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
    """Raised if a connector returned more task configs than `tasks.max`, or than any connector may
    have. A retry would fail again."""


class WorkerListener(Protocol):
    """Callbacks that the worker calls on its own threads. An implementation must only post an event
    to the herder."""

    def on_target_state_reached(
        self, connector: str, state: TargetState, error: str | None
    ) -> None:
        """Called when a connector has reached its target state, or with `error` if it could not
        reach the state."""

    def on_reconfiguration_requested(self, connector: str) -> None:
        """Called when a connector requests that its `task_configs` be called again."""


class GroupMembership(Protocol):
    """Heartbeat state of this worker in its group.

    Methods may be called from any thread and return immediately.
    """

    @property
    def session_timeout_s(self) -> float:
        """Time without a heartbeat after which the group assigns this worker's connectors and
        tasks to other workers."""

    def get_last_heartbeat_s(self) -> float:
        """Return the monotonic time at which the latest successful heartbeat was sent.

        A response that reports a rebalance in progress counts as success. The result is -inf before
        the first heartbeat, and the current time on a standalone worker.
        """

    def request_heartbeat(self) -> None:
        """Request an immediate heartbeat instead of waiting for the next interval."""


class StatusWriterInterface(Protocol):
    """Writes statuses to the status topic. Does not block."""

    def put(self, subject: StatusSubject, status: RunStatus, *, safe: bool = False) -> None: ...

    def put_topic_status(self, topic: TopicStatus) -> None: ...

    def is_topic_recorded(self, connector: str, topic: str) -> bool:
        """Return True if the topic is already recorded as active for the connector."""

    def get_last_task_runs(self, connector: str) -> LastTaskRuns:
        """Return the last runs of a connector's tasks. The fields `configs` and `leaderless_period`
        of the result are not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTask:
    """Configurations of a task and its connector, with unresolved `${…}` references."""

    connector: RawConfig = field(repr=False)
    config: RawConfig = field(repr=False)


class WorkerInterface(Protocol):
    """Runs connectors and tasks. Called by one thread only.

    Plugin errors are published as a FAILED status and never raised, except as documented.
    """

    def start_connector(self, name: str, config: RawConfig, state: TargetState) -> None:
        """Start a connector. `on_target_state_reached` is called later.

        Raises `ConnectError` if the connector cannot be created. In this case its status is FAILED,
        and the callback is not called.
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
        """Start a task. `tasks` is the number of tasks of its connector.

        Raises the same errors as `start_connector`, and `TooManyTasksError` if there are more tasks
        than `tasks.max`.
        """

    def try_reconfigure_tasks(
        self, configured: Mapping[ConnectorTaskId, ConfiguredTask]
    ) -> frozenset[ConnectorTaskId]:
        """Offer new configurations to running tasks, and return the tasks that must be restarted.

        A task keeps running if its configuration is unchanged or if it accepts the new one.
        """

    def set_target_state(self, connector: str, state: TargetState) -> None:
        """Set the target state of a connector and its tasks on this worker.

        `on_target_state_reached` is called for the connector itself.
        """

    def stop_connectors_and_tasks(self, items: ConnectorsAndTasks) -> None:
        """Stop connectors and tasks in parallel.

        Those that exceed the graceful shutdown timeout are abandoned.
        """

    def list_started_connectors_and_tasks(self) -> ConnectorsAndTasks:
        """Return all connectors and tasks that were started and not stopped, including failed
        ones."""

    def connector_task_configs(
        self, connector: str, config: RawConfig
    ) -> Sequence[RawConfig] | None:
        """Let a connector generate its task configs. Return None if it is not running on this
        worker.

        `config` is the connector's current configuration. Raises `ConfigError` if there are more
        task configs than `tasks.max`; the connector's status is then FAILED. Raises another
        `ConnectError` if the connector raises or returns an invalid result.
        """

    def close(self) -> None:
        """Stop all connectors and tasks."""
