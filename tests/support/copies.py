"""Starting stand-in copies (`tests/system/standin_copies.py`) on an engine, with their channels."""

from __future__ import annotations

from collections.abc import Callable

from mm2.copier.control_channel_server import ControlServer, TaskChannel
from mm2.copier.control_channel_wire_format import ControlMessage
from mm2.copier.copy_engine import CopyEngine, CopyHandle, CopyJob, CopyState
from tests.support import eventually

ECHO = "tests.system.standin_copies:echo"
CRASH = "tests.system.standin_copies:crash"


class StartedCopy:
    """One copy and the worker's end of its channel."""

    def __init__(self, handle: CopyHandle, channel: TaskChannel) -> None:
        self.handle = handle
        self.channel = channel

    def message(self, timeout_s: float = 90.0) -> ControlMessage:
        message = self.channel.receive(timeout_s)
        assert message is not None, f"no message; {self.handle.state}, {self.handle.error}"
        return message

    def connects(self, deadline_s: float = 30.0) -> bool:
        """Whether it comes up; False when it ends instead."""
        eventually.eventually(
            lambda: self.channel.is_connected or self.handle.state is CopyState.ENDED,
            deadline_s,
            "the copy connects or ends",
        )
        return self.channel.is_connected

    def ping(self) -> None:
        """Passes if the copy is alive and answers."""
        self.channel.send({"type": "ping"})
        assert self.message(10.0) == {"type": "ping"}

    def await_state(self, state: CopyState, deadline_s: float = 30.0) -> None:
        eventually.eventually(
            lambda: self.handle.state is state,
            deadline_s,
            lambda: f"copy is {state}: {self.handle.state}, {self.handle.error}",
        )

    def stop(self) -> None:
        self.channel.send({"type": "stop"})
        assert self.handle.wait(10.0)
        assert self.handle.error is None


class Starter:
    """Starts copies `east->west task 0`, 1, 2 …"""

    def __init__(self, copies: CopyEngine, server: ControlServer) -> None:
        self.engine = copies
        self.server = server
        self.started: list[StartedCopy] = []

    def __call__(self, entry: str = ECHO) -> StartedCopy:
        index = len(self.started)
        channel = self.server.open_channel(f"east->west task {index}")
        job = CopyJob(
            flow="east->west",
            index=index,
            address=str(self.server.address),
            token=channel.token,
            entry=entry,
        )
        self.started.append(StartedCopy(self.engine.start(job), channel))
        return self.started[-1]

    def end_all(self) -> None:
        for copy in self.started:
            copy.channel.close()
            copy.handle.cancel()
        for copy in self.started:
            assert copy.handle.wait(10.0)


def all_in(copies: list[StartedCopy], state: CopyState) -> Callable[[], bool]:
    return lambda: all(copy.handle.state is state for copy in copies)
