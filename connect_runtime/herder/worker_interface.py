"""`WorkerInterface`: what runs connectors and tasks in this process, as the herder uses it."""

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
    """A connector wants more than `tasks.max`: asking again is useless."""


class WorkerListener(Protocol):
    """Told on threads of the worker: post an event, no more."""

    def on_reached(self, connector: str, state: TargetState, error: str | None) -> None:
        """What was wished of a connector has come about, or `error` says why not."""

    def on_reconfiguration_wanted(self, connector: str) -> None:
        """Its task configs would be others now."""


class GroupMembership(Protocol):
    """What is known of this worker's place in its group. Any thread, at once."""

    @property
    def session_timeout_s(self) -> float:
        """After so much silence others are given this worker's work."""

    def confirmed_at_s(self) -> float:
        """Monotonic time at which the newest heartbeat was sent that the group answered without
        error (a rebalance under way is one); -inf before the first. Alone: now."""

    def confirm_soon(self) -> None:
        """Somebody waits for a heartbeat that is sent later than this."""


class StatusWriterInterface(Protocol):
    """Where statuses go; nothing waits (`runtime.stores.status_store`)."""

    def put(self, subject: StatusSubject, status: RunStatus, *, safe: bool = False) -> None: ...

    def put_topic(self, topic: TopicStatus) -> None: ...

    def knows_topic(self, connector: str, topic: str) -> bool:
        """Is it said already that the connector uses it, and not forgotten?"""

    def last_runs(self, connector: str) -> LastTaskRuns:
        """Who ran its tasks last; `given` and `quiet` are not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTask:
    """What is configured for a task, as it is written, and for its connector."""

    connector: RawConfig = field(repr=False)
    config: RawConfig = field(repr=False)


class WorkerInterface(Protocol):
    """One thread asks. What plugins do wrong becomes their status, and is raised nowhere here."""

    def start_connector(self, name: str, config: RawConfig, state: TargetState) -> None:
        """Begin it, and tell `on_reached` sooner or later.

        Raises `ConnectError` if it cannot be begun: then its status is FAILED, and nobody is told.
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
        """Begin it, one of so many `tasks`. Raises as `start_connector`.

        No task of too many is begun (`TooManyTasksError`).
        """

    def renew_tasks(
        self, configured: Mapping[ConnectorTaskId, ConfiguredTask]
    ) -> frozenset[ConnectorTaskId]:
        """These configurations hold from now on. Tasks to which that makes no difference go on,
        and those that take them up; the rest is answered: to be stopped, and started anew."""

    def set_target_state(self, connector: str, state: TargetState) -> None:
        """Of the connector and its tasks, as far as they run here; `on_reached` for itself."""

    def stop(self, gone: ConnectorsAndTasks) -> None:
        """Stop these, all at once; wait within the graceful timeouts, then give up on the rest."""

    def running(self) -> ConnectorsAndTasks:
        """What was begun and not stopped, failed or not."""

    def task_configs(self, connector: str, config: RawConfig) -> Sequence[RawConfig] | None:
        """What the connector wants its tasks to be; None if it does not run here.

        `config` is what it is configured with now. Raises `ConfigError` for more than `tasks.max`,
        and then its status is FAILED; other `ConnectError` for what the connector raises, or
        returns amiss.
        """

    def close(self) -> None:
        """Stop everything that runs."""
