"""What a move is done with, and how it waits for what others do."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from mm2.app.failover import hooks, planning
from mm2.app.looks import sides
from mm2.cluster import map_reader
from mm2.core import commands
from mm2.core.failover import fences, tails
from mm2.core.offsets import offset_map

WRITE_S = 60.0
TURN_S = 1.0
TELL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """`map_reader` reads the flow's map as it grows, and not each time anew. `stop` stops the flow
    durably, and says which of its connectors there are; `running` says which of its tasks still
    run, as far as somebody lives to say it; `fence` fences these partitions, in this order;
    `export` writes records to a file, for the move of this name, and says how many. `pause` waits
    so many seconds; `tell` says a line to the operator. `settle_s`: how long both ends have to
    agree. `wait_s`: how long is waited for what others do. `file` configures it all: commands are
    told with its name.
    """

    both: sides.TwoSides
    map_reader: map_reader.MapReader
    planner: planning.Planner
    stop: Callable[[], Sequence[str]]
    running: Callable[[], Sequence[str]]
    fence: Callable[[offset_map.OffsetMap, Sequence[ids.TopicPartition]], list[fences.Fenced]]
    export: Callable[[pathlib.Path, Collection[tails.Tail], str], int]
    clock: base_clock.Clock
    pause: Callable[[float], object]
    tell: Callable[[str], object]
    hooks: hooks.Hooks = field(default_factory=dict)
    settle_s: float = 60.0
    wait_s: float = 600.0
    file: str = commands.MM2_FILE

    def await_(
        self, done: Callable[[], bool], why: Callable[[], str], *, most_s: float | None = None
    ) -> None:
        """What fails and may heal is not done yet; every few seconds the operator is told what is
        waited for, and how long still. Raises `RetriableError` when time is up, with what failed
        last, or else `why` it is not done."""
        wait_s = self.wait_s if most_s is None else min(most_s, self.wait_s)
        end = base_deadline.Deadline.after(wait_s, now_s=self.clock.now_s())
        failure: errors.RetriableError | None = None
        tell_s = self.clock.now_s() + TELL_S
        while True:
            try:
                if done():
                    return
                failure = None
            except errors.RetriableError as error:
                failure = error
            now_s = self.clock.now_s()
            if end.passed(now_s) or now_s >= tell_s:
                said = why() if failure is None else str(failure)
                if end.passed(now_s):
                    raise errors.RetriableError(f"after {wait_s:g} s {said}")
                self.tell(f"waiting, {end.left_s(now_s):.0f} s more at most: {said}")
                tell_s = now_s + TELL_S
            self.pause(TURN_S)

    def known(self) -> offset_map.OffsetMap:
        """The flow's map, as it stands: what was known before is brought up to it."""
        return self.map_reader.read(self.planner.timeout_s)

    def close(self) -> None:
        """Let go of the connection."""
        self.map_reader.close()
