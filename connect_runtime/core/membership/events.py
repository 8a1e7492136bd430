"""What a group member can be told. Each is a fact; the machine decides what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from connect_runtime.base import errors


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing but that; to be told at the latest when `GroupMember.due_s` says."""


@dataclass(frozen=True, slots=True)
class WorkerTicked:
    """The worker's loop came round: it is not stuck."""


@dataclass(frozen=True, slots=True)
class BeatWanted:
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
class Prepared:
    """The answer to `PrepareJoin`: what has to stop before joining has stopped.

    protocols: (name, metadata), the favourite first, as true now.
    """

    token: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMade:
    """The leader's answer to `MakePlan`: member id -> assignment, for every member."""

    generation: int
    answers: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A `Send` was answered; `body` is the response as a kio entity."""

    token: int
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """A `Send` got no answer: not sent, not answered in time, or refused on the way."""

    token: int
    failure: errors.ConnectError


Event: TypeAlias = (
    TimePassed
    | WorkerTicked
    | BeatWanted
    | RejoinRequested
    | LeaveRequested
    | CloseRequested
    | Prepared
    | PlanMade
    | Answered
    | Unanswered
)
