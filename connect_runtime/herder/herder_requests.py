"""Requests to the herder, their replies, and the queue of pending requests.

Listings, statuses, topics and logger levels are not requests: every worker answers them without the
herder. Neither are pause and resume, which only write a target state.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.api.config_infos import ConfigInfos
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.restart_plan import RestartPlan
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState
from connect_runtime.storage.config_records import RestartRequest

# Requests


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """Reply when the herder's loop reaches this request, which proves that it is alive."""


@dataclass(frozen=True, slots=True)
class DescribeConnector:
    """Return a connector's configuration and tasks. Reply: `ConnectorDescription`."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnector:
    """Create or, with `replace`, reconfigure a connector. Reply: `PutConnectorResult`."""

    connector: str
    config: RawConfig = field(repr=False)
    target_state: TargetState | None = None
    replace: bool = True
    invalid: str | None = None
    """Error message of the validation, which runs where the request was received; None if valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchConnector:
    """Merge properties into a connector's configuration, after validation.

    Reply: `PutConnectorResult`.
    """

    connector: str
    patch: RawConfig = field(repr=False)
    """A value of None removes the property."""


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Delete a connector. Reply: `RequestAccepted`."""

    connector: str


@dataclass(frozen=True, slots=True)
class StopConnector:
    """Remove a connector's task configs and set its target state to STOPPED.

    Reply: `RequestAccepted`.
    """

    connector: str


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """Restart a connector without its tasks, on its owner.

    Reply: `RequestAccepted`, once started.
    """

    connector: str


@dataclass(frozen=True, slots=True)
class RestartTask:
    """Restart a task on its owner. Reply: `RequestAccepted`, once started."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class RestartConnectorAndTasks:
    """Restart a connector and its tasks, or only the failed ones, on all workers.

    Reply: `RestartAccepted`.
    """

    request: RestartRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTaskConfigs:
    """Write task configs that the connector's owner generated.

    Internal; reply: `RequestAccepted`.
    """

    connector: str
    configs: Sequence[RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceZombieTasks:
    """Fence producers of earlier tasks, before a task starts.

    Internal; reply: `RequestAccepted`.
    """

    connector: str
    is_source: bool


@dataclass(frozen=True, slots=True)
class ReadConnectorOffsets:
    """Read a connector's offsets; the worker replies."""

    connector: str


RequestedOffsets: TypeAlias = Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
"""Partitions with their offsets from the REST request; an offset of None deletes it."""


@dataclass(frozen=True, slots=True)
class ModifyConnectorOffsets:
    """Alter the given offsets, or with None reset all offsets; the worker replies."""

    connector: str
    offsets: RequestedOffsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigureConnectorTasks:
    """Ask a connector for its task configs and publish them; submitted by the herder itself."""

    connector: str
    first_due_s: float
    """When the first attempt was due."""
    failed_attempts: int = 0
    """Number of failed attempts."""
    tickets: tuple[int, ...] = ()
    """Tickets that get their reply after this attempt, whatever its outcome."""


HerderRequest: TypeAlias = (
    CheckHealth
    | DescribeConnector
    | PutConnector
    | PatchConnector
    | DeleteConnector
    | StopConnector
    | RestartConnector
    | RestartTask
    | RestartConnectorAndTasks
    | PutTaskConfigs
    | FenceZombieTasks
    | ReadConnectorOffsets
    | ModifyConnectorOffsets
    | ReconfigureConnectorTasks
)

# Replies


@dataclass(frozen=True, slots=True)
class RequestAccepted:
    """The request was executed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorDescription:
    """A connector's configuration."""

    connector: str
    config: RawConfig = field(repr=False)
    task_configs: tuple[RawConfig | None, ...] = field(repr=False)
    """By task number; None for an unknown one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnectorResult:
    """The configuration that was written."""

    connector: str
    config: RawConfig = field(repr=False)
    tasks: tuple[ConnectorTaskId, ...]
    """Tasks before the change; new ones are generated later."""
    created: bool


@dataclass(frozen=True, slots=True)
class ForwardRequest:
    """The request must be sent to another worker."""

    url: str | None
    """None if the other worker is unknown."""
    reason: str
    """Explanation for users."""


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """The request was refused with this HTTP status."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class RestartAccepted:
    """The restart was published, and every worker restarts its part; `plan` has the resulting
    statuses."""

    plan: RestartPlan


HerderReply: TypeAlias = (
    RequestAccepted
    | ConnectorDescription
    | PutConnectorResult
    | RestartAccepted
    | ForwardRequest
    | RequestRefused
)

# Request queue

MAX_QUEUED_REQUESTS = 10_000
"""Further requests are refused."""


class HerderQueueFullError(Exception):
    """Too many requests are queued; a new one would only time out."""


@dataclass(frozen=True, slots=True, order=True)
class QueuedRequest:
    """A request in the queue, ordered by due time and then by arrival."""

    due_s: float
    sequence: int
    ticket: int | None = field(compare=False)
    """None for the herder's own requests."""
    request: HerderRequest = field(compare=False)


@dataclass(slots=True)
class RequestQueue:
    """Queue of requests. Invariant: sorted by due time and sequence number."""

    _queued: list[QueuedRequest] = field(default_factory=list)
    _sequence: int = 0

    def add(self, request: HerderRequest, *, ticket: int | None, due_s: float) -> None:
        """Add a request. Raises `HerderQueueFullError` if it has a ticket and the queue is full."""
        if ticket is not None and len(self._queued) >= MAX_QUEUED_REQUESTS:
            raise HerderQueueFullError(f"{len(self._queued)} requests are already queued")
        self._sequence += 1
        waiting = QueuedRequest(
            due_s=due_s, sequence=self._sequence, ticket=ticket, request=request
        )
        bisect.insort(self._queued, waiting)

    def pop_due(self, now_s: float) -> QueuedRequest | None:
        if self._queued and self._queued[0].due_s <= now_s:
            return self._queued.pop(0)
        return None

    def pop_all(self) -> list[QueuedRequest]:
        taken, self._queued = self._queued, []
        return taken

    def pop_reconfigurations(self, connector: str) -> list[ReconfigureConnectorTasks]:
        """Remove and return all reconfigurations of this connector, because a new one replaces
        them."""
        taken = self._remove_own(ReconfigureConnectorTasks, connector)
        return [each for each in taken if isinstance(each, ReconfigureConnectorTasks)]

    def drop_scheduled_restart(self, connector: str) -> None:
        """Remove the herder's own restart of this connector, which it scheduled for expiring
        secrets.

        See `config.action.reload`.
        """
        self._remove_own(RestartConnector, connector)

    def _remove_own(
        self, kind: type[ReconfigureConnectorTasks | RestartConnector], connector: str
    ) -> list[ReconfigureConnectorTasks | RestartConnector]:
        kept, taken = [], []
        for each in self._queued:
            ours = each.ticket is None
            if isinstance(each.request, kind) and ours and each.request.connector == connector:
                taken.append(each.request)
            else:
                kept.append(each)
        self._queued = kept
        return taken

    @property
    def next_due_s(self) -> float | None:
        return self._queued[0].due_s if self._queued else None

    def check_invariants(self) -> None:
        assert self._queued == sorted(self._queued)


def describe_config_errors(infos: ConfigInfos) -> str | None:
    """Build the message that lists all errors of a configuration; None if it is valid.

    The response has status 400 and Java's text, because clients show it unchanged.
    """
    messages = infos.error_messages
    if not messages:
        return None
    return "\n".join(
        (
            "Connector configuration is invalid and contains the following"
            f" {len(messages)} error(s):",
            *messages,
            "You can also find the above list of errors at the endpoint"
            " `/connector-plugins/{connectorType}/config/validate`",
        )
    )
