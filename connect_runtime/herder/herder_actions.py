"""Actions that the herder requests: blocking actions and background actions.

A blocking action is always the last action of a step. The herder does nothing else until it
receives `ActionCompleted` with one of the outcomes that the action documents. Background actions
have no outcome. All actions are executed in the order given.

`describe_action` describes a blocking action with Java's wording, for the error messages of
requests that time out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.base import plurals
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder.herder_requests import (
    HerderReply,
    ModifyConnectorOffsets,
    ReadConnectorOffsets,
)
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.status_records import StatusSubject

# Writes to the config topic. Each is read back before it completes, unless documented otherwise.
# A privileged write needs the leader's write privilege (see `FenceConfigWriters`).


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteConnectorConfig:
    """Write a connector's target state, if given, and then its configuration. Requires the leader's
    write privilege (see `FenceConfigWriters`)."""

    connector: str
    config: RawConfig = field(repr=False)
    target_state: TargetState | None


@dataclass(frozen=True, slots=True)
class RemoveConnectorConfig:
    """Delete a connector's configuration and target state in one write. Requires the leader's write
    privilege (see `FenceConfigWriters`)."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTaskConfigs:
    """Read the config topic to its end, write the task configs, read them back, and write the
    commit record.

    Requires the leader's write privilege (see `FenceConfigWriters`).
    """

    connector: str
    configs: Sequence[RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTargetState:
    """Write a connector's target state, and wait for the acknowledgement.

    Any worker may do this, because it does not require the leader's write privilege.
    """

    connector: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class WriteRestartRequest:
    """Write a restart request for a connector. Requires the leader's write privilege (see
    `FenceConfigWriters`)."""

    request: RestartRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionKey:
    """Write a new session key of random bytes (`session_keys.build_session_key`). Requires the
    leader's write privilege (see `FenceConfigWriters`)."""

    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTaskCount:
    """Write the task count record that zombie fencing uses. Requires the leader's write privilege
    (see `FenceConfigWriters`)."""

    connector: str
    tasks: int


ConfigWrite: TypeAlias = (
    WriteConnectorConfig
    | RemoveConnectorConfig
    | WriteTaskConfigs
    | WriteTargetState
    | WriteRestartRequest
    | WriteSessionKey
    | WriteTaskCount
)

# Blocking actions


@dataclass(frozen=True, slots=True)
class ReadConfigTopic:
    """Read the config topic to its current end. Outcome: `ActionSucceeded` or `ActionTimedOut`."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class FenceConfigWriters:
    """Fence all other writers of the config topic if exactly-once sources are enabled.

    Otherwise does nothing. Outcome: `ActionSucceeded` or `ActionFailed`.
    """


@dataclass(frozen=True, slots=True)
class WriteConfigTopic:
    """Write to the config topic within 30 s.

    Outcome: `ActionSucceeded`, or `ActionFailed` (with `is_fenced` if the write privilege is lost).
    """

    write: ConfigWrite


@dataclass(frozen=True, slots=True)
class StopConnectorsAndTasks:
    """Stop connectors and tasks in parallel, within their graceful shutdown timeouts.

    Connectors and tasks that are not running count as stopped. Outcome: always `ActionSucceeded`.
    """

    work: ConnectorsAndTasks


@dataclass(frozen=True, slots=True)
class StartConnectorsAndTasks:
    """Start connectors and tasks with the current configurations and target states.

    Outcome: `ConnectorsAndTasksStarted`, with the connectors and tasks that could not be created
    or no longer exist. A `ConnectorStateReached` follows for every created connector.
    """

    work: ConnectorsAndTasks


@dataclass(frozen=True, slots=True)
class ReconfigureRunningTasks:
    """Pass the current configs to tasks that were started on this worker. A task may apply new
    configs without a restart.

    Outcome: `RunningTasksReconfigured`, with the tasks that are not running or must be restarted.
    """

    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class GenerateTaskConfigs:
    """Let a connector generate its task configs.

    Outcome: `TaskConfigsGenerated`, `ConnectorNotRunning`, or `ActionFailed`.
    `ActionFailed.is_permanent` is True if the connector returned more task configs than
    `tasks.max`, because a retry would fail again.
    """

    connector: str


@dataclass(frozen=True, slots=True)
class FlushStatuses:
    """Wait until all written statuses are acknowledged. Outcome: `ActionSucceeded` or
    `ActionFailed`."""


BlockingAction: TypeAlias = (
    ReadConfigTopic
    | FenceConfigWriters
    | WriteConfigTopic
    | StopConnectorsAndTasks
    | StartConnectorsAndTasks
    | ReconfigureRunningTasks
    | GenerateTaskConfigs
    | FlushStatuses
)
BLOCKING_ACTIONS = (
    ReadConfigTopic,
    FenceConfigWriters,
    WriteConfigTopic,
    StopConnectorsAndTasks,
    StartConnectorsAndTasks,
    ReconfigureRunningTasks,
    GenerateTaskConfigs,
    FlushStatuses,
)

# Background actions of the group


@dataclass(frozen=True, slots=True)
class ConfirmJoinPrepared:
    """Confirm a `JoinRequested`: revoked work has stopped, so the worker may join."""


@dataclass(frozen=True, slots=True)
class RejoinGroup:
    """Request a rebalance, or rejoin after leaving."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Leave the group until `RejoinGroup`."""

    reason: str


@dataclass(frozen=True, slots=True)
class RevokeAssignment:
    """Give up the assignment, because all connectors and tasks have stopped. The worker then joins
    without an assignment."""


@dataclass(frozen=True, slots=True)
class LeaveGroupPermanently:
    """Leave the group permanently, because the herder has stopped."""


# Background actions of the worker and its stores


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyTargetState:
    """Set the target state of a connector and its tasks on this worker.

    A `ConnectorStateReached` follows if the connector itself is running on this worker.
    """

    connector: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class PublishRestartingStatuses:
    """Write the status RESTARTING for connectors and tasks."""

    work: ConnectorsAndTasks


@dataclass(frozen=True, slots=True)
class DeleteStatuses:
    """Delete the statuses of connectors and tasks that no longer exist."""

    subjects: tuple[StatusSubject, ...]


@dataclass(frozen=True, slots=True)
class ResetActiveTopics:
    """Delete the connector's set of active topics."""

    connector: str


@dataclass(frozen=True, slots=True)
class SetLoggerLevel:
    """Set a logger level in this process."""

    namespace: str
    level: str


# Background actions on other threads, because they may block


@dataclass(frozen=True, slots=True)
class RunLeadershipCallback:
    """Call `on_leadership_acquired`, because this worker became the leader and has started its
    assigned connectors and tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTaskConfigs:
    """Send task configs to the leader with POST, signed with the session key if there is one.

    `TaskConfigsForwarded` with the same `token` must follow. Must not block the herder, because the
    leader may be waiting for this worker to join.
    """

    token: int
    connector: str
    configs: Sequence[RawConfig] = field(repr=False)
    leader_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAndPutConnector:
    """Validate the configuration, then submit `PutConnector` with the same ticket."""

    ticket: int
    connector: str
    config: RawConfig = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleOffsetsRequest:
    """Read or modify a connector's offsets. The worker, not the herder, replies to the request.

    The herder requests a modification only after all checks have passed. Before the worker modifies
    the offsets of an exactly-once source, it fences the source's producers.
    """

    ticket: int
    request: ReadConnectorOffsets | ModifyConnectorOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceZombieProducers:
    """Fence the producers of earlier tasks, write the task count record and reply to the request.

    Fails with 409 if the task configs (and therefore the `generation`) have changed.
    """

    ticket: int
    connector: str
    producers: int
    """Number of producers to fence."""
    tasks: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class SendReply:
    """Send the reply to a request: the reply type that the request's class documents,
    `ForwardRequest` or `RequestRefused`.

    At most one reply is sent per ticket.
    """

    ticket: int
    reply: HerderReply


@dataclass(frozen=True, slots=True)
class WriteLogLine:
    """Log a message for operators at INFO, or at WARNING if `is_warning` is set."""

    text: str
    is_warning: bool = False


BackgroundAction: TypeAlias = (
    ConfirmJoinPrepared
    | RejoinGroup
    | LeaveGroup
    | RevokeAssignment
    | LeaveGroupPermanently
    | ApplyTargetState
    | PublishRestartingStatuses
    | DeleteStatuses
    | ResetActiveTopics
    | SetLoggerLevel
    | RunLeadershipCallback
    | ForwardTaskConfigs
    | ValidateAndPutConnector
    | HandleOffsetsRequest
    | FenceZombieProducers
    | SendReply
    | WriteLogLine
)
HerderAction: TypeAlias = BlockingAction | BackgroundAction


STAGE_JOINING = "ensuring membership in the cluster"
"""Description of the herder's stage (its current operation) until a rebalance completes."""
STAGE_STARTING = "initializing and reading to the end of internal topics"
STAGE_CLOSING = "shutting down"


def describe_action(action: BlockingAction) -> str:
    """Describe the action as a gerund phrase that can follow "The worker is currently"."""
    match action:
        case ReadConfigTopic():
            return "reading to the end of the config topic"
        case FenceConfigWriters():
            return "claiming write privileges for the config topic"
        case WriteConfigTopic(write):
            return f"writing {_describe_config_write(write)} to the config topic"
        case StopConnectorsAndTasks(what):
            return f"stopping {what.summary}"
        case StartConnectorsAndTasks(what):
            return f"starting {what.summary}"
        case ReconfigureRunningTasks(tasks):
            return f"offering new configurations to {len(tasks)} task(s)"
        case GenerateTaskConfigs(connector):
            return f"generating task configs for connector {connector}"
        case FlushStatuses():
            return "flushing updates to the status topic"


def _describe_config_write(write: ConfigWrite) -> str:
    match write:
        case WriteConnectorConfig(connector=name):
            return f"a config for connector {name}"
        case RemoveConnectorConfig(name):
            return f"the removal of connector {name}"
        case WriteTaskConfigs(connector=name, configs=configs):
            return f"{plurals.format_count(len(configs), 'task config')} for connector {name}"
        case WriteTargetState(connector=name, state=state):
            return f"the {state.value} target state for connector {name}"
        case WriteRestartRequest(request):
            return f"restart request for connector {request.connector}"
        case WriteSessionKey():
            return "a new session key"
        case WriteTaskCount(connector=name):
            return f"a task count record for connector {name}"
