"""The group coordinator: finding it, and what the error codes in its responses mean for a member.

Java: AbstractCoordinator.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import FatalError
from connect_runtime.group.member_state import GroupRebalanceConfig
from connect_runtime.protocol import cluster_metadata, request_builders, request_errors
from connect_runtime.protocol.request_builders import RequestBuilder

GROUP_AUTHORIZATION_FAILED = 30
INCONSISTENT_PROTOCOL = 23


class CoordinatorErrorAction(enum.Enum):
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


_COORDINATOR_ERRORS = {
    0: CoordinatorErrorAction.FINE,
    14: CoordinatorErrorAction.LATER,
    15: CoordinatorErrorAction.MOVED,
    16: CoordinatorErrorAction.MOVED,
}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR"""
_JOIN_ERRORS = {
    **_COORDINATOR_ERRORS,
    25: CoordinatorErrorAction.MEMBER_GONE,
    27: CoordinatorErrorAction.AGAIN,
    79: CoordinatorErrorAction.ID_GIVEN,
}
"""UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED"""
_SYNC_ERRORS = {
    **_COORDINATOR_ERRORS,
    22: CoordinatorErrorAction.GENERATION_GONE,
    25: CoordinatorErrorAction.MEMBER_GONE,
    27: CoordinatorErrorAction.AGAIN,
}
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS"""
_FATAL_HEARTBEAT_ERRORS = frozenset({GROUP_AUTHORIZATION_FAILED, 82})
"""And FENCED_INSTANCE_ID."""

_REMEDY_BY_CODE: Mapping[int, str] = {
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


class GroupMembershipError(FatalError):
    """A group cannot be joined; `error_code` is Kafka's."""

    def __init__(self, what: str, *, error_code: int) -> None:
        remedy = _REMEDY_BY_CODE.get(error_code, "the broker's log may say more")
        super().__init__(f"{what}: {request_errors.format_error_code(error_code)}; {remedy}")
        self.error_code = error_code


def classify_lookup_error(code: int) -> CoordinatorErrorAction:
    """FindCoordinator. What may pass is asked again."""
    if code == 0:
        return CoordinatorErrorAction.FINE
    return (
        CoordinatorErrorAction.LATER
        if code in cluster_metadata.RETRIABLE_LOOKUP_ERRORS
        else CoordinatorErrorAction.FATAL
    )


def classify_join_error(code: int) -> CoordinatorErrorAction:
    return _JOIN_ERRORS.get(code, CoordinatorErrorAction.FATAL)


def classify_sync_error(code: int) -> CoordinatorErrorAction:
    return _SYNC_ERRORS.get(code, CoordinatorErrorAction.FATAL)


def classify_heartbeat_error(code: int) -> CoordinatorErrorAction:
    """What nobody expects is asked again: as long as the coordinator counts us in, we are."""
    if code in _FATAL_HEARTBEAT_ERRORS:
        return CoordinatorErrorAction.FATAL
    return _SYNC_ERRORS.get(code, CoordinatorErrorAction.LATER)


@dataclass(slots=True, kw_only=True)
class CoordinatorLookup:
    """`node`: the coordinator's broker id, None while it is unknown. `asked`: the token of the
    question in flight.

    A coordinator that is named again and again without ever answering is not found: `silent_s`,
    when the last one was lost, stands until one answers.
    """

    settings: GroupRebalanceConfig
    rng: random.Random
    node: int | None = None
    silent_s: float | None = None
    asked: int | None = None
    retry: Backoff = field(init=False)
    _not_before_s: float = -math.inf
    _one_by_one: bool = False

    def __post_init__(self) -> None:
        self.retry = Backoff(
            initial_s=self.settings.retry_backoff_s, max_s=self.settings.retry_backoff_max_s
        )

    def message(self) -> RequestBuilder:
        group_id = self.settings.group_id
        if self._one_by_one:
            return request_builders.find_coordinator(request_builders.GROUP_COORDINATOR, group_id)
        return request_builders.find_coordinators(request_builders.GROUP_COORDINATOR, [group_id])

    @property
    def silence_end_s(self) -> float:
        """When somebody who runs work may wait no longer; inf while the coordinator is there."""
        if self.silent_s is None:
            return math.inf
        return self.silent_s + self.settings.heartbeat_interval_s

    def due_s(self) -> float:
        """When to ask, inf when there is nothing to ask."""
        known = self.node is not None or self.asked is not None
        return math.inf if known else self._not_before_s

    def old_broker(self) -> None:
        """It knows only the question for one group (before 3.0, KIP-699)."""
        self.asked = None
        self._one_by_one = True

    @property
    def asks_old_way(self) -> bool:
        return self._one_by_one

    def found(self, node: int) -> None:
        self.asked = None
        self.node = node

    def failed(self, now_s: float) -> None:
        self.asked = None
        self._not_before_s = now_s + self.retry.next_delay_s(self.rng)

    def heard(self) -> None:
        """The coordinator answered, and as such."""
        self.silent_s = None
        self.retry.reset()

    def lost(self, now_s: float) -> None:
        """It said that it is not the one, or nothing. At first ask at once for another."""
        self.node = None
        if self.silent_s is None:
            self.silent_s = now_s
            self._not_before_s = now_s
        else:
            self._not_before_s = now_s + self.retry.next_delay_s(self.rng)

    def check_invariants(self) -> None:
        assert self.node is None or self.asked is None, self
