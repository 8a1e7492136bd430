"""Requests to the herder, their replies, and the queue in which they wait.

Not here, because every worker answers them at once without the herder: listings, statuses,
topics, logger levels, and pause and resume, which only write a target state.
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

# What can be asked


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """Does the herder come round?"""


@dataclass(frozen=True, slots=True)
class DescribeConnector:
    """A connector's configuration and tasks. Answer: `ConnectorDescription`."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnector:
    """Create a connector, or with `replace` configure it anew. Answer: `PutConnectorResult`.

    It was validated where it was received: `invalid` has the message of what was found.
    """

    connector: str
    config: RawConfig = field(repr=False)
    target_state: TargetState | None = None
    replace: bool = True
    invalid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchConnector:
    """Merge into the configuration; None removes a property. Answer: `PutConnectorResult`, after
    validation."""

    connector: str
    patch: RawConfig = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Answer: `RequestAccepted`."""

    connector: str


@dataclass(frozen=True, slots=True)
class StopConnector:
    """Give up its tasks and set STOPPED. Answer: `RequestAccepted`."""

    connector: str


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """The connector alone, by the worker that runs it. Answer: `RequestAccepted`, once it is
    started."""

    connector: str


@dataclass(frozen=True, slots=True)
class RestartTask:
    """By the worker that runs it. Answer: `RequestAccepted`, once it is started."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class RestartConnectorAndTasks:
    """A connector with its tasks, or what of it failed, wherever it runs. Answer:
    `RestartAccepted`."""

    request: RestartRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTaskConfigs:
    """From the worker that runs the connector, signed as it should be. Answer: `RequestAccepted`."""

    connector: str
    configs: Sequence[RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceZombieTasks:
    """Fence producers of earlier tasks; from a worker that starts one. Answer: `RequestAccepted`."""

    connector: str
    is_source: bool


@dataclass(frozen=True, slots=True)
class ReadConnectorOffsets:
    """Answered by the worker, from the offsets themselves."""

    connector: str


RequestedOffsets: TypeAlias = Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
"""Partitions with their offsets as REST received them; None as an offset deletes it."""


@dataclass(frozen=True, slots=True)
class ModifyConnectorOffsets:
    """Alter offsets, or with None reset them all; answered by the worker."""

    connector: str
    offsets: RequestedOffsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigureConnectorTasks:
    """Ask the connector for its task configs; of the herder's own making.

    `failed`: tries before this one, `asked_s` when the first was due. `waiting` are answered after
    this try, however it ends.
    """

    connector: str
    asked_s: float
    failed: int = 0
    waiting: tuple[int, ...] = ()


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

# What is answered


@dataclass(frozen=True, slots=True)
class RequestAccepted:
    """It is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorDescription:
    """A connector as configured; `task_configs` by number, None for one that is not known."""

    connector: str
    config: RawConfig = field(repr=False)
    task_configs: tuple[RawConfig | None, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnectorResult:
    """As written; `tasks` are those before, for new ones come later."""

    connector: str
    config: RawConfig = field(repr=False)
    tasks: tuple[ConnectorTaskId, ...]
    created: bool


@dataclass(frozen=True, slots=True)
class ForwardRequest:
    """Another worker must be asked; `url` is None while nobody knows which. `why` is for people."""

    url: str | None
    why: str


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """With this HTTP status."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class RestartAccepted:
    """Every worker restarts its part; how the connector will stand, by then."""

    plan: RestartPlan


HerderReply: TypeAlias = (
    RequestAccepted
    | ConnectorDescription
    | PutConnectorResult
    | RestartAccepted
    | ForwardRequest
    | RequestRefused
)

# The queue

MAX_QUEUED_REQUESTS = 10_000


class HerderQueueFullError(Exception):
    """So many requests wait that another would only wait in vain."""


@dataclass(frozen=True, slots=True, order=True)
class QueuedRequest:
    """A request in the queue: due at `at_s`; of those due together the first to come goes first.

    `ticket` is the asker's, None for the herder's own requests.
    """

    at_s: float
    sequence: int
    ticket: int | None = field(compare=False)
    request: HerderRequest = field(compare=False)


@dataclass(slots=True)
class RequestQueue:
    """Invariant: ordered by (time, sequence)."""

    _waiting: list[QueuedRequest] = field(default_factory=list)
    _sequence: int = 0

    def add(self, request: HerderRequest, *, ticket: int | None, at_s: float) -> None:
        """Raises `HerderQueueFullError` for an asker's; the herder's own always find a place."""
        if ticket is not None and len(self._waiting) >= MAX_QUEUED_REQUESTS:
            raise HerderQueueFullError(f"{len(self._waiting)} requests wait")
        self._sequence += 1
        waiting = QueuedRequest(at_s=at_s, sequence=self._sequence, ticket=ticket, request=request)
        bisect.insort(self._waiting, waiting)

    def take_due(self, now_s: float) -> QueuedRequest | None:
        if self._waiting and self._waiting[0].at_s <= now_s:
            return self._waiting.pop(0)
        return None

    def take_all(self) -> list[QueuedRequest]:
        taken, self._waiting = self._waiting, []
        return taken

    def take_reconfigurations(self, connector: str) -> list[ReconfigureConnectorTasks]:
        """Remove what waits to reconfigure this connector: a new request does for all of them."""
        taken = self._take_own(ReconfigureConnectorTasks, connector)
        return [each for each in taken if isinstance(each, ReconfigureConnectorTasks)]

    def drop_scheduled_restart(self, connector: str) -> None:
        """Remove the herder's own restart of this connector: it is scheduled anew, or not at all.

        (Values from a provider that live for some time: `config.action.reload`.)
        """
        self._take_own(RestartConnector, connector)

    def _take_own(
        self, kind: type[ReconfigureConnectorTasks | RestartConnector], connector: str
    ) -> list[ReconfigureConnectorTasks | RestartConnector]:
        kept, taken = [], []
        for each in self._waiting:
            ours = each.ticket is None
            if isinstance(each.request, kind) and ours and each.request.connector == connector:
                taken.append(each.request)
            else:
                kept.append(each)
        self._waiting = kept
        return taken

    @property
    def next_at_s(self) -> float | None:
        return self._waiting[0].at_s if self._waiting else None

    def check_invariants(self) -> None:
        assert self._waiting == sorted(self._waiting)


def describe_config_errors(infos: ConfigInfos) -> str | None:
    """Why the configuration must not be written, error by error; None: it may be.

    Answered with 400. Clients show it as it is, so the text is Java's.
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
