"""`MoveContext`: the clusters, functions and timeouts that the steps of a move work with."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from mm2 import operator_commands
from mm2.clusters.fencing_results import FencingResult
from mm2.clusters.flow_pair import FlowClusters
from mm2.failover.hooks import HookCommands
from mm2.failover.planner import MovePlanner
from mm2.failover.unreplicated_tails import UnreplicatedTail
from mm2.kafka.offset_map_reader import OffsetMapReader
from mm2.offsets.offset_map import OffsetMap

WRITE_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 1.0
PROGRESS_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveContext:
    """`offset_map_reader` reads the flow's map as it grows, and not each time anew. `stop` stops
    the flow durably, and says which of its connectors there are; `running` says which of its tasks
    still run, as far as somebody lives to say it; `fence` fences these partitions, in this order;
    `export` writes records to a file, for the move of this name, and says how many. `pause` waits
    so many seconds; `tell` says a line to the operator. `settle_s`: how long both ends have to
    agree. `wait_s`: how long is waited for what others do. `file` configures it all: commands are
    told with its name."""

    both: FlowClusters
    map_reader: OffsetMapReader
    planner: MovePlanner
    stop: Callable[[], Sequence[str]]
    running: Callable[[], Sequence[str]]
    fence: Callable[[OffsetMap, Sequence[TopicPartition]], list[FencingResult]]
    export: Callable[[pathlib.Path, Collection[UnreplicatedTail], str], int]
    clock: Clock
    pause: Callable[[float], object]
    tell: Callable[[str], object]
    hooks: HookCommands = field(default_factory=dict)
    settle_s: float = 60.0
    wait_s: float = 600.0
    file: str = operator_commands.DEFAULT_CONFIG_FILE

    def await_(
        self, done: Callable[[], bool], why: Callable[[], str], *, most_s: float | None = None
    ) -> None:
        """What fails and may heal is not done yet; every few seconds the operator is told what is
        waited for, and how long still. Raises `RetriableError` when time is up, with what failed
        last, or else `why` it is not done."""
        wait_s = self.wait_s if most_s is None else min(most_s, self.wait_s)
        end = Deadline.after(wait_s, now_s=self.clock.now_s())
        failure: RetriableError | None = None
        tell_s = self.clock.now_s() + PROGRESS_INTERVAL_S
        while True:
            try:
                if done():
                    return
                failure = None
            except RetriableError as error:
                failure = error
            now_s = self.clock.now_s()
            if end.passed(now_s) or now_s >= tell_s:
                said = why() if failure is None else str(failure)
                if end.passed(now_s):
                    raise RetriableError(f"after {wait_s:g} s {said}")
                self.tell(f"waiting, {end.left_s(now_s):.0f} s more at most: {said}")
                tell_s = now_s + PROGRESS_INTERVAL_S
            self.pause(POLL_INTERVAL_S)

    def known(self) -> OffsetMap:
        """The flow's map, as it stands: what was known before is brought up to it."""
        return self.map_reader.read(self.planner.timeout_s)

    def close(self) -> None:
        """Let go of the connection."""
        self.map_reader.close()
