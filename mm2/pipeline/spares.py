"""Copies that wait for something to copy, on a node whose flows are copied elsewhere, too.

When another node is lost its tasks come here, and wait for nothing so long as for processes to
begin: here they have begun. A spare has no settings yet, no connection but that to its worker.
"""

from __future__ import annotations

import contextlib
import itertools
import threading

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from mm2.pipeline import control_channel, control_server, engine, started_copy

MOST = 4
"""Each is a process more."""
CALM_S = 5.0
"""So long after something has changed none is begun: whatever moves has the machine to itself."""
APART_S = 1.0
FAILED_S = 60.0
BEAT_S = 5.0
"""More often than a copy without settings gives its worker up."""
NAME = "spare copy"


class Spares:
    """Of one engine; safe from any thread. `most` 0: there are none."""

    def __init__(
        self,
        running: engine.CopyEngine,
        server: control_server.ControlServer,
        *,
        clock: base_clock.Clock,
        most: int,
    ) -> None:
        self._engine = running
        self._server = server
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._inbox = control_channel.Inbox()
        self._numbers = itertools.count(1)
        self._wanted: dict[str, int] = {}
        self._waiting: list[started_copy.StartedCopy] = []
        self._start_at_s = 0.0
        self._beat_at_s = 0.0

    def want(self, flow: str, count: int) -> None:
        """So many tasks of the flow run elsewhere. To be said again and again: who waits is kept
        alive by that."""
        now_s = self._clock.now_s()
        with self._lock:
            if self._wanted.get(flow, 0) != count:
                self._wanted[flow] = count
                self._start_at_s = now_s + CALM_S
            self._tend(now_s)

    def take(self, name: str, inbox: control_channel.Inbox) -> started_copy.StartedCopy | None:
        """One that has begun, from now on under this name: what it says arrives in `inbox`. None
        where there is none."""
        with self._lock:
            self._start_at_s = self._clock.now_s() + CALM_S
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
            self._start_at_s = now_s + FAILED_S
        wanted = min(self._most, sum(self._wanted.values()))
        while len(self._waiting) > wanted:
            self._waiting.pop().end("nothing is copied elsewhere")
        if len(self._waiting) < wanted and now_s >= self._start_at_s and self._engine.warm:
            self._start_at_s = now_s + APART_S
            with contextlib.suppress(errors.FatalError):  # whoever copies says what is wrong
                self._waiting.append(self._start())
        if now_s >= self._beat_at_s:
            self._beat_at_s = now_s + BEAT_S
            for each in self._waiting:
                with contextlib.suppress(errors.ConnectError):
                    each.channel.send({"type": "beat"})

    def _start(self) -> started_copy.StartedCopy:
        return started_copy.start(
            self._engine, self._server, self._inbox, flow=NAME, task=next(self._numbers)
        )
