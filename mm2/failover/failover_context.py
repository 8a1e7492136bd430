"""Defines `FailoverContext`: the clusters, functions and timeouts that the steps of a failover
use."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.clusters.fencing_results import FencingResult
from mm2.clusters.flow_cluster_pair import FlowClusters
from mm2.failover.failover_planner import FailoverPlanner
from mm2.failover.hook_commands import HookCommands
from mm2.failover.unreplicated_offset_ranges import UnreplicatedTail
from mm2.kafka.offset_map_reader import OffsetMapReader
from mm2.offsets.offset_map import OffsetMap

WRITE_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 1.0
PROGRESS_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverContext:
    """Clusters, functions and timeouts that the steps of one failover use."""

    clusters: FlowClusters
    map_reader: OffsetMapReader
    """Reads the flow's offset map incrementally: each read continues where the last one ended."""
    planner: FailoverPlanner
    stop_connectors: Callable[[], Sequence[str]]
    """Stops the flow durably; returns the names of its stopped connectors."""
    list_running_tasks: Callable[[], Sequence[str]]
    """Lists the flow's tasks that are still reported as running."""
    fence_partitions: Callable[[OffsetMap, Sequence[TopicPartition]], list[FencingResult]]
    """Function that fences partitions in the given order."""
    export_records: Callable[[pathlib.Path, Collection[UnreplicatedTail], str], int]
    """Function that exports unreplicated records to a file, and returns their number. Arguments:
    the file, the log ranges to export, and the id of the failover."""
    clock: Clock
    sleep: Callable[[float], object]
    """Function that sleeps for a number of seconds."""
    print_line: Callable[[str], object]
    """Function that prints one line for the operator."""
    hooks: HookCommands = field(default_factory=dict)
    quiescence_s: float = 60.0
    """Time in seconds for which both clusters must have equal end offsets before the flow is
    stopped."""
    wait_s: float = 600.0
    """Maximum time in seconds to wait for applications to stop and for unavailable brokers."""
    file: str = suggested_commands.DEFAULT_CONFIG_FILE
    """Name of the configuration file, used in the commands that are suggested to the operator."""

    def wait_for_condition(
        self,
        done: Callable[[], bool],
        describe_wait: Callable[[], str],
        *,
        max_wait_s: float | None = None,
    ) -> None:
        """Poll `done` until it returns True; a `RetriableError` counts as False.

        Progress and the remaining time are printed every few seconds. When the time is up, raises
        the last `RetriableError`, or a new one with the message `describe_wait()`.
        """
        wait_s = self.wait_s if max_wait_s is None else min(max_wait_s, self.wait_s)
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
            if end.is_expired(now_s) or now_s >= tell_s:
                said = describe_wait() if failure is None else str(failure)
                if end.is_expired(now_s):
                    raise RetriableError(f"timed out after {wait_s:g} s: {said}")
                self.print_line(f"waiting, up to {end.remaining_s(now_s):.0f} s more: {said}")
                tell_s = now_s + PROGRESS_INTERVAL_S
            self.sleep(POLL_INTERVAL_S)

    def read_offset_map(self) -> OffsetMap:
        """Read the flow's offset map up to its current end."""
        return self.map_reader.read_map(self.planner.timeout_s)

    def close(self) -> None:
        """Close the offset map reader's connection."""
        self.map_reader.close()
