"""Started copies, and standby copies: copy processes that run before they get an assignment.

If another node is lost, its tasks move to this one. Starting processes takes most of that time;
a standby copy has started already. It has no configuration and no connection but that to its
driver.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from dataclasses import dataclass

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.base.timing import Clock
from mm2.copier.control_server import ChannelInbox, ControlServer, TaskChannel
from mm2.copier.engine import CopyEngine, CopyHandle, CopyJob, CopyState


@dataclass(frozen=True, slots=True)
class StartedCopy:
    """Whoever made it ends it, or gives it to somebody who does."""

    channel: TaskChannel
    handle: CopyHandle

    @property
    def usable(self) -> bool:
        """Will it, as far as is known, do what it is told?"""
        alive = self.handle.state is not CopyState.ENDED
        return alive and self.channel.closed_reason is None

    def end(self, why: str) -> None:
        """From any thread, at once."""
        self.handle.cancel()
        self.channel.close(why)


def start_copy(
    running: CopyEngine,
    server: ControlServer,
    inbox: ChannelInbox,
    *,
    flow: str,
    task: int,
) -> StartedCopy:
    """Under this name; what it says arrives in `inbox`. Raises `FatalError` where no copy can come
    any more."""
    channel = server.open(f"{flow} task {task}", inbox=inbox)
    handle = running.start(
        CopyJob(flow=flow, index=task, address=str(server.address), token=channel.token)
    )
    return StartedCopy(channel, handle)


MAX_STANDBY_COPIES = 4
"""Each is a process more."""
STANDBY_START_DELAY_S = 5.0
"""So long after something has changed none is begun: whatever moves has the machine to itself."""
STANDBY_START_INTERVAL_S = 1.0
STANDBY_RETRY_DELAY_S = 60.0
STANDBY_HEARTBEAT_INTERVAL_S = 5.0
"""More often than a copy without settings gives its worker up."""
STANDBY_FLOW_NAME = "spare copy"


class StandbyCopies:
    """Of one engine; safe from any thread. `most` 0: there are none."""

    def __init__(
        self,
        running: CopyEngine,
        server: ControlServer,
        *,
        clock: Clock,
        most: int,
    ) -> None:
        self._engine = running
        self._server = server
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._inbox = ChannelInbox()
        self._numbers = itertools.count(1)
        self._wanted: dict[str, int] = {}
        self._waiting: list[StartedCopy] = []
        self._start_at_s = 0.0
        self._beat_at_s = 0.0

    def want(self, flow: str, count: int) -> None:
        """So many tasks of the flow run elsewhere. To be said again and again: who waits is kept
        alive by that."""
        now_s = self._clock.now_s()
        with self._lock:
            if self._wanted.get(flow, 0) != count:
                self._wanted[flow] = count
                self._start_at_s = now_s + STANDBY_START_DELAY_S
            self._tend(now_s)

    def take(self, name: str, inbox: ChannelInbox) -> StartedCopy | None:
        """One that has begun, from now on under this name: what it says arrives in `inbox`. None
        where there is none."""
        with self._lock:
            self._start_at_s = self._clock.now_s() + STANDBY_START_DELAY_S
            while self._waiting:
                found = self._waiting.pop(0)
                if found.usable and found.channel.connected:
                    found.channel.hand_over(name, inbox)
                    return found
                found.end("it did not come up")
        return None

    def _tend(self, now_s: float) -> None:
        while self._inbox.take(0.0) is not None:
            pass  # a spare has nothing to say but that it has ended, which is seen below
        if any(not each.usable for each in self._waiting):
            self._waiting = [each for each in self._waiting if each.usable]
            self._start_at_s = now_s + STANDBY_RETRY_DELAY_S
        wanted = min(self._most, sum(self._wanted.values()))
        while len(self._waiting) > wanted:
            self._waiting.pop().end("nothing is copied elsewhere")
        if len(self._waiting) < wanted and now_s >= self._start_at_s and self._engine.warm:
            self._start_at_s = now_s + STANDBY_START_INTERVAL_S
            with contextlib.suppress(FatalError):  # whoever copies says what is wrong
                self._waiting.append(self._start())
        if now_s >= self._beat_at_s:
            self._beat_at_s = now_s + STANDBY_HEARTBEAT_INTERVAL_S
            for each in self._waiting:
                with contextlib.suppress(ConnectError):
                    each.channel.send({"type": "beat"})

    def _start(self) -> StartedCopy:
        return start_copy(
            self._engine,
            self._server,
            self._inbox,
            flow=STANDBY_FLOW_NAME,
            task=next(self._numbers),
        )
