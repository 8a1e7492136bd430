"""Looks up the group coordinator and handles the error codes in its responses.

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

UNKNOWN_SERVER_ERROR = -1
GROUP_AUTHORIZATION_FAILED = 30
INCONSISTENT_PROTOCOL = 23


class CoordinatorErrorAction(enum.Enum):
    """Action that a member takes when the coordinator's response contains an error code."""

    NONE = enum.auto()
    """No error."""
    REJOIN = enum.auto()
    """Rejoin immediately."""
    RETRY_LATER = enum.auto()
    """Repeat the request after a backoff."""
    FIND_COORDINATOR = enum.auto()
    """Find the coordinator, then repeat the request."""
    JOIN_AS_NEW_MEMBER = enum.auto()
    """Join as a new member."""
    REJOIN_SAME_ID = enum.auto()
    """Rejoin with the same member id."""
    REJOIN_WITH_NEW_ID = enum.auto()
    """Rejoin with the member id in the response (KIP-394)."""
    FATAL = enum.auto()
    """Do not retry: an operator must first change the configuration or the cluster."""


_COORDINATOR_ERRORS = {
    0: CoordinatorErrorAction.NONE,
    14: CoordinatorErrorAction.RETRY_LATER,
    15: CoordinatorErrorAction.FIND_COORDINATOR,
    16: CoordinatorErrorAction.FIND_COORDINATOR,
}
"""Handling of COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR."""
_JOIN_ERRORS = {
    **_COORDINATOR_ERRORS,
    25: CoordinatorErrorAction.JOIN_AS_NEW_MEMBER,
    27: CoordinatorErrorAction.REJOIN,
    79: CoordinatorErrorAction.REJOIN_WITH_NEW_ID,
}
"""Actions for JoinGroup errors, including UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS and
MEMBER_ID_REQUIRED."""
_SYNC_ERRORS = {
    **_COORDINATOR_ERRORS,
    UNKNOWN_SERVER_ERROR: CoordinatorErrorAction.RETRY_LATER,
    22: CoordinatorErrorAction.REJOIN_SAME_ID,
    25: CoordinatorErrorAction.JOIN_AS_NEW_MEMBER,
    27: CoordinatorErrorAction.REJOIN,
}
"""Actions for SyncGroup errors, including ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and
REBALANCE_IN_PROGRESS. Brokers return UNKNOWN_SERVER_ERROR if the metadata and assignments of all
members exceed `message.max.bytes`: a member may have joined with large metadata."""
_FATAL_HEARTBEAT_ERRORS = frozenset({GROUP_AUTHORIZATION_FAILED, 82})
"""Fatal Heartbeat errors: GROUP_AUTHORIZATION_FAILED and FENCED_INSTANCE_ID."""

_REMEDY_BY_CODE: Mapping[int, str] = {
    UNKNOWN_SERVER_ERROR: (
        "check the broker's log, and whether the group's assignments exceed its message.max.bytes"
    ),
    INCONSISTENT_PROTOCOL: (
        "the group.id is also used by other clients, or by workers with an incompatible "
        "connect.protocol: choose another group.id, or check connect.protocol"
    ),
    24: "group.id must not be empty",
    26: "session.timeout.ms must be between the broker's group.min.session.timeout.ms and "
    "group.max.session.timeout.ms",
    GROUP_AUTHORIZATION_FAILED: "the principal needs READ permission on the group",
    35: "the broker does not support the request version that Connect workers need",
    81: "the group has reached the broker's group.max.size",
    82: "another member uses the same group.instance.id, which Connect workers do not set",
}


def format_error_and_remedy(error_code: int) -> str:
    """Format one of Kafka's error codes for a message, with what to do next."""
    remedy = _REMEDY_BY_CODE.get(error_code, "check the broker's log")
    return f"{request_errors.format_error_code(error_code)}; {remedy}"


class GroupMembershipError(FatalError):
    """Raised if the group cannot be joined. `error_code` is Kafka's error code."""

    def __init__(self, what: str, *, error_code: int) -> None:
        super().__init__(f"{what}: {format_error_and_remedy(error_code)}")
        self.error_code = error_code


