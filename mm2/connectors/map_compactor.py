"""Compacts the offset maps of a task's partitions periodically, in small steps.

`mm2.offsets` plans the compaction from the map as stored. Only partitions that this task is
copying are compacted.
"""

from __future__ import annotations

import logging
from collections import deque
from random import Random

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from mm2.connectors.flow_ledger import TaskLedger
from mm2.copier.control_messages import PartitionGauge
from mm2.formats import offset_map_records
from mm2.kafka.client_interfaces import FlowLogBrokenError, FlowLogFullError
from mm2.offsets import map_compaction
from mm2.offsets.map_compaction import MapChange
from mm2.offsets.offset_map import OffsetMap
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import FlowLogItem
from mm2.replication.setup import PartitionSetup

COMPACTION_INTERVAL_S = 300.0
"""From one round to the next."""
STEP_INTERVAL_S = 2.0
"""From one step of a round to the next: what was written is read back before more is planned."""
READ_TIMEOUT_S = 1.0
PLANNING_TIME_LIMIT_S = 0.1
"""A step plans for no longer than that, and reads no longer than `READ_TIMEOUT_S`."""
MAX_CHANGES_PER_STEP = 100
_LOG = logging.getLogger(__name__)


class MapCompactor:
    """One thread's, the ledger's."""

    def __init__(
        self,
        ledger: TaskLedger,
        *,
        budget_bytes: int,
        clock: Clock,
        random: Random,
    ) -> None:
        self._ledger = ledger
        self._budget_bytes = budget_bytes
        self._clock = clock
        self._log_starts: dict[TopicPartition, int] = {}
        self._waiting: deque[TopicPartition] = deque()
        self._thinned: set[TopicPartition] = set()
        self._unrecorded = 0
        self._due_s = clock.now_s() + random.uniform(0.0, COMPACTION_INTERVAL_S)

    def observe(self, where: PartitionSetup, gauge: PartitionGauge) -> None:
        """Is it being copied, and from where does the source have it?"""
        name = TopicPartition(where.topic, where.partition)
        if gauge.phase == PartitionPhase.COPYING.value and gauge.log_start >= 0:
            self._log_starts[name] = gauge.log_start
        else:
            self._log_starts.pop(name, None)

    def forget(self) -> None:
        """Nothing is copied any more."""
        self._log_starts.clear()

    def work(self, now_s: float) -> None:
        """A step of the round, if one is due."""
        if now_s < self._due_s or self._unrecorded:
            return
        if not self._waiting:
            self._waiting.extend(sorted(self._log_starts))
        self._due_s = now_s + STEP_INTERVAL_S
        known = self._ledger.known(READ_TIMEOUT_S) if self._waiting else None
        if known is not None:
            self._step(known, until_s=self._clock.now_s() + PLANNING_TIME_LIMIT_S)
        if not self._waiting:
            self._due_s = now_s + COMPACTION_INTERVAL_S

    def _step(self, known: OffsetMap, *, until_s: float) -> None:
        left = MAX_CHANGES_PER_STEP
        for _ in range(len(self._waiting)):
            name = self._waiting.popleft()
            log_start = self._log_starts.get(name)
            if log_start is None or known.unreadable(name):
                continue
            changes = map_compaction.plan_compaction(
                known.partition(name),
                log_start=log_start,
                budget_bytes=self._budget_bytes,
                changes_max=left,
            )
            if changes:
                self._waiting.append(name)  # to be planned again from what it has become
                left -= len(changes)
                if not self._written(name, changes):
                    return
            if left <= 0 or self._clock.now_s() >= until_s:
                return

    def _written(self, name: TopicPartition, changes: list[MapChange]) -> bool:
        """False when there is no room for all: none may overtake one that was not taken."""
        for each in changes:
            value = None if each.segment is None else offset_map_records.encode_value(each.segment)
            item = FlowLogItem(key=offset_map_records.encode_key(each.key), value=value)
            try:
                self._ledger.ledger.append(item, on_recorded=self._recorded)
            except (FlowLogFullError, FlowLogBrokenError):
                return False
            self._unrecorded += 1
            if each.segment is not None and each.segment.thinned and name not in self._thinned:
                self._thinned.add(name)
                _LOG.info(
                    "%s: its offset map outgrew %d bytes; what is old in it is translated less "
                    "exactly from now on",
                    name,
                    self._budget_bytes,
                )
        return True

    def _recorded(self, _error: ConnectError | None) -> None:
        """What was lost is planned again."""
        self._unrecorded -= 1
