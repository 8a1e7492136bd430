"""A copy that an engine was asked to run, and the channel over which it will be told what to do."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.pipeline import control_channel, control_server, engine


@dataclass(frozen=True, slots=True)
class StartedCopy:
    """Whoever made it ends it, or gives it to somebody who does."""

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


def start(
    running: engine.CopyEngine,
    server: control_server.ControlServer,
    inbox: control_channel.Inbox,
    *,
    flow: str,
    task: int,
) -> StartedCopy:
    """Under this name; what it says arrives in `inbox`. Raises `FatalError` where no copy can come
    any more."""
    channel = server.open(f"{flow} task {task}", inbox=inbox)
    handle = running.start(
        engine.CopyJob(flow=flow, index=task, address=str(server.address), token=channel.token)
    )
    return StartedCopy(channel, handle)
