"""The beginning of a task's copies.

To open a channel and to begin a process need nothing of what will be copied: a task lets its first
copy begin at once, and the copy waits for its settings while clusters are asked, which takes about
as long.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base import errors
from mm2.core.copy import reach
from mm2.pipeline import control_channel, data_plane, started_copy

AHEAD_S = 20.0
"""So long a copy may wait for its settings; less than after which it leaves by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where copies of a task begin, under which name; what they say arrives in `inbox`."""

    flow: str
    task: int
    plane: data_plane.DataPlane
    inbox: control_channel.Inbox

    def start(self) -> started_copy.StartedCopy:
        """One that waits already, if there is one. Raises `FatalError` where no copy can come any
        more."""
        plane = self.plane
        return plane.spares.take(f"{self.flow} task {self.task}", self.inbox) or started_copy.start(
            plane.engine, plane.server, self.inbox, flow=self.flow, task=self.task
        )


class AheadOfTime:
    """The one copy that begins before it is known what it copies. `take` it, or `end` it."""

    def __init__(self, place: Place, wanted: Callable[[], reach.Reach]) -> None:
        """`wanted`: what it may connect to meanwhile."""
        self._place = place
        self._wanted = wanted
        self._started: started_copy.StartedCopy | None = None
        self._until_s: float | None = None

    def tend(self, now_s: float) -> None:
        """It is wanted, or still is: for a while."""
        if self._until_s is None:
            self._until_s = now_s + AHEAD_S
            started = self._started = self._place.start()
            with contextlib.suppress(errors.RetriableError):  # it has ended: another follows
                started.channel.send(reach.message(self._wanted()))
        elif now_s >= self._until_s:
            self.end("nothing can be copied so far")

    def take(self) -> started_copy.StartedCopy | None:
        """None where there is none that would do what it is told."""
        started, self._started = self._started, None
        if started is None or started.usable:
            return started
        started.end("it has ended")
        return None

    def end(self, why: str) -> None:
        """From any thread, as often as may be."""
        started, self._started = self._started, None
        if started is not None:
            started.end(why)
