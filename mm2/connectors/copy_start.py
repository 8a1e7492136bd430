"""The beginning of a copy: its channel is opened, and its engine asked to run it.

Both need nothing of what it will copy: a task lets its first copy begin at once, and the copy waits
for its settings while clusters are asked. To begin a process takes about as long as that.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.pipeline import control_channel, control_server, engine

AHEAD_S = 20.0
"""So long a copy may wait for its settings; less than after which it leaves by itself."""


@dataclass(frozen=True, slots=True)
class StartedCopy:
    """Whoever made it ends it, or gives it to a supervisor, who does."""

    channel: control_channel.TaskChannel
    handle: engine.CopyHandle

    @property
    def usable(self) -> bool:
        """Will it, as far as is known, do what it is told?"""
        alive = self.handle.state is not engine.CopyState.ENDED
        return alive and self.channel.closed_reason is None

    def end(self, why: str) -> None:
        """From any thread, at once."""
        self.handle.cancel()
        self.channel.close(why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where copies of a task begin, under which name; what they say arrives in `inbox`."""

    flow: str
    task: int
    engine: engine.CopyEngine
    server: control_server.ControlServer
    inbox: control_channel.Inbox

    def start(self) -> StartedCopy:
        """Raises `FatalError` where no copy can come any more."""
        channel = self.server.open(f"{self.flow} task {self.task}", inbox=self.inbox)
        handle = self.engine.start(
            engine.CopyJob(
                flow=self.flow,
                index=self.task,
                address=str(self.server.address),
                token=channel.token,
            )
        )
        return StartedCopy(channel, handle)


class AheadOfTime:
    """The one copy that begins before it is known what it copies. `take` it, or `end` it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._started: StartedCopy | None = None
        self._until_s: float | None = None

    def tend(self, now_s: float) -> None:
        """It is wanted, or still is: for a while."""
        if self._until_s is None:
            self._until_s = now_s + AHEAD_S
            self._started = self._place.start()
        elif now_s >= self._until_s:
            self.end("nothing can be copied so far")

    def take(self) -> StartedCopy | None:
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
