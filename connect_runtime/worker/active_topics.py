"""Records the topics that a task reads or writes (KIP-558).

Whenever the task uses a topic that is not recorded, the topic is recorded. A topic that is still in
use after `PUT .../topics/reset` is therefore recorded again within about a second. Java:
WorkerTask.recordActiveTopic.
"""

from __future__ import annotations

import math

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.worker_interface import StatusWriterInterface
from connect_runtime.storage.status_records import TopicStatus

RECHECK_INTERVAL_S = 1.0
"""Minimum interval between two checks whether the status store contains a topic."""


class ActiveTopics:
    """Records the active topics of one task, on the task's thread. Does nothing if topic tracking
    is disabled (`tracked` is false)."""

    def __init__(
        self,
        task: ConnectorTaskId,
        *,
        statuses: StatusWriterInterface,
        clock: Clock,
        tracked: bool,
    ) -> None:
        self._task = task
        self._statuses = statuses
        self._clock = clock
        self._tracked = tracked
        self._next_check_s: dict[str, float] = {}

    def record_topic_use(self, topic: str) -> None:
        """Record that the task has read from or written to this topic. Never blocks."""
        now_s = self._clock.now_s()
        if not self._tracked or now_s < self._next_check_s.get(topic, -math.inf):
            return
        self._next_check_s[topic] = now_s + RECHECK_INTERVAL_S
        if self._statuses.is_topic_recorded(self._task.connector, topic):
            return
        self._statuses.put_topic_status(
            TopicStatus(
                topic=topic,
                connector=self._task.connector,
                task=self._task.task,
                discovered_ms=self._clock.wall_ms(),
            )
        )
