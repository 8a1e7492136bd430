"""Events that a group member receives, and instructions that it returns.

`GroupMember` decides which instructions follow from an event. Its caller executes the instructions
in order and reports their outcome as further events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.protocol.request_builders import RequestBuilder, RequestTarget

JOIN_PURPOSE = "group-join"
"""Lane (name of a separate connection) for JoinGroup and SyncGroup. Brokers delay the responses to
these requests until all members have joined."""
GROUP_PURPOSE = "group"
"""Lane (name of a separate connection) for the group's other requests. Brokers process the requests
of a connection one by one, so a delayed JoinGroup on the same connection would delay heartbeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendGroupRequest:
    """Instruction to send a request once, then report `GroupResponseReceived` or
    `GroupRequestFailed`."""

    token: int
    to: RequestTarget
    message: RequestBuilder
    lane: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PrepareJoin:
    """Instruction to stop all work that must not run while joining, then report `JoinPrepared`.

    Under the eager protocol, all work must stop. The instruction may be repeated during one
    rebalance.
    """

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAssignments:
    """Instruction to the leader to compute assignments, then report `AssignmentsComputed`.

    Heartbeats continue in the meantime.
    """

    generation: int
    member_id: str
    protocol: str
    members: Mapping[str, bytes]
    """Metadata of all members, including this one, by member id. Encoded in the group's
    `protocol`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCompleted:
    """The member has joined a generation of the group.

    `assignment` is from the leader; b"" if the leader assigned nothing to this member.
    """

    generation: int
    member_id: str
    leader: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class AbandonAssignment:
    """Instruction to stop all work and drop the assignment, because the coordinator has been
    unavailable for too long.

    The work may be assigned to other workers (KAFKA-9184). The member rejoins the group later.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class PollTimeoutExpired:
    """The worker loop is stuck, so this member leaves the group.

    It rejoins when the worker responds to `PrepareJoin`.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class MembershipFailed:
    """The group cannot be joined until an operator intervenes. Afterwards, the member ignores all
    events except `CloseRequested`."""

    error: FatalError


@dataclass(frozen=True, slots=True)
class MembershipClosed:
    """Final instruction after `CloseRequested`: the member has left, and no more requests are
    sent."""


@dataclass(frozen=True, slots=True)
class MemberLogLine:
    """A log line about a change or an error that operators need to know."""

    text: str
    is_error: bool = False


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
    """Wakes the member for time-based work. Must be sent no later than the time that
    `GroupMember.get_next_tick_s` returns."""


@dataclass(frozen=True, slots=True)
class WorkerLoopTicked:
    """The worker loop is alive."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequested:
    """Request for an immediate heartbeat, sent if the caller cannot wait for the next regular
    heartbeat."""


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """Request to start another rebalance, or to rejoin after leaving.

    The request remains pending until the member has sent metadata that is newer than the request.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """Request to leave the group until the next `RejoinRequested`."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """Request to leave the group permanently. Results in `MembershipClosed`."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPrepared:
    """Response to `PrepareJoin`: work that must not run while joining has stopped.

    `protocols` are (name, current metadata) pairs in order of preference.
    """

    token: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentsComputed:
    """The leader's response to `ComputeAssignments`: an assignment for every member, by member
    id."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResponseReceived:
    """A response to a group request arrived. `body` is the decoded response, an entity of the
    kio library."""

    token: int
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequestFailed:
    """A group request failed: it was not sent, no response arrived in time, or the connection
    was lost."""

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
