"""What the herder asks of the world.

A *question* is always the last instruction of a step; the herder does nothing more until it is
told `events.Answered` with one of the answers that the question names. An *order* has no answer;
orders are carried out in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.core.assignment import work
from connect_runtime.core.herder import requests
from connect_runtime.core.state import cluster_config, config_records, status_records

# Writes to the config topic; each is read back before it is answered, unless it says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteConnector:
    """The configuration, with a target state before it if there is one. Privileged."""

    connector: str
    config: cluster_config.RawConfig = field(repr=False)
    target_state: cluster_config.TargetState | None


@dataclass(frozen=True, slots=True)
class RemoveConnector:
    """Connector and target state, in one. Privileged."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTaskConfigs:
    """Read to the end; the task configs; read them back; then their commit record. Privileged."""

    connector: str
    configs: Sequence[cluster_config.RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTargetState:
    """Acknowledged is enough; every worker may, so it needs no privilege."""

    connector: str
    state: cluster_config.TargetState


@dataclass(frozen=True, slots=True)
class WriteRestart:
    """Privileged."""

    request: config_records.RestartRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteNewSessionKey:
    """Of random bytes that nobody else sees; `session_keys.new_key`. Privileged."""

    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFencingCount:
    """Privileged."""

    connector: str
    tasks: int


ConfigWrite: TypeAlias = (
    WriteConnector
    | RemoveConnector
    | WriteTaskConfigs
    | WriteTargetState
    | WriteRestart
    | WriteNewSessionKey
    | WriteFencingCount
)

# Questions


@dataclass(frozen=True, slots=True)
class ReadConfigs:
    """Read the config topic to its end as of now. Answer: `Done`, or `TimedOut`."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class ClaimWrites:
    """Fence every other writer of the config topic, where that is configured (exactly-once
    sources); else there is nothing to do. Answer: `Done` or `Failed`."""


@dataclass(frozen=True, slots=True)
class Write:
    """Within 30 s. Answer: `Done` or `Failed`, with `fenced` where the privilege is lost."""

    write: ConfigWrite


@dataclass(frozen=True, slots=True)
class StopWork:
    """Stop these connectors and tasks, all at once, within their graceful timeouts. What does not
    run counts as stopped. Answer: `Done`, whatever came of it."""

    work: work.Work


@dataclass(frozen=True, slots=True)
class StartWork:
    """Start these from what is configured now, in the target state of now.

    Answer: `Started`, once all were begun; what cannot be begun, or is configured no more, is named
    there. For every connector that was begun a `ConnectorReached` follows, sooner or later.
    """

    work: work.Work


@dataclass(frozen=True, slots=True)
class RenewTasks:
    """Tell these tasks, that were begun here, what is configured for them now. Answer: `Renewed`,
    with those that do not run, or cannot go on with it."""

    tasks: tuple[ids.ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class GenerateTaskConfigs:
    """Ask the connector, if it runs here, for its task configs. Answer: `Generated`, `NotRunning`
    or `Failed`, with `lasting` where asking again is useless (more than `tasks.max`)."""

    connector: str


@dataclass(frozen=True, slots=True)
class FlushStatuses:
    """Wait until all statuses written so far are acknowledged. Answer: `Done`, or `Failed`."""


Question: TypeAlias = (
    ReadConfigs
    | ClaimWrites
    | Write
    | StopWork
    | StartWork
    | RenewTasks
    | GenerateTaskConfigs
    | FlushStatuses
)
QUESTIONS = (
    ReadConfigs,
    ClaimWrites,
    Write,
    StopWork,
    StartWork,
    RenewTasks,
    GenerateTaskConfigs,
    FlushStatuses,
)

# Orders to the group


@dataclass(frozen=True, slots=True)
class Prepared:
    """The answer to `JoinAsked`: what had to stop has stopped, the metadata may be taken."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Ask for another round, or to be a member again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the group and stay out of it until `Rejoin`."""

    reason: str


@dataclass(frozen=True, slots=True)
class GiveUpWork:
    """Everything is stopped: this member has no work any more, and is to say so when it joins."""


@dataclass(frozen=True, slots=True)
class Close:
    """Leave the group for good: the herder has ended."""


# Orders to the worker and its stores


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTargetState:
    """Bring what runs here of the connector, itself and tasks, into this state.

    If the connector itself runs here, a `ConnectorReached` follows.
    """

    connector: str
    state: cluster_config.TargetState


@dataclass(frozen=True, slots=True)
class SayRestarting:
    """Write the status RESTARTING for each of these."""

    work: work.Work


@dataclass(frozen=True, slots=True)
class ForgetStatuses:
    """Delete the statuses of what is configured no more."""

    subjects: tuple[status_records.Subject, ...]


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Delete the topics that the connector is known to use."""

    connector: str


@dataclass(frozen=True, slots=True)
class SetLoggerLevel:
    """Of this process."""

    namespace: str
    level: str


# Orders to other threads, that must not hold the herder up


@dataclass(frozen=True, slots=True)
class TellOfLeading:
    """This worker leads the group, which it did not by the round before, and its work is begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTaskConfigs:
    """POST them to the leader, signed with the session key of then if there is one.

    `TaskConfigsForwarded` with this `token` must follow. Not to be waited for here: the leader
    may be waiting for this very worker to join.
    """

    token: int
    connector: str
    configs: Sequence[cluster_config.RawConfig] = field(repr=False)
    leader_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAndPut:
    """Validate the configuration, then submit `PutConnector` with the same ticket."""

    ticket: int
    connector: str
    config: cluster_config.RawConfig = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerByWorker:
    """`ReadOffsets`, or `ModifyOffsets` with all checks passed: the worker answers the ticket.

    Of a source under exactly-once its producers are fenced before its offsets are modified.
    """

    ticket: int
    request: requests.ReadOffsets | requests.ModifyOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceProducers:
    """Fence so many producers of earlier tasks, then write the fencing count and answer the ticket.

    It is for nothing (409) if other task configs come first: `generation` is another then.
    """

    ticket: int
    connector: str
    producers: int
    tasks: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell the asker; nothing more will be said to this ticket.

    `reply` is what the request's docstring says, `Forward` or `Refused`.
    """

    ticket: int
    reply: requests.Reply


@dataclass(frozen=True, slots=True)
class Note:
    """One line for the log: a change that an operator cares about; `warns`: and may act upon."""

    text: str
    warns: bool = False


Order: TypeAlias = (
    Prepared
    | Rejoin
    | Leave
    | GiveUpWork
    | Close
    | SetTargetState
    | SayRestarting
    | ForgetStatuses
    | ForgetTopics
    | SetLoggerLevel
    | TellOfLeading
    | ForwardTaskConfigs
    | ValidateAndPut
    | AnswerByWorker
    | FenceProducers
    | Answer
    | Note
)
Instruction: TypeAlias = Question | Order
