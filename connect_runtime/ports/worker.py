"""Port: what runs connectors and tasks in this process, as the herder sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connect_runtime.api import context, errors
from connect_runtime.base import ids
from connect_runtime.core.assignment import work
from connect_runtime.core.state import cluster_config, status_records


class TooManyTasks(errors.ConfigError):
    """A connector wants more than `tasks.max`: asking again is useless."""


class Listener(Protocol):
    """Told on threads of the worker: post an event, no more."""

    def on_reached(
        self, connector: str, state: cluster_config.TargetState, error: str | None
    ) -> None:
        """What was wished of a connector has come about, or `error` says why not."""

    def on_reconfiguration_wanted(self, connector: str) -> None:
        """Its task configs would be others now."""


class Membership(Protocol):
    """What is known of this worker's place in its group. Any thread, at once."""

    @property
    def session_timeout_s(self) -> float:
        """After so much silence others are given this worker's work."""

    def confirmed_at_s(self) -> float:
        """Monotonic time at which the newest heartbeat was sent that the group answered without
        error (a rebalance under way is one); -inf before the first. Alone: now."""

    def confirm_soon(self) -> None:
        """Somebody waits for a heartbeat that is sent later than this."""


class Statuses(Protocol):
    """Where statuses go; nothing waits (`runtime.stores.status_store`)."""

    def put(
        self, subject: status_records.Subject, status: status_records.Status, *, safe: bool = False
    ) -> None: ...

    def put_topic(self, topic: status_records.TopicStatus) -> None: ...

    def knows_topic(self, connector: str, topic: str) -> bool:
        """Is it said already that the connector uses it, and not forgotten?"""

    def last_runs(self, connector: str) -> context.LastRuns:
        """Who ran its tasks last; `given` and `quiet` are not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigured:
    """What is configured for a task, as it is written, and for its connector."""

    connector: cluster_config.RawConfig = field(repr=False)
    config: cluster_config.RawConfig = field(repr=False)


class Worker(Protocol):
    """One thread asks. What plugins do wrong becomes their status, and is raised nowhere here."""

    def start_connector(
        self, name: str, config: cluster_config.RawConfig, state: cluster_config.TargetState
    ) -> None:
        """Begin it, and tell `on_reached` sooner or later.

        Raises `ConnectError` if it cannot be begun: then its status is FAILED, and nobody is told.
        """

    def start_task(
        self,
        task: ids.ConnectorTaskId,
        *,
        connector: cluster_config.RawConfig,
        config: cluster_config.RawConfig,
        state: cluster_config.TargetState,
        tasks: int,
    ) -> None:
        """Begin it, one of so many `tasks`. Raises as `start_connector`.

        No task of too many is begun (`TooManyTasks`).
        """

    def renew_tasks(
        self, configured: Mapping[ids.ConnectorTaskId, TaskConfigured]
    ) -> frozenset[ids.ConnectorTaskId]:
        """These configurations hold from now on. Tasks to which that makes no difference go on,
        and those that take them up; the rest is answered: to be stopped, and started anew."""

    def set_target_state(self, connector: str, state: cluster_config.TargetState) -> None:
        """Of the connector and its tasks, as far as they run here; `on_reached` for itself."""

    def stop(self, gone: work.Work) -> None:
        """Stop these, all at once; wait within the graceful timeouts, then give up on the rest."""

    def running(self) -> work.Work:
        """What was begun and not stopped, failed or not."""

    def task_configs(
        self, connector: str, config: cluster_config.RawConfig
    ) -> Sequence[cluster_config.RawConfig] | None:
        """What the connector wants its tasks to be; None if it does not run here.

        `config` is what it is configured with now. Raises `ConfigError` for more than `tasks.max`,
        and then its status is FAILED; other `ConnectError` for what the connector raises, or
        returns amiss.
        """

    def close(self) -> None:
        """Stop everything that runs."""
