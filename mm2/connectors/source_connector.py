"""Which topics a flow mirrors, and what must be true of them before they are copied.

`mirror_topics` brings the mirrors about; the result here is the list of partitions to copy and of
those that must not be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from connect_runtime.base import clock, deadline
from mm2.cluster import admin
from mm2.connectors import mirror_topics, partition_setups
from mm2.core import commands, flows

PRODUCER_EXPIRATION = partition_setups.PRODUCER_EXPIRATION
TRANSACTIONAL_EXPIRATION = partition_setups.TRANSACTIONAL_EXPIRATION
Finding = partition_setups.Finding
SourcePlan = partition_setups.SourcePlan


class SourceConnector:
    """Talks to both clusters' administration; one thread at a time. `pause` waits so many
    seconds; True: no more waiting is wanted. `stopped`: nothing may be changed any more."""

    def __init__(
        self,
        flow: flows.Flow,
        *,
        source: admin.Admin,
        target: admin.Admin,
        now: clock.Clock,
        pause: Callable[[float], bool],
        stopped: Callable[[], bool],
        operator: commands.Operator = commands.NOBODY,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._synced_at_s: float | None = None
        self._setups = partition_setups.PartitionSetups(
            flow, source=source, target=target, now=now, operator=operator
        )
        self._mirrors = mirror_topics.MirrorTopics(
            flow,
            source=source,
            target=target,
            now=now,
            pause=pause,
            stopped=stopped,
            operator=operator,
        )

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def plan(self, timeout_s: float) -> SourcePlan:
        """Observe, create what is missing, and say what can be copied.

        Every partition's `start` is the flow's, also where one was added (`start_positions`).
        Raises `RetriableError` when a cluster does not answer and `FatalError` when it refuses us;
        what is wrong with single topics becomes findings.
        """
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        common = self._setups.common(end)
        names = self._source.list_topics(self._left_s(end))
        wanted = sorted(name for name in names if self._flow.should_replicate_topic(name))
        topics = self._mirrors.bring_about(wanted, end, sync_configs=self._settings_are_due())
        found = self._setups.sort(topics, common)
        told = [line for _, lines in sorted(topics.warnings.items()) for line in lines]
        return replace(found, warnings=(*found.warnings, *told))

    def _settings_are_due(self) -> bool:
        """Do settings of mirrors follow their sources' now? With every look, if that is seldom."""
        interval_s = self._flow.sync_topic_configs_interval_s
        now_s = self._clock.now_s()
        if interval_s is None:
            return False
        if self._synced_at_s is not None and now_s < self._synced_at_s + interval_s:
            return False
        self._synced_at_s = now_s
        return True

    def _left_s(self, end: deadline.Deadline) -> float:
        return end.left_s(self._clock.now_s())
