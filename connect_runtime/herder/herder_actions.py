"""Actions that the herder requests: blocking ones, whose outcome it waits for, and background ones.

A blocking action is always the last of a step: the herder does nothing more until it receives
`ActionCompleted` with one of the outcomes that the action names. Background actions have no
outcome. All are executed in the order given.

`describe_action` says in Java's words what the herder is doing, for requests that time out.
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

# Writes to the config topic; each is read back before it is answered, unless it says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteConnectorConfig:
    """The configuration, with a target state before it if there is one. Privileged."""

    connector: str
    config: RawConfig = field(repr=False)
    target_state: TargetState | None


@dataclass(frozen=True, slots=True)
class RemoveConnectorConfig:
    """Connector and target state, in one. Privileged."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTaskConfigs:
    """Read to the end; the task configs; read them back; then their commit record. Privileged."""

    connector: str
    configs: Sequence[RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTargetState:
    """Acknowledged is enough; every worker may, so it needs no privilege."""

    connector: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class WriteRestartRequest:
    """Privileged."""

    request: RestartRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionKey:
    """Of random bytes that nobody else sees; `session_keys.new_key`. Privileged."""

    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTaskCount:
    """Privileged."""

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

# Questions


@dataclass(frozen=True, slots=True)
class ReadConfigTopic:
    """Read the config topic to its end as of now. Answer: `Done`, or `TimedOut`."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class FenceConfigWriters:
    """Fence every other writer of the config topic, where that is configured (exactly-once
    sources); else there is nothing to do. Answer: `Done` or `Failed`."""


@dataclass(frozen=True, slots=True)
class WriteConfigTopic:
    """Within 30 s. Answer: `Done` or `Failed`, with `fenced` where the privilege is lost."""

    write: ConfigWrite


@dataclass(frozen=True, slots=True)
class StopConnectorsAndTasks:
    """Stop these connectors and tasks, all at once, within their graceful timeouts. What does not
    run counts as stopped. Answer: `Done`, whatever came of it."""

    work: ConnectorsAndTasks


@dataclass(frozen=True, slots=True)
class StartConnectorsAndTasks:
    """Start these from what is configured now, in the target state of now.

    Answer: `Started`, once all were begun; what cannot be begun, or is configured no more, is named
    there. For every connector that was begun a `ConnectorReached` follows, sooner or later.
    """

    work: ConnectorsAndTasks


@dataclass(frozen=True, slots=True)
class OfferTaskConfigs:
    """Tell these tasks, that were begun here, what is configured for them now. Answer: `Renewed`,
    with those that do not run, or cannot go on with it."""

    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class GenerateTaskConfigs:
    """Ask the connector, if it runs here, for its task configs. Answer: `Generated`, `NotRunning`
    or `Failed`, with `lasting` where asking again is useless (more than `tasks.max`)."""

    connector: str


@dataclass(frozen=True, slots=True)
class FlushStatuses:
    """Wait until all statuses written so far are acknowledged. Answer: `Done`, or `Failed`."""


BlockingAction: TypeAlias = (
    ReadConfigTopic
    | FenceConfigWriters
    | WriteConfigTopic
    | StopConnectorsAndTasks
    | StartConnectorsAndTasks
    | OfferTaskConfigs
    | GenerateTaskConfigs
    | FlushStatuses
)
BLOCKING_ACTIONS = (
    ReadConfigTopic,
    FenceConfigWriters,
    WriteConfigTopic,
    StopConnectorsAndTasks,
    StartConnectorsAndTasks,
    OfferTaskConfigs,
    GenerateTaskConfigs,
    FlushStatuses,
)

# Orders to the group


@dataclass(frozen=True, slots=True)
class ConfirmJoinPrepared:
    """The answer to `JoinAsked`: what had to stop has stopped, the metadata may be taken."""


@dataclass(frozen=True, slots=True)
class RejoinGroup:
    """Ask for another round, or to be a member again."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Leave the group and stay out of it until `RejoinGroup`."""

    reason: str


@dataclass(frozen=True, slots=True)
class RevokeAssignment:
    """Everything is stopped: this member has no work any more, and is to say so when it joins."""


@dataclass(frozen=True, slots=True)
class CloseGroup:
    """Leave the group for good: the herder has ended."""


# Orders to the worker and its stores


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyTargetState:
    """Bring what runs here of the connector, itself and tasks, into this state.

    If the connector itself runs here, a `ConnectorReached` follows.
    """

    connector: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class PublishRestarting:
    """Write the status RESTARTING for each of these."""

    work: ConnectorsAndTasks


@dataclass(frozen=True, slots=True)
class DeleteStatuses:
    """Delete the statuses of what is configured no more."""

    subjects: tuple[StatusSubject, ...]


@dataclass(frozen=True, slots=True)
class ResetActiveTopics:
    """Delete the topics that the connector is known to use."""

    connector: str


@dataclass(frozen=True, slots=True)
class SetLoggerLevel:
    """Of this process."""

    namespace: str
    level: str


# Orders to other threads, that must not hold the herder up


@dataclass(frozen=True, slots=True)
class LeadershipAcquired:
    """This worker leads the group, which it did not by the round before, and its work is begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTaskConfigs:
    """POST them to the leader, signed with the session key of then if there is one.

    `TaskConfigsForwarded` with this `token` must follow. Not to be waited for here: the leader
    may be waiting for this very worker to join.
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
    """`ReadOffsets`, or `ModifyOffsets` with all checks passed: the worker answers the ticket.

    Of a source under exactly-once its producers are fenced before its offsets are modified.
    """

    ticket: int
    request: ReadConnectorOffsets | ModifyConnectorOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceZombieProducers:
    """Fence so many producers of earlier tasks, then write the fencing count and answer the ticket.

    It is for nothing (409) if other task configs come first: `generation` is another then.
    """

    ticket: int
    connector: str
    producers: int
    tasks: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class SendReply:
    """Tell the asker; nothing more will be said to this ticket.

    `reply` is what the request's docstring says, `Forward` or `Refused`.
    """

    ticket: int
    reply: HerderReply


@dataclass(frozen=True, slots=True)
class WriteLogLine:
    """One line for the log: a change that an operator cares about; `warns`: and may act upon."""

    text: str
    warns: bool = False


BackgroundAction: TypeAlias = (
    ConfirmJoinPrepared
    | RejoinGroup
    | LeaveGroup
    | RevokeAssignment
    | CloseGroup
    | ApplyTargetState
    | PublishRestarting
    | DeleteStatuses
    | ResetActiveTopics
    | SetLoggerLevel
    | LeadershipAcquired
    | ForwardTaskConfigs
    | ValidateAndPutConnector
    | HandleOffsetsRequest
    | FenceZombieProducers
    | SendReply
    | WriteLogLine
)
HerderAction: TypeAlias = BlockingAction | BackgroundAction


STAGE_JOINING = "ensuring membership in the cluster"
"""While no round stands."""
STAGE_STARTING = "initializing and reading to the end of internal topics"
STAGE_CLOSING = "shutting down"


def describe_action(question: BlockingAction) -> str:
    """A gerund with its object, fit to follow "The worker is currently"."""
    match question:
        case ReadConfigTopic():
            return "reading to the end of the config topic"
        case FenceConfigWriters():
            return "claiming write privileges for the config topic"
        case WriteConfigTopic(write):
            return f"writing {_describe_write(write)} to the config topic"
        case StopConnectorsAndTasks(what):
            return f"stopping {what.counted}"
        case StartConnectorsAndTasks(what):
            return f"starting {what.counted}"
        case OfferTaskConfigs(tasks):
            return f"telling {len(tasks)} task(s) what is configured for them now"
        case GenerateTaskConfigs(connector):
            return f"generating task configs for connector {connector}"
        case FlushStatuses():
            return "flushing updates to the status topic"


def _describe_write(write: ConfigWrite) -> str:
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
