"""`WorkerGroup`: the interface through which the herder uses the worker group.

The group requests preparation (`JoinRequested`), joins, and reports the assignment
(`AssignmentReceived`), or that it has no coordinator (`CoordinatorLost`), after which all
connectors and tasks must stop. The herder's thread both pops the events and calls the methods, in
order, so that both always refer to the same rebalance.
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
"""Called when there are events to pop. Runs on a thread of the group: must only post an event."""


class WorkerGroup(Protocol):
    """Membership in the worker group. All methods but `start` and `close` return at once.

    They are called by the herder's thread. Before `start` and after `close` they do nothing, and
    there are no events.
    """

    @property
    def member_id(self) -> str:
        """This worker's id in the group; "" before a rebalance has completed."""

    def start(self, on_event: OnGroupEvent, read_configured_work: GetConfiguredWork) -> None:
        """Find the group and join it; the first event is `JoinRequested`. Call once.

        `read_configured_work` is called when this worker joins and again when it leads, on any
        thread, and must return at once. Raises `FatalError` for invalid settings.
        """

    def pop_events(self) -> list[GroupEvent]:
        """Return the events since the last call, in order; an outdated event is replaced by its
        successor.

        `JoinRequested` may be repeated before a rebalance completes: the last one applies. Nothing
        follows `GroupSessionFailed` (missing rights, a group of another type, a dead thread): close
        the group then.
        """

    def record_tick(self) -> None:
        """Report that the herder's loop is alive.

        Call it more often than `rebalance.timeout.ms`; otherwise the worker leaves the group, and
        rejoins at the next call of `rejoin`.
        """

    def confirm_prepared(self) -> None:
        """Confirm a `JoinRequested`: revoked work has stopped, and the worker may join.

        Sends the current assignment and config offset. Ignored if it is a repetition, or if newer
        events have not been popped yet.
        """

    def rejoin(self, reason: str) -> None:
        """Request a rebalance, or rejoin after `leave`.

        May be called at any time and repeatedly; it stays in effect until newer metadata was sent.
        """

    def leave(self, reason: str) -> None:
        """Leave the group until `rejoin`; running work continues and is reported when the worker
        rejoins.

        An assignment that was not popped yet is dropped.
        """

    def revoke_all(self) -> None:
        """Record that all work has stopped, so that the worker joins without an assignment."""

    def close(self, timeout_s: float) -> None:
        """Leave the group for good within `timeout_s`, and end all threads in any case.

        Further calls do nothing. May be called from any thread but the group's own.
        """

    # Implements `GroupMembership`

    @property
    def session_timeout_s(self) -> float: ...

    def last_heartbeat_s(self) -> float: ...

    def request_heartbeat(self) -> None: ...
