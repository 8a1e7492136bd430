"""`WorkerGroup`: the group of workers, as the herder uses it.

The group asks the worker to prepare (`JoinRequested`), joins, and reports the assignment
(`AssignmentReceived`), or that it has no coordinator (`CoordinatorLost`), after which all
connectors and tasks must stop. The herder calls the methods on the thread that takes the events,
in order, so that both always refer to the same rebalance.
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
"""There is something to `take`. Runs on a thread of the group: post an event, no more."""


class WorkerGroup(Protocol):
    """All but `start` and `close` return at once, and are called by the herder's thread.

    Before `start` and after `close` they do nothing, and there is no news.
    """

    @property
    def member_id(self) -> str:
        """As the group knows this worker; "" while no round stands."""

    def start(self, on_news: OnGroupEvent, configured: GetConfiguredWork) -> None:
        """Look for the group and join it; the first news will be `JoinAsked`.

        `configured` is asked when this worker joins, and again when it leads, at once and on any
        thread. Raises `FatalError` for settings that cannot work. To be called once.
        """

    def take(self) -> list[GroupEvent]:
        """What there is to know since the last time, in order; few, as old ones are replaced.

        `JoinAsked` may come again before a round is complete: the last one counts. After
        `GroupFailed` (missing rights, a group of another kind, a thread that died) nothing follows:
        close it."""

    def ticked(self) -> None:
        """The herder came round and is not stuck. To be told more often than
        `rebalance.timeout.ms`, or the worker leaves the group, and joins it when asked again."""

    def prepared(self) -> None:
        """The answer to `JoinAsked`: what had to stop has stopped. Says what this worker runs and
        knows by now. A second answer, or one that is overtaken by untaken news, does nothing."""

    def rejoin(self, reason: str) -> None:
        """Ask for another round, or to be a member again. May be asked any time, again and again:
        it holds until metadata newer than this was sent."""

    def leave(self, reason: str) -> None:
        """Leave the group and stay out of it until `rejoin`; what runs here goes on, and is told
        to the group when it is joined again. A round that was not taken yet is forgotten."""

    def give_up_work(self) -> None:
        """Everything has stopped: this worker has no work any more, and says so when it joins."""

    def close(self, timeout_s: float) -> None:
        """Leave the group for good, within `timeout_s`; whatever came of that, nothing is left
        running. Again: nothing happens. From any thread but the group's own."""

    # As `ports.worker.Membership`

    @property
    def session_timeout_s(self) -> float: ...

    def confirmed_at_s(self) -> float: ...

    def confirm_soon(self) -> None: ...