def classify_lookup_error(code: int) -> CoordinatorErrorAction:
    """Return the action for a FindCoordinator error code."""
    if code == 0:
        return CoordinatorErrorAction.NONE
    return (
        CoordinatorErrorAction.RETRY_LATER
        if code in cluster_metadata.RETRIABLE_LOOKUP_ERRORS
        else CoordinatorErrorAction.FATAL
    )


def classify_join_error(code: int) -> CoordinatorErrorAction:
    """Return the action for a JoinGroup error code."""
    return _JOIN_ERRORS.get(code, CoordinatorErrorAction.FATAL)


def classify_sync_error(code: int) -> CoordinatorErrorAction:
    """Return the action for a SyncGroup error code."""
    return _SYNC_ERRORS.get(code, CoordinatorErrorAction.FATAL)


def classify_heartbeat_error(code: int) -> CoordinatorErrorAction:
    """Return the action for a Heartbeat error code.

    Unexpected errors are retried, because the membership remains valid until the session times out.
    """
    if code in _FATAL_HEARTBEAT_ERRORS:
        return CoordinatorErrorAction.FATAL
    return _SYNC_ERRORS.get(code, CoordinatorErrorAction.RETRY_LATER)


@dataclass(slots=True, kw_only=True)
class CoordinatorLookup:
    """Finds the group's coordinator.

    A lost coordinator counts as lost until a coordinator responds, even if lookups return a broker.
    """

    settings: GroupRebalanceConfig
    rng: random.Random
    node: int | None = None
    """Broker id of the group coordinator; None while it is unknown."""
    lost_since_s: float | None = None
    """Time when the coordinator was lost; None once a coordinator has responded again."""
    pending_token: int | None = None
    """Token of the lookup in flight; None if no lookup is in flight."""
    retry: Backoff = field(init=False)
    _not_before_s: float = -math.inf
    _one_by_one: bool = False

    def __post_init__(self) -> None:
        self.retry = Backoff(
            initial_s=self.settings.retry_backoff_s, max_s=self.settings.retry_backoff_max_s
        )

    def build_request(self) -> RequestBuilder:
        """Build the FindCoordinator request."""
        group_id = self.settings.group_id
        if self._one_by_one:
            return request_builders.build_find_coordinator_request(
                request_builders.GROUP_COORDINATOR, group_id
            )
        return request_builders.build_find_coordinators_request(
            request_builders.GROUP_COORDINATOR, [group_id]
        )

    @property
    def work_stop_deadline_s(self) -> float:
        """Time at which a member must stop its work unless a coordinator responds before; inf if no
        coordinator was lost."""
        if self.lost_since_s is None:
            return math.inf
        return self.lost_since_s + self.settings.heartbeat_interval_s

    def compute_next_lookup_time_s(self) -> float:
        """Return the time of the next coordinator lookup; inf if no lookup is needed."""
        known = self.node is not None or self.pending_token is not None
        return math.inf if known else self._not_before_s

    def switch_to_single_group_lookups(self) -> None:
        """Look up only one group per FindCoordinator request, because brokers before 3.0 do not
        support more (KIP-699)."""
        self.pending_token = None
        self._one_by_one = True

    @property
    def looks_up_single_groups(self) -> bool:
        """True if each FindCoordinator request looks up only one group."""
        return self._one_by_one

    def on_coordinator_found(self, node: int) -> None:
        """Record the broker id of the coordinator that a lookup found."""
        self.pending_token = None
        self.node = node

    def on_lookup_failed(self, now_s: float) -> None:
        """Schedule another coordinator lookup after a backoff."""
        self.pending_token = None
        self._not_before_s = now_s + self.retry.next_delay_s(self.rng)

    def on_coordinator_response(self) -> None:
        """Record a valid response from the coordinator."""
        self.lost_since_s = None
        self.retry.reset()

    def on_coordinator_lost(self, now_s: float) -> None:
        """Record that the broker is not the coordinator or does not respond.

        The first lookup after the loss has no backoff.
        """
        self.node = None
        if self.lost_since_s is None:
            self.lost_since_s = now_s
            self._not_before_s = now_s
        else:
            self._not_before_s = now_s + self.retry.next_delay_s(self.rng)

    def check_invariants(self) -> None:
        assert self.node is None or self.pending_token is None, self
