"""Keeps the offset maps of a task's partitions within bounds: once in a while, a little at a time.

What is to be done the planner says (`map_upkeep`), from the map as it stands in its topic. Only
partitions that are being copied are looked at: nobody else's map is touched.
"""

from __future__ import annotations

import logging
from collections import deque
from random import Random

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from mm2.cluster import errors as cluster_errors
from mm2.connectors.share import share_ledger
from mm2.core.copy import instructions, messages, setup, standing
from mm2.core.offsets import map_upkeep, offset_map
from mm2.formats import map_record

ROUND_S = 300.0
"""From one round to the next."""
STEP_S = 2.0
"""From one step of a round to the next: what was written is read back before more is planned."""
READ_S = 1.0
WORK_S = 0.1
"""A step plans for no longer than that, and reads no longer than `READ_S`."""
STEP_CHANGES = 100
_LOG = logging.getLogger(__name__)


class MapKeeper:
    """One thread's, the ledger's."""

    def __init__(
        self,
        ledger: share_ledger.ShareLedger,
        *,
        budget_bytes: int,
        clock: base_clock.Clock,
        random: Random,
    ) -> None:
        self._ledger = ledger
        self._budget_bytes = budget_bytes
        self._clock = clock
        self._log_starts: dict[ids.TopicPartition, int] = {}
        self._waiting: deque[ids.TopicPartition] = deque()
        self._thinned: set[ids.TopicPartition] = set()
        self._unrecorded = 0
        self._due_s = clock.now_s() + random.uniform(0.0, ROUND_S)

    def observe(self, where: setup.PartitionSetup, gauge: messages.Gauge) -> None:
        """Is it being copied, and from where does the source have it?"""
        name = ids.TopicPartition(where.topic, where.partition)
        if gauge.phase == standing.Phase.COPYING.value and gauge.log_start >= 0:
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
        self._due_s = now_s + STEP_S
        known = self._ledger.known(READ_S) if self._waiting else None
        if known is not None:
            self._step(known, until_s=self._clock.now_s() + WORK_S)
        if not self._waiting:
            self._due_s = now_s + ROUND_S

    def _step(self, known: offset_map.OffsetMap, *, until_s: float) -> None:
        left = STEP_CHANGES
        for _ in range(len(self._waiting)):
            name = self._waiting.popleft()
            log_start = self._log_starts.get(name)
            if log_start is None or known.unreadable(name):
                continue
            changes = map_upkeep.plan(
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

    def _written(self, name: ids.TopicPartition, changes: list[map_upkeep.Change]) -> bool:
        """False when there is no room for all: none may overtake one that was not taken."""
        for each in changes:
            value = None if each.segment is None else map_record.encode_value(each.segment)
            item = instructions.LogItem(key=map_record.encode_key(each.key), value=value)
            try:
                self._ledger.ledger.append(item, on_recorded=self._recorded)
            except (cluster_errors.FlowLogFullError, cluster_errors.FlowLogBrokenError):
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

    def _recorded(self, _error: errors.ConnectError | None) -> None:
        """What was lost is planned again."""
        self._unrecorded -= 1
