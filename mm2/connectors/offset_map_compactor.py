"""Compacts the offset maps of a task's partitions periodically, in small steps.

`mm2.offsets` plans the compaction from the stored map. Only partitions that the task is currently
replicating are compacted.
"""

from __future__ import annotations

import logging
from collections import deque
from random import Random

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from mm2.connectors.flow_state_store import TaskStateStore
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.formats import offset_map_records
from mm2.kafka.kafka_client_interfaces import FlowStateLogBrokenError, FlowStateLogFullError
from mm2.offsets import offset_map_compaction
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_map_compaction import MapChange
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import FlowStateRecord

COMPACTION_INTERVAL_S = 300.0
"""Time in seconds between two compaction rounds."""
STEP_INTERVAL_S = 2.0
"""Time in seconds between two compaction steps. The changes of a step are read back before more
changes are planned."""
READ_TIMEOUT_S = 1.0
PLANNING_TIME_LIMIT_S = 0.1
"""Planning time limit in seconds per step."""
MAX_CHANGES_PER_STEP = 100
_LOG = logging.getLogger(__name__)


class MapCompactor:
    """Compacts the offset maps of a task's partitions. Runs on the thread that owns the flow's
    store (its offset map and incident topics)."""

    def __init__(
        self,
        store: TaskStateStore,
        *,
        budget_bytes: int,
        clock: Clock,
        random: Random,
    ) -> None:
        self._store = store
        self._budget_bytes = budget_bytes
        self._clock = clock
        self._log_starts: dict[TopicPartition, int] = {}
        self._queue: deque[TopicPartition] = deque()
        self._logged_partitions: set[TopicPartition] = set()
        self._unrecorded = 0
        self._due_s = clock.now_s() + random.uniform(0.0, COMPACTION_INTERVAL_S)

    def record_progress_report(
        self, where: PartitionSetup, report: PartitionProgressReport
    ) -> None:
        """Record from a progress report whether the partition is being replicated, and the start
        offset of its source log."""
        name = TopicPartition(where.topic, where.partition)
        if report.phase == PartitionPhase.COPYING.value and report.log_start >= 0:
            self._log_starts[name] = report.log_start
        else:
            self._log_starts.pop(name, None)

    def clear_partitions(self) -> None:
        """Forget all observed partitions. Call when the task stops replicating."""
        self._log_starts.clear()

    def run_once(self, now_s: float) -> None:
        """Run the next compaction step if it is due."""
        if now_s < self._due_s or self._unrecorded:
            return
        if not self._queue:
            self._queue.extend(sorted(self._log_starts))
        self._due_s = now_s + STEP_INTERVAL_S
        known = self._store.read_offset_map(READ_TIMEOUT_S) if self._queue else None
        if known is not None:
            self._run_compaction_step(known, until_s=self._clock.now_s() + PLANNING_TIME_LIMIT_S)
        if not self._queue:
            self._due_s = now_s + COMPACTION_INTERVAL_S

    def _run_compaction_step(self, offset_map: OffsetMap, *, until_s: float) -> None:
        left = MAX_CHANGES_PER_STEP
        for _ in range(len(self._queue)):
            name = self._queue.popleft()
            log_start = self._log_starts.get(name)
            if log_start is None or offset_map.list_unreadable_records(name):
                continue
            changes = offset_map_compaction.plan_compaction(
                offset_map.get_partition(name),
                log_start=log_start,
                budget_bytes=self._budget_bytes,
                changes_max=left,
            )
            if changes:
                self._queue.append(name)  # planned again from the changed map
                left -= len(changes)
                if not self._append_changes(name, changes):
                    return
            if left <= 0 or self._clock.now_s() >= until_s:
                return

    def _append_changes(self, name: TopicPartition, changes: list[MapChange]) -> bool:
        """Append map changes to the flow's store in order. Returns False if a change could not be
        appended; later changes must then not be appended."""
        for each in changes:
            value = (
                None if each.segment is None else offset_map_records.encode_map_value(each.segment)
            )
            item = FlowStateRecord(key=offset_map_records.encode_map_key(each.key), value=value)
            try:
                self._store.store.append(item, on_recorded=self._handle_append_result)
            except (FlowStateLogFullError, FlowStateLogBrokenError):
                return False
            self._unrecorded += 1
            if (
                each.segment is not None
                and each.segment.has_removed_runs
                and name not in self._logged_partitions
            ):
                self._logged_partitions.add(name)
                _LOG.info(
                    "%s: its offset map exceeded %d bytes; old offsets are translated less "
                    "precisely from now on",
                    name,
                    self._budget_bytes,
                )
        return True

    def _handle_append_result(self, _error: ConnectError | None) -> None:
        """Mark a change as no longer pending, whether it was stored or failed. Failed changes are
        planned again."""
        self._unrecorded -= 1
