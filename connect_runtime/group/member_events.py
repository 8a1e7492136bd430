"""Events that a group member receives, and instructions that it returns.

Events are facts, and `GroupMember` decides what follows. Its caller executes the instructions in
order and reports their outcome as further events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.protocol.request_builders import RequestBuilder, RequestTarget

JOIN_PURPOSE = "group-join"
"""Lane of JoinGroup and SyncGroup, which brokers answer after all members have joined."""
GROUP_PURPOSE = "group"
"""Lane of all other requests, so that heartbeats do not wait behind a delayed JoinGroup: brokers
process the requests of a connection one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendGroupRequest:
    """Send the request once, then report one `GroupResponseReceived` or `GroupRequestFailed`."""

    token: int
    to: RequestTarget
    message: RequestBuilder
    lane: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PrepareJoin:
    """Stop all work that must not run while joining, then report `JoinPrepared`.

    With the eager protocol that is all work. May be repeated during one rebalance.
    """

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAssignments:
    """This member is the leader: compute assignments, then report `AssignmentsComputed`.

    Heartbeats continue in the meantime.
    """

    generation: int
    member_id: str
    protocol: str
    members: Mapping[str, bytes]
    """Metadata in the group's `protocol` by member id, including this member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCompleted:
    """The group was joined. `assignment`: from the leader; b"" if this member was left out."""

    generation: int
    member_id: str
    leader: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class AbandonAssignment:
    """Stop all work and forget the assignment, because the coordinator was unavailable too long.

    Others may be assigned this worker's work (KAFKA-9184). The group is joined again later.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class PollTimeoutExpired:
    """The worker's loop is stuck, so this member leaves the group.

    It rejoins when the worker responds to `PrepareJoin`.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class MembershipFailed:
    """The group cannot be joined until someone intervenes; only `CloseRequested` is processed."""

    error: FatalError


@dataclass(frozen=True, slots=True)
class MembershipClosed:
    """The result of `CloseRequested`: no more requests are sent."""


@dataclass(frozen=True, slots=True)
class MemberLogLine:
    """A line for the log about a change that operators need to know."""

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
    """Time has passed. Send this event at `GroupMember.due_s` at the latest."""


@dataclass(frozen=True, slots=True)
class WorkerLoopTicked:
    """The worker's loop is alive."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequested:
    """Send a heartbeat now, because its confirmation is needed before the next interval."""


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """Start another rebalance, or rejoin after leaving.

    The request is kept until newer metadata has been sent.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """Leave the group, until `RejoinRequested`."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """Leave the group for good; the result is `MembershipClosed`."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPrepared:
    """The result of `PrepareJoin`: work that must not run while joining has stopped.

    `protocols`: (name, current metadata), preferred first.
    """

    token: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentsComputed:
    """The leader's result of `ComputeAssignments`: assignment by member id, for every member."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResponseReceived:
    """A response arrived; `body` is its kio entity."""

    token: int
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequestFailed:
    """A request failed: it was not sent, got no response in time, or its connection broke."""

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
