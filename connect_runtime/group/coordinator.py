"""The group coordinator: finding it, and the reactions to error codes of its responses.

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
    """How a member reacts to the error code of a coordinator's response."""

    NONE = enum.auto()
    """No error."""
    REJOIN = enum.auto()
    """Rejoin immediately."""
    RETRY_LATER = enum.auto()
    """Repeat the request after a backoff."""
    FIND_COORDINATOR = enum.auto()
    """Find the coordinator, then repeat."""
    JOIN_AS_NEW_MEMBER = enum.auto()
    """Join as a new member."""
    REJOIN_SAME_ID = enum.auto()
    """Rejoin with the same member id."""
    REJOIN_WITH_NEW_ID = enum.auto()
    """Rejoin with the member id in the response (KIP-394)."""
    FATAL = enum.auto()
    """Stop: the configuration or the cluster must be changed."""


_COORDINATOR_ERRORS = {
    0: CoordinatorErrorAction.NONE,
    14: CoordinatorErrorAction.RETRY_LATER,
    15: CoordinatorErrorAction.FIND_COORDINATOR,
    16: CoordinatorErrorAction.FIND_COORDINATOR,
}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR"""
_JOIN_ERRORS = {
    **_COORDINATOR_ERRORS,
    25: CoordinatorErrorAction.JOIN_AS_NEW_MEMBER,
    27: CoordinatorErrorAction.REJOIN,
    79: CoordinatorErrorAction.REJOIN_WITH_NEW_ID,
}
"""UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED"""
_SYNC_ERRORS = {
    **_COORDINATOR_ERRORS,
    22: CoordinatorErrorAction.REJOIN_SAME_ID,
    25: CoordinatorErrorAction.JOIN_AS_NEW_MEMBER,
    27: CoordinatorErrorAction.REJOIN,
}
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS"""
_FATAL_HEARTBEAT_ERRORS = frozenset({GROUP_AUTHORIZATION_FAILED, 82})
"""GROUP_AUTHORIZATION_FAILED and FENCED_INSTANCE_ID."""

_REMEDY_BY_CODE: Mapping[int, str] = {
    INCONSISTENT_PROTOCOL: "other clients use this group.id, or workers without a protocol in "
    "common with this one: choose another group.id, or check connect.protocol",
    24: "group.id must not be empty",
    26: "session.timeout.ms must be between the broker's group.min.session.timeout.ms and "
    "group.max.session.timeout.ms",
    GROUP_AUTHORIZATION_FAILED: "the principal needs READ permission on the group",
    35: "the broker does not support a version of this request that Connect workers need",
    81: "the group has as many members as the broker's group.max.size allows",
    82: "another member uses the same group.instance.id, which Connect workers do not set",
}


class GroupMembershipError(FatalError):
    """The group cannot be joined; `error_code` is Kafka's."""

    def __init__(self, what: str, *, error_code: int) -> None:
        remedy = _REMEDY_BY_CODE.get(error_code, "check the broker's log")
        super().__init__(f"{what}: {request_errors.format_error_code(error_code)}; {remedy}")
        self.error_code = error_code


def classify_lookup_error(code: int) -> CoordinatorErrorAction:
    """Return the reaction to an error of FindCoordinator."""
    if code == 0:
        return CoordinatorErrorAction.NONE
    return (
        CoordinatorErrorAction.RETRY_LATER
        if code in cluster_metadata.RETRIABLE_LOOKUP_ERRORS
        else CoordinatorErrorAction.FATAL
    )


def classify_join_error(code: int) -> CoordinatorErrorAction:
    """Return the reaction to an error of JoinGroup."""
    return _JOIN_ERRORS.get(code, CoordinatorErrorAction.FATAL)


def classify_sync_error(code: int) -> CoordinatorErrorAction:
    """Return the reaction to an error of SyncGroup."""
    return _SYNC_ERRORS.get(code, CoordinatorErrorAction.FATAL)


def classify_heartbeat_error(code: int) -> CoordinatorErrorAction:
    """Return the reaction to an error of Heartbeat. Unexpected errors are retried, because the
    membership lasts until the session times out."""
    if code in _FATAL_HEARTBEAT_ERRORS:
        return CoordinatorErrorAction.FATAL
    return _SYNC_ERRORS.get(code, CoordinatorErrorAction.RETRY_LATER)


@dataclass(slots=True, kw_only=True)
class CoordinatorLookup:
    """Finds the group's coordinator.

    A coordinator that is returned repeatedly without ever responding counts as lost.
    """

    settings: GroupRebalanceConfig
    rng: random.Random
    node: int | None = None
    """Broker id of the coordinator; None while it is unknown."""
    lost_since_s: float | None = None
    """When the last coordinator was lost; None once one has responded."""
    pending_token: int | None = None
    """Token of the lookup in flight."""
    retry: Backoff = field(init=False)
    _not_before_s: float = -math.inf
    _one_by_one: bool = False

    def __post_init__(self) -> None:
        self.retry = Backoff(
            initial_s=self.settings.retry_backoff_s, max_s=self.settings.retry_backoff_max_s
        )

    def build_request(self) -> RequestBuilder:
        """Return the lookup request."""
        group_id = self.settings.group_id
        if self._one_by_one:
            return request_builders.find_coordinator(request_builders.GROUP_COORDINATOR, group_id)
        return request_builders.find_coordinators(request_builders.GROUP_COORDINATOR, [group_id])

    @property
    def work_deadline_s(self) -> float:
        """When a member must stop its work for lack of a coordinator; inf while there is one."""
        if self.lost_since_s is None:
            return math.inf
        return self.lost_since_s + self.settings.heartbeat_interval_s

    def due_s(self) -> float:
        """When to send a lookup; inf if none is needed."""
        known = self.node is not None or self.pending_token is not None
        return math.inf if known else self._not_before_s

    def use_single_lookup(self) -> None:
        """Switch to lookups of a single group, for brokers before 3.0 (KIP-699)."""
        self.pending_token = None
        self._one_by_one = True

    @property
    def uses_single_lookup(self) -> bool:
        """Whether lookups are for a single group."""
        return self._one_by_one

    def on_found(self, node: int) -> None:
        """Store the result of a lookup."""
        self.pending_token = None
        self.node = node

    def on_failed(self, now_s: float) -> None:
        """Schedule another lookup after a backoff."""
        self.pending_token = None
        self._not_before_s = now_s + self.retry.next_delay_s(self.rng)

    def on_response(self) -> None:
        """Record a valid response of the coordinator."""
        self.lost_since_s = None
        self.retry.reset()

    def on_lost(self, now_s: float) -> None:
        """Record that the node is not the coordinator or does not respond. The first retry has no
        backoff."""
        self.node = None
        if self.lost_since_s is None:
            self.lost_since_s = now_s
            self._not_before_s = now_s
        else:
            self._not_before_s = now_s + self.retry.next_delay_s(self.rng)

    def check_invariants(self) -> None:
        assert self.node is None or self.pending_token is None, self
