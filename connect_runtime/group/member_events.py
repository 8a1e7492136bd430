"""Events that a group member receives, and instructions that it returns.

An event is a fact; `GroupMember` decides what follows. Its caller executes the instructions in
order and reports their outcome as further events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.protocol.request_builders import RequestBuilder, RequestTarget

JOIN_PURPOSE = "group-join"
"""Lane of JoinGroup and SyncGroup, which a broker holds back until others have come."""
GROUP_PURPOSE = "group"
"""Lane of all else: brokers answer a connection's requests one after the other, and a heartbeat
must not wait behind a join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendGroupRequest:
    """Send it once; exactly one `Answered` or `Unanswered` with this token must follow."""

    token: int
    to: RequestTarget
    message: RequestBuilder
    lane: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PrepareJoin:
    """Stop what must not run while joining (the eager protocol: everything), then answer with
    `Prepared`. May be asked again before a round is complete."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAssignments:
    """This member leads: answer with `PlanMade`. Heartbeats go on meanwhile.

    members: member id -> metadata in the group's `protocol`, its own among them.
    """

    generation: int
    member_id: str
    protocol: str
    members: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCompleted:
    """The group is joined. assignment: what the leader said to this member, b"" for nothing."""

    generation: int
    member_id: str
    leader: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class AbandonAssignment:
    """The coordinator is gone for too long: others may be given this worker's work, so it must
    stop all of it (KAFKA-9184) and forget its assignment. The group is joined again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class PollTimeoutExpired:
    """The worker did not come round in time: this member leaves the group, and joins again when
    the worker answers `PrepareJoin`."""

    reason: str


@dataclass(frozen=True, slots=True)
class MembershipFailed:
    """It cannot be a member until somebody changes something; only `CloseRequested` is heard."""

    error: FatalError


@dataclass(frozen=True, slots=True)
class MembershipClosed:
    """The answer to `CloseRequested`: nothing will be sent any more."""


@dataclass(frozen=True, slots=True)
class MemberLogLine:
    """One line for the log: a change that an operator cares about."""

    text: str


MemberInstruction: TypeAlias = (
    SendGroupRequest
    | PrepareJoin
    | ComputeAssignments
    | RebalanceCompleted
    | AbandonAssignment
    | PollTimeoutExpired
    | MembershipFailed
    | MembershipClosed
    | MemberLogLine
)


@dataclass(frozen=True, slots=True)
class MemberTick:
    """Nothing but that; to be told at the latest when `GroupMember.due_s` says."""


@dataclass(frozen=True, slots=True)
class WorkerLoopTicked:
    """The worker's loop came round: it is not stuck."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequested:
    """Somebody waits for a heartbeat sent later than this: not only at the next interval."""


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """The worker wants another round, or to be a member again after it left. Remembered until
    metadata that is newer than this event was sent."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """Leave the group and stay out of it until `RejoinRequested`."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """Leave the group for good; answered by `Closed`."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPrepared:
    """The answer to `PrepareJoin`: what has to stop before joining has stopped.

    protocols: (name, metadata), the favourite first, as true now.
    """

    token: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentsComputed:
    """The leader's answer to `MakePlan`: member id -> assignment, for every member."""

    generation: int
    answers: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResponseReceived:
    """A `Send` was answered; `body` is the response as a kio entity."""

    token: int
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequestFailed:
    """A `Send` got no answer: not sent, not answered in time, or refused on the way."""

    token: int
    failure: ConnectError


MemberEvent: TypeAlias = (
    MemberTick
    | WorkerLoopTicked
    | HeartbeatRequested
    | RejoinRequested
    | LeaveRequested
    | CloseRequested
    | JoinPrepared
    | AssignmentsComputed
    | GroupResponseReceived
    | GroupRequestFailed
)
