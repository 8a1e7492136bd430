"""What error codes in a coordinator's answers mean to a member (Java: AbstractCoordinator)."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from connect_runtime.base import errors
from connect_runtime.wire.codec import coordinators, failures

GROUP_AUTHORIZATION_FAILED = 30
INCONSISTENT_PROTOCOL = 23


class Verdict(enum.Enum):
    """What to do about an answer.

    AGAIN: join again, now. LATER: the same again after a backoff. MOVED: look for the coordinator,
    then again. MEMBER_GONE: join as a new member. GENERATION_GONE: join again under the same id.
    ID_GIVEN: join again under the id in the answer (KIP-394). FATAL: somebody must change
    something.
    """

    FINE = enum.auto()
    AGAIN = enum.auto()
    LATER = enum.auto()
    MOVED = enum.auto()
    MEMBER_GONE = enum.auto()
    GENERATION_GONE = enum.auto()
    ID_GIVEN = enum.auto()
    FATAL = enum.auto()


_COORDINATOR = {0: Verdict.FINE, 14: Verdict.LATER, 15: Verdict.MOVED, 16: Verdict.MOVED}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR"""
_JOIN = {**_COORDINATOR, 25: Verdict.MEMBER_GONE, 27: Verdict.AGAIN, 79: Verdict.ID_GIVEN}
"""UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED"""
_SYNC = {
    **_COORDINATOR,
    22: Verdict.GENERATION_GONE,
    25: Verdict.MEMBER_GONE,
    27: Verdict.AGAIN,
}
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS"""
_FATAL_HEARTBEATS = frozenset({GROUP_AUTHORIZATION_FAILED, 82})
"""And FENCED_INSTANCE_ID."""

_REMEDIES: Mapping[int, str] = {
    INCONSISTENT_PROTOCOL: "other clients use this group.id, or workers that have no protocol in "
    "common with this one: choose another group.id, or look at connect.protocol",
    24: "group.id must not be empty",
    26: "session.timeout.ms must lie between the broker's group.min.session.timeout.ms and "
    "group.max.session.timeout.ms",
    GROUP_AUTHORIZATION_FAILED: "the principal needs READ on the group",
    35: "the broker does not know a version of this request that Connect workers need",
    81: "the group has as many members as the broker's group.max.size allows",
    82: "another member joined under the same group.instance.id, which no Connect worker has",
}


class MembershipError(errors.FatalError):
    """A group cannot be joined; `error_code` is Kafka's."""

    def __init__(self, what: str, *, error_code: int) -> None:
        remedy = _REMEDIES.get(error_code, "the broker's log may say more")
        super().__init__(f"{what}: {failures.error_name(error_code)}; {remedy}")
        self.error_code = error_code


def of_find(code: int) -> Verdict:
    """FindCoordinator. What may pass is asked again."""
    if code == 0:
        return Verdict.FINE
    return Verdict.LATER if code in coordinators.RETRIABLE else Verdict.FATAL


def of_join(code: int) -> Verdict:
    return _JOIN.get(code, Verdict.FATAL)


def of_sync(code: int) -> Verdict:
    return _SYNC.get(code, Verdict.FATAL)


def of_heartbeat(code: int) -> Verdict:
    """What nobody expects is asked again: as long as the coordinator counts us in, we are."""
    if code in _FATAL_HEARTBEATS:
        return Verdict.FATAL
    return _SYNC.get(code, Verdict.LATER)
