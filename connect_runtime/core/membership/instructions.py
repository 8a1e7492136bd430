"""What a group member asks for, and what it tells the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base import errors
from connect_runtime.wire.codec import messages, targets

JOINING = "group-join"
"""Lane of JoinGroup and SyncGroup, which a broker holds back until others have come."""
BEATING = "group"
"""Lane of all else: brokers answer a connection's requests one after the other, and a heartbeat
must not wait behind a join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send it once; exactly one `Answered` or `Unanswered` with this token must follow."""

    token: int
    to: targets.Target
    message: messages.Message
    lane: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PrepareJoin:
    """Stop what must not run while joining (the eager protocol: everything), then answer with
    `Prepared`. May be asked again before a round is complete."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MakePlan:
    """This member leads: answer with `PlanMade`. Heartbeats go on meanwhile.

    members: member id -> metadata in the group's `protocol`, its own among them.
    """

    generation: int
    member_id: str
    protocol: str
    members: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCompleted:
    """The group is joined. assignment: what the leader said to this member, b"" for nothing."""

    generation: int
    member_id: str
    leader: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StopWork:
    """The coordinator is gone for too long: others may be given this worker's work, so it must
    stop all of it (KAFKA-9184) and forget its assignment. The group is joined again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class SlowTick:
    """The worker did not come round in time: this member leaves the group, and joins again when
    the worker answers `PrepareJoin`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot be a member until somebody changes something; only `CloseRequested` is heard."""

    error: errors.FatalError


@dataclass(frozen=True, slots=True)
class Closed:
    """The answer to `CloseRequested`: nothing will be sent any more."""


@dataclass(frozen=True, slots=True)
class Note:
    """One line for the log: a change that an operator cares about."""

    text: str


Instruction: TypeAlias = (
    Send | PrepareJoin | MakePlan | RoundCompleted | StopWork | SlowTick | Failed | Closed | Note
)
