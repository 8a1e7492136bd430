"""`WorkerGroup`: the interface through which the herder uses the worker group.

The group requests preparation (`JoinRequested`), joins, and reports the assignment
(`AssignmentReceived`). If the group has no coordinator, it reports `CoordinatorLost`, and all
connectors and tasks must stop. The herder's thread both pops the events and calls the methods.
Therefore, a call always refers to the same rebalance as the events that were popped before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from connect_runtime.herder.group_session import (
    GroupSessionEvent,
    GroupSessionFailed,
    ReadConfiguredWork,
)

GroupEvent: TypeAlias = GroupSessionEvent
GroupFailed: TypeAlias = GroupSessionFailed
GetConfiguredWork: TypeAlias = ReadConfiguredWork

OnGroupEvent = Callable[[], None]
"""Called when new events can be popped. Runs on a group thread. The callback must only post an
event to the herder."""


class WorkerGroup(Protocol):
    """Membership in the worker group. All methods except `start` and `close` return immediately.

    The methods are called by the herder's thread. Before `start` and after `close` they do nothing,
    and there are no events.
    """

    @property
    def member_id(self) -> str:
        """Member id of this worker in the group; "" before a rebalance has completed."""

    def start(self, on_event: OnGroupEvent, read_configured_work: GetConfiguredWork) -> None:
        """Find the group and join it. The first event is `JoinRequested`. Call once.

        `read_configured_work` is called when this worker joins and when it becomes the leader. It
        is called on any thread and must return immediately. Raises `FatalError` for invalid
        settings.
        """

    def pop_events(self) -> list[GroupEvent]:
        """Return the events that have arrived since the last call, in order. An event that a newer
        event makes obsolete is dropped.

        `JoinRequested` may be repeated before a rebalance completes; only the latest is valid.
        After `GroupSessionFailed` (missing permissions, a group of another type, a dead thread) no
        event follows, and the caller must close the group.
        """

    def report_herder_loop_alive(self) -> None:
        """Report that the herder's loop is alive.

        Call more often than every `rebalance.timeout.ms`. Otherwise the worker leaves the group,
        and rejoins at the next call of `rejoin_group`.
        """

    def confirm_join_prepared(self) -> None:
        """Confirm a `JoinRequested`: revoked work has stopped, so the worker may join.

        Sends the current assignment and config offset. A confirmation is ignored if it is repeated,
        or if newer events have not been popped yet.
        """

    def rejoin_group(self, reason: str) -> None:
        """Request a rebalance, or rejoin after `leave_group`.

        May be called at any time and repeatedly. The request remains in effect until newer metadata
        is sent.
        """

    def leave_group(self, reason: str) -> None:
        """Leave the group until `rejoin_group` is called. Connectors and tasks keep running and are
        reported when the worker rejoins.

        An assignment that has not been popped yet is dropped.
        """

    def revoke_all_work(self) -> None:
        """Give up the current assignment, because all connectors and tasks have stopped. The worker
        then joins without an assignment."""

    def close(self, timeout_s: float) -> None:
        """Leave the group permanently, waiting at most `timeout_s`, and end all group threads even
        if leaving fails.

        Repeated calls do nothing. May be called from any thread except the group's own.
        """

    # Implements `GroupMembership`

    @property
    def session_timeout_s(self) -> float: ...

    def get_last_heartbeat_s(self) -> float: ...

    def request_heartbeat(self) -> None: ...
