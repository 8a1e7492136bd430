"""Starts copy processes, and keeps standby copy processes running for tasks of other nodes.

If another node fails, its tasks move to this node, and starting copy processes would take most of
the failover time. Standby copy processes are therefore started in advance. They have no
configuration until they are assigned a task, and are connected only to their driver.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError
from mm2.copier.control_channel_server import ChannelInbox, ControlServer, TaskChannel
from mm2.copier.copy_engine import CopyEngine, CopyHandle, CopyJob, CopyState


@dataclass(frozen=True, slots=True)
class StartedCopyProcess:
    """A copy process that has been started. The holder of this object must end the copy process or
    pass the object on."""

    channel: TaskChannel
    handle: CopyHandle

    @property
    def is_usable(self) -> bool:
        """True unless the process has ended or its channel is closed."""
        alive = self.handle.state is not CopyState.ENDED
        return alive and self.channel.closed_reason is None

    def kill_process(self, reason: str) -> None:
        """Kill the process and close its channel. Thread-safe."""
        self.handle.cancel()
        self.channel.close(reason)


def start_copy_process(
    engine: CopyEngine,
    server: ControlServer,
    inbox: ChannelInbox,
    *,
    flow: str,
    task: int,
) -> StartedCopyProcess:
    """Start a copy process whose messages are delivered to `inbox`.

    Raises `FatalError` if the control server has ended.
    """
    channel = server.open_channel(f"{flow} task {task}", inbox=inbox)
    handle = engine.start(
        CopyJob(flow=flow, index=task, address=str(server.address), token=channel.token)
    )
    return StartedCopyProcess(channel, handle)


MAX_STANDBY_COPIES = 4
"""Maximum number of standby copy processes, which run without a task until one is assigned."""
STANDBY_START_DELAY_S = 5.0
"""Time after a change of task assignments during which no standby copy process is started, because
the moved tasks need the CPU."""
STANDBY_START_INTERVAL_S = 1.0
STANDBY_RETRY_DELAY_S = 60.0
STANDBY_HEARTBEAT_INTERVAL_S = 5.0
"""Heartbeat interval of standby copy processes, in seconds. It is shorter than
`copy_process.CONFIGURE_TIMEOUT_S`, after which a process without configuration ends."""
STANDBY_FLOW_NAME = "standby"


class StandbyCopyProcesses:
    """Standby copy processes of one engine. Thread-safe. A `max_count` of 0 disables them."""

    def __init__(
        self,
        engine: CopyEngine,
        server: ControlServer,
        *,
        clock: Clock,
        max_count: int,
    ) -> None:
        self._engine = engine
        self._server = server
        self._clock = clock
        self._max_count = max_count
        self._lock = threading.Lock()
        self._inbox = ChannelInbox()
        self._numbers = itertools.count(1)
        self._task_counts: dict[str, int] = {}
        self._standby: list[StartedCopyProcess] = []
        self._next_start_s = 0.0
        self._next_heartbeat_s = 0.0

    def set_remote_task_count(self, flow: str, count: int) -> None:
        """Set the number of the flow's tasks that run on other nodes, and send heartbeats to the
        standby processes if they are due.

        Must be called regularly, because standby processes exit if they receive no heartbeats.
        """
        now_s = self._clock.now_s()
        with self._lock:
            if self._task_counts.get(flow, 0) != count:
                self._task_counts[flow] = count
                self._next_start_s = now_s + STANDBY_START_DELAY_S
            self._adjust_standby_count(now_s)

    def take_standby_process(self, name: str, inbox: ChannelInbox) -> StartedCopyProcess | None:
        """Take a standby process for the task called `name`, and deliver the process's messages to
        `inbox`. Return None if no standby process is available."""
        with self._lock:
            self._next_start_s = self._clock.now_s() + STANDBY_START_DELAY_S
            while self._standby:
                copy = self._standby.pop(0)
                if copy.is_usable and copy.channel.is_connected:
                    copy.channel.reassign_to_inbox(name, inbox)
                    return copy
                copy.kill_process("the standby process did not connect")
        return None

    def _adjust_standby_count(self, now_s: float) -> None:
        while self._inbox.take_message(0.0) is not None:
            pass  # a standby process only reports its end, which `is_usable` shows as well
        if any(not each.is_usable for each in self._standby):
            self._standby = [each for each in self._standby if each.is_usable]
            self._next_start_s = now_s + STANDBY_RETRY_DELAY_S
        wanted = min(self._max_count, sum(self._task_counts.values()))
        while len(self._standby) > wanted:
            self._standby.pop().kill_process("no tasks run on other nodes")
        if len(self._standby) < wanted and now_s >= self._next_start_s and self._engine.is_warm:
            self._next_start_s = now_s + STANDBY_START_INTERVAL_S
            with contextlib.suppress(FatalError):  # tasks that replicate report this error
                self._standby.append(self._start_standby())
        if now_s >= self._next_heartbeat_s:
            self._next_heartbeat_s = now_s + STANDBY_HEARTBEAT_INTERVAL_S
            for each in self._standby:
                with contextlib.suppress(ConnectError):
                    each.channel.send({"type": "heartbeat"})

    def _start_standby(self) -> StartedCopyProcess:
        return start_copy_process(
            self._engine,
            self._server,
            self._inbox,
            flow=STANDBY_FLOW_NAME,
            task=next(self._numbers),
        )
