"""Comparing logs on an engine: Spark, or threads of this process. Reads only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from mm2.core.configs import engine_settings
from mm2.core.copy import match_messages, messages
from mm2.pipeline import control_channel, data_plane, engine, match_process

TASKS_MAX = 8
_TURN_S = 1.0
_CLOSE_S = 5.0

OnCompared = Callable[[match_messages.Compared], None]


def compare(
    asked: Sequence[match_messages.Bounds],
    settings: messages.Configure,
    on: engine_settings.EngineSettings,
    *,
    clock: base_clock.Clock,
    timeout_s: float,
    memory_bytes: int,
    all_differ: bool,
    done: OnCompared,
) -> None:
    """In so much memory, of all processes together; `all_differ` as in `matching.match`. `done` is
    told of each partition as soon as it is compared. `settings` say how to reach both clusters,
    and have a setup for each partition.

    Raises `RetriableError` when time is up, and `FatalError` where the engine, or a task of it,
    fails.
    """
    plane = data_plane.acquire(on, clock)
    comparing = _Comparing(plane, settings, clock=clock, done=done)
    try:
        shares = [asked[at::TASKS_MAX] for at in range(min(TASKS_MAX, len(asked)))]
        for number, share in enumerate(shares):
            asking = match_messages.Asked(
                bounds=tuple(share),
                memory_bytes=memory_bytes // len(shares),
                all_differ=all_differ,
            )
            comparing.start(number, asking)
        comparing.await_all(base_deadline.Deadline.after(timeout_s, now_s=clock.now_s()))
    finally:
        comparing.close()
        plane.release()
        data_plane.close(_CLOSE_S)


class _Comparing:
    """Its tasks; `_left` are those that have not told all yet."""

    def __init__(
        self,
        plane: data_plane.DataPlane,
        settings: messages.Configure,
        *,
        clock: base_clock.Clock,
        done: OnCompared,
    ) -> None:
        self._plane = plane
        self._settings = settings
        self._clock = clock
        self._done = done
        self._inbox = control_channel.Inbox()
        self._left: dict[str, tuple[control_channel.TaskChannel, engine.CopyHandle]] = {}
        self._answers: dict[str, match_messages.Answers] = {}

    def start(self, number: int, asked: match_messages.Asked) -> None:
        wanted = {(each.partition.topic, each.partition.partition) for each in asked.bounds}
        settings = dataclasses.replace(
            self._settings,
            task=number,
            partitions=tuple(
                each for each in self._settings.partitions if (each.topic, each.partition) in wanted
            ),
        )
        name = f"{settings.flow} match {number}"
        channel = self._plane.server.open(name, inbox=self._inbox)
        channel.send(messages.configure(settings))
        channel.send(match_messages.ask(asked))
        job = engine.CopyJob(
            flow=f"{settings.flow} match",
            index=number,
            address=str(self._plane.server.address),
            token=channel.token,
            entry=match_process.ENTRY,
        )
        self._left[name] = (channel, self._plane.engine.start(job))
        self._answers[name] = match_messages.Answers()

    def await_all(self, end: base_deadline.Deadline) -> None:
        while self._left:
            taken = self._inbox.take(_TURN_S)
            if taken is not None:
                self._receive(*taken)
            elif self._plane.failure:
                raise errors.FatalError(self._plane.failure)
            else:
                self._look()
            if end.passed(self._clock.now_s()):
                raise errors.RetriableError(f"comparing {self._settings.flow}: time is up")

    def close(self) -> None:
        for channel, handle in self._left.values():
            channel.close()
            handle.cancel()
        self._left.clear()

    def _receive(self, channel: control_channel.TaskChannel, message: dict[str, object]) -> None:
        name = channel.name
        if name not in self._left:
            return
        if message["type"] == "ended":
            del self._left[name]
            channel.close()
        elif message["type"] == control_channel.CLOSED:
            _, handle = self._left.pop(name)
            raise errors.FatalError(f"{name} ended: {handle.error or message['reason']}")
        else:
            found = self._answers[name].add(message)
            if found is not None:
                self._done(found)

    def _look(self) -> None:
        """What ended before it came: of the others their channels tell."""
        for name, (channel, handle) in self._left.items():
            if handle.state is engine.CopyState.ENDED and channel.peer is None:
                raise errors.FatalError(f"{name} ended: {handle.error or 'it told nothing'}")
