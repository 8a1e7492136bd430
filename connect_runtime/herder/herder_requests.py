"""Requests to the herder, their replies, and the queue of pending requests.

Listings, statuses, topics and logger levels are not herder requests, because any worker can serve
them without the herder. Pause and resume are not herder requests either, because they only write a
target state.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from connect_runtime.api.config_infos import ConfigInfos
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.restart_plan import RestartPlan
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState
from connect_runtime.storage.config_records import RestartRequest

# Requests


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """Check that the herder's loop is alive: the reply is sent when the loop reaches this
    request."""


@dataclass(frozen=True, slots=True)
class DescribeConnector:
    """Return a connector's configuration and tasks. Reply: `ConnectorDescription`."""

    connector: str


CONFIG_KEYS_MAX = 10_000
"""Maximum number of keys in a configuration. Validating this many keys takes about 0.1 s."""


def explain_too_many_config_keys(config: Mapping[str, Any]) -> str | None:
    """Return an error reason if a configuration has too many keys, otherwise None."""
    if len(config) <= CONFIG_KEYS_MAX:
        return None
    return f"has {len(config):,} keys; allowed: at most {CONFIG_KEYS_MAX:,}"


def explain_conflicting_name(connector: str, config: Mapping[str, Any]) -> str | None:
    """Return an error reason if the configuration's `name` differs from the connector's name,
    otherwise None."""
    name = config.get("name")
    if name is None or name == connector:
        return None
    return (
        f"Connector name configuration ({name}) doesn't match connector name in the URL"
        f" ({connector})"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnector:
    """Create a connector, or reconfigure an existing one if `replace` is set. Reply:
    `PutConnectorResult`."""

    connector: str
    config: RawConfig = field(repr=False)
    target_state: TargetState | None = None
    replace: bool = True
    invalid: str | None = None
    """Error message of the validation, which runs on the worker that received the request; None if
    valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchConnector:
    """Merge properties into a connector's configuration, after validation.

    Reply: `PutConnectorResult`.
    """

    connector: str
    patch: RawConfig = field(repr=False)
    """Properties to change. A value of None removes the property."""


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Delete a connector. Reply: `RequestSucceeded`."""

    connector: str


@dataclass(frozen=True, slots=True)
class StopConnector:
    """Remove a connector's task configs and set its target state to STOPPED.

    Reply: `RequestSucceeded`.
    """

    connector: str


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """Restart a connector without its tasks, on the worker that runs it.

    Reply: `RequestSucceeded`, after the connector has started.
    """

    connector: str


@dataclass(frozen=True, slots=True)
class RestartTask:
    """Restart a task on the worker that runs it. Reply: `RequestSucceeded`, after the task has
    started."""

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

    Internal. Reply: `RequestSucceeded`.
    """

    connector: str
    configs: Sequence[RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceZombieTasks:
    """Fence the producers of earlier tasks before a task starts.

    Internal. Reply: `RequestSucceeded`.
    """

    connector: str
    is_source: bool


@dataclass(frozen=True, slots=True)
class ReadConnectorOffsets:
    """Read a connector's offsets. Reply: `ConnectorOffsets`, sent by the worker instead of the
    herder."""

    connector: str


RequestedOffsets: TypeAlias = Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
"""Partitions with their offsets from the REST request. An offset of None requests deletion."""


@dataclass(frozen=True, slots=True)
class ModifyConnectorOffsets:
    """Alter the given offsets, or reset all offsets if `offsets` is None. Reply:
    `ConnectorOffsetsModified`, sent by the worker instead of the herder."""

    connector: str
    offsets: RequestedOffsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigureConnectorTasks:
    """Let a connector generate its task configs, and publish them. The herder itself submits
    this request."""

    connector: str
    first_due_s: float
    """Monotonic time at which the first attempt was due."""
    failed_attempts: int = 0
    """Number of failed attempts."""
    tickets: tuple[int, ...] = ()
    """Tickets of the requests that wait for this attempt. They receive a reply after the attempt,
    even if it fails."""


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
class RequestSucceeded:
    """The request was executed successfully."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorDescription:
    """A connector's configuration and task configs."""

    connector: str
    config: RawConfig = field(repr=False)
    task_configs: tuple[RawConfig | None, ...] = field(repr=False)
    """Task configs by task number; None for a task whose config is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnectorResult:
    """The configuration that was written."""

    connector: str
    config: RawConfig = field(repr=False)
    tasks: tuple[ConnectorTaskId, ...]
    """The connector's tasks before the new configuration was written. New task configs are
    generated later."""
    created: bool


@dataclass(frozen=True, slots=True)
class ForwardRequest:
    """The request must be sent to another worker instead."""

    url: str | None
    """URL of the other worker; None if unknown."""
    reason: str
    """Reason for forwarding, for users."""


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """The request was refused with this HTTP status."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class RestartAccepted:
    """The restart request was published, and every worker restarts the connector and tasks that it
    runs.

    `plan` contains the resulting statuses.
    """

    plan: RestartPlan


HerderReply: TypeAlias = (
    RequestSucceeded
    | ConnectorDescription
    | PutConnectorResult
    | RestartAccepted
    | ForwardRequest
    | RequestRefused
)

# Request queue

MAX_QUEUED_REQUESTS = 10_000
"""Maximum number of queued requests. Additional requests are refused."""


class HerderQueueFullError(Exception):
    """Raised if too many requests are queued, so that a further request would time out before it is
    executed."""


@dataclass(frozen=True, slots=True, order=True)
class QueuedRequest:
    """A request in the queue, ordered by due time and then by arrival."""

    due_s: float
    sequence: int
    ticket: int | None = field(compare=False)
    """Ticket that identifies the request; None for requests that the herder submits itself."""
    request: HerderRequest = field(compare=False)


@dataclass(slots=True)
class RequestQueue:
    """Queue of requests. Invariant: sorted by due time and sequence number."""

    _queued: list[QueuedRequest] = field(default_factory=list)
    _sequence: int = 0

    def add_request(self, request: HerderRequest, *, ticket: int | None, due_s: float) -> None:
        """Add a request. Raises `HerderQueueFullError` if the request has a ticket and the queue is
        full."""
        if ticket is not None and len(self._queued) >= MAX_QUEUED_REQUESTS:
            raise HerderQueueFullError(f"{len(self._queued)} requests are already queued")
        self._sequence += 1
        waiting = QueuedRequest(
            due_s=due_s, sequence=self._sequence, ticket=ticket, request=request
        )
        bisect.insort(self._queued, waiting)

    def pop_due_request(self, now_s: float) -> QueuedRequest | None:
        if self._queued and self._queued[0].due_s <= now_s:
            return self._queued.pop(0)
        return None

    def pop_all_requests(self) -> list[QueuedRequest]:
        taken, self._queued = self._queued, []
        return taken

    def pop_reconfigurations(self, connector: str) -> list[ReconfigureConnectorTasks]:
        """Remove and return all queued reconfigurations of a connector, because a new
        reconfiguration replaces them."""
        taken = self._remove_scheduled_requests(ReconfigureConnectorTasks, connector)
        return [each for each in taken if isinstance(each, ReconfigureConnectorTasks)]

    def drop_scheduled_restart(self, connector: str) -> None:
        """Remove the restart that the herder scheduled for a connector whose secrets expire.

        See `config.action.reload`.
        """
        self._remove_scheduled_requests(RestartConnector, connector)

    def _remove_scheduled_requests(
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
    """Build a message that lists all errors of a configuration; None if it is valid.

    The message is sent with status 400 and has Java's text, because clients display it unchanged.
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
